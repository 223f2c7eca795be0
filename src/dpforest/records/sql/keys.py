"""The bin of a number in DuckDB, without a comparison for every cut. Builds queries; sees public cuts only.

DuckDB works on vectors, in which nested comparisons cost as much as all of their branches. So a number is first looked up by
a key, which leaves few cuts to compare it with.
"""

import numpy as np

from dpforest.records.sql.expressions import real

# Cells of the range of the cuts, for each cut: with more, fewer cuts share a cell.
CELLS_PER_CUT = 4


def found_by_key(name: str, cuts: np.ndarray) -> tuple[str, tuple[dict[str, str], ...]]:
    """An expression for how many ``cuts`` a number in a column, which is not null, has reached, and the stages it needs.

    A key is a function of a number that never falls as the number grows: floating-point subtraction, multiplication by a
    number above 0, rounding down and clipping are such, and are the same here and in the engine. So a number has passed all
    cuts of lower keys and none of higher ones; it is compared with those of its own key, by halving.
    """
    bins, key = f"b_{name}", f"k_{name}"
    low, scale, n_cells = _cells(cuts)
    keys = _key(cuts, low, scale, n_cells).astype(int)
    passed = np.searchsorted(keys, np.arange(-1, n_cells + 1))  # the number of cuts with a lower key, by key
    most = int(np.bincount(keys + 1, minlength=1).max()) if len(cuts) else 0
    clipped = f"LEAST(GREATEST(FLOOR(({name} - {real(low)}) * {real(scale)}), -1), {n_cells})"
    stages = [{key: f"CAST({clipped} AS INTEGER)"}, {bins: f"(ARRAY[{', '.join(map(str, passed))}])[{key} + 2]"}]
    sizes = [1 << bit for bit in reversed(range(most.bit_length()))]
    listed = ", ".join(real(cut) for cut in cuts)
    for stage, size in enumerate(sizes):
        # Beyond the last cut there is null, which no number has reached.
        before, bins = bins, f"b{stage}_{name}"
        stages.append({bins: f"{before} + CASE WHEN {name} >= (ARRAY[{listed}])[{before} + {size}] THEN {size} ELSE 0 END"})
    return bins, tuple(stages)


def _key(numbers: np.ndarray, low: float, scale: float, n_cells: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.clip(np.floor((numbers - low) * scale), -1, n_cells)


def _cells(cuts: np.ndarray) -> tuple[float, float, int]:
    """Where the first cell of keys begins, the number of cells in a unit, and the number of cells."""
    n_cells = CELLS_PER_CUT * len(cuts)
    with np.errstate(all="ignore"):
        scale = n_cells / (float(cuts[-1]) - float(cuts[0])) if len(cuts) > 1 else 1.0
    low = float(cuts[0]) if len(cuts) else 0.0
    # Cuts that are too near to or too far from one another for a scale have the same key.
    return (low, scale, n_cells) if np.isfinite(scale) and scale > 0 else (low, 1.0, 0)
