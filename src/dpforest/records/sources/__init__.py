"""Tables of every kind as batches of Arrow: files, databases, streams and clusters. Sees rows."""
