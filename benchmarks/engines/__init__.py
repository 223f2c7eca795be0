"""What a fit costs on each engine: from files, in databases and on clusters."""
