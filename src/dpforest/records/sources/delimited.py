"""Text files with a separator between cells, such as CSV, read in blocks. Sees rows.

Cells are handed on as text: what a cell stands for is said by the schema, see ``records/text.py``.
"""

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv

from dpforest.errors import TableError
from dpforest.records.source import Tell, each_once, lacking_column
from dpforest.records.sources.packed import in_utf_8, unpacked
from dpforest.schema import Format

# A file is read in blocks of PART_BYTES. Where a row does not fit, blocks grow to MOST_BYTES, which Arrow can address.
PART_BYTES = 1 << 24
MOST_BYTES = 1 << 30
GROWTH = 8
TOO_LONG = "straddling"  # the beginning of Arrow's error if a row is longer than a block
WELL_FORMED = "every row must have as many cells as there are names, and every quote must be closed"
CHECK = "'dpforest schema check SCHEMA --table FILE' names the line."
SEPARATORS = (",", ";", "\t", "|")
BYTE_ORDER_MARK = "\ufeff".encode().decode("latin-1")


@dataclass(frozen=True)
class Delimited:
    """The cells of a text file. With ``names_lines`` errors name the line to blame: only for whoever holds the table."""

    path: Path
    format: Format
    names_lines: bool = False
    has_names: ClassVar[bool] = True

    def names(self) -> list[str]:
        """The names in the first line; rows are not looked at: they must not decide whether names can be read."""
        with self._refusals():
            line, _ = self._first_line()
            try:
                whole = pyarrow.csv.ReadOptions(block_size=len(line))
                # A buffer of Arrow's own: a thread frees one of Python's, which crashes a process that is ending meanwhile.
                names = list(pyarrow.csv.read_csv(pa.BufferReader(line), whole, self._parsing()).column_names)
            except UnicodeDecodeError:
                raise TableError(
                    f"The names of columns in {self.path} are no text. {self.hint()} Another encoding is, for example, "
                    "--encoding windows-1252."
                ) from None
        return each_once(names, self.path)

    def lacks(self, wanted: list[str]) -> str | None:
        lacking = lacking_column(wanted, self.names(), self.path)
        return None if lacking is None else f"{lacking} {self.hint()}"

    def hint(self) -> str:
        """How the file was read, and what to pass where its first bytes, or its line of names, suggest something else."""
        return f"It was read by {self.format.in_words}.{self._suggestion()}"

    def _suggestion(self) -> str:
        """A sentence after a blank, from the names alone, which are public; "" if there is nothing to suggest."""
        try:
            line = self._first_line()[0].decode("latin-1")
            with unpacked(self.path) as (stream, _):
                is_utf_16 = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            counts = {each: len(next(csv.reader([line], delimiter=each), [])) for each in SEPARATORS}
        except (OSError, pa.ArrowException, csv.Error):
            return ""
        if is_utf_16 and not self.format.encoding.startswith("utf-16"):
            return " It begins with the mark of UTF-16: pass --encoding utf-16."
        best = max(counts, key=lambda each: counts[each])
        if counts[best] <= counts.get(self.format.separator, 1):
            return ""
        shown = {"\t": "tab"}.get(best, best)
        return f" By {shown!r} its first line has {counts[best]} names: pass --sep {shown!r}."

    def batches(self, wanted: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
        """Some rows at a time, as text. Where a row is longer than a block, the file is read again in larger blocks.

        How long a cell is must not decide whether a file can be read, nor which rows are yielded.
        """
        n_yielded, block_size = 0, PART_BYTES
        with self._refusals():
            if not self._first_line()[1]:
                return
            while True:
                n_read = 0
                try:
                    for batch in self._blocks(wanted, block_size, tell):
                        n_read += batch.num_rows
                        if n_read > n_yielded:
                            fresh, n_yielded = batch.slice(batch.num_rows - (n_read - n_yielded)), n_read
                            yield fresh
                    return
                except pa.ArrowInvalid as error:
                    block_size *= GROWTH
                    if not str(error).startswith(TOO_LONG) or block_size > MOST_BYTES:
                        raise

    def _blocks(self, wanted: list[str], block_size: int, tell: Tell) -> Iterator[pa.RecordBatch]:
        n_bytes = self.path.stat().st_size
        with self._stream() as (stream, file):
            options = pyarrow.csv.ReadOptions(block_size=block_size)
            with pyarrow.csv.open_csv(_LineEnds(stream), options, self._parsing(), _as_text(wanted)) as reader:
                for batch in reader:
                    tell(file.tell() / n_bytes)
                    yield batch

    def _parsing(self) -> pyarrow.csv.ParseOptions:
        # A line break in quotes does not end a row, also where a block ends.
        return pyarrow.csv.ParseOptions(delimiter=self.format.separator, newlines_in_values=True)

    @contextmanager
    def _stream(self) -> Iterator[tuple[Any, pa.NativeFile]]:
        """A stream of the text of the file in UTF-8, and the file itself, which tells the progress."""
        with unpacked(self.path) as (stream, file):
            yield in_utf_8(stream, self.format.encoding), file

    def _first_line(self) -> tuple[bytes, bool]:
        """The line that has the names of columns, with a line break, in UTF-8; and whether anything follows."""
        lines = []

        def read(text: io.TextIOWrapper) -> Iterator[str]:
            for line in text:
                lines.append(line)
                yield line.removeprefix(BYTE_ORDER_MARK)

        with self._stream() as (stream, _):
            # One character a byte, so that nothing fails; a name may have line breaks in quotes.
            text = io.TextIOWrapper(stream, "latin-1", newline="")
            try:
                next((row for row in csv.reader(read(text), delimiter=self.format.separator) if row), None)
            except csv.Error:
                raise pa.ArrowInvalid("no header") from None
            return ("".join(lines) + "\n").encode("latin-1"), bool(text.read(1))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn what a reader raises into a ``TableError``: its own message would quote a row."""
        try:
            yield
        except FileNotFoundError:
            raise TableError(f"There is no file {self.path}.") from None
        except OSError as error:
            raise TableError(f"{self.path} cannot be read: {error.strerror or 'it is damaged'}.") from None
        except pa.ArrowException:
            line = self._odd_line() if self.names_lines else f" {CHECK}"
            raise TableError(
                f"{self.path} is not a well-formed text file ({self.format.in_words}): {WELL_FORMED}.{line}"
                f"{self._suggestion()}"
            ) from None

    def _odd_line(self) -> str:
        """A sentence, after a blank, about the first row that has another number of cells than there are names; else ""."""
        with self._stream() as (stream, _):
            rows = csv.reader(io.TextIOWrapper(stream, "latin-1", newline=""), delimiter=self.format.separator)
            n_names, begins = 0, 1
            try:
                for row in rows:
                    n_names = n_names or len(row)
                    if row and len(row) != n_names:
                        return f" The row that begins in line {begins} has {len(row)} cells, and there are {n_names} names."
                    begins = rows.line_num + 1
            except csv.Error:
                return f" The row that begins in line {begins} cannot be read; is one of its quotes not closed?"
        return "" if n_names else " There is no line with names."


class _LineEnds(io.RawIOBase):
    """A stream of which no block ends between the two characters of a line end.

    Arrow would take the second for a part of that end, and drop it also in a cell in quotes: how a record is read would
    depend on how long the rows before it are.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._held = stream, b""

    def readable(self) -> bool:
        return True

    def read(self, n_bytes: int = -1) -> bytes:
        block = self._held + self._stream.read(n_bytes - len(self._held))
        self._held = b"\r" if len(block) > 1 and block.endswith(b"\r") else b""
        return block[: len(block) - len(self._held)]


def _as_text(wanted: list[str]) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in wanted},
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
        check_utf8=False,  # a cell that is no text concerns its own record only
    )
