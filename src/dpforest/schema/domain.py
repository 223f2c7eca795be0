"""Codes: the small integers that stand for the values of each feature. Public values only.

Codes of a numeric feature are bins between public cuts, then one code for missing. Codes of a categorical feature are
its categories, then one for values outside the list, then one for missing.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from dpforest.errors import SchemaError
from dpforest.schema import SECONDS_OF_DAY, Categorical, Date, Feature, Numeric, Schema
from dpforest.schema.calendar import MOST_CUTS, calendar_cuts, date_words

T = TypeVar("T")
# Public caps: codes of a feature, and those of one whose routes are tables, and so bins. A longer list is *wide*: it is
# split by runs of codes alone, so that no table of all its codes is kept for each node.
MOST_CODES, MOST_TABLED = 1 << 20, 1 << 16
DIGITS = 4  # entries of the route of a wide feature: the two ends of its run, each in two digits of 16 bits
# A learnt list has at most so many values, each of at most so many characters.
MOST_LISTED, MOST_CHARACTERS = 1_000, 200
# Texts with these cannot be part of a query in every database.
NOT_IN_QUERIES = ("\0", "${")
# Of a grid without a scale: cuts in each octave, or in the topmost ones and in the others of a sparse grid.
PER_OCTAVE, TOP_OCTAVES, PER_LOW_OCTAVE = 8, 4, 2
# Octaves reach down to 2**-13, or are 20, whichever is more. Numbers above 2**34 are rare: one cut for each octave there.
LEAST_EXPONENT, LEAST_OCTAVES, MOST_DENSE = -13, 20, 34
# Without scales and bounds: powers of 2 from 2**-10 up to 2**20.
COMMON_OCTAVES = 10
# A grid of fewer bins than this has as few for dates; any other has the cuts of the calendar.
FEW_BINS = 16


@dataclass(frozen=True)
class Grid:
    """The rule that places the cuts of each numeric feature, from its public bounds alone.

    ``bins - 1`` cuts of equal width or, with ``scales``, cuts without a scale of their own: some in each octave of the
    distance from zero (or from the bound nearest to it), so that it matters little how wide the bounds are. ``sparse``
    leaves fewer of them below the topmost octaves. A feature without bounds has no equal widths: without ``scales`` it gets
    ``bins - 1`` cuts at powers of 2. A whole-number feature with few values gets a bin for each.

    Privacy:
        Claim: cuts reveal nothing about records.
        Because: they are a function of the schema.
        Assumes: the schema is public.
    """

    bins: int = 32
    scales: bool = False
    sparse: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 1 <= self.bins < MOST_TABLED:
            raise SchemaError(f"bins must be a whole number from 1 to {MOST_TABLED - 1}, not {self.bins!r}.")

    def cuts(self, feature: Numeric | Date) -> np.ndarray:
        """The cuts of a feature, ``(n_cuts,)``, increasing and inside its bounds; bin k holds values with k cuts <= them."""
        if isinstance(feature, Date):
            # Papers that give a child to each of a few bins do so for dates too.
            return calendar_cuts(feature, MOST_CUTS if self.bins >= FEW_BINS else self.bins - 1)
        return _cuts(self, *feature.range, feature.integer, feature.has_bounds)


@lru_cache(maxsize=4096)
def _cuts(grid: Grid, lower: float, upper: float, integer: bool, has_bounds: bool) -> np.ndarray:
    bins = grid.bins
    if integer and upper - lower < bins:
        cuts = np.arange(math.ceil(lower) + 1, math.floor(upper) + 1, dtype=float)
    elif grid.scales:
        cuts = _scale_cuts(lower, upper, grid.sparse)
        if integer:
            near = math.ceil(anchor(lower, upper)) + np.arange(-bins, bins + 1.0)
            cuts = np.concatenate([np.ceil(cuts), near])
        cuts = inside(cuts, lower, upper)
    elif has_bounds:
        cuts = np.linspace(lower, upper, bins + 1)[1:-1]
        cuts = inside(np.ceil(cuts) if integer else cuts, lower, upper)
    else:
        cuts = _powers(bins - 1, lower, upper, integer)
    cuts.setflags(write=False)  # shared by all fits
    return cuts


def inside(cuts: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """The cuts in increasing order, each once, without those that no value between the bounds can be below and above of."""
    cuts = np.unique(cuts + 0.0)  # no minus zero
    return cuts[(cuts > lower) & (cuts <= upper)]


def anchor(lower: float, upper: float) -> float:
    """The number from which scales are counted: 0, or the bound that is nearest to it."""
    return min(max(lower, 0.0), upper)


def _powers(n: int, lower: float, upper: float, integer: bool) -> np.ndarray:
    """At most ``n`` cuts, evenly taken from the powers of 2, neither very small nor very large, around the anchor."""
    zero, far = anchor(lower, upper), 2.0 ** np.arange(0 if integer else -COMMON_OCTAVES, 2 * COMMON_OCTAVES)
    cuts = inside(np.concatenate([zero - far, [zero], zero + far]), lower, upper)
    return cuts if len(cuts) <= n else cuts[np.rint(np.linspace(0, len(cuts) - 1, n + 2)).astype(int)[1:-1]]


def just_above(zero: float, reach: float) -> float:
    """A number that is above the anchor and below all others that occur, so that a cut there sets the anchor apart."""
    return zero + min(reach, 1.0) * 0.5**60


def _scale_cuts(lower: float, upper: float, sparse: bool) -> np.ndarray:
    """Cuts in each octave of the distance from the anchor, on both sides of it, and one that tells it from all above it."""
    zero = anchor(lower, upper)
    reach = max(upper - zero, zero - lower)
    top = math.ceil(math.log2(reach))
    octaves = np.arange(1, max(top - LEAST_EXPONENT, LEAST_OCTAVES) + 1)
    distances = []
    for octave in octaves:
        dense = top - octave < MOST_DENSE
        n = PER_OCTAVE if dense and (not sparse or octave <= TOP_OCTAVES) else PER_LOW_OCTAVE if dense else 1
        distances.append(reach * 0.5**octave * (1 + np.arange(n) / n))
    far = np.concatenate(distances)
    return np.concatenate([zero + far, zero - far, [zero, just_above(zero, reach), upper]])


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
            found += [Derived(f"{name} ({of})", column, OF_DATE[of], of) for of in _asked_of_date(part)]
    return tuple(found)


def _asked_of_date(part: Date) -> list[str]:
    """The keys of OF_DATE that may differ between the bounds of a date."""
    unit = 1 if part.time else SECONDS_OF_DAY
    lower, upper = (np.datetime64(int(end) * unit, "s") for end in part.range)
    turns = {"weekday": "D", "month": "M"} | ({"hour": "h"} if part.time else {})
    return [of for of, turn in turns.items() if lower.astype(f"M8[{turn}]") != upper.astype(f"M8[{turn}]")]


@dataclass(frozen=True)
class Domain:
    """All features with their codes and cuts.

    In an array over the codes of all features, those of feature ``f`` are ``offsets[f] : offsets[f + 1]``.
    """

    derived: tuple[Derived, ...]
    cuts: tuple[np.ndarray, ...]  # empty for categorical features

    @classmethod
    def of(cls, schema: Schema, grid: Grid) -> "Domain":
        """The domain of a schema's features, with cuts by a grid; raises if a feature has more than MOST_CODES.

        It is made once for a schema and a grid.
        """
        if grid in schema.domains:
            return schema.domains[grid]
        features = derived(schema)
        cuts = tuple(np.empty(0) if isinstance(each.part, Categorical) else grid.cuts(each.part) for each in features)
        domain = cls(features, cuts)
        if domain.most_codes > MOST_CODES:
            name = domain.names[int(domain.n_codes.argmax())]
            raise SchemaError(f"Feature {name!r} has {domain.most_codes} codes; the most is {MOST_CODES}.")
        schema.domains[grid] = domain
        return domain

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def once(self, what: Hashable, make: "Callable[[], T]") -> T:
        """What ``make`` gives, which follows from the domain and ``what`` alone, and so is made once."""
        if what not in self._kept:
            self._kept[what] = make()
        return self._kept[what]

    def __getstate__(self) -> dict[str, Any]:
        # What can be worked out again is not saved.
        return {"derived": self.derived, "cuts": self.cuts}

    @property
    def lists(self) -> dict[str, list[str]]:
        """The learnt list of each column that has one; an empty list stands for buckets, since no value was frequent."""
        parts = zip(self.names, self.features, strict=True)
        return {name: list(part.categories) for name, part in parts if isinstance(part, Categorical) and part.learn}  # type: ignore[arg-type]

    def with_lists(self, lists: Mapping[str, Sequence[str]]) -> "Domain":
        """The domain in which columns have the lists that were learnt for them; itself if there are none."""
        if not lists:
            return self
        learnt = (replace(each, part=_listed(each.part, lists.get(each.name, ()))) for each in self.derived)
        return type(self)(tuple(learnt), self.cuts)

    def renamed(self, rename: Callable[[str], str]) -> "Domain":
        """A copy of the domain with other names of features."""
        return type(self)(tuple(replace(each, name=rename(each.name)) for each in self.derived), self.cuts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.derived)

    @cached_property
    def columns(self) -> np.ndarray:
        """The index of the column of the table that each feature is derived from, ``(n_features,)``."""
        return np.array([each.column for each in self.derived])

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The name of each column of the table: that of the first feature that is derived from it."""
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
        return np.array(
            [
                part.n_values + 2 if isinstance(part, Categorical) else len(cuts) + 2
                for part, cuts in zip(self.features, self.cuts, strict=True)
            ]
        )

    @cached_property
    def n_values(self) -> np.ndarray:
        """The number of bins or listed categories of each feature, ``(n_features,)``: without "other" and missing."""
        return self.n_codes - 1 - ~self.is_numeric

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where the codes of each feature begin in an array over all codes, ``(n_features + 1,)``; the last is their end."""
        return np.concatenate([[0], np.cumsum(self.n_codes)])

    @cached_property
    def total_codes(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def most_codes(self) -> int:
        """The number of codes of the feature that has most of them."""
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
        """The codes ``(n_routes, 2)``, from and to, that routes of wide features send to the first child; -1 of others.

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
    """The part with a learnt list, if it is to have one; without a value in it, the part keeps its buckets."""
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
