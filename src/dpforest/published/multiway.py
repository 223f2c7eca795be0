"""Tables of attributes with few values, for printed trees with a child for each value. NOT private: sees opened rows.

Shared by the printed forms of DPDF and DiffPID3, as [fletcher2015] has them, and of SuLQ-ID3.
"""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Rows
from dpforest.schema import Categorical
from dpforest.schema.domain import Domain

# What the printed strict comparison takes for equal.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Attribute:
    """One attribute of all records, as whole numbers, with the cuts or groups of a node that splits on it.

    The values are the bins or the listed categories; a record without any of them has the last, as ``Node.route`` has it.
    """

    index: int
    values: np.ndarray
    n_values: int
    cuts: tuple[float, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Values:
    """A table of attributes; ``cells`` numbers value v of attribute a and class c consecutively."""

    attributes: tuple[Attribute, ...]
    target: np.ndarray
    n_classes: int
    first: np.ndarray
    cells: np.ndarray  # (n_records, n_attributes)

    @classmethod
    def of(cls, rows: Rows, recipe: Recipe) -> "Values":
        """The table of the rows, with numbers in the bins of the recipe, without attributes of one value."""
        attributes = tuple(each for each in attributes_of(rows, Domain.of(rows.schema, recipe.grid)) if each.n_values > 1)
        first = np.cumsum([0, *(attribute.n_values for attribute in attributes)])
        cells = np.empty((rows.n_rows, len(attributes)), dtype=np.int64)
        for column, attribute in enumerate(attributes):
            cells[:, column] = (first[column] + attribute.values) * rows.n_classes + rows.target
        return cls(attributes, rows.target, rows.n_classes, first, cells)

    def class_counts(self, records: np.ndarray) -> np.ndarray:
        """Exact class counts ``(n_classes,)`` of some records, the query P1 of eq. 5."""
        return np.bincount(self.target[records], minlength=self.n_classes)

    def counts(self, records: np.ndarray) -> np.ndarray:
        """Exact class counts ``(first[-1], n_classes)`` of some records, for each value of each attribute."""
        n_cells = self.first[-1] * self.n_classes
        return np.bincount(self.cells[records].ravel(), minlength=n_cells).reshape(-1, self.n_classes)

    def gini(self, records: np.ndarray) -> np.ndarray:
        """The normalised Gini ``(n_attributes,)`` of a split of some records, at most 0: eq. 4; 0 without records."""
        if not len(records):
            return np.zeros(len(self.attributes))
        counts = self.counts(records)
        sizes = counts.sum(axis=1)
        impure = sizes - np.square(counts).sum(axis=1) / np.maximum(sizes, 1)
        return -np.add.reduceat(impure, self.first[:-1]) / len(records)


def attributes_of(rows: Rows, domain: Domain) -> list[Attribute]:
    """All features of a table as attributes; numbers have the bins of the domain as values."""
    attributes = []
    for index, (column, feature) in enumerate(zip(rows.columns, rows.features, strict=True)):
        if isinstance(feature, Categorical):
            n_values = feature.n_values
            groups = tuple((value,) for value in range(n_values))
            attributes.append(Attribute(index, np.minimum(column, n_values - 1), n_values, groups=groups))
        else:
            cuts = domain.cuts[index]
            values = np.where(np.isnan(column), len(cuts), np.searchsorted(cuts, column, side="right"))
            attributes.append(Attribute(index, values, len(cuts) + 1, cuts=tuple(cuts.tolist())))
    return attributes


def split_records(records: np.ndarray, attribute: Attribute) -> list[np.ndarray]:
    """The records of each value of an attribute, as a list of index arrays."""
    values = attribute.values[records]
    order = np.argsort(values, kind="stable")
    return np.split(records[order], np.searchsorted(values[order], np.arange(1, attribute.n_values)))


def prune_tree(node: Node) -> None:
    """Remove the children of nodes by lines 37 to 50, in one walk from the leaves up."""
    for child in node.children:
        prune_tree(child)
    if not node.children or any(child.children for child in node.children):
        return
    sizes = np.array([child.counts.sum() for child in node.children])
    qualities = np.array([_quality(child.counts) for child in node.children])
    if sizes.sum() != 0 and (sizes * qualities).sum() / sizes.sum() < _quality(node.counts) - ROUNDING:
        node.children = []


def _quality(counts: np.ndarray) -> float:
    """The Gini of one node by eq. 22, which is at most 0 if no count is below 0."""
    size = counts.sum()
    return float(np.square(counts / size).sum() - 1) if size != 0 else 0.0
