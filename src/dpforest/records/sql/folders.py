"""Parquet files that DuckDB reads as one table, with the columns that their folders stand for. Sees names and types only."""

import os
from collections.abc import Iterable
from dataclasses import replace
from glob import escape, glob, has_magic
from pathlib import Path
from typing import Any

import ibis
import narwhals as nw
import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.dates import to_seconds
from dpforest.records.iso_text import NO_DATE
from dpforest.records.parquet_rows import in_both, read_texts, values_of, without_value
from dpforest.schema import Date, Schema
from dpforest.schema.patterns import columns_of_patterns, matches

FILE = "dpforest_file"  # the column that says which file a row is from


def open_parquet(path: str, columns: Iterable[str] | None, schema: Schema | None) -> Any:
    """The table of all Parquet files that match a path; in a path ``**`` stands for any number of folders.

    DuckDB converts later files to the types of the first one, and whether that succeeds depends on values. So files that
    differ in a column are refused.
    """
    folders = _values_of_files(path)
    found = [*folders]
    keys = [*folders[found[0]]]
    try:
        backend = ibis.duckdb.connect()
        # A text that is not UTF-8 concerns its own record: by default DuckDB would stop there.
        read_as = {"hive_partitioning": False, "filename": FILE, "utf8_validation": "replace"}
        table = backend.read_parquet([*map(escape, found)], **read_as)
        types = {file: backend.read_parquet(escape(file), hive_partitioning=False).schema() for file in found}
    except Exception:  # the engine's own message could quote what it stumbled over
        raise TableError(f"{path} cannot be read as Parquet.") from None
    _check_folders(path, folders, types, keys)
    _check_types(types, path, columns)
    if not keys:
        return table.drop(FILE)
    # DuckDB would guess the types of what folders are named after from all of them, and stop at a name that is no text.
    read = backend.create_table("dpforest_folders", _read_folders(folders, keys, schema))
    return table.left_join(read, FILE).select([*types[found[0]], *keys])


def folder_texts(path: str) -> dict[str, pa.ChunkedArray]:
    """The texts that folders of a table are named after, by column: one for each file. They are values of rows."""
    folders = _values_of_files(path)
    keys = next(iter(folders.values()))
    return {key: pa.chunked_array([[values.get(key) for values in folders.values()]], pa.string()) for key in keys}


def _values_of_files(path: str) -> dict[str, dict[str, str | None]]:
    """The values that the folders of each file are named after, by the absolute path of the file."""
    # Ibis makes paths absolute, and files are found again by theirs. A folder may be named after a value with any ending.
    found = sorted(os.path.abspath(each) for each in glob(path, recursive=True) if os.path.isfile(each))
    if not found:
        raise TableError(f"There is no file {path}.")
    return {file: values_of(_folders(path, file)) for file in found}


def _read_folders(folders: dict[str, Any], keys: list[str], schema: Schema | None) -> pa.Table:
    """A table of all files with what their folders are named after, as ``records.parquet_rows`` reads it."""
    texts = pa.table({key: pa.array([values[key] for values in folders.values()], pa.string()) for key in keys})
    if schema is not None:
        stands_for = {name: pattern for pattern, names in columns_of_patterns(schema, keys).items() for name in names}
        schema = replace(schema, features={**schema.features, **{k: schema.features[p] for k, p in stands_for.items()}})
        texts = read_texts(texts, schema)
        for place, key in enumerate(keys):
            part = schema.features.get(key)
            if isinstance(part, Date):
                texts = texts.set_column(place, key, _dates(texts.column(key), part))
    return texts.append_column(FILE, pa.array(list(folders)))


def _dates(texts: pa.ChunkedArray, part: Date) -> pa.Array:
    """Texts as dates, which a database has a type for; null where a text is none."""
    seconds = to_seconds(nw.from_native(texts, series_only=True))
    found = pa.array(seconds, pa.timestamp("s"), mask=seconds == NO_DATE)
    return found.cast(pa.timestamp("us") if part.time else pa.date32(), safe=False)


def _folders(path: str, file: str) -> list[str]:
    """The names of the folders of a file that a pattern does not name itself."""
    parts = Path(os.path.abspath(path)).parts
    n_named = next((place for place, part in enumerate(parts) if has_magic(part)), len(parts))
    return [*Path(file).parts[n_named:-1]]


def _check_folders(path: str, folders: dict[str, Any], types: dict[str, Any], keys: list[str]) -> None:
    for file, values in folders.items():
        if set(values) != set(keys):
            raise TableError(f"Some files of {path} are in folders that stand for columns that others lack.")
        both = next((key for key in keys if key in types[file]), None)
        if both is not None:
            raise TableError(in_both(both, path))


def _check_types(types: dict[str, Any], path: str, columns: Iterable[str] | None) -> None:
    first, *others = types
    read = None if columns is None else [*columns]
    for name, dtype in types[first].items():
        if read is not None and not any(matches(each, name) for each in read):
            continue
        for file in others:
            if types[file].get(name) != dtype:
                found = f"has the type {types[file][name]} in" if name in types[file] else "is missing from"
                shown = "/".join([*map(without_value, _folders(path, file)), Path(file).name])
                raise TableError(
                    f"Column {name!r} has the type {dtype} in the first of the files, but {found} {shown}. Write it with "
                    "one type in all of them."
                )
