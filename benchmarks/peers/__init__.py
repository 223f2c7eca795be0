"""Private models of other libraries, in an environment of their own."""
