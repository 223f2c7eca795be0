"""Drafts of a schema: names and kinds of columns, with what only a person can know left open. Public values only.

A draft never holds a value of the table. Bounds and categories that are read off the rows would reveal rows: the largest
income in a table is somebody's. They are not needed either; where they are known, they make the model better.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dpforest.schema.format import Format
from dpforest.schema.patterns import ANY, matches
from dpforest.schema.schema import UNFILLED, toml_tables, toml_value

# Kinds of columns that have no place in a schema, and those that can be predicted.
UNUSABLE = "other"
PREDICTED = ("number", "whole", "text", "truth")
ENTRIES: dict[str, dict[str, object]] = {
    "number": {"kind": "numeric"},
    "whole": {"kind": "numeric", "integer": True},  # only a type says that all values are whole, whatever the rows hold
    "text": {"kind": "categorical"},
    "truth": {"kind": "categorical", "categories": [False, True]},  # the type tells the whole list
    "date": {"kind": "date"},
    "time": {"kind": "date", "time": True},
}
# In a table with more columns than MOST_NAMED, at least LEAST_ALIKE with one beginning and one kind become a pattern.
MOST_NAMED = 100
LEAST_ALIKE = 10
# The beginning of a name: up to its first underscore, else what is before a number at its end.
BEGINNING = re.compile(r"[^_*]+_|[^*]+?(?=[0-9]+$)")

WHY = """\
# A draft: names and kinds of columns, and no value of the table.
#
# To do: fill in each "?". Delete columns that the model shall not use, such as names and numbers of persons. Look at each
# kind: a CSV has no types, so there it is a guess from the first rows. Numbers that are codes, such as postal regions, are
# of the kind "categorical". Then: dpforest schema check FILE
#
# The rest may stay as it is. Entries behind a "#" make the model better, where they are known before anyone looks at the
# rows: from the questionnaire, the code book or the law. Do not take them from the rows: the largest value of a column is
# somebody's.
"""
STAR = """\
#
# A name with * stands for all columns with such names that are not named otherwise.
"""
UNIT = "true; or, if a person may have several rows, the name of the column that says whose they are"
BOUNDS = ("# lower = ...", "# upper = ...")
LABELS = '# every label that is possible, as ["no", "yes"]; records with others are left out'
WHOLE = "# integer = true  # if only whole numbers are possible"
CATEGORIES = (
    '# categories = ["...", "..."]  # all that are possible; any other value counts as "other"',
    "# learn = true  # or pay for a list of the common ones, where delta is above 0",
)
FORMAT = """
[format]
# How the file writes its cells, as its first rows suggest it; please look. Words such as NA and NULL are always missing."""
ABOUT_FORMAT = {
    "separator": "what stands between cells",
    "encoding": "how characters are stored",
    "decimal": "the decimal mark of numbers",
    "thousands": "what stands between thousands",
    "dates": "the order of day, month and year in dates such as 31.12.2024; ISO 8601 is always read",
    "missing": "words that stand for missing; a category or label that is listed does not",
    "missing_in": "numbers that stand for missing in a column: a guess, since they are frequent and far from the others",
}
CLASSES = ('# or, if the numbers are labels: kind = "classes" and labels = [0, 1]',)
ANY_TARGET = (
    '# the column to predict: "classes" and labels = ["no", "yes"] with all that are possible; or "bounded", for a number',
)


def draft(
    kinds: Mapping[str, str], target: str | None, format: Format | None = None, with_patterns: bool = True
) -> dict[str, Any]:
    """The entries of a schema file for columns of given kinds; open entries are ``UNFILLED``."""
    columns = {name: kind for name, kind in kinds.items() if name != target and kind != UNUSABLE}
    features = {name: ENTRIES[kind] for name, kind in (_by_patterns(columns) if with_patterns else columns).items()}
    own: dict[str, object] = {"name": UNFILLED if target is None else target, "kind": UNFILLED}
    if target is not None and kinds[target] in ("number", "whole"):
        own["kind"] = "bounded"
    elif target is not None:
        own |= {"kind": "classes", "labels": [False, True] if kinds[target] == "truth" else UNFILLED}
    content = {"vouched_by": UNFILLED, "one_row_per_person": UNFILLED, "target": own, "features": features}
    entries = {} if format is None else format.to_dict()
    return content | {"format": entries} if entries else content


def _by_patterns(kinds: dict[str, str]) -> dict[str, str]:
    """The kinds of columns by name, or by pattern where a table has many columns whose names begin alike."""
    if len(kinds) <= MOST_NAMED:
        return kinds
    alike: dict[str, Counter[str]] = {}
    for name, kind in kinds.items():
        if begins := BEGINNING.match(name):
            alike.setdefault(begins[0] + ANY, Counter())[kind] += 1
    # A pattern has the kind that most of its columns have; the others are named, and names win over patterns. The longest
    # pattern, which says most, is the first, and so has the columns that several match.
    commonest = {pattern: alike[pattern].most_common(1)[0] for pattern in sorted(alike, key=len, reverse=True)}
    patterns = {pattern: kind for pattern, (kind, n_columns) in commonest.items() if n_columns >= LEAST_ALIKE}
    by_pattern = {name: next((kind for each, kind in patterns.items() if matches(each, name)), "") for name in kinds}
    return patterns | {name: kind for name, kind in kinds.items() if by_pattern[name] != kind}


def toml_draft(content: Mapping[str, Any]) -> str:
    """The draft as TOML text, with comments that explain each entry and possible additions."""
    has_pattern = any(ANY in name for name in content["features"])
    entries = content.get("format", {})
    lines = [
        WHY + (STAR if has_pattern else ""),
        f"vouched_by = {toml_value(content['vouched_by'])}  # who says that these facts are public, and why",
        f"one_row_per_person = {toml_value(content['one_row_per_person'])}  # {UNIT}",
        "# n_rows = ...  # only if the number of rows is public",
        *([FORMAT] if entries else []),
        *(f"{name} = {toml_value(value)}  # {ABOUT_FORMAT[name]}" for name, value in entries.items()),
        *toml_tables({name: part for name, part in content.items() if name != "format"}, _comments),
    ]
    return "\n".join(lines) + "\n"


def _comments(part: Mapping[str, Any]) -> tuple[str, ...]:
    """Comments below an entry of the draft: what is to be filled in, and what could be added."""
    if part["kind"] == UNFILLED:
        return ANY_TARGET
    if part["kind"] == "classes":
        return (LABELS,) if part["labels"] == UNFILLED else ()
    if part["kind"] == "categorical":
        return () if "categories" in part else CATEGORIES
    if part["kind"] == "bounded":
        return (*BOUNDS, *CLASSES)
    return BOUNDS if part["kind"] == "date" or "integer" in part else (*BOUNDS, WHOLE)
