"""Table files: CSV and Parquet, read as the schema says. Sees rows.

Column types come from the schema, never from values, so a stray value cannot turn a file into an error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow import dataset

from dpforest.errors import TableError
from dpforest.records.text import text_to_numbers
from dpforest.schema import Schema

# A Parquet table that would take more memory is not read as a whole.
LARGE_BYTES = 1 << 30
PART_ROWS = 1 << 17
PART_BYTES = 1 << 24


def read_table(path: str | Path, schema: Schema, *, with_target: bool) -> tuple[pa.Table, Any]:
    """The features as a table and the target as a column (or None); columns outside the schema are not read."""
    path, wanted = _checked(path, schema, with_target)
    with _refusals(path):
        table = pyarrow.parquet.read_table(path, columns=wanted) if is_parquet(path) else _read_csv(path, wanted)
    table = text_to_numbers(table, schema)
    if not with_target:
        return table, None
    return table.drop_columns([schema.target.name]), table.column(schema.target.name)


def read_parts(path: str | Path, schema: Schema) -> Iterator[pa.Table]:
    """The features of a file of any length, some rows at a time; one part without rows if it has none."""
    path, wanted = _checked(path, schema, with_target=False)
    is_empty = True
    with _refusals(path):
        for batch in _parquet_batches(path, wanted) if is_parquet(path) else _csv_batches(path, wanted):
            if batch.num_rows:
                is_empty = False
                yield text_to_numbers(pa.Table.from_batches([batch]), schema)
    if is_empty:
        yield read_table(path, schema, with_target=False)[0]


def is_large(path: Path, schema: Schema) -> bool:
    """Whether a Parquet table would take more than about a gigabyte of memory; looks at its footers only."""
    if not is_parquet(path):
        return False
    with _refusals(path):
        return 8 * schema.n_features * dataset.dataset(path, format="parquet").count_rows() > LARGE_BYTES


def _checked(path: str | Path, schema: Schema, with_target: bool) -> tuple[Path, list[str]]:
    """The path and the columns to read, all of them there."""
    path, wanted = Path(path), [*schema.features, *([schema.target.name] if with_target else [])]
    with _refusals(path):
        given = column_names(path)
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
        raise TableError(f"{path} is not a well-formed {'Parquet' if is_parquet(path) else 'CSV'} file.") from None


def is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq") or path.is_dir()


def column_names(path: Path) -> list[str]:
    """The columns of a file, from its header."""
    if is_parquet(path):
        return list(dataset.dataset(path, format="parquet").schema.names)
    with pa.input_stream(str(path), compression="detect") as stream, pyarrow.csv.open_csv(stream) as reader:
        return list(reader.schema.names)


def _read_csv(path: Path, wanted: list[str]) -> pa.Table:
    with pa.input_stream(str(path), compression="detect") as stream:
        return pyarrow.csv.read_csv(stream, convert_options=_as_text(wanted))


def _csv_batches(path: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    with pa.input_stream(str(path), compression="detect") as stream:
        options = pyarrow.csv.ReadOptions(block_size=PART_BYTES)
        yield from pyarrow.csv.open_csv(stream, read_options=options, convert_options=_as_text(wanted))


def _as_text(wanted: list[str]) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in wanted},
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
    )


def _parquet_batches(path: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    table = dataset.dataset(path, format="parquet")
    yield from table.scanner(columns=wanted, batch_size=PART_ROWS, batch_readahead=2, fragment_readahead=1).to_batches()
