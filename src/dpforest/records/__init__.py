"""Sources, vaults and counters: the only package that sees rows. What a fit gets of it is sealed."""
