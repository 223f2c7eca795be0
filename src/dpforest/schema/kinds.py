"""The kinds of columns in a schema, each with its public facts. Public values only."""

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from dpforest.common.text import unboxed
from dpforest.errors import SchemaError, shown

# A bounded target is put on a grid of 0 .. TARGET_STEPS, so that its sums are exact integers.
TARGET_STEPS = 1024
# Records keep the target on a finer grid, so that a window of its range can be put on TARGET_STEPS steps too.
FINE_STEPS = 1 << 16
# A number without bounds lies within what 64 bits hold; numbers beyond count as these.
MOST_NUMBER = 2.0**63
# The number of buckets of a categorical feature without a list, and what it may be: a byte of the hash is divided evenly.
BUCKETS, BUCKET_NUMBERS = 64, (2, 4, 8, 16, 32, 64, 128, 256)
# Texts of categories without a list are told apart by so many characters: no batch of them is longer than Arrow or a driver
# can hold, whatever a single record has.
LONGEST_TEXT = 4_000
# A date without bounds lies between these; dates beyond count as these.
FIRST_DATE, LAST_DATE = "1900-01-01", "2100-01-01"
SECONDS_OF_DAY = 86_400
# Fields that come first in a call, and are written there without their names.
UNNAMED = ("lower", "upper", "categories", "labels")
# A longer call has a line for each argument.
MOST_LINE = 100


def call(part: Any) -> str:
    """The Python call that makes a schema or a part of one, without default arguments."""
    arguments: list[str] = []
    for index, each in enumerate(fields(part)):
        value = getattr(part, each.name)
        if value != (each.default if each.default_factory is MISSING else each.default_factory()):
            is_first = each.name in UNNAMED and len(arguments) == index
            arguments.append(_written(value) if is_first else f"{each.name}={_written(value)}")
    line = f"{type(part).__name__}({', '.join(arguments)})"
    return line if len(line) <= MOST_LINE or len(arguments) < 2 else f"{type(part).__name__}({_lines(arguments)})"


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = [f"{name!r}: {_written(own)}" for name, own in value.items()]
        line = ", ".join(entries)
        return f"{{{line if len(line) <= MOST_LINE - len('features={}') else _lines(entries)}}}"
    return repr(list(value) if isinstance(value, tuple) else value)


def _lines(entries: list[str]) -> str:
    """Entries of a call or mapping on lines of their own."""
    return "".join("\n    " + entry.replace("\n", "\n    ") + "," for entry in entries) + "\n"


class _Between:
    """A kind whose values lie in a ``range``; each bound may be missing."""

    lower: Any
    upper: Any

    @property
    def has_bounds(self) -> bool:
        return self.lower is not None and self.upper is not None

    @property
    def _known_bounds(self) -> dict[str, Any]:
        return {name: value for name in ("lower", "upper") if (value := getattr(self, name)) is not None}

    def _check_order(self, lower: float, upper: float) -> None:
        if not lower < upper:
            raise SchemaError(f"{type(self).__name__} needs lower < upper, not lower={self.lower!r}, upper={self.upper!r}.")


@dataclass(frozen=True)
class _Ranged(_Between):
    """A number between bounds, as numeric features and bounded targets are."""

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        """Raise unless bounds are finite numbers in order, or None; numbers of numpy become Python's."""
        what = type(self).__name__
        for name in ("lower", "upper"):
            value = unboxed(getattr(self, name))
            if value is not None and not _is_finite(value):
                raise SchemaError(
                    f"{what} needs finite numbers as bounds, not lower={shown(self.lower)}, upper={shown(self.upper)}. "
                    f"A bound that nobody knows is left out: {what}()."
                )
            object.__setattr__(self, name, value)
        lower, upper = self.range
        self._check_order(lower, upper)
        if not math.isfinite(upper - lower):
            raise SchemaError(f"{what} needs bounds whose distance is finite, not lower={lower!r}, upper={upper!r}.")

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value told apart from those beyond; a missing bound is that of 64 bits."""
        lower = -MOST_NUMBER if self.lower is None else float(self.lower)
        return lower, MOST_NUMBER if self.upper is None else float(self.upper)

    @property
    def span(self) -> float:
        """The distance of the ends of ``range``."""
        lower, upper = self.range
        return upper - lower


def _is_finite(value: Any) -> bool:
    """Whether a value is a number, and not so large that it is infinite as a float."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def _check_truth(part: Any, name: str) -> None:
    value = unboxed(getattr(part, name))
    if not isinstance(value, bool):
        raise SchemaError(f"{type(part).__name__}({name}=...) must be True or False, not {shown(value)}.")
    object.__setattr__(part, name, value)


def _distinct(part: Any, values: Any) -> tuple[Hashable, ...]:
    """The values of a list as a tuple; raises unless there is at least one and none is there twice."""
    what = type(part).__name__
    if isinstance(values, str) or not isinstance(values, Iterable):
        instead = f": {what}([{shown(values)}, ...])" if isinstance(values, str) and len(values) < 100 else ""
        raise SchemaError(f"{what} needs a list of values, not {shown(values)}{instead}.")
    listed = tuple(unboxed(value) for value in values)
    try:
        n_distinct = len(set(listed))
    except TypeError:
        raise SchemaError(f"{what} needs hashable values.") from None
    if not listed:
        raise SchemaError(f"{what} needs at least one value.")
    if n_distinct < len(listed):
        raise SchemaError(f"{what} lists a value twice.")
    return listed


@dataclass(frozen=True)
class Numeric(_Ranged):
    """A numeric feature. Values outside of public bounds are clipped; without bounds it is any number of 64 bits.

    A bound that is known makes the model better, and one that was looked up in the table is a leak. ``integer`` if only
    whole numbers occur.
    """

    integer: bool = False
    kind: ClassVar[str] = "numeric"
    __repr__ = call

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_truth(self, "integer")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self._known_bounds, "integer": self.integer}


@dataclass(frozen=True)
class Categorical:
    """A categorical feature: text, or whole numbers that stand for something else.

    With a public list of ``categories``, anything else counts as "other". Without a list any value falls into one of
    ``buckets`` buckets, by a public hash of its text. With ``learn`` a part of an (epsilon, delta) budget buys a list of the
    values that occur often enough.
    """

    categories: Sequence[Hashable] = ()
    learn: bool = False
    buckets: int = BUCKETS  # stored with a model, so that another default does not change what it predicts
    kind: ClassVar[str] = "categorical"
    __repr__ = call

    def __post_init__(self) -> None:
        if not isinstance(self.categories, tuple) or self.categories:
            object.__setattr__(self, "categories", _distinct(self, self.categories))
        _check_truth(self, "learn")
        object.__setattr__(self, "buckets", unboxed(self.buckets))
        if isinstance(self.buckets, bool) or self.buckets not in BUCKET_NUMBERS:
            listed = ", ".join(map(str, BUCKET_NUMBERS))
            raise SchemaError(f"Categorical(buckets=...) must be one of {listed}, not {shown(self.buckets)}.")
        if self.categories and self.buckets != BUCKETS:
            raise SchemaError("Categorical has a list of categories, so there are no buckets.")

    @property
    def n_values(self) -> int:
        """The number of categories or buckets: the codes before those of "other" and missing."""
        return len(self.categories) or self.buckets

    @property
    def by_text(self) -> bool:
        """Whether values are compared as texts: those of buckets and of a learnt list. Else they are compared as values."""
        return not self.categories or self.learn

    def to_dict(self) -> dict[str, Any]:
        # A learnt list may be empty, and then there are buckets, too.
        values = {"categories": list(self.categories)} if self.categories else {"buckets": self.buckets}
        return {"kind": self.kind, **values} | ({"learn": True} if self.learn else {})


@dataclass(frozen=True)
class Date(_Between):
    """A feature of dates, or with ``time`` of points in time in UTC.

    Bounds are dates (or points in time), or such as ISO 8601 writes them; dates outside are clipped. Trees ask for the day
    (with ``time`` the second), and also for the weekday and the month (with ``time`` also the hour).
    """

    lower: str | date | None = None
    upper: str | date | None = None
    time: bool = False
    kind: ClassVar[str] = "date"
    integer: ClassVar[bool] = True
    __repr__ = call

    def __post_init__(self) -> None:
        _check_truth(self, "time")
        for name, value in self._known_bounds.items():
            object.__setattr__(self, name, self._iso(value))
        self._check_order(*self.range)

    def _iso(self, value: Any) -> str:
        """A bound as ISO 8601 writes it: a date, or a point in time of UTC."""
        try:
            moment = _moment(value).replace(microsecond=0, tzinfo=None)
        except (AttributeError, OverflowError, TypeError, ValueError):
            raise SchemaError(f"Date needs bounds such as '2020-01-31' or a datetime.date, not {shown(value)}.") from None
        return f"{moment.isoformat()}Z" if self.time else moment.date().isoformat()

    @property
    def range(self) -> tuple[float, float]:
        """The first and the last day (with ``time`` second) that is told apart, counted from the start of 1970."""
        unit = 1 if self.time else SECONDS_OF_DAY
        first, last = (int(_moment(end).timestamp()) // unit for end in (self.lower or FIRST_DATE, self.upper or LAST_DATE))
        return float(first), float(last)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self._known_bounds} | ({"time": True} if self.time else {})


def _moment(value: Any) -> datetime:
    """A date, point in time or ISO 8601 text as a point in time of UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


@dataclass(frozen=True)
class Classes:
    """A classification target with a public list of labels.

    A record whose label is not listed counts as ``other``, one of the labels; with ``other=None`` it is left out.
    Either way the rule looks at that record alone, and nothing shows that it was applied.
    """

    labels: Sequence[Hashable]
    other: Hashable = None
    name: str = "target"
    kind: ClassVar[str] = "classes"
    __repr__ = call

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _distinct(self, self.labels))
        if self.other is not None and not any(self.other is label or self.other == label for label in self.labels):
            raise SchemaError(f"Classes(other={shown(self.other)}) is not one of the labels.")

    @property
    def width(self) -> int:
        """The number of integers that are counted for a group of records: one for each class."""
        return len(self.labels)

    n_values = width  # the number of values that a node releases: a count for each class

    def to_dict(self) -> dict[str, Any]:
        content = {"name": self.name, "kind": self.kind, "labels": list(self.labels)}
        return content if self.other is None else content | {"other": self.other}


@dataclass(frozen=True)
class Bounded(_Ranged):
    """A regression target. Values outside of public bounds are clipped, missing ones left out.

    A bound that is not given is that of 64 bits; a part of the budget then finds where the values lie.
    """

    name: str = "target"
    kind: ClassVar[str] = "bounded"
    __repr__ = call
    # The number of integers that are summed for a group of records: 1, z and z**2, with z in 0 .. TARGET_STEPS.
    width: ClassVar[int] = 3
    # The number of values that a node releases: sums of 1-z and z (low and high), with z scaled to 0 .. 1.
    n_values: ClassVar[int] = 2

    def mean_of(self, share: Any) -> Any:
        """The mean of the target, in its own unit, for records of which the share ``share`` counts as high."""
        return self.range[0] + self.span * share

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, **self._known_bounds}


Feature = Numeric | Categorical | Date
Target = Classes | Bounded
KINDS: dict[str, Any] = {part.kind: part for part in (Numeric, Categorical, Date, Classes, Bounded)}
