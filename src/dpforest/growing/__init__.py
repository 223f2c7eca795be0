"""Growing: levels of splits, then leaves."""
