"""Records in memory: encoded once, then counted in threads. Sees rows; what leaves is sealed."""
