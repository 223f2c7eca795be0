"""What people see: reports, plots, exports, plans. Made of released values only."""
