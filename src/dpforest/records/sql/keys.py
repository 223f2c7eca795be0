"""The bin of a number in DuckDB, without a comparison for every cut. Builds queries; sees public cuts only.

DuckDB works on vectors, in which nested comparisons cost as much as all of their branches. So a number is first looked up by
a key, which leaves few cuts to compare it with.
"""

from dataclasses import dataclass

import numpy as np

from dpforest.records.sql.expressions import real

# Cells of the range of the cuts, for each cut: with more, fewer cuts share a cell.
CELLS_PER_CUT = 4
# So many square roots make cuts at every scale nearly even.
MOST_ROOTS = 6


@dataclass(frozen=True)
class Key:
    """A whole number in -1 .. ``n_cells`` that never falls as a float grows: the cell of its root, of even cells.

    Because: square roots that keep the sign, subtraction, multiplication by a number above 0, rounding down and clipping
    never fall in floating point either, in which each of them is the exact result, rounded. So they are also the same here
    and in the engine.
    """

    n_roots: int  # how many times the square root is taken
    low: float  # where the first cell begins
    scale: float  # cells in a unit
    n_cells: int

    @classmethod
    def of(cls, cuts: np.ndarray, n_roots: int) -> "Key":
        """The key whose cells lie between the first and the last cut."""
        ends, n_cells = roots(cuts[[0, -1]], n_roots), CELLS_PER_CUT * len(cuts)
        with np.errstate(all="ignore"):
            scale = float(n_cells / (ends[1] - ends[0]))
        # Cuts that are too near to or too far from one another for a scale have the same key.
        is_scale = np.isfinite(scale) and scale > 0
        return cls(n_roots, float(ends[0]), scale, n_cells) if is_scale else cls(n_roots, float(ends[0]), 1.0, 0)

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.clip(np.floor((roots(numbers, self.n_roots) - self.low) * self.scale), -1, self.n_cells).astype(int)

    def expression(self, name: str) -> str:
        """The key of a column, which is not null."""
        root = f"SIGN({name}) * {'SQRT(' * self.n_roots}ABS({name}){')' * self.n_roots}" if self.n_roots else name
        cell = f"FLOOR(({root} - {real(self.low)}) * {real(self.scale)})"
        return f"CAST(LEAST(GREATEST({cell}, -1), {self.n_cells}) AS INTEGER)"


def roots(numbers: np.ndarray, n_roots: int) -> np.ndarray:
    """Numbers with their sign, of whose size the square root was taken some times."""
    sizes = np.abs(numbers)
    for _ in range(n_roots):
        sizes = np.sqrt(sizes)
    return np.sign(numbers) * sizes if n_roots else numbers


def found_by_key(name: str, cuts: np.ndarray) -> tuple[str, tuple[dict[str, str], ...]]:
    """An expression for how many ``cuts`` a number in a column, which is not null, has reached, and the stages it needs.

    A number has passed all cuts of lower keys and none of higher ones; it is compared with those of its own key, by halving.
    """
    if not len(cuts):
        return "0", ()
    key = min((Key.of(cuts, n_roots) for n_roots in (0, MOST_ROOTS)), key=lambda each: _most_alike(each(cuts)))
    most = _most_alike(key(cuts))
    passed = np.searchsorted(key(cuts), np.arange(-1, key.n_cells + 1))  # the number of cuts with a lower key, by key
    index, listed = f"b_{name}", ", ".join(f"{cut:.17e}" for cut in cuts)  # floats, to the last digit
    stages = [{f"k_{name}": key.expression(name)}, {index: f"({passed.tolist()})[k_{name} + 2]"}]
    for stage, size in enumerate(1 << bit for bit in reversed(range(most.bit_length()))):
        # Beyond the last cut there is null, which no number has reached.
        before, index = index, f"b{stage}_{name}"
        stages.append({index: f"{before} + CASE WHEN {name} >= ([{listed}])[{before} + {size}] THEN {size} ELSE 0 END"})
    return index, tuple(stages)


def _most_alike(keys: np.ndarray) -> int:
    """The largest number of cuts with the same key."""
    return int(np.bincount(keys + 1).max())
