"""Drafts of a schema: names and kinds of columns, with what only a person can know left open. Public values only.

A draft never holds a value of the table. Bounds and categories that are read off the rows would reveal rows: the largest
income in a table is somebody's.
"""

from collections.abc import Mapping
from typing import Any

from dpforest.common.jsonable import to_json
from dpforest.schema import UNFILLED, toml_tables, toml_value

KINDS = ("number", "whole", "text")
WHY = """\
# A draft: every "?" is for you to fill in, from what is known before anyone looks at the rows (the questionnaire, the
# code book, the law). Do not take it from the rows: the largest value of a column is somebody's.
# Delete columns that the model shall not use. Then: dpforest schema check FILE
"""
HINTS = {
    "numeric": "least and greatest value that is possible; values outside are clipped",
    "categorical": 'every value that is possible, as ["a", "b"]; anything else counts as "other"',
    "classes": 'every label that is possible, as ["no", "yes"]; records with others are left out',
    "bounded": 'least and greatest value that is possible; or, for classes: kind = "classes", labels = [...]',
    UNFILLED: 'the column to predict; "classes" with labels = [...], or "bounded" with lower and upper',
}


def draft(kinds: Mapping[str, str], target: str | None) -> dict[str, object]:
    """The entries of a schema file, for columns by name with their kind; what a person has to fill in is ``UNFILLED``."""
    features = {name: _feature(kind) for name, kind in kinds.items() if name != target}
    if target is None:
        answer: dict[str, object] = {"name": UNFILLED, "kind": UNFILLED}
    elif kinds[target] == "text":
        answer = {"name": target, "kind": "classes", "labels": UNFILLED}
    else:
        answer = {"name": target, "kind": "bounded", "lower": UNFILLED, "upper": UNFILLED}
    return {"vouched_by": UNFILLED, "target": answer, "features": features}


def _feature(kind: str) -> dict[str, object]:
    if kind == "text":
        return {"kind": "categorical", "categories": UNFILLED}
    # Only a type says that all values are whole, whatever the rows hold.
    return {"kind": "numeric", "lower": UNFILLED, "upper": UNFILLED, "integer": True if kind == "whole" else UNFILLED}


def toml_draft(content: Mapping[str, Any]) -> str:
    """The draft as TOML text, with comments that say what belongs to each entry."""
    lines = [
        WHY,
        f"vouched_by = {toml_value(content['vouched_by'])}  # who says that these facts are public, and why",
        "# n_rows = ...  # only if the number of rows is public",
        *toml_tables(content, lambda part: f"  # {HINTS[part['kind']]}"),
    ]
    return "\n".join(lines) + "\n"


def json_draft(content: Mapping[str, Any]) -> str:
    """The draft as JSON text, without comments since JSON has none."""
    return to_json(content, indent=1, ensure_ascii=False) + "\n"
