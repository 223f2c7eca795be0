"""Table files: CSV and Parquet, read as the schema says. Sees rows.

Column types come from the schema, never from values, so a stray value cannot turn a file into an error.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow import dataset

from dpforest.errors import TableError
from dpforest.progress import Step
from dpforest.records.text import read_numbers, text_to_numbers
from dpforest.schema import Schema

# A Parquet table that would take more memory is not read as a whole.
LARGE_BYTES = 1 << 30
PART_ROWS = 1 << 17
PART_BYTES = 1 << 24
# A line break in quotes does not end a row, also where a part ends.
QUOTED = pyarrow.csv.ParseOptions(newlines_in_values=True)
PACKED = (".gz", ".bz2", ".zst", ".lz4")
# A draft looks at as many rows of a text file, and a column is one of numbers if nearly all of its values are.
DRAFT_ROWS = 1000
MOSTLY = 0.9

Progress = Callable[[str], None]


def _silent(step: str) -> None:
    """Says nothing."""


def read_table(path: str | Path, schema: Schema, *, with_target: bool, progress: Progress = _silent) -> tuple[pa.Table, Any]:
    """The features as a table and the target as a column (or None); columns outside the schema are not read."""
    path, wanted = _checked(path, schema, with_target)
    with _refusals(path):
        table = pyarrow.parquet.read_table(path, columns=wanted) if is_parquet(path) else _read_csv(path, wanted, progress)
    return _apart(text_to_numbers(table, schema), schema, with_target)


def read_column(path: str | Path, name: str) -> pa.ChunkedArray:
    """One column of a file that need not be in the schema, such as the ids of persons; as text if it is a text file."""
    path, given = Path(path), header(path)
    if name not in given:
        raise TableError(f"Column {name!r} is missing from {path}; it has {', '.join(given)}.")
    with _refusals(path):
        table = pyarrow.parquet.read_table(path, columns=[name]) if is_parquet(path) else _read_csv(path, [name], _silent)
    return table.column(name)


def _apart(table: pa.Table, schema: Schema, with_target: bool) -> tuple[pa.Table, Any]:
    if not with_target:
        return table, None
    return table.drop_columns([schema.target.name]), table.column(schema.target.name)


def read_parts(
    path: str | Path, schema: Schema, *, with_target: bool = False, progress: Progress = _silent
) -> Iterator[tuple[pa.Table, Any]]:
    """As ``read_table``, for a file of any length, some rows at a time; one part without rows if it has none."""
    path, wanted = _checked(path, schema, with_target)
    is_empty = True
    with _refusals(path):
        batches = _parquet_batches(path, wanted, progress) if is_parquet(path) else _csv_batches(path, wanted, progress)
        for batch in batches:
            if batch.num_rows:
                is_empty = False
                yield _apart(text_to_numbers(pa.Table.from_batches([batch]), schema), schema, with_target)
    if is_empty:
        yield read_table(path, schema, with_target=with_target)


def column_kinds(path: str | Path) -> dict[str, str]:
    """Each column as number, whole (a number, always whole) or text, for a draft that a person checks.

    Parquet says types. A text file does not: there the kind is a guess from its first rows.
    """
    path = Path(path)
    with _refusals(path):
        if is_parquet(path):
            return {field.name: _kind(field.type) for field in dataset.dataset(path, format="parquet").schema}
        names = header(path)
        with _csv_stream(path) as (stream, _):
            reader = pyarrow.csv.open_csv(stream, parse_options=QUOTED, convert_options=_as_text(names))
            first = next(iter(reader), None)
    columns = [pa.nulls(0, pa.string())] * len(names) if first is None else first.slice(0, DRAFT_ROWS).columns
    return {name: _guessed(column) for name, column in zip(names, columns, strict=True)}


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "whole"
    return "number" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else "text"


def _guessed(column: pa.Array) -> str:
    known = pa.chunked_array([column.drop_null()])
    return "number" if len(known) and read_numbers(known).null_count <= (1 - MOSTLY) * len(known) else "text"


def is_large(path: Path, schema: Schema) -> bool:
    """Whether a Parquet table would take more than about a gigabyte of memory; looks at its footers only."""
    if not is_parquet(path):
        return False
    with _refusals(path):
        return 8 * schema.n_features * dataset.dataset(path, format="parquet").count_rows() > LARGE_BYTES


def _checked(path: str | Path, schema: Schema, with_target: bool) -> tuple[Path, list[str]]:
    """The path and the columns to read, all of them there."""
    path, wanted = Path(path), [*schema.features, *([schema.target.name] if with_target else [])]
    given = header(path)
    missing = [name for name in wanted if name not in given]
    if missing:
        raise TableError(f"Column {missing[0]!r} of the schema is missing from {path}; it has {', '.join(given)}.")
    return path, wanted


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'no such table'}.") from None
    except pa.ArrowException:
        # The reader's own message would quote the row that it stumbled over.
        kind = "Parquet file" if is_parquet(path) else "CSV file in UTF-8"
        raise TableError(f"{path} is not a well-formed {kind}.") from None


def is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq") or path.is_dir()


def header(path: str | Path) -> list[str]:
    """The columns of a file, no two of which are called the same."""
    path = Path(path)
    with _refusals(path):
        names = column_names(path)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TableError(f"{path} has two columns called {twice!r}. Rename one of them.")
    return names


def column_names(path: Path) -> list[str]:
    """The columns of a file, as they stand there."""
    if is_parquet(path):
        return list(dataset.dataset(path, format="parquet").schema.names)
    with _csv_stream(path) as (stream, _), pyarrow.csv.open_csv(stream, parse_options=QUOTED) as reader:
        return list(reader.schema.names)


@contextmanager
def _csv_stream(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    """The text of a file, unpacked if its name says that it is packed; and the file, which knows how far it was read."""
    with pa.OSFile(str(path)) as file:
        packed = path.suffix in PACKED
        yield pa.CompressedInputStream(file, pa.Codec.detect(str(path)).name) if packed else file, file


def _read_csv(path: Path, wanted: list[str], progress: Progress) -> pa.Table:
    return pa.Table.from_batches(_csv_batches(path, wanted, progress), pa.schema([(name, pa.string()) for name in wanted]))


def _csv_batches(path: Path, wanted: list[str], progress: Progress) -> Iterator[pa.RecordBatch]:
    n_bytes = path.stat().st_size
    with _csv_stream(path) as (stream, file):
        options = pyarrow.csv.ReadOptions(block_size=PART_BYTES)
        for batch in pyarrow.csv.open_csv(stream, options, QUOTED, _as_text(wanted)):
            progress(Step("reading the table", file.tell(), n_bytes))
            yield batch


def _as_text(wanted: list[str]) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in wanted},
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
    )


def _parquet_batches(path: Path, wanted: list[str], progress: Progress) -> Iterator[pa.RecordBatch]:
    table = dataset.dataset(path, format="parquet")
    n_done, n_rows = 0, table.count_rows()
    for batch in table.scanner(columns=wanted, batch_size=PART_ROWS, batch_readahead=2, fragment_readahead=1).to_batches():
        yield batch
        n_done += batch.num_rows
        progress(Step("reading the table", n_done, n_rows, "rows"))
