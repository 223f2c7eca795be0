"""The reader of tables whose cells are text, in whatever kind of file: the schema says what a cell is. Sees rows."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.source import Asked, Chunk, Progress, Source, Tell, silent, telling
from dpforest.records.text import kind_of_texts, read_cells
from dpforest.schema import Format

# A draft looks at this many rows.
DRAFT_ROWS = 1000


@dataclass(frozen=True)
class TextTable(Source):
    """A file of text cells, read by the declared format."""

    path: Path
    format: Format
    typed = False

    @abstractmethod
    def hint(self) -> str:
        """How the file was read, and what to try if columns are not there."""

    @abstractmethod
    def batches(self, wanted: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
        """Some rows of some columns at a time, as text; null where a cell is empty."""

    def first_rows(self) -> pa.Table:
        """Some rows as text, for a draft."""
        names = self.names()
        first = next(self.batches(names, lambda share: None), None)
        return _text(names).empty_table() if first is None else pa.Table.from_batches([first.slice(0, DRAFT_ROWS)])

    def kinds(self) -> dict[str, str]:
        """The kind of each column, a guess from the first rows."""
        rows = self.first_rows()
        return {name: kind_of_texts(rows.column(name), name, self.format) for name in rows.column_names}

    def guessed(self) -> list[str]:
        return self.names()

    def empty(self, asked: Asked) -> Chunk:
        given = self.public_names()
        lacking = next((name for name in asked.columns if given is not None and name not in given), None)
        if lacking is not None:
            names = ", ".join(given or ())
            raise TableError(f"Column {lacking!r} is missing from {self.path}; it has {names}. {self.hint()}")
        return self._chunk(asked, _text(asked.columns).empty_table())

    def _batch(self, rows: Sequence[Mapping[Any, Any]], keys: Mapping[str, Any]) -> pa.RecordBatch:
        """The texts of values by their ``keys``, null where one is missing or empty; what is no text stays so."""
        columns = []
        for key in keys.values():
            cells = [cell_text(row.get(key), self.format.decimal) or None for row in rows]
            columns.append(pa.array(cells, pa.binary()).view(pa.string()))  # not checked, as cells of a CSV file are not
        return pa.RecordBatch.from_arrays(columns, [*keys])

    def _chunk(self, asked: Asked, rows: pa.Table) -> Chunk:
        return asked.chunk(read_cells(rows, asked.schema, self.format))

    def chunks(self, asked: Asked, progress: Progress = silent) -> Iterator[Chunk]:
        """Some rows at a time, with numbers where the schema has numbers; see ``Source``."""
        nothing, is_empty = self.empty(asked), True
        with telling(progress) as tell:
            for batch in self.batches(asked.columns, tell):
                is_empty = False
                yield self._chunk(asked, pa.Table.from_batches([batch]))
        if is_empty:
            yield nothing


def _text(names: Sequence[str]) -> Any:
    return pa.schema([(name, pa.string()) for name in names])


# Bytes that are no text in UTF-8, as a damaged cell of a CSV file has them.
NO_TEXT = b"\xff"
MOST_DIGITS = 1e18  # whole floats from here on are written with an exponent


def cell_text(value: Any, decimal: str = ".") -> bytes | None:
    """The text of a cell in UTF-8, None if it is missing, by one public rule for workbooks, JSON lines and value labels.

    Text is itself, a whole number its digits (17 and 17.0 are "17"), another number its shortest digits with the decimal
    mark of the format, truth values "true" and "false", dates as ISO 8601 writes them. Nothing and NaN are missing. Whatever
    else, such as a list, has no text: it counts as "other" among categories, as missing among numbers.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return _digits(value, decimal)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    return value.isoformat().encode() if isinstance(value, date | time) else NO_TEXT


def _digits(number: float, decimal: str) -> bytes | None:
    if isinstance(number, float):
        if math.isnan(number):
            return None
        if not (number.is_integer() and abs(number) < MOST_DIGITS):
            return repr(number).replace(".", decimal).encode()
    return str(int(number)).encode()
