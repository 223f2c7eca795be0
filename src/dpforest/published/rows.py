"""The rows of a table, opened for printed algorithms. NOT private: sees opened rows.

A leak in the ledger names each reason why the claim of the paper does not hold; its total is then infinite.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpforest.privacy.ledger import Ledger
from dpforest.records.batch import Batch, is_usable
from dpforest.records.columns import fine_steps
from dpforest.records.dates import derived_columns
from dpforest.records.encoding import plain_values
from dpforest.records.vault import Vault
from dpforest.schema import FINE_STEPS, Classes, Feature, Numeric, Schema
from dpforest.schema.domain import derived


@dataclass(frozen=True)
class Rows:
    """The rows of a table, opened.

    ``columns`` has a column for each of ``features``, which are those that trees may ask for (of a date there are several):
    floats for a numeric feature (NaN where missing) and indices in the category list for a categorical one (the next two
    indices are for "other" and missing). ``target`` has indices in the class list, or numbers in [0, 1] for a
    bounded target, scaled by its public bounds.
    """

    columns: tuple[np.ndarray, ...]
    target: np.ndarray
    schema: Schema

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        return tuple(each.part for each in derived(self.schema))

    @property
    def n_rows(self) -> int:
        return len(self.target)

    @property
    def n_classes(self) -> int:
        return self.schema.target.n_values

    def take(self, rows: np.ndarray) -> "Rows":
        """Some of the rows, chosen by index or by mask."""
        return Rows(tuple(column[rows] for column in self.columns), self.target[rows], self.schema)

    def bounded(self) -> "Rows":
        """The rows with the least and the greatest value of each numeric column as bounds, where the schema has none."""
        features = dict(self.schema.features)
        for each, column in zip(derived(self.schema), self.columns, strict=True):
            if each.of == "value" and isinstance(each.part, Numeric) and not each.part.has_bounds:
                features[each.name] = _bounded(each.part, column)
        return replace(self, schema=replace(self.schema, features=features))

    def class_counts(self) -> np.ndarray:
        """The exact number of rows of each class, ``(n_classes,)``."""
        return np.bincount(self.target, minlength=self.n_classes)


def _bounded(part: Numeric, column: np.ndarray) -> Numeric:
    known = column[~np.isnan(column)]
    lower, upper = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return replace(part, lower=lower, upper=upper if upper > lower else lower + 1)


def open_rows(vault: Vault, ledger: Ledger, reasons: Iterable[str], purpose: str) -> Rows:
    """The rows of a vault, opened after the ledger has a leak for each reason; they must fit in memory."""
    for reason in reasons:
        ledger.leak(purpose, reason)
    parts = vault.batches(partial(_plain, vault.schema))._value
    columns = tuple(np.concatenate(pieces) for pieces in zip(*(own for own, _ in parts), strict=True))
    return Rows(columns, np.concatenate([target for _, target in parts]), vault.schema).bounded()


def _plain(schema: Schema, batch: Batch, workers: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """The columns and the target of a batch."""
    features, usable, target = derived(schema), is_usable(batch.values), schema.target
    values = zip(derived_columns(batch.columns, features), features, strict=True)
    kept = batch.values[usable]
    return (
        [plain_values(*pair)[usable] for pair in values],
        kept if isinstance(target, Classes) else fine_steps(kept, target) / FINE_STEPS,
    )
