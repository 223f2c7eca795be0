"""What bounds of numbers that are too wide, or not known at all, cost: the same tables with looser and looser bounds."""
