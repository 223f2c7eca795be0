"""Tables in databases: rows are read as Arrow, and predictions written."""
