"""What a fit costs on each engine: in memory, from a file, in databases and on a cluster."""
