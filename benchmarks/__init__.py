"""Benchmarks of dpforest on public tables: predictions, time, memory, and the experiments of the papers run again.

Beside the library and not in what is installed; in a clone ``python -m benchmarks`` runs it.
"""
