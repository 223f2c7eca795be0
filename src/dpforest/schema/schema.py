"""The schema: what is public about a table before anyone looks at it. Public values only.

Bounds, categories, classes and target range come from here and never from rows.
"""

import json
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dpforest.common.files import read_entries, write_whole
from dpforest.common.text import as_html, to_json, unboxed, without_hidden
from dpforest.errors import OutputError, SchemaError, shown
from dpforest.schema.format import ALWAYS_MISSING, Format
from dpforest.schema.kinds import KINDS, Categorical, Feature, Target, call

# Entries of a schema file beside its columns and its format.
FACTS = ("n_rows", "source", "vouched_by", "one_row_per_person")
FACTS_BY_DEFAULT = ("source", "declared")
# Stands in a draft for what a person has to fill in.
UNFILLED = "?"
# A list of a million names; as objects of Python it takes some thirty times the memory.
MOST_FILE_BYTES = 1 << 25


@dataclass(frozen=True)
class Schema:
    """The public facts about a table: its features, its target and, if it is public, its number of rows.

    ``vouched_by`` names who says that these facts are public, and why; the privacy report shows it. ``format`` says how text
    files of such tables write their cells. ``one_row_per_person`` is True, or the name of the column that says whose row it
    is; None if nobody has stated it.

    Example
    -------
    >>> from dpforest import Categorical, Classes, Numeric
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
    format: Format = field(default_factory=Format)
    one_row_per_person: bool | str | None = None
    __repr__ = call

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping) or not self.features:
            raise SchemaError("Schema(features=...) needs a mapping from column name to Numeric, Categorical or Date.")
        for name, feature in self.features.items():
            if not isinstance(feature, Feature):
                given = _described(feature)
                raise SchemaError(f"Feature {name!r} must be Numeric(...), Categorical(...) or Date(...), not {given}.")
            if isinstance(feature, Categorical) and feature.learn and feature.categories:
                raise SchemaError(f"Feature {name!r} has a list of categories, so there is none to learn.")
        target, n_rows, stated = self.target, self.n_rows, self.one_row_per_person
        kinds = "Classes([...]) for classification or Bounded() for regression"
        _require(target, isinstance(target, Target), "target", kinds)
        for name in (*self.features, target.name):
            if not isinstance(name, str):
                raise SchemaError(f"A column name must be text, not {shown(name)}.")
        if target.name in self.features:
            raise SchemaError(f"Column {target.name!r} is declared both as a feature and as the target.")
        is_count = isinstance(n_rows, numbers.Integral) and not isinstance(n_rows, bool) and 0 <= n_rows < 1 << 63
        _require(n_rows, n_rows is None or is_count, "n_rows", "a whole number of 64 bits that is public, or None")
        _require(self.vouched_by, isinstance(self.vouched_by, str | None), "vouched_by", "text or None")
        _require(self.format, isinstance(self.format, Format), "format", "Format(...)")
        if stated is False:
            raise SchemaError(
                "one_row_per_person = false does not say whose rows they are. Name the column that does; if there is none, "
                "leave the entry out: then epsilon is for one row."
            )
        is_unit = stated is None or stated is True or (isinstance(stated, str) and stated != "")
        _require(stated, is_unit, "one_row_per_person", "True, the name of the column of ids, or None")
        if self.id_column in (*self.features, target.name):
            raise SchemaError(
                f"Column {self.id_column!r} says whose row it is (one_row_per_person), so it is neither a feature nor the "
                "target. Delete it there."
            )
        object.__setattr__(self, "features", MappingProxyType(dict(self.features)))

    @property
    def id_column(self) -> str | None:
        """The name of the column with the ids of persons, if the schema states it."""
        return self.one_row_per_person if isinstance(self.one_row_per_person, str) else None

    @property
    def n_features(self) -> int:
        return len(self.features)

    @cached_property
    def domains(self) -> dict[Any, Any]:
        """The domains that were made of the schema, by their grids."""
        return {}

    @property
    def learnt(self) -> tuple[str, ...]:
        """The names of the columns whose categories a fit has to learn."""
        return tuple(name for name, part in self.features.items() if isinstance(part, Categorical) and part.learn)

    def for_pandas(self) -> dict[str, Any]:
        """Arguments with which ``pandas.read_csv(path, **arguments)`` reads a text file as the command line does.

        Above all columns of text stay text: pandas would turn "01" into 1 and "TRUE" into True. The schema must name its
        columns without patterns, as that of a fitted model does.
        """
        parts: dict[str, Any] = {**self.features, self.target.name: self.target}
        listed = {name: getattr(part, "categories", getattr(part, "labels", ())) for name, part in parts.items()}
        no_text = {name for name, part in parts.items() if part.kind in ("numeric", "bounded")}
        no_text |= {name for name, own in listed.items() if own and not any(isinstance(value, str) for value in own)}
        dates = [name for name, part in parts.items() if part.kind == "date" and self.format.dates != Format.dates]
        words = {name: [*ALWAYS_MISSING, *self.format.missing, *self.format.missing_in.get(name, ())] for name in parts}
        return {
            "sep": self.format.separator,
            "encoding": self.format.encoding,
            "decimal": self.format.decimal,
            "thousands": self.format.thousands or None,
            "keep_default_na": False,
            "na_values": {name: [word for word in own if word not in listed[name]] for name, own in words.items()},
            "usecols": list(parts),
            "dtype": {name: str for name in parts if name not in no_text and name not in dates},
            "converters": dict.fromkeys(dates, self.format.iso_date),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        first, *rest = (getattr(self, each.name) for each in fields(self))
        return Schema, (dict(first), *rest)

    _repr_html_ = as_html

    def to_dict(self) -> dict[str, Any]:
        """The entries of a schema file, as plain values."""
        features = {name: feature.to_dict() for name, feature in self.features.items()}
        facts = {name: unboxed(getattr(self, name)) for name in FACTS}
        stated = {name: value for name, value in facts.items() if value is not None and (name, value) != FACTS_BY_DEFAULT}
        entries = self.format.to_dict()
        return {"features": features, "target": self.target.to_dict(), **stated} | ({"format": entries} if entries else {})

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Schema":
        """The schema with the entries of a schema file; raises ``SchemaError`` if they are not complete."""
        if not isinstance(content, Mapping) or not {"features", "target"} <= set(content):
            raise SchemaError("A schema file needs the entries 'features' and 'target'.")
        unknown = set(content) - {"features", "target", "format", *FACTS}
        if unknown:
            raise SchemaError(f"A schema file has no entry {sorted(unknown)[0]!r}.")
        if not isinstance(content["features"], Mapping):
            raise SchemaError("The entry 'features' of a schema file maps column names to their kind.")
        features = {str(name): _part(f"feature {name!r}", part) for name, part in content["features"].items()}
        target = _part("the target", content["target"])
        rest = {name: content[name] for name in FACTS if name in content}
        return cls(features, target, **rest, format=Format.from_dict(content.get("format", {})))

    @classmethod
    def from_file(cls, path: str | Path) -> "Schema":
        """The schema in a ``.json`` or ``.toml`` file; raises ``SchemaError`` for a draft that is not filled in."""
        content = read_schema_file(path)
        if open_entries := unfilled(content):
            raise SchemaError(
                f"The schema {path} is a draft: {len(open_entries)} of its entries are still {UNFILLED!r}, such as "
                f"{open_entries[0]}. Fill them in from what is public, not from the rows; 'dpforest schema check' lists all."
            )
        return cls.from_dict(content)

    def to_file(self, path: str | Path) -> None:
        """Write the schema to a ``.json`` or ``.toml`` file."""
        path, content = Path(path), self.to_dict()
        writers = {".json": json_text, ".toml": _toml_text}
        if path.suffix not in writers:
            raise SchemaError(f"A schema file ends in .json or .toml, not {path.suffix!r} ({path}).")
        _check_storable(content)
        try:
            write_whole(path, writers[path.suffix](content).encode("utf-8"))
        except (OutputError, UnicodeEncodeError) as error:
            raise SchemaError(f"The schema cannot be written to {path}: {error}") from None


def read_schema_file(path: str | Path) -> Any:
    """The entries of a ``.json`` or ``.toml`` file, unchecked."""
    return read_entries(path, "schema", MOST_FILE_BYTES, SchemaError)


# Entries that a draft may leave open. A "?" anywhere else is a value: a column or a single label may be called so.
_OPEN = ("kind", "lower", "upper", "integer", "categories", "labels")


def unfilled(content: Any) -> list[str]:
    """The names of entries of a schema file that a person still has to fill in, such as ``features.age.lower``."""
    if not isinstance(content, Mapping):
        return []
    features = content.get("features")
    parts = {"target": content.get("target")}
    parts |= {f"features.{name}": part for name, part in features.items()} if isinstance(features, Mapping) else {}
    found = [name for name in ("vouched_by", "one_row_per_person") if content.get(name) == UNFILLED]
    for where, part in parts.items():
        if isinstance(part, Mapping):
            names = ("name", *_OPEN) if part.get("kind") == UNFILLED else _OPEN
            found += [f"{where}.{name}" for name in names if part.get(name) == UNFILLED]
    return found


def _described(value: Any) -> str:
    """A part of a schema as an error may show it."""
    return repr(value) if isinstance(value, Feature | Target) else shown(value)


def _require(value: Any, holds: bool, name: str, wanted: str) -> None:
    if not holds:
        raise SchemaError(f"Schema({name}=...) must be {wanted}, not {_described(value)}.")


def _part(what: str, content: Any) -> Any:
    kind = content.get("kind") if isinstance(content, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"In the schema file, {what} needs a 'kind': one of {', '.join(KINDS)}.")
    arguments = {key: value for key, value in content.items() if key != "kind"}
    try:
        return KINDS[kind](**arguments)
    except TypeError:
        given = ", ".join(sorted(arguments)) or "none given"
        raise SchemaError(f"In the schema file, {what} of kind {kind!r} has missing or unknown entries: {given}.") from None


def _check_storable(values: Any) -> None:
    """Raise unless a file can hold the values as they are."""
    if isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            _check_storable(value)
    elif not (isinstance(values, str | bool | int) or (isinstance(values, float) and math.isfinite(values))):
        raise SchemaError("Only text, finite numbers and booleans can be categories or labels in a schema file.")


def json_text(content: Mapping[str, Any]) -> str:
    """The entries of a schema file as JSON in which every character can be seen."""
    return without_hidden(to_json(content, indent=1, ensure_ascii=False) + "\n", _json_escape)


def toml_value(value: Any) -> str:
    """A text, number, truth value, list or mapping as TOML writes it."""
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(name)} = {toml_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for how it writes characters beyond 16 bits.
        return without_hidden(json.dumps(value, ensure_ascii=False), _toml_escape)
    return repr(value)


def _json_escape(character: str) -> str:
    # A line break is one between entries. Half a character stays, so that the file is refused: TOML has none.
    if character == "\n" or "\ud800" <= character <= "\udfff":
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else json.dumps(character)[1:-1]


def _toml_escape(character: str) -> str:
    return _json_escape(character) if ord(character) < 1 << 16 else f"\\U{ord(character):08x}"


def toml_tables(
    content: Mapping[str, Any], comments: Callable[[Mapping[str, Any]], Iterable[str]] = lambda part: ()
) -> list[str]:
    """The lines of TOML for the format, the target and each feature, each followed by its comments."""
    tables = [("format", content["format"])] if "format" in content else []
    tables += [("target", content["target"])]
    tables += [(f"features.{toml_value(name)}", part) for name, part in content["features"].items()]
    lines: list[str] = []
    for header, part in tables:
        lines += ["", f"[{header}]", *(f"{key} = {toml_value(value)}" for key, value in part.items()), *comments(part)]
    return lines


def _toml_text(content: dict[str, Any]) -> str:
    lines = [f"{name} = {toml_value(content[name])}" for name in FACTS if name in content]
    return "\n".join(lines + toml_tables(content)).lstrip("\n") + "\n"
