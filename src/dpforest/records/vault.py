"""The vault: rows go in, sealed answers come out."""

from typing import Any

import numpy as np

from dpforest.domain import Domain
from dpforest.errors import TableError
from dpforest.privacy.sealed import Sealed
from dpforest.records.columns import read_columns, read_target, to_indices, to_numbers
from dpforest.records.kernels import encode_numbers
from dpforest.records.memory import Shards, refuse_copy
from dpforest.rows import Rows
from dpforest.schema import FINE_STEPS, Categorical, Classes, Feature, Schema


class Vault:
    """Holds the rows of one fit, checked against the schema and not yet encoded.

    Privacy: not private by itself; answers are sealed. Checks look at columns and types only, so whether an error occurs
    does not depend on values.
    """

    def __init__(self, columns: list[Any], target_codes: np.ndarray, schema: Schema, n_jobs: int = 1) -> None:
        self.schema = schema
        self._columns = columns
        self._target_codes = target_codes
        self._n_jobs = n_jobs

    @classmethod
    def seal(cls, X: Any, y: Any, schema: Schema, n_jobs: int = 1) -> "Vault":
        columns = read_columns(X, schema)
        target_codes = read_target(y, schema.target)
        if len(columns[0]) != len(target_codes):
            raise TableError("Found input variables with inconsistent numbers of samples: X and y differ in length.")
        return cls(columns, target_codes, schema, n_jobs)

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""
        return Sealed(np.array([np.count_nonzero(self._target_codes >= 0)]))

    def encode(self, domain: Domain) -> Shards:
        """Records as codes, those that the target leaves out dropped."""
        kept = self._target_codes >= 0
        codes = encode(self._columns, domain)
        if not kept.all():
            # A copy row by row: the layout in memory must not tell whether a record was left out.
            codes, target_codes = np.ascontiguousarray(codes[:, kept]), self._target_codes[kept]
        else:
            target_codes = self._target_codes
        return Shards(codes, target_codes, domain, self.schema.target, self._n_jobs)

    def rows(self) -> Sealed[Rows]:
        """The sealed rows, for printed algorithms that open them."""
        kept = self._target_codes >= 0
        features = self.schema.features.values()
        columns = tuple(_raw(column, feature) for column, feature in zip(self._columns, features, strict=True))
        target = self._target_codes if isinstance(self.schema.target, Classes) else self._target_codes / FINE_STEPS
        return Sealed(Rows(columns, target, self.schema).take(kept))

    def __repr__(self) -> str:
        return "Vault(...)"

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = refuse_copy


def _raw(column: Any, feature: Feature) -> np.ndarray:
    if isinstance(feature, Categorical):
        return _category_codes(column, feature)
    return np.clip(to_numbers(column).astype(np.float64), feature.lower, feature.upper)


def _category_codes(column: Any, feature: Categorical) -> np.ndarray:
    """Places in the category list, then "other", then missing."""
    n_listed = len(feature.categories)
    return to_indices(column, feature.categories, n_listed, n_listed + 1)


def encode(columns: list[Any], domain: Domain) -> np.ndarray:
    """Codes ``(n_features, n_records)`` of columns in the order of the domain."""
    codes = np.empty((domain.n_features, len(columns[0])), dtype=domain.dtype)
    for place, (column, feature, cuts) in enumerate(zip(columns, domain.features, domain.cuts, strict=True)):
        if isinstance(feature, Categorical):
            codes[place] = _category_codes(column, feature)
        else:
            encode_numbers(to_numbers(column), cuts, float(feature.lower), float(feature.upper), codes[place])
    return codes
