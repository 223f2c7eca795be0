"""The schema: what is public about a table before anyone looks at it. Public values only.

Bounds, categories, classes and target range come from here and never from rows.
"""

import json
import math
import numbers
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from dpforest.common.files import read_whole, write_whole
from dpforest.common.jsonable import to_json, unboxed
from dpforest.errors import OutputError, SchemaError, shown

# A bounded target is put on a grid of 0 .. TARGET_STEPS, so that its sums are exact integers.
TARGET_STEPS = 1024
# Records keep the target on a finer grid, so that a window of its range can be put on TARGET_STEPS steps too.
FINE_STEPS = 1 << 16
# Stands in a draft for what a person has to fill in.
UNFILLED = "?"
# A list of a hundred thousand long names; as objects of Python it takes some thirty times the memory.
MOST_FILE_BYTES = 1 << 23


def _check_range(part: Any) -> None:
    """Raise unless ``lower`` and ``upper`` of a part are finite numbers in order; numbers of numpy become Python's."""
    what = type(part).__name__
    bounds = [unboxed(part.lower), unboxed(part.upper)]
    for value in bounds:
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not _is_finite(value):
            raise SchemaError(
                f"{what} needs finite numbers as bounds, not lower={shown(part.lower)}, upper={shown(part.upper)}."
            )
    lower, upper = bounds
    if not lower < upper:
        raise SchemaError(f"{what} needs lower < upper, not lower={lower!r}, upper={upper!r}.")
    if not _is_finite(upper - lower):
        raise SchemaError(f"{what} needs bounds whose distance is finite, not lower={lower!r}, upper={upper!r}.")
    object.__setattr__(part, "lower", lower)
    object.__setattr__(part, "upper", upper)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _distinct(part: Any, values: Any) -> tuple[Hashable, ...]:
    """The values of a list as a tuple; raises unless there is at least one and none is there twice."""
    what = type(part).__name__
    if isinstance(values, str) or not isinstance(values, Iterable):
        text = "the text " if isinstance(values, str) else ""
        raise SchemaError(f"{what} needs a list of values, not {text}{shown(values)}.")
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


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise SchemaError(f"A column name must be text, not {shown(name)}.")


@dataclass(frozen=True)
class Numeric:
    """A numeric feature between public bounds; values outside are clipped. ``integer`` if only whole numbers occur."""

    lower: float
    upper: float
    integer: bool = False
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        _check_range(self)
        object.__setattr__(self, "integer", unboxed(self.integer))
        if not isinstance(self.integer, bool):
            raise SchemaError(f"Numeric(integer=...) must be True or False, not {shown(self.integer)}.")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lower": self.lower, "upper": self.upper, "integer": self.integer}


@dataclass(frozen=True)
class Categorical:
    """A categorical feature with a public list of values; anything else counts as "other"."""

    categories: Sequence[Hashable]
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", _distinct(self, self.categories))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "categories": list(self.categories)}


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
class Bounded:
    """A regression target between public bounds; values outside are clipped, missing ones left out."""

    lower: float
    upper: float
    name: str = "target"
    kind: ClassVar[str] = "bounded"
    # The number of integers that are summed for a group of records: 1, z and z**2, with z in 0 .. TARGET_STEPS.
    width: ClassVar[int] = 3
    # The number of values that a node releases: sums of 1-z and z (low and high), with z scaled to 0 .. 1.
    n_values: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check_range(self)

    def mean_of(self, share: Any) -> Any:
        """The mean of the target, in its own unit, for records of which the share ``share`` counts as high."""
        return self.lower + (self.upper - self.lower) * share

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "lower": self.lower, "upper": self.upper}


Feature = Numeric | Categorical
Target = Classes | Bounded
_KINDS: dict[str, Any] = {part.kind: part for part in (Numeric, Categorical, Classes, Bounded)}


@dataclass(frozen=True)
class Schema:
    """The public facts about a table: its features, its target and, if it is public, its number of rows.

    ``vouched_by`` names who says that these facts are public, and why; the privacy report shows it.

    Example
    -------
    >>> schema = Schema(
    ...     features={"age": Numeric(0, 120, integer=True), "sex": Categorical(["Male", "Female"])},
    ...     target=Classes(["<=50K", ">50K"]),
    ... )
    >>> schema.n_features
    2
    """

    features: Mapping[str, Feature]
    target: Target
    n_rows: int | None = None
    source: str = "declared"
    vouched_by: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping) or not self.features:
            raise SchemaError("Schema(features=...) needs a mapping from column name to Numeric or Categorical.")
        for name, feature in self.features.items():
            _check_name(name)
            if not isinstance(feature, Numeric | Categorical):
                raise SchemaError(f"Feature {name!r} must be Numeric(...) or Categorical(...), not {_described(feature)}.")
        if not isinstance(self.target, Classes | Bounded):
            raise SchemaError(
                f"Schema(target=...) must be Classes([...]) for classification or Bounded(lower, upper) for "
                f"regression, not {_described(self.target)}."
            )
        _check_name(self.target.name)
        if self.target.name in self.features:
            raise SchemaError(f"Column {self.target.name!r} is declared both as a feature and as the target.")
        if self.n_rows is not None and (
            isinstance(self.n_rows, bool) or not isinstance(self.n_rows, numbers.Integral) or self.n_rows < 0
        ):
            raise SchemaError(
                f"Schema(n_rows=...) must be a whole number that is public, or None, not {shown(self.n_rows)}."
            )
        if self.vouched_by is not None and not isinstance(self.vouched_by, str):
            raise SchemaError(f"Schema(vouched_by=...) must be text or None, not {shown(self.vouched_by)}.")
        object.__setattr__(self, "features", MappingProxyType(dict(self.features)))

    @property
    def n_features(self) -> int:
        return len(self.features)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Schema, (dict(self.features), self.target, self.n_rows, self.source, self.vouched_by))

    def to_dict(self) -> dict[str, Any]:
        """The entries of a schema file, as plain values."""
        content: dict[str, Any] = {
            "features": {name: feature.to_dict() for name, feature in self.features.items()},
            "target": self.target.to_dict(),
        }
        if self.n_rows is not None:
            content["n_rows"] = int(self.n_rows)
        if self.source != "declared":
            content["source"] = self.source
        if self.vouched_by is not None:
            content["vouched_by"] = self.vouched_by
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Schema":
        """The schema with the entries of a schema file; raises ``SchemaError`` if they are not complete."""
        if not isinstance(content, Mapping) or not {"features", "target"} <= set(content):
            raise SchemaError("A schema file needs the entries 'features' and 'target'.")
        unknown = set(content) - {"features", "target", "n_rows", "source", "vouched_by"}
        if unknown:
            raise SchemaError(f"A schema file has no entry {sorted(unknown)[0]!r}.")
        if not isinstance(content["features"], Mapping):
            raise SchemaError("The entry 'features' of a schema file maps column names to their kind.")
        features = {str(name): _part(f"feature {name!r}", part) for name, part in content["features"].items()}
        target = _part("the target", content["target"])
        return cls(features, target, content.get("n_rows"), content.get("source", "declared"), content.get("vouched_by"))

    @classmethod
    def from_file(cls, path: str | Path) -> "Schema":
        """The schema in a ``.json`` or ``.toml`` file; raises ``SchemaError`` for a draft that is not filled in."""
        content = read_schema_file(path)
        open_entries = unfilled(content)
        if open_entries:
            raise SchemaError(
                f"The schema {path} is a draft: {len(open_entries)} of its entries are still {UNFILLED!r}, such as "
                f"{open_entries[0]}. Fill them in from what is public, not from the rows; 'dpforest schema check' lists all."
            )
        return cls.from_dict(content)

    def to_file(self, path: str | Path) -> None:
        """Write the schema to a ``.json`` or ``.toml`` file."""
        path = Path(path)
        writers = {".json": _json_text, ".toml": _toml_text}
        if path.suffix not in writers:
            raise SchemaError(f"A schema file ends in .json or .toml, not {path.suffix!r} ({path}).")
        text = writers[path.suffix](self.to_dict())
        try:
            write_whole(path, text.encode("utf-8"))
        except (OutputError, UnicodeEncodeError) as error:
            raise SchemaError(f"The schema cannot be written to {path}: {error}") from None


def read_schema_file(path: str | Path) -> Any:
    """The entries of a ``.json`` or ``.toml`` file, unchecked."""
    path = Path(path)
    parsers: dict[str, Any] = {".json": partial(json.loads, object_pairs_hook=_without_repeats), ".toml": tomllib.loads}
    if path.suffix not in parsers:
        raise SchemaError(f"A schema file ends in .json or .toml, not {path.suffix!r} ({path}).")
    try:
        return parsers[path.suffix](_text(read_whole(path, MOST_FILE_BYTES)))
    except OSError as error:
        raise SchemaError(f"The schema file {path} cannot be read: {error.strerror}.") from None
    except OutputError as error:
        raise SchemaError(f"The schema file cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"The schema file {path} is not valid {path.suffix[1:].upper()}: {error}.") from None


# Entries that a draft may leave open. A "?" anywhere else is a value: a column or a single label may be called so.
_OPEN = ("kind", "lower", "upper", "integer", "categories", "labels")


def unfilled(content: Any) -> list[str]:
    """The names of entries of a schema file that a person still has to fill in, such as ``features.age.lower``."""
    if not isinstance(content, Mapping):
        return []
    features = content.get("features")
    parts = {"target": content.get("target")}
    parts |= {f"features.{name}": part for name, part in features.items()} if isinstance(features, Mapping) else {}
    found = ["vouched_by"] if content.get("vouched_by") == UNFILLED else []
    for where, part in parts.items():
        if isinstance(part, Mapping):
            names = ("name", *_OPEN) if part.get("kind") == UNFILLED else _OPEN
            found += [f"{where}.{name}" for name in names if part.get(name) == UNFILLED]
    return found


def _described(value: Any) -> str:
    """A part of a schema as an error may show it."""
    return repr(value) if isinstance(value, Numeric | Categorical | Classes | Bounded) else shown(value)


def _part(what: str, content: Any) -> Any:
    kind = content.get("kind") if isinstance(content, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(f"In the schema file, {what} needs a 'kind': one of {', '.join(_KINDS)}.")
    arguments = {key: value for key, value in content.items() if key != "kind"}
    try:
        return _KINDS[kind](**arguments)
    except TypeError:
        raise SchemaError(
            f"In the schema file, {what} of kind {kind!r} has missing or unknown entries: "
            f"{', '.join(sorted(arguments)) or 'none given'}."
        ) from None


def _text(content: bytes) -> str:
    """The text of UTF-8 bytes, with every line end as a single line feed."""
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {repeated!r} is there twice")
    return content


def _check_storable(values: Any) -> None:
    """Raise unless a file can hold the values as they are."""
    if isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            _check_storable(value)
    elif not (isinstance(values, str | bool | int) or (isinstance(values, float) and math.isfinite(values))):
        raise SchemaError("Only text, finite numbers and booleans can be categories or labels in a schema file.")


def _json_text(content: dict[str, Any]) -> str:
    _check_storable(content)
    return to_json(content, indent=1, ensure_ascii=False) + "\n"


def toml_value(value: Any) -> str:
    """A text, number, truth value or list as TOML writes it."""
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for one control character that JSON may leave bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def toml_tables(content: Mapping[str, Any], hint: Callable[[Mapping[str, Any]], str] = lambda part: "") -> list[str]:
    """The lines of TOML for the target and each feature, with what ``hint`` gives behind the header of each."""
    tables = [("target", content["target"])]
    tables += [(f"features.{toml_value(name)}", part) for name, part in content["features"].items()]
    lines: list[str] = []
    for header, part in tables:
        lines += ["", f"[{header}]{hint(part)}", *(f"{key} = {toml_value(value)}" for key, value in part.items())]
    return lines


def _toml_text(content: dict[str, Any]) -> str:
    _check_storable(content)
    lines = [f"{name} = {toml_value(content[name])}" for name in ("n_rows", "source", "vouched_by") if name in content]
    return "\n".join(lines + toml_tables(content)).lstrip("\n") + "\n"
