"""An opened table, for printed algorithms. Sees rows."""

from dataclasses import dataclass

import numpy as np

from dpforest.schema import Schema


@dataclass(frozen=True)
class Rows:
    """An opened table.

    ``columns`` has floats for a numeric feature (NaN where missing) and places in the category list for a categorical one
    (the next two places for "other" and missing). ``target`` has places in the class list, or numbers in [0, 1] for a
    bounded target, scaled by its public bounds.
    """

    columns: tuple[np.ndarray, ...]
    target: np.ndarray
    schema: Schema

    @property
    def n_rows(self) -> int:
        return len(self.target)

    @property
    def n_classes(self) -> int:
        return self.schema.target.n_values

    def take(self, rows: np.ndarray) -> "Rows":
        """Some rows, by place or by mask."""
        return Rows(tuple(column[rows] for column in self.columns), self.target[rows], self.schema)

    def class_counts(self) -> np.ndarray:
        """Exact class counts."""
        return np.bincount(self.target, minlength=self.n_classes)
