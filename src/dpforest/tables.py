"""Table files: CSV and Parquet, read as the schema says. Sees rows.

Column types come from the schema, never from values, so a stray value cannot turn a file into an error.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from pyarrow import dataset

from dpforest.errors import TableError
from dpforest.schema import Classes, Numeric, Schema


def read_table(path: str | Path, schema: Schema, *, with_target: bool) -> tuple[pa.Table, Any]:
    """The features as a table and the target as a column (or None); columns outside the schema are not read."""
    path = Path(path)
    wanted = [*schema.features, *([schema.target.name] if with_target else [])]
    try:
        given = column_names(path)
        missing = [name for name in wanted if name not in given]
        if missing:
            raise TableError(f"Column {missing[0]!r} of the schema is missing from {path}; it has {', '.join(given)}.")
        table = _read_parquet(path, wanted) if is_parquet(path) else _read_csv(path, wanted)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'no such table'}.") from None
    except pa.ArrowException:
        # The reader's own message would quote the row that it stumbled over.
        raise TableError(f"{path} is not a well-formed {'Parquet' if is_parquet(path) else 'CSV'} file.") from None
    for name in wanted:
        if is_number(schema, name) and pa.types.is_string(table.schema.field(name).type):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, _numbers(table.column(name)))
    if not with_target:
        return table, None
    return table.drop_columns([schema.target.name]), table.column(schema.target.name)


def is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq") or path.is_dir()


def column_names(path: Path) -> list[str]:
    """The columns of a file, from its header."""
    if is_parquet(path):
        return list(dataset.dataset(path, format="parquet").schema.names)
    with pa.input_stream(str(path), compression="detect") as stream, pyarrow.csv.open_csv(stream) as reader:
        return list(reader.schema.names)


def is_number(schema: Schema, name: str) -> bool:
    """Whether a column holds numbers: a numeric feature, a bounded target, or categories that are numbers."""
    part = schema.target if name == schema.target.name else schema.features[name]
    if isinstance(part, Numeric) or part.kind == "bounded":
        return True
    values = part.labels if isinstance(part, Classes) else part.categories  # type: ignore[union-attr]
    return all(isinstance(value, int | float) for value in values)


def _read_csv(path: Path, wanted: list[str]) -> pa.Table:
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in wanted},
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
    )
    with pa.input_stream(str(path), compression="detect") as stream:
        return pyarrow.csv.read_csv(stream, convert_options=convert)


def _read_parquet(path: Path, wanted: list[str]) -> pa.Table:
    return pyarrow.parquet.read_table(path, columns=wanted)


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as numbers; null where it cannot be read as one."""
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        return pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array([_number(text) for text in trimmed.to_pylist()], pa.float64())])


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
