"""What all benchmarks share: cases and their rows, worker processes, goals, figures, pages and plots."""
