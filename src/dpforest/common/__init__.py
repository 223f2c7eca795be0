"""Files, archives, text, JSON and work: small tools that every room may use. They see no rows."""
