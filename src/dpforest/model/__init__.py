"""A fitted model as a file, and what can be said about it. Public values only."""
