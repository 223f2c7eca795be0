"""Few cases instead of a whole cross: every two values of different columns meet in one of them."""

from itertools import combinations, product


def pairwise(*columns):
    """Rows with a value of each column, in which any two values of different columns stand side by side."""
    rows, width = [*product(*map(range, map(len, columns)))], [*combinations(range(len(columns)), 2)]
    open_pairs = {(a, b, row[a], row[b]) for row in rows for a, b in width}
    chosen = []
    while open_pairs:
        best = max(rows, key=lambda row: sum((a, b, row[a], row[b]) in open_pairs for a, b in width))
        open_pairs -= {(a, b, best[a], best[b]) for a, b in width}
        chosen.append(tuple(column[place] for column, place in zip(columns, best, strict=True)))
    return chosen
