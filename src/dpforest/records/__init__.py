"""Vaults and counters: the only package that sees rows. What leaves it is sealed."""
