"""Files with a JSON object in each line, whose values become text. Sees rows.

A line is a record whatever stands in it: one that is no object has missing values only. The schema names the columns, and a
key that a record lacks is a missing cell. Names for drafts and checks are the keys of the first line.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.source import Tell
from dpforest.records.sources.cells import text_column
from dpforest.records.sources.packed import in_utf_8, unpacked
from dpforest.schema import Format

JSON_LINES = (".jsonl", ".ndjson", ".json")
# A part has no more rows or, but for its last one, bytes. Of a longer line no more than its beginning is looked at, which is
# no object: how long a record is must not decide whether others can be read.
PART_ROWS, PART_BYTES, MOST_BYTES = 1 << 14, 1 << 24, 1 << 26
# Python takes no more digits for a whole number, so that one with more is read as a float.
MOST_DIGITS = 4000


@dataclass(frozen=True)
class JsonLines:
    """The values of JSON objects, one in each line that is not empty."""

    path: Path
    format: Format
    has_names: ClassVar[bool] = False

    def names(self) -> list[str]:
        first = next(map(_record, self._lines(lambda share: None)), None)
        if not first:
            raise TableError(f"{self.path} has no JSON object in its first line, whose keys are the names of its columns.")
        return list(first)

    def lacks(self, wanted: list[str]) -> str | None:
        """None: which keys the first records have must not decide whether others are read."""
        return None

    def hint(self) -> str:
        return "The keys of the first line were taken as the names."

    def batches(self, wanted: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        n_bytes = 0
        for line in self._lines(tell):
            rows.append(_record(line))
            n_bytes += len(line)
            if len(rows) == PART_ROWS or n_bytes >= PART_BYTES:
                yield self._batch(rows, wanted)
                rows, n_bytes = [], 0
        if rows:
            yield self._batch(rows, wanted)

    def _batch(self, rows: list[dict[str, Any]], wanted: list[str]) -> pa.RecordBatch:
        columns = [text_column((own.get(name) for own in rows), self.format.decimal) for name in wanted]
        return pa.RecordBatch.from_arrays(columns, wanted)

    def _lines(self, tell: Tell) -> Iterator[bytes]:
        """The lines that are not empty, each with at most ``MOST_BYTES``."""
        try:
            n_bytes = max(self.path.stat().st_size, 1)
            with unpacked(self.path) as (stream, file):
                content, is_new = io.BufferedReader(in_utf_8(stream, self.format.encoding)), True
                for number, line in enumerate(iter(lambda: content.readline(MOST_BYTES), b"")):
                    if is_new and line.strip():
                        yield line
                    is_new = line.endswith(b"\n")
                    if number % PART_ROWS == 0:
                        tell(file.tell() / n_bytes)
        except FileNotFoundError:
            raise TableError(f"There is no file {self.path}.") from None
        except (OSError, pa.ArrowException):
            raise TableError(f"{self.path} cannot be read: it is damaged.") from None


def _record(line: bytes) -> dict[str, Any]:
    """The object in a line; none of its values if it has no object."""
    try:
        # Bytes that are no UTF-8 stay in the value that they stand in.
        found = json.loads(line.decode("utf-8", "surrogateescape").removeprefix("\ufeff"), parse_int=_whole)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _whole(digits: str) -> float:
    return int(digits) if len(digits) < MOST_DIGITS else float(digits)
