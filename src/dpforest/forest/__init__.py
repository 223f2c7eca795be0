"""The released forest: what everybody may see. Public values only."""
