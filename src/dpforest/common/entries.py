"""Small files that people write, in TOML or JSON. Public values only."""

import json
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from dpforest.common.files import read_whole
from dpforest.errors import DPForestError, OutputError


def read_entries(path: str | Path, what: str, most_bytes: int, error: type[DPForestError]) -> Any:
    """The entries of a ``.json`` or ``.toml`` file, unchecked; ``error`` is raised if the ``what`` file cannot be read."""
    path = Path(path)
    parsers: dict[str, Any] = {".json": partial(json.loads, object_pairs_hook=_without_repeats), ".toml": tomllib.loads}
    if path.suffix not in parsers:
        raise error(f"A {what} file ends in .json or .toml, not {path.suffix!r} ({path}).")
    try:
        return parsers[path.suffix](_text(read_whole(path, most_bytes)))
    except OSError as found:
        raise error(f"The {what} file {path} cannot be read: {found.strerror}.") from None
    except OutputError as found:
        raise error(f"The {what} file cannot be read: {found}") from None
    except (ValueError, RecursionError) as found:
        hint = ' Text stands in quotes, as in labels = ["no", "yes"].' if path.suffix == ".toml" else ""
        raise error(f"The {what} file {path} is not valid {path.suffix[1:].upper()}: {found}.{hint}") from None


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
