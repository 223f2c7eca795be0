"""Records in memory: encoded once, then counted in threads."""
