"""Files, archives, JSON, text and progress: small tools that every room may use. They see no rows."""
