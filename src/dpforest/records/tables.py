"""Reading of table files, CSV and Parquet, with the types that the schema declares. Sees rows.

Column types come from the schema, never from values, so a stray value cannot turn a file into an error.
"""

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.csv
from pyarrow import dataset

from dpforest.common.progress import Step
from dpforest.errors import TableError
from dpforest.records.dates import to_seconds
from dpforest.records.iso_text import NO_DATE
from dpforest.records.parquet import empty_table, open_files, read_batches
from dpforest.records.text import read_numbers, text_to_numbers
from dpforest.schema import SECONDS_OF_DAY, Schema

PART_ROWS = 1 << 17
# A text file is read in blocks of PART_BYTES. Where a row does not fit, blocks grow to MOST_BYTES, which Arrow can address.
PART_BYTES = 1 << 24
MOST_BYTES = 1 << 30
GROWTH = 8
TOO_LONG = "straddling"  # the beginning of Arrow's error if a row is longer than a block
# A line break in quotes does not end a row, also where a block ends.
QUOTED = pyarrow.csv.ParseOptions(newlines_in_values=True)
WELL_FORMED = "every row must have as many cells as there are names, and every quote must be closed"
PACKED = (".gz", ".bz2", ".zst", ".lz4")
BYTE_ORDER_MARK = "\ufeff".encode().decode("latin-1")
# A draft looks at this many rows of a text file; a column is one of numbers if at least this share of its values is.
DRAFT_ROWS = 1000
MOSTLY = 0.9
# Types of Parquet, beside nested ones, that no column of a schema can have.
UNREADABLE = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_time, pa.types.is_duration,
)  # fmt: skip

Progress = Callable[[str], None]


def _silent(step: str) -> None:
    """Show no progress."""


def read_table(path: str | Path, schema: Schema, *, with_target: bool, progress: Progress = _silent) -> tuple[pa.Table, Any]:
    """The features of a text file as a table, and the target as a column (or None); other columns are not read."""
    path = Path(path)
    with _refusals(path):
        empty, parts = _csv_tables(path, schema, with_target, progress)
        return _apart(pa.concat_tables([empty, *parts]), schema, with_target)


def read_column(path: str | Path, name: str) -> pa.ChunkedArray:
    """One column of a text file, as text; it need not be in the schema, such as the ids of persons."""
    path = Path(path)
    _check_columns([name], path)
    with _refusals(path):
        return pa.Table.from_batches(_csv_batches(path, [name], _silent), _text([name])).column(name)


def _apart(table: pa.Table, schema: Schema, with_target: bool) -> tuple[pa.Table, Any]:
    if not with_target:
        return table, None
    return table.drop_columns([schema.target.name]), table.column(schema.target.name)


def read_parts(
    path: str | Path,
    schema: Schema,
    *,
    with_target: bool = False,
    any_type: bool = False,
    progress: Progress = _silent,
) -> Iterator[tuple[pa.Table, Any]]:
    """Features and target, as ``read_table`` gives them, of some rows of a CSV or Parquet file at a time.

    A file without rows gives one part without rows. Each file of a folder is read with its own types; unless ``any_type`` is
    set, they must be those that the schema declares.
    """
    path = Path(path)
    with _refusals(path):
        if is_parquet(path):
            empty, parts = _parquet_tables(path, schema, with_target, any_type, progress)
        else:
            empty, parts = _csv_tables(path, schema, with_target, progress)
        is_empty = True
        for part in parts:
            is_empty = False
            yield _apart(part, schema, with_target)
        if is_empty:
            yield _apart(empty, schema, with_target)


def column_kinds(path: str | Path) -> dict[str, str]:
    """The kind of each column by its name, for a draft that a person checks: "number" or "text", or what only a type says.

    A Parquet file has types, which may also say "whole", "truth" or "other": what no schema can hold. A text file has none:
    there the kind is a guess from its first rows.
    """
    path = Path(path)
    with _refusals(path):
        if is_parquet(path):
            return {field.name: _kind(field.type) for field in dataset.dataset(path, format="parquet").schema}
        names = header(path)
        first = next(_csv_batches(path, names, _silent), None)
    columns = [pa.nulls(0, pa.string())] * len(names) if first is None else first.slice(0, DRAFT_ROWS).columns
    return {name: _guessed(column) for name, column in zip(names, columns, strict=True)}


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "whole"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "date" if pa.types.is_date(type_) else "time"
    if pa.types.is_boolean(type_):
        return "truth"
    if pa.types.is_nested(type_) or any(is_so(type_) for is_so in UNREADABLE):
        return "other"
    return "number" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else "text"


def _guessed(column: pa.Array) -> str:
    known = pa.chunked_array([column.drop_null()])
    if len(known) and read_numbers(known).null_count <= (1 - MOSTLY) * len(known):
        return "number"
    dates = to_seconds(nw.from_native(known, series_only=True))
    dates = dates[dates != NO_DATE]
    if not len(known) or len(dates) < MOSTLY * len(known):
        return "text"
    return "time" if (dates % SECONDS_OF_DAY).any() else "date"


def _wanted(schema: Schema, with_target: bool) -> list[str]:
    return [*schema.features, *([schema.target.name] if with_target else [])]


def _check_columns(wanted: list[str], path: Path) -> None:
    given = header(path)
    missing = [name for name in wanted if name not in given]
    if missing:
        raise TableError(f"Column {missing[0]!r} is missing from {path}; it has {', '.join(given)}.")


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn what a reader raises into a ``TableError`` with public facts only."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"There is no file {path}.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'no such table'}.") from None
    except pa.ArrowException:
        # The reader's own message would quote a row.
        kind = "Parquet file" if is_parquet(path) else f"CSV file: {WELL_FORMED}"
        raise TableError(f"{path} is not a well-formed {kind}.") from None


def is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq") or path.is_dir()


def header(path: str | Path) -> list[str]:
    """The names of the columns of a file; raises ``TableError`` if two are the same."""
    path = Path(path)
    with _refusals(path):
        names = column_names(path)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TableError(f"{path} has two columns called {twice!r}. Rename one of them.")
    return names


def column_names(path: Path) -> list[str]:
    """The names of the columns of a file, which may repeat."""
    if is_parquet(path):
        return list(dataset.dataset(path, format="parquet").schema.names)
    line, _ = _first_line(path)
    try:
        whole = pyarrow.csv.ReadOptions(block_size=len(line))
        # A buffer of Arrow's own: a thread frees one of Python's, which crashes a process that is ending meanwhile.
        return list(pyarrow.csv.read_csv(pa.BufferReader(line), whole, QUOTED).column_names)
    except UnicodeDecodeError:
        raise TableError(f"The names of columns in {path} are not in UTF-8.") from None


def _first_line(path: Path) -> tuple[bytes, bool]:
    """The line of a text file that has the names of columns, with a line break; and whether anything follows.

    Rows are not looked at: what they hold must not decide whether names can be read.
    """
    lines = []

    def read(text: io.TextIOWrapper) -> Iterator[str]:
        for line in text:
            lines.append(line)
            yield line.removeprefix(BYTE_ORDER_MARK)

    with _csv_stream(path) as (stream, _):
        # One character a byte, so that nothing fails; a name may have line breaks in quotes.
        text = io.TextIOWrapper(stream, "latin-1", newline="")
        try:
            next((row for row in csv.reader(read(text)) if row), None)
        except csv.Error:
            raise pa.ArrowInvalid("no header") from None
        return ("".join(lines) + "\n").encode("latin-1"), bool(text.read(1))


@contextmanager
def _csv_stream(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    """A stream of the text of a file, unpacked if its name ends as in ``PACKED``; and the file, which tells the progress."""
    with pa.OSFile(str(path)) as file:
        packed = path.suffix in PACKED
        yield pa.CompressedInputStream(file, pa.Codec.detect(str(path)).name) if packed else file, file


def _csv_tables(path: Path, schema: Schema, with_target: bool, progress: Progress) -> tuple[pa.Table, Iterator[pa.Table]]:
    """A table without rows that has the wanted columns of a text file, and tables of some of its rows at a time."""
    wanted = _wanted(schema, with_target)
    _check_columns(wanted, path)
    parts = (pa.Table.from_batches([batch]) for batch in _csv_batches(path, wanted, progress))
    return text_to_numbers(_text(wanted).empty_table(), schema), (text_to_numbers(part, schema) for part in parts)


def _text(names: list[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _csv_batches(path: Path, wanted: list[str], progress: Progress) -> Iterator[pa.RecordBatch]:
    """Some rows of a text file at a time. Where a row is longer than a block, the file is read again in larger blocks.

    How long a cell is must not decide whether a file can be read, nor which rows are yielded.
    """
    n_yielded, block_size = 0, PART_BYTES
    if not _first_line(path)[1]:
        return
    while True:
        n_read = 0
        try:
            for batch in _csv_blocks(path, wanted, block_size, progress):
                n_read += batch.num_rows
                if n_read > n_yielded:
                    fresh, n_yielded = batch.slice(batch.num_rows - (n_read - n_yielded)), n_read
                    yield fresh
            return
        except pa.ArrowInvalid as error:
            block_size *= GROWTH
            if not str(error).startswith(TOO_LONG) or block_size > MOST_BYTES:
                raise


def _csv_blocks(path: Path, wanted: list[str], block_size: int, progress: Progress) -> Iterator[pa.RecordBatch]:
    n_bytes = path.stat().st_size
    with _csv_stream(path) as (stream, file):
        options = pyarrow.csv.ReadOptions(block_size=block_size)
        with pyarrow.csv.open_csv(_LineEnds(stream), options, QUOTED, _as_text(wanted)) as reader:
            for batch in reader:
                progress(Step("reading the table", file.tell(), n_bytes))
                yield batch


class _LineEnds(io.RawIOBase):
    """A stream of which no block ends between the two characters of a line end.

    Arrow would take the second for a part of that end, and drop it also in a cell in quotes: how a record is read would
    depend on how long the rows before it are.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
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


def _parquet_tables(
    path: Path, schema: Schema, with_target: bool, any_type: bool, progress: Progress
) -> tuple[pa.Table, Iterator[pa.Table]]:
    """A table without rows that has the wanted columns of a Parquet file or folder, and tables of some rows at a time."""
    wanted = _wanted(schema, with_target)
    files = open_files(path, schema, with_target=with_target, any_type=any_type)

    def parts() -> Iterator[pa.Table]:
        n_done, n_rows = 0, sum(file.count_rows() for file in files)
        for part in read_batches(files, wanted, PART_ROWS):
            yield part
            n_done += part.num_rows
            progress(Step("reading the table", n_done, n_rows, "rows"))

    return empty_table(files[0], wanted), parts()
