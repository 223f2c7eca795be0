"""Codes: the small integers that stand for the values of each feature. Public values only.

Codes of a numeric feature are bins between public cuts, then one code for missing. Codes of a categorical feature are
its categories, then one for values outside the list, then one for missing.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from dpforest.errors import SchemaError
from dpforest.schema import SECONDS_OF_DAY, Categorical, Date, Feature, Numeric, Schema
from dpforest.schema.grid import MOST_TABLED, Grid, date_words

T = TypeVar("T")
# The most codes of a feature. One with more than MOST_TABLED is *wide*: it is split by runs of codes alone, so that no table
# of all its codes is kept for each node.
MOST_CODES = 1 << 20
DIGITS = 4  # entries of the route of a wide feature: the two ends of its run, each in two digits of 16 bits
# A learnt list has at most so many values, each of at most so many characters.
MOST_LISTED, MOST_CHARACTERS = 1_000, 200
# Texts with these cannot be part of a query in every database.
NOT_IN_QUERIES = ("\0", "${")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# What trees may ask of a date, beside the day or second: its weekday, its month and, of a point in time, its hour.
OF_DATE: dict[str, Numeric | Categorical] = {
    "weekday": Categorical(WEEKDAYS), "month": Numeric(1, 12, integer=True), "hour": Numeric(0, 23, integer=True),
}  # fmt: skip


@dataclass(frozen=True)
class Derived:
    """A feature as trees know it: the value of a column, or something that follows from it, such as its weekday."""

    name: str
    column: int  # the index of the column among the features of the schema
    part: Feature
    of: str = "value"  # or a key of OF_DATE


def can_list(text: str) -> bool:
    """Whether a learnt list may have a value: one that every file and every query can hold."""
    return len(text) <= MOST_CHARACTERS and not any(part in text for part in NOT_IN_QUERIES)


def derived(schema: Schema) -> tuple[Derived, ...]:
    """The features that trees may ask for, in the order of the schema's columns; of a date there are several."""
    found = []
    for column, (name, part) in enumerate(schema.features.items()):
        found.append(Derived(name, column, part))
        if isinstance(part, Date):
            unit = 1 if part.time else SECONDS_OF_DAY
            lower, upper = (np.datetime64(int(end) * unit, "s") for end in part.range)
            turns = {"weekday": "M8[D]", "month": "M8[M]"} | ({"hour": "M8[h]"} if part.time else {})
            asked = [of for of, turn in turns.items() if lower.astype(turn) != upper.astype(turn)]
            found += [Derived(f"{name} ({of})", column, OF_DATE[of], of) for of in asked]
    return tuple(found)


@dataclass(frozen=True)
class Domain:
    """All features with their codes and cuts.

    In an array over the codes of all features, those of feature ``f`` are ``offsets[f] : offsets[f + 1]``.
    """

    derived: tuple[Derived, ...]
    cuts: tuple[np.ndarray, ...]  # empty for categorical features

    @classmethod
    def of(cls, schema: Schema, grid: Grid) -> "Domain":
        """The domain of a schema's features, made once for each grid; raises if a feature has more than MOST_CODES."""
        if grid not in schema.domains:
            features = derived(schema)
            cuts = tuple(np.empty(0) if isinstance(each.part, Categorical) else grid.cuts(each.part) for each in features)
            domain = cls(features, cuts)
            if domain.most_codes > MOST_CODES:
                name = domain.names[int(domain.n_codes.argmax())]
                raise SchemaError(f"Feature {name!r} has {domain.most_codes} codes; the most is {MOST_CODES}.")
            schema.domains[grid] = domain
        return schema.domains[grid]

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make``, kept under ``what``; it follows from these and the domain alone."""
        if what not in self._kept:
            self._kept[what] = make()
        return self._kept[what]

    def __getstate__(self) -> dict[str, Any]:
        # What can be worked out again is not saved.
        return {"derived": self.derived, "cuts": self.cuts}

    @property
    def lists(self) -> dict[str, list[str]]:
        """The learnt list of each column that has one; an empty list stands for buckets, since no value was frequent."""
        parts = ((each.name, each.part) for each in self.derived)
        return {name: list(part.categories) for name, part in parts if isinstance(part, Categorical) and part.learn}  # type: ignore[arg-type]

    def with_lists(self, lists: Mapping[str, Sequence[str]]) -> "Domain":
        """The domain with learnt lists in the columns that have one; itself if there are none."""
        learnt = [replace(each, part=_listed(each.part, lists.get(each.name, ()))) for each in self.derived]
        return Domain(tuple(learnt), self.cuts) if lists else self

    def renamed(self, rename: Callable[[str], str]) -> "Domain":
        """A copy of the domain with other names of features."""
        return Domain(tuple(replace(each, name=rename(each.name)) for each in self.derived), self.cuts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.derived)

    @cached_property
    def columns(self) -> np.ndarray:
        """The index of the column of the table that each feature is derived from, ``(n_features,)``."""
        return np.array([each.column for each in self.derived])

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The name of each column of the table, from the first feature derived from it."""
        return tuple(each.name for each in self.derived if each.of == "value")

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        return tuple(each.part for each in self.derived)

    def number(self, feature: int) -> Numeric | Date:
        """The part of a feature that has cuts."""
        part = self.features[feature]
        assert not isinstance(part, Categorical)
        return part

    @property
    def n_features(self) -> int:
        return len(self.derived)

    @cached_property
    def is_numeric(self) -> np.ndarray:
        """Whether each feature is a number or a date, ``(n_features,)``; else it is categorical."""
        return np.array([not isinstance(part, Categorical) for part in self.features])

    @cached_property
    def n_codes(self) -> np.ndarray:
        """The number of codes of each feature, ``(n_features,)``: bins or categories, missing, and "other" of categories."""
        pairs = zip(self.features, self.cuts, strict=True)
        return np.array([(part.n_values if isinstance(part, Categorical) else len(cuts)) + 2 for part, cuts in pairs])

    @cached_property
    def n_values(self) -> np.ndarray:
        """The number of bins or listed categories of each feature, ``(n_features,)``: without "other" and missing."""
        return self.n_codes - 1 - ~self.is_numeric

    @cached_property
    def offsets(self) -> np.ndarray:
        """The start of each feature's codes in an array over all codes, and the end, ``(n_features + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.n_codes)])

    @cached_property
    def total_codes(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def most_codes(self) -> int:
        """The number of codes of the feature with most of them."""
        return int(self.n_codes.max())

    @property
    def dtype(self) -> np.dtype:
        """The smallest type of integers that holds every code."""
        most = self.most_codes
        return np.dtype(np.uint8 if most <= 1 << 8 else np.uint16 if most <= 1 << 16 else np.uint32)

    @cached_property
    def is_wide(self) -> np.ndarray:
        """Whether each feature has more codes than a table of routes, ``(n_features,)``."""
        return self.n_codes > MOST_TABLED

    @cached_property
    def route_width(self) -> int:
        """The number of entries of a route: one for each code, or DIGITS for a wide feature, whichever are most."""
        return int(np.where(self.is_wide, DIGITS, self.n_codes).max())

    def runs(self, features: np.ndarray, entries: np.ndarray) -> np.ndarray:
        """The first and end codes ``(n_routes, 2)`` that routes of wide features send to the first child; else -1.

        Routes are given by their features, which may be -1, and ``entries`` ``(n_routes, route_width)``. Without a wide
        feature there are no rows.
        """
        if not self.is_wide.any():
            return np.empty((0, 2), dtype=np.int64)
        runs = np.ascontiguousarray(entries[:, :DIGITS], dtype="<u2").view("<u4").astype(np.int64)
        runs[(features < 0) | ~self.is_wide[features]] = -1
        return runs

    def route(self, feature: int, entries: np.ndarray) -> np.ndarray:
        """The child of each code of a feature, ``(n_codes,)``, by the entries of a route."""
        n_codes = int(self.n_codes[feature])
        if not self.is_wide[feature]:
            return entries[:n_codes]
        code, ((start, stop),) = np.arange(n_codes), self.runs(np.array([feature]), entries[None])
        return ((code < start) | (code >= stop)).astype(np.uint16)

    @cached_property
    def words(self) -> list[np.ndarray]:
        """For each feature an array of the names of its codes as text; empty for a numeric feature."""
        return [_category_words(part) if isinstance(part, Categorical) else np.empty(0) for part in self.features]

    @cached_property
    def cut_words(self) -> list[list[str]]:
        """For each feature its cuts as text; dates as such."""
        pairs = zip(self.features, self.cuts, strict=True)
        return [date_words(part, cuts) if isinstance(part, Date) else _cut_texts(cuts) for part, cuts in pairs]

    def describe(self, feature: int, codes: np.ndarray) -> str:
        """The condition that a feature has one of some codes, given as a mask: ``age < 37``, ``sex = Male``, or "never"."""
        if not codes.any():
            return "never"
        name, part = self.names[feature], self.features[feature]
        if isinstance(part, Categorical):
            words = self.words[feature]
            few, equal, among = (codes, "=", "in") if 2 * codes.sum() <= len(codes) else (~codes, "!=", "not in")
            listed = words[few]
            return f"{name} {equal} {listed[0]}" if len(listed) == 1 else f"{name} {among} {{{', '.join(listed)}}}"
        bins, missing = np.flatnonzero(codes[:-1]), bool(codes[-1])
        if not len(bins):
            return f"{name} is missing"
        cuts, ranges = self.cut_words[feature], []
        for run in np.split(bins, np.flatnonzero(np.diff(bins) > 1) + 1):
            low = f"{cuts[run[0] - 1]} <= " if run[0] > 0 else ""
            high = f" < {cuts[run[-1]]}" if run[-1] < len(cuts) else ""
            ranges.append(f"{low}{name}{high}" if low or high else f"{name} is known")
        ranges += ["missing"] * missing
        return ranges[0] if len(ranges) == 1 else f"({' or '.join(ranges)})"


def entries_of(runs: np.ndarray) -> np.ndarray:
    """The entries ``(n_routes, DIGITS)`` of routes of wide features, given by the runs ``(n_routes, 2)`` of their codes."""
    return np.ascontiguousarray(runs, dtype="<u4").view("<u2")


def _listed(part: Feature, texts: Sequence[str]) -> Feature:
    """The part with a learnt list, if it is to have one; with an empty list it keeps its buckets."""
    return Categorical(tuple(texts), learn=True) if isinstance(part, Categorical) and part.learn and texts else part


def _category_words(part: Categorical) -> np.ndarray:
    listed = [*map(str, part.categories)] or [f"bucket {index}" for index in range(part.n_values)]
    return np.array(listed + [f"({word})" if word in listed else word for word in ("other", "missing")], dtype=object)


def _cut_texts(cuts: np.ndarray) -> list[str]:
    """The cuts as text, each with enough digits to tell it apart from its neighbours."""
    gaps = np.diff(cuts, prepend=-np.inf, append=np.inf)
    nearest = np.minimum(gaps[:-1], gaps[1:])
    with np.errstate(divide="ignore"):
        n_digits = np.clip(np.ceil(np.log10(np.abs(cuts) / nearest)) + 3, 6, 17).astype(int)
    return [f"{cut:.{n}g}" for cut, n in zip(cuts.tolist(), n_digits.tolist(), strict=True)]


def too_long(schema: Schema) -> str | None:
    """The name of a column with more categories than a table of routes has; None if there is none."""
    parts = schema.features.items()
    return next((name for name, part in parts if isinstance(part, Categorical) and part.n_values > MOST_TABLED - 2), None)
