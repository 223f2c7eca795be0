"""The experiments of five papers, run again.

A question is one paper's experiments: how rows are split and which tables it prints. A table is a list of cells: a
system on a data set with parameters. Each cell is trained as printed, privately, by ``auto`` at the same budget, and
without privacy. The notes say where grids or repetitions are smaller than in the papers; they go on the page.

Depth is levels of splits everywhere; a paper that counts layers and its leaves among them has one more.
"""
