"""Small tools that every room may use. They see no rows."""
