"""The schema: what is public about a table before anyone looks at it. Public values only.

Bounds, categories, classes and target range come from here and never from rows.
"""

import json
import math
import numbers
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dpforest.common.files import read_whole, write_whole
from dpforest.common.jsonable import to_json
from dpforest.errors import OutputError, SchemaError, shown
from dpforest.schema.kinds import KINDS, Categorical, Feature, Target

# Stands in a draft for what a person has to fill in.
UNFILLED = "?"
# A list of a million names; as objects of Python it takes some thirty times the memory.
MOST_FILE_BYTES = 1 << 25


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise SchemaError(f"A column name must be text, not {shown(name)}.")


@dataclass(frozen=True)
class Schema:
    """The public facts about a table: its features, its target and, if it is public, its number of rows.

    ``vouched_by`` names who says that these facts are public, and why; the privacy report shows it.

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

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping) or not self.features:
            raise SchemaError("Schema(features=...) needs a mapping from column name to Numeric, Categorical or Date.")
        for name, feature in self.features.items():
            _check_name(name)
            if not isinstance(feature, Feature):
                raise SchemaError(
                    f"Feature {name!r} must be Numeric(...), Categorical(...) or Date(...), not {_described(feature)}."
                )
            if isinstance(feature, Categorical) and feature.learn and feature.categories:
                raise SchemaError(f"Feature {name!r} has a list of categories, so there is none to learn.")
        if not isinstance(self.target, Target):
            raise SchemaError(
                f"Schema(target=...) must be Classes([...]) for classification or Bounded() for "
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

    @cached_property
    def domains(self) -> dict[Any, Any]:
        """The domains that were made of the schema, by their grids."""
        return {}

    @property
    def learnt(self) -> tuple[str, ...]:
        """The names of the columns whose categories a fit has to learn."""
        return tuple(name for name, part in self.features.items() if isinstance(part, Categorical) and part.learn)

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
    return repr(value) if isinstance(value, Feature | Target) else shown(value)


def _part(what: str, content: Any) -> Any:
    kind = content.get("kind") if isinstance(content, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"In the schema file, {what} needs a 'kind': one of {', '.join(KINDS)}.")
    arguments = {key: value for key, value in content.items() if key != "kind"}
    try:
        return KINDS[kind](**arguments)
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


def toml_tables(
    content: Mapping[str, Any], comments: Callable[[Mapping[str, Any]], Iterable[str]] = lambda part: ()
) -> list[str]:
    """The lines of TOML for the target and each feature, with the comments on each below it."""
    tables = [("target", content["target"])]
    tables += [(f"features.{toml_value(name)}", part) for name, part in content["features"].items()]
    lines: list[str] = []
    for header, part in tables:
        lines += ["", f"[{header}]", *(f"{key} = {toml_value(value)}" for key, value in part.items()), *comments(part)]
    return lines


def _toml_text(content: dict[str, Any]) -> str:
    _check_storable(content)
    lines = [f"{name} = {toml_value(content[name])}" for name in ("n_rows", "source", "vouched_by") if name in content]
    return "\n".join(lines + toml_tables(content)).lstrip("\n") + "\n"
