"""What all benchmarks share: rows, processes, goals, figures, pages and plots."""
