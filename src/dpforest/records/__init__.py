"""Records: the only package that sees rows."""
