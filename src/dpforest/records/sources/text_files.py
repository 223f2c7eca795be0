"""Text files, which may be packed: with a separator between cells, such as CSV, or a JSON object in each line. Sees rows.

Cells are handed on as text: what a cell stands for is said by the schema, see ``records/text.py``.
"""

import codecs
import csv
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from dpforest.errors import TableError
from dpforest.records.source import Tell, each_once
from dpforest.records.sources.cells import TextTable

PACKED = (".gz", ".bz2", ".zst", ".lz4", ".zip")
# What a Mac adds to an archive beside the files that somebody chose.
NOT_CHOSEN = ("__MACOSX/",)
LOCKED = 1  # the flag of a file that needs a password
# A file is read in blocks of PART_BYTES. Where a row does not fit, blocks grow to MOST_BYTES, which Arrow can address.
PART_BYTES = 1 << 24
MOST_BYTES = 1 << 30
GROWTH = 8
TOO_LONG = "straddling"  # the beginning of Arrow's error if a row is longer than a block
WELL_FORMED = "every row must have as many cells as there are names, and every quote must be closed"
CHECK = "'dpforest schema check SCHEMA --table FILE' names the line."
SEPARATORS = (",", ";", "\t", "|")
BYTE_ORDER_MARK = "\ufeff".encode().decode("latin-1")
JSON_LINES = (".jsonl", ".ndjson", ".json")
# JSON lines are read in parts of so many rows or, but for the last one, PART_BYTES. Of a longer line no more than its
# beginning is looked at, which is no object: how long a record is must not decide whether others can be read.
PART_ROWS, MOST_OF_LINE = 1 << 14, 1 << 26
# Python takes no more digits for a whole number, so that one with more is read as a float.
MOST_DIGITS = 4000


def ending(path: Path) -> str:
    """The ending of the name of a file, or of the file that is packed in it, in lower case."""
    if path.suffix.lower() == ".zip" and path.is_file():
        with _archive(path) as (archive, _):
            return Path(_only_one(archive, path)).suffix.lower()
    inner = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return inner.suffix.lower()


@contextmanager
def unpacked(path: Path, encoding: str = "utf-8") -> Iterator[tuple[Any, Any]]:
    """A stream of the content of a file, unpacked and in UTF-8; and the file itself, which tells the progress."""
    if path.suffix.lower() == ".zip":
        with _archive(path) as (archive, file), archive.open(_only_one(archive, path)) as stream:
            yield _in_utf_8(pa.PythonFile(stream, mode="r"), encoding), file
        return
    with pa.OSFile(str(path)) as file:
        packed = path.suffix.lower() in PACKED
        stream = pa.CompressedInputStream(file, pa.Codec.detect(str(path).lower()).name) if packed else file
        yield _in_utf_8(stream, encoding), file


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, Any]]:
    """An archive and its file; raises ``TableError`` if it is damaged, or locked by a password."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            if any(each.flag_bits & LOCKED for each in archive.infolist()):
                raise zipfile.BadZipFile
            yield archive, file
    except (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error, lzma.LZMAError):
        raise TableError(f"{path} cannot be unpacked: it is damaged, or needs a password. Unpack it first.") from None


def _only_one(archive: zipfile.ZipFile, path: Path) -> str:
    names = [each.filename for each in archive.infolist() if not each.is_dir() and not each.filename.startswith(NOT_CHOSEN)]
    if len(names) != 1:
        listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise TableError(f"{path} must hold one file, and holds {len(names)}: {listed or 'none'}. Unpack the one to read.")
    return names[0]


def _in_utf_8(stream: pa.NativeFile, encoding: str) -> pa.NativeFile:
    """A stream of the same text in UTF-8; the stream itself if that is its encoding.

    Bytes that stand for no character, and halves of characters, become bytes that are not valid UTF-8 either, so that they
    concern the cell that they stand in, as in a file that is in UTF-8.
    """
    if encoding == "utf-8":
        return stream
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass" if encoding.startswith("utf") else "surrogateescape")

    def transcoded(block: pa.Buffer) -> bytes:
        try:
            return decoder.decode(block).encode("utf-8", "surrogatepass")
        except UnicodeError:  # at the beginning of a file alone
            raise TableError(
                "The file does not begin with the mark of UTF-16, which says the order of its bytes. Pass --encoding "
                "utf-16-le, as most programs write it, or utf-16-be."
            ) from None

    return pa.TransformInputStream(stream, transcoded)


@dataclass(frozen=True)
class Delimited(TextTable):
    """A file of cells with a separator between them.

    With ``names_lines`` errors name the line to blame: only for whoever holds the table.
    """

    names_lines: bool = False

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
        n_bytes, options = self.path.stat().st_size, pyarrow.csv.ReadOptions(block_size=block_size)
        as_text = pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in wanted},
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,  # a cell that is no text concerns its own record only
        )
        with (
            unpacked(self.path, self.format.encoding) as (stream, file),
            pyarrow.csv.open_csv(_LineEnds(stream), options, self._parsing(), as_text) as reader,
        ):
            for batch in reader:
                tell(file.tell() / n_bytes)
                yield batch

    def _parsing(self) -> pyarrow.csv.ParseOptions:
        # A line break in quotes does not end a row, also where a block ends.
        return pyarrow.csv.ParseOptions(delimiter=self.format.separator, newlines_in_values=True)

    def _first_line(self) -> tuple[bytes, bool]:
        """The line that has the names of columns, with a line break, in UTF-8; and whether anything follows."""
        lines = []

        def read(text: io.TextIOWrapper) -> Iterator[str]:
            for line in text:
                lines.append(line)
                yield line.removeprefix(BYTE_ORDER_MARK)

        with unpacked(self.path, self.format.encoding) as (stream, _):
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
        with unpacked(self.path, self.format.encoding) as (stream, _):
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


@dataclass(frozen=True)
class JsonLines(TextTable):
    """The values of JSON objects, one in each line that is not empty.

    A line is a record whatever stands in it: one that is no object has missing values only. The schema names the columns,
    and a key that a record lacks is a missing cell. Names for drafts and checks are the keys of the first line.
    """

    def names(self) -> list[str]:
        first = next(map(_record, self._lines(lambda share: None)), None)
        if not first:
            raise TableError(f"{self.path} has no JSON object in its first line, whose keys are the names of its columns.")
        return list(first)

    def public_names(self) -> None:
        """None: which keys the first records have must not decide whether others are read."""

    def hint(self) -> str:
        return "The keys of the first line were taken as the names."

    def batches(self, wanted: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
        rows, n_bytes, keys = list[dict[str, Any]](), 0, {name: name for name in wanted}
        for line in self._lines(tell):
            rows.append(_record(line))
            n_bytes += len(line)
            if len(rows) == PART_ROWS or n_bytes >= PART_BYTES:
                yield self._batch(rows, keys)
                rows, n_bytes = [], 0
        if rows:
            yield self._batch(rows, keys)

    def _lines(self, tell: Tell) -> Iterator[bytes]:
        """The lines that are not empty, each with at most ``MOST_OF_LINE`` bytes."""
        try:
            n_bytes = max(self.path.stat().st_size, 1)
            with unpacked(self.path, self.format.encoding) as (stream, file):
                content, is_new = io.BufferedReader(stream), True
                for number, line in enumerate(iter(lambda: content.readline(MOST_OF_LINE), b"")):
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
