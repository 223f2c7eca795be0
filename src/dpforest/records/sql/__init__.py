"""Records in a database, counted where they are: rows stay there, sums leave and are sealed."""
