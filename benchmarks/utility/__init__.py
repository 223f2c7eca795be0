"""How good predictions are at a given budget, beside other private models."""
