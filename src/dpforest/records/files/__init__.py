"""Files of tables by their kind, each a reader of rows. Sees rows."""
