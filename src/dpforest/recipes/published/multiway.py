"""Tables of attributes with few values, and trees that have a child for each of them. NOT private.

Shared by the printed forms of DPDF and DiffPID3, as [fletcher2015] has them, and of SuLQ-ID3.
"""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.recipes.published.base import Node
from dpforest.records.base import Rows
from dpforest.schema import Categorical
from dpforest.schema.domain import Domain

# What the printed strict comparison takes for equal.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Attribute:
    """One attribute: its values as whole numbers, and how a node that splits on it tells them apart.

    The values are the bins or the listed categories; a record without any of them has the last, as ``Node.route`` has it.
    """

    index: int
    values: np.ndarray
    n_values: int
    cuts: tuple[float, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Values:
    """The discrete table: class c and value v of attribute a of a record are cell (first[a] + v) * n_classes + c."""

    attributes: tuple[Attribute, ...]
    target: np.ndarray
    n_classes: int
    first: np.ndarray
    cells: np.ndarray  # (n_records, n_attributes)

    @classmethod
    def of(cls, rows: Rows, recipe: Recipe) -> "Values":
        attributes = tuple(each for each in attributes_of(rows, Domain.of(rows.schema, recipe.grid)) if each.n_values > 1)
        first = np.cumsum([0, *(attribute.n_values for attribute in attributes)])
        cells = np.empty((rows.n_rows, len(attributes)), dtype=np.int64)
        for column, attribute in enumerate(attributes):
            cells[:, column] = (first[column] + attribute.values) * rows.n_classes + rows.target
        return cls(attributes, rows.target, rows.n_classes, first, cells)

    def class_counts(self, records: np.ndarray) -> np.ndarray:
        """Exact class counts, the query P1 of eq. 5."""
        return np.bincount(self.target[records], minlength=self.n_classes)

    def counts(self, records: np.ndarray) -> np.ndarray:
        """Exact class counts of each value of each attribute, ``(n_values of all, n_classes)``."""
        n_cells = self.first[-1] * self.n_classes
        return np.bincount(self.cells[records].ravel(), minlength=n_cells).reshape(-1, self.n_classes)

    def gini(self, records: np.ndarray) -> np.ndarray:
        """The normalised Gini of each attribute, at most 0: eq. 4; 0 where there is no record."""
        if not len(records):
            return np.zeros(len(self.attributes))
        counts = self.counts(records)
        sizes = counts.sum(axis=1)
        impure = sizes - np.square(counts).sum(axis=1) / np.maximum(sizes, 1)
        return -np.add.reduceat(impure, self.first[:-1]) / len(records)


def attributes_of(rows: Rows, domain: Domain) -> list[Attribute]:
    """The features of a table as attributes, numbers by the bins of the domain."""
    attributes = []
    for index, (column, feature) in enumerate(zip(rows.columns, rows.schema.features.values(), strict=True)):
        if isinstance(feature, Categorical):
            n_values = len(feature.categories)
            groups = tuple((value,) for value in range(n_values))
            attributes.append(Attribute(index, np.minimum(column, n_values - 1), n_values, groups=groups))
        else:
            cuts = domain.cuts[index]
            values = np.where(np.isnan(column), len(cuts), np.searchsorted(cuts, column, side="right"))
            attributes.append(Attribute(index, values, len(cuts) + 1, cuts=tuple(cuts.tolist())))
    return attributes


def split_records(records: np.ndarray, attribute: Attribute) -> list[np.ndarray]:
    """The records of each value."""
    values = attribute.values[records]
    order = np.argsort(values, kind="stable")
    return np.split(records[order], np.searchsorted(values[order], np.arange(1, attribute.n_values)))


def prune_tree(node: Node) -> None:
    """Close nodes by lines 37 to 50: a parent is judged after its children, so one walk does what the repeated ones do."""
    for child in node.children:
        prune_tree(child)
    if not node.children or any(child.children for child in node.children):
        return
    sizes = np.array([child.counts.sum() for child in node.children])
    qualities = np.array([_quality(child.counts) for child in node.children])
    if sizes.sum() != 0 and (sizes * qualities).sum() / sizes.sum() < _quality(node.counts) - ROUNDING:
        node.children = []


def _quality(counts: np.ndarray) -> float:
    """The Gini of one node, at most 0 for counts that are: eq. 22."""
    size = counts.sum()
    return float(np.square(counts / size).sum() - 1) if size != 0 else 0.0
