"""Counts of the values of each column that a fit can use, for whoever holds the table. Sees rows.

Privacy: none. The counts are exact, and near misses are values of the rows: only the table's holder may see them.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.errors import TableError
from dpforest.records.categories import category_codes
from dpforest.records.columns import distinct, read_columns, to_numbers
from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.records.source import Chunk
from dpforest.records.text import PLAIN, count_missing
from dpforest.schema import SECONDS_OF_DAY, Bounded, Categorical, Classes, Date, Feature, Format, Numeric, Schema
from dpforest.schema.format import THOUSANDS

# The number of near misses of a column that are shown, the most frequent first.
MOST_NEAR = 5


@dataclass
class Reading:
    """How many values of a column a fit can use. ``problem`` says why it would refuse the column because of its type."""

    name: str
    feature: Feature
    # By "fits", "beyond", "missing" and "unreadable"; by "groups" those that fit or lie beyond, with odd marks of thousands.
    counts: Counter[str] = field(default_factory=Counter)
    near: Counter[tuple[str, str]] = field(default_factory=Counter)  # by value and the listed one that it nearly matches
    problem: str | None = None

    def add(self, column: Any, written: Any, format: Format) -> None:
        """Add the values of some more rows to the counts, given as they are read, and as they are written by a format."""
        try:
            (values,) = read_columns(pa.table({self.name: column}), _alone(self.name, self.feature))
        except TableError as error:
            self.problem = str(error)
            return
        if isinstance(self.feature, Date):
            self._add_dates(to_seconds(values), self.feature, column.null_count)
            return
        # Text that is no number was read as missing, and text that is not UTF-8 as a value that is not listed.
        n_undecodable = _count_undecodable(column)
        n_missing = count_missing(written, self.name, self.feature, format)
        n_unreadable = max(column.null_count - n_missing, 0) + n_undecodable
        if not isinstance(self.feature, Categorical):
            numbers = to_numbers(values).astype(np.float64)
            lower, upper = self.feature.range
            n_known = np.count_nonzero(~np.isnan(numbers))
            n_fit = np.count_nonzero((numbers >= lower) & (numbers <= upper))
            self.counts["groups"] += _count_odd_groups(written, format)
        else:
            codes, n_values = category_codes(values, self.feature), self.feature.n_values
            n_known, n_fit = np.count_nonzero(codes <= n_values), np.count_nonzero(codes < n_values)
            self._find_near(values)
        self.counts["fits"] += int(n_fit)
        self.counts["beyond"] += int(n_known - n_fit) - n_undecodable
        self.counts["unreadable"] += n_unreadable
        self.counts["missing"] += max(len(column) - int(n_known) - (n_unreadable - n_undecodable), 0)

    def _add_dates(self, seconds: np.ndarray, feature: Date, n_missing: int) -> None:
        (lower, upper), unit = feature.range, 1 if feature.time else SECONDS_OF_DAY
        known = seconds[seconds != NO_DATE] // unit
        n_fit = int(np.count_nonzero((known >= lower) & (known <= upper)))
        n_unreadable = len(seconds) - len(known) - n_missing
        counts = {"fits": n_fit, "beyond": len(known) - n_fit, "missing": n_missing, "unreadable": n_unreadable}
        self.counts.update(counts)

    def _find_near(self, values: Any) -> None:
        """Add to the near misses: texts that match a listed one apart from blanks, case, or how a number is written."""
        assert isinstance(self.feature, Categorical)
        listed = {label for label in self.feature.categories if isinstance(label, str)}
        loosely = {_loosely(label): label for label in listed}
        found, inverse = distinct(values)
        for value, count in zip(found, np.bincount(inverse, minlength=len(found)).tolist(), strict=True):
            if count and isinstance(value, str) and value not in listed and _loosely(value) in loosely:
                self.near[value, loosely[_loosely(value)]] += count

    def to_dict(self) -> dict[str, Any]:
        """The counts and near misses of the column as plain values, ready for JSON."""
        fits, beyond = ("listed", "other") if isinstance(self.feature, Categorical) else ("within", "outside")
        names = {"fits": fits, "beyond": beyond, "missing": "missing", "unreadable": "unreadable"}
        counts = {shown: self.counts[name] for name, shown in names.items()}
        near = [
            {"value": value, "would_match": label, "values": count}
            for (value, label), count in self.near.most_common(MOST_NEAR)
        ]
        found = {"near": near, "odd_groups": self.counts["groups"], "problem": self.problem}
        return {"name": self.name, "kind": self.feature.kind, **counts, **found}


def count_readable(
    chunks: Iterable[tuple[Chunk, Chunk]], schema: Schema, format: Format = PLAIN
) -> tuple[int, list[Reading]]:
    """The number of rows, and a reading of each feature and the target.

    Each chunk comes twice: as the schema reads it, and as it is written; see ``as_written``. ``format`` is that of text.
    """
    target = schema.target
    as_feature = Categorical(target.labels) if isinstance(target, Classes) else Numeric(target.lower, target.upper)
    readings = [*(Reading(name, part) for name, part in schema.features.items()), Reading(target.name, as_feature)]
    n_rows = 0
    for (features, labels, _), (written, written_labels, _) in chunks:
        assert labels is not None
        assert written_labels is not None
        n_rows += len(labels)
        for reading in readings[:-1]:
            reading.add(features.column(reading.name), written.column(reading.name), format)
        readings[-1].add(labels, written_labels, format)
    return n_rows, readings


def as_written(schema: Schema) -> Schema:
    """A schema of the same columns for text and numbers alike, so that neither is converted."""
    either = ["\0", 0]
    return Schema(dict.fromkeys(schema.features, Categorical(either)), Classes(either, name=schema.target.name))


def _count_odd_groups(written: Any, format: Format) -> int:
    """The number of texts in which a mark of thousands is not followed by three digits: it may be the decimal mark."""
    if not format.thousands or not pa.types.is_string(written.type):
        return 0
    marks = f"[{re.escape(THOUSANDS[format.thousands])}]"
    odd = pc.match_substring_regex(written.cast(pa.binary()), rf"[0-9]{marks}(?:[0-9]{{0,2}}(?:[^0-9]|$)|[0-9]{{4}})")
    return pc.sum(odd).as_py() or 0


def _count_undecodable(column: pa.ChunkedArray) -> int:
    """The number of texts that are not in UTF-8; the cells of a CSV file are not checked when they are read."""
    if not pa.types.is_string(column.type):
        return 0
    try:
        column.validate(full=True)
        return 0
    except pa.ArrowInvalid:
        return sum(cell is not None and not _is_text(cell) for cell in column.cast(pa.binary()).to_pylist())


def _is_text(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _alone(name: str, feature: Feature) -> Schema:
    """A schema with this feature only."""
    return Schema({name: feature}, Bounded(0, 1, name=f"not {name}"))


def _loosely(text: str) -> str:
    """The text without blanks around it, in lower case, and a number in its usual form: equal for near misses."""
    plain = text.strip().casefold()
    try:
        return repr(float(plain))
    except ValueError:
        return plain
