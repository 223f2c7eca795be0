"""Records in a database, counted where they are."""
