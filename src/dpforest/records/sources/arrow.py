"""Tables that Arrow reads with their types: Parquet files, folders of them, Feather, and streams. Sees rows.

Folders of Parquet files may stand for columns, as in ``year=2024/month=3/part.parquet``. The value that a folder is named
after is text, and the schema says how to read it, as it does for a cell of a CSV file: a type that followed from the names
of all folders would change with one record that makes a new one. These names are values of rows, so no error repeats them.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem

from dpforest.errors import TableError, shown
from dpforest.records.source import Asked, Chunk, Progress, Source, Tell, Typed, check_types, each_once, silent, telling
from dpforest.records.text import is_number, kind_of_texts, kind_of_type, read_cells
from dpforest.schema import Format, Schema

PARQUET, ARROW = (".parquet", ".pq"), (".feather", ".arrow", ".ipc", ".arrows")
PART_ROWS = 1 << 17  # of a Parquet file, that are read at once
DAMAGED = "The Parquet file is damaged, or was changed while it was read."
CHANGED = (
    "The Parquet file or folder was changed while a forest was trained on it. What was charged stays charged. Train on "
    "files that stay as they are, such as a copy."
)
# Stands for a missing value in the name of a folder; an empty text does, too.
NOTHING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, repr=False)
class File:
    """A Parquet file, or some of its row groups, with the values that its folders are named after: one for all its rows."""

    fragment: dataset.ParquetFileFragment
    shown: str  # the path, without values
    cells: Mapping[str, pa.Scalar] = field(default_factory=dict)
    stamp: tuple[Any, ...] = ()  # when it was opened; see ``stamp_of``

    @property
    def names(self) -> list[str]:
        """The names of its columns, those of its folders last."""
        return [*self.fragment.physical_schema.names, *self.cells]

    @property
    def n_rows(self) -> int:
        """The number of rows that the file declares."""
        return sum(group.num_rows for group in self.fragment.row_groups)

    def empty(self, names: list[str]) -> pa.Table:
        """A table without rows that has some of the columns, with their types."""
        own = self.fragment.physical_schema
        types = [self.cells[name].type if name in self.cells else own.field(name).type for name in names]
        return pa.schema([*zip(names, types, strict=True)]).empty_table()

    def of(self, row_groups: list[int]) -> "File":
        """Some of its row groups."""
        return replace(self, fragment=self.fragment.subset(row_group_ids=row_groups))

    def batches(self, names: list[str], n_rows: int, use_threads: bool = True) -> Iterator[pa.Table]:
        """Tables of some columns, at most ``n_rows`` rows each, one after the other."""
        own = [name for name in names if name not in self.cells]
        settings = {"columns": own, "batch_size": n_rows, "batch_readahead": 1, "use_threads": use_threads}
        with damaged():
            for batch in self.fragment.scanner(self.fragment.physical_schema, **settings).to_batches():
                if batch.num_rows:
                    yield self._with_cells(batch, names)

    def _with_cells(self, batch: pa.RecordBatch, names: list[str]) -> pa.Table:
        arrays = [
            pa.repeat(self.cells[name], batch.num_rows) if name in self.cells else batch.column(name) for name in names
        ]
        return pa.Table.from_arrays(arrays, names)


@contextmanager
def damaged() -> Iterator[None]:
    """Turn what pyarrow raises about a file into a ``TableError``: its own message could quote values."""
    try:
        yield
    except (OSError, pa.ArrowException):
        raise TableError(DAMAGED) from None


def open_files(path: str | Path, asked: Asked) -> list[File]:
    """The files of a table, each checked to have the columns and types that are asked for; no row is read."""
    files, checked = [], set()
    for file in find_files(path):
        asked.require(file.names, file.shown)
        read = read_texts(pa.table({name: pa.chunked_array([[cell]]) for name, cell in file.cells.items()}), asked.schema)
        file = replace(file, cells={name: read.column(name)[0] for name in read.column_names})
        types = file.empty(asked.declared).schema
        if not asked.any_type and types not in checked:
            check_types(types, asked.schema, asked.with_target, file.shown)
            checked.add(types)
        files.append(file)
    return files


def find_files(path: str | Path) -> Iterator[File]:
    """The files of a table, of which the values of folders are text; raises ``TableError`` if there is none."""
    is_empty = True
    try:
        for fragment in dataset.dataset(path, format="parquet").get_fragments():
            stamp = stamp_of(fragment)
            fragment.ensure_complete_metadata()
            is_empty = False
            yield replace(_with_folders(fragment, path), stamp=stamp)
    except UnicodeError:
        raise TableError(f"A folder or a file in {path} has a name that is no text in UTF-8. Rename it.") from None
    except (OSError, pa.ArrowException):
        raise TableError(f"{path} cannot be read as a Parquet file or folder.") from None
    if is_empty:
        raise TableError(f"There is no Parquet file in {path}.")


def stamp_of(fragment: dataset.ParquetFileFragment) -> tuple[Any, ...]:
    """The size of a file, the time of its last change and, last, its number on the disk, as they are now."""
    info = fragment.filesystem.get_file_info(fragment.path)
    is_local = isinstance(fragment.filesystem, LocalFileSystem)
    return info.size, info.mtime_ns, os.stat(fragment.path).st_ino if is_local else None


def check_unchanged(files: list[File], path: str | Path | None = None) -> None:
    """Raise ``TableError`` if a file is not as it was when it was opened, or if there are others now at ``path``."""
    try:
        same = all(stamp_of(file.fragment)[: len(file.stamp)] == file.stamp for file in files)
        if path is not None:
            # With a schema no file is opened for one.
            found = dataset.dataset(path, schema=pa.schema([]), format="parquet").files
            same = same and found == [file.fragment.path for file in files]
    except (OSError, UnicodeError, pa.ArrowException):
        same = False
    if not same:
        raise TableError(CHANGED)


def types_of(path: str | Path) -> pa.Schema:
    """The names and types of the columns of the first file of a table, those of its folders last, as text."""
    check_is_there(Path(path))
    first = next(find_files(path))
    return first.empty(first.names).schema


def check_is_there(path: Path) -> None:
    """Raise ``TableError`` unless there is a file or a folder."""
    if not path.exists():
        raise TableError(f"There is no file {path}.")


def folder_texts(path: str | Path) -> dict[str, pa.ChunkedArray]:
    """The texts that folders of a table are named after, by column: one for each file. They are values of rows."""
    cells = [file.cells for file in find_files(path)]
    return {name: pa.chunked_array([[each[name] for each in cells if name in each]], pa.string()) for name in cells[0]}


def _with_folders(fragment: dataset.ParquetFileFragment, path: str | Path) -> File:
    """A file with the values that the folders between it and ``path`` are named after."""
    root = os.path.abspath(path)
    *folders, name = os.path.relpath(os.path.abspath(fragment.path), root).split(os.sep)
    values = values_of(folders)
    for own in fragment.physical_schema.names:
        if own in values:
            raise TableError(
                f"Column {own!r} is in the Parquet files of {path} and in the names of their folders, {own}=…. Which of the "
                "two is meant? Rename one of them."
            )
    shown = os.path.join(root, *map(without_value, folders), name) if folders else fragment.path
    return File(fragment, shown, {key: pa.scalar(value, pa.string()) for key, value in values.items()})


def values_of(folders: list[str]) -> dict[str, str | None]:
    """The values that folders such as ``year=2024`` are named after, by column; None where one is missing."""
    values: dict[str, str | None] = {}
    for key, equals, value in (folder.partition("=") for folder in folders):
        if key and equals:
            if unquote(key) in values:
                raise TableError(f"Two folders of one path are named after column {unquote(key)!r}. Rename one of them.")
            values[unquote(key)] = None if value in ("", NOTHING) else unquote(value)
    return values


def without_value(folder: str) -> str:
    """The name of a folder with … in the place of a value."""
    key, equals, _ = folder.partition("=")
    return f"{key}=…" if key and equals else folder


def read_texts(texts: pa.Table, schema: Schema) -> pa.Table:
    """What folders are named after, as the schema reads text: as numbers where it declares them; others stay text."""
    declared = {**schema.features, schema.target.name: schema.target}
    numbers = [name for name in texts.column_names if name in declared and is_number(declared[name])]
    read = read_cells(texts.select(numbers), schema, Format())
    for name in numbers:
        texts = texts.set_column(texts.column_names.index(name), name, read.column(name))
    return texts


def row_groups(files: list[File]) -> Iterator[File]:
    """The row groups of all files, one after the other."""
    for file in files:
        with damaged():
            for group in file.fragment.split_by_row_group():
                yield replace(file, fragment=group)


@dataclass(frozen=True)
class ParquetTable(Source):
    """A reader of a Parquet file, or of a folder of them."""

    path: Path
    repeats = True

    @property
    def typed(self) -> bool:  # type: ignore[override]
        """Whether all columns have types: what folders are named after is text."""
        return not self.guessed()

    def names(self) -> list[str]:
        return each_once(list(types_of(self.path).names), self.path)

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type; of one that folders stand for a guess from their names."""
        types, texts = types_of(self.path), folder_texts(self.path)
        each_once(types.names, self.path)
        kinds = {field.name: kind_of_type(field.type) for field in types}
        return kinds | {name: kind_of_texts(column, name, Format()) for name, column in texts.items()}

    def guessed(self) -> list[str]:
        """The columns that folders stand for."""
        return [*folder_texts(self.path)]

    def empty(self, asked: Asked) -> Chunk:
        return asked.chunk(self.files(asked)[0].empty(asked.columns))

    def files(self, asked: Asked) -> list[File]:
        """The files, each of which was checked."""
        check_is_there(self.path)
        return open_files(self.path, asked)

    def chunks(self, asked: Asked, progress: Progress = silent) -> Iterator[Chunk]:
        """Some rows at a time, each file with its own types; see ``Source``."""
        wanted, files = asked.columns, self.files(asked)
        n_done, n_rows = 0, sum(file.n_rows for file in files)
        with telling(progress) as tell:
            # Row group after row group: a scanner of the whole table would decode many of them ahead. A cast to the types of
            # another file would fail, or change a value, because of a single record.
            for group in row_groups(files):
                for rows in group.batches(wanted, PART_ROWS):
                    yield asked.chunk(rows)
                    n_done += rows.num_rows
                    tell(n_done / max(n_rows, 1))  # a file may declare less than it has
        if n_done == 0:
            yield asked.chunk(files[0].empty(wanted))


def is_parquet(path: Path) -> bool:
    return path.suffix in PARQUET or path.is_dir()


# Texts, and what has the same layout whatever its bytes are.
AS_BYTES = {
    pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view(),
}  # fmt: skip


class ArrowFile(Typed):
    """A file of Arrow, or a stream written to one, with its declared types."""

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)

    def types(self, schema: Schema | None = None) -> pa.Schema:
        with self._opened() as (reader, _):
            return reader.schema

    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        with self._opened() as (reader, file):
            n_bytes = self.path.stat().st_size
            is_file = isinstance(reader, pa.ipc.RecordBatchFileReader)
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
                batch.validate()  # that arrays lie within the file; texts may be no UTF-8
                for column in batch.columns:
                    _check_places(column)
                yield pa.Table.from_batches([batch]).select(types.names)
                tell(file.tell() / n_bytes)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, pa.NativeFile]]:
        if not self.path.is_file():
            raise TableError(f"There is no file {self.path}.")
        try:
            with pa.memory_map(str(self.path)) as file:
                try:
                    reader = pa.ipc.open_file(file)
                except pa.ArrowInvalid:
                    file.seek(0)
                    reader = pa.ipc.open_stream(file)
                with reader:
                    yield reader, file
        except (OSError, pa.ArrowException):  # whose own message could quote values
            raise TableError(
                f"{self.path} cannot be read as a file of Arrow (Feather): it is damaged, or of version 1."
            ) from None


def _check_places(column: pa.Array) -> None:
    """Raise unless a column has its values where it says: to read another place could end the process."""
    if pa.types.is_dictionary(column.type):
        pa.DictionaryArray.from_arrays(column.indices, column.dictionary)  # which compares indices with their number
        _check_places(column.dictionary)
    elif column.type in AS_BYTES:
        column.view(AS_BYTES[column.type]).validate(full=True)


BROKEN = "The stream of Arrow batches ended with an error, or was read before. Open it again. Charges stay."


class ArrowStream(Typed):
    """An object with ``__arrow_c_stream__``, read once, with the types that it declares."""

    where = "the stream"

    def __init__(self, table: Any) -> None:
        if not hasattr(table, "__arrow_c_stream__"):
            raise TableError(
                f"{shown(table)} is no table that can be read: it gives no batches of Arrow. Pass a table of pandas, "
                "polars, pyarrow, DuckDB, Ibis, Dask or Spark, a path, or the address of a table in a database."
            )
        try:
            self._reader = pa.RecordBatchReader.from_stream(table)
        except Exception:  # its own words may quote a row
            raise TableError(BROKEN) from None
        self._types = self._reader.schema

    def types(self, schema: Schema | None = None) -> pa.Schema:
        return self._types

    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        try:
            for batch in self._reader:
                yield pa.Table.from_batches([batch]).select(types.names)
        except Exception:
            raise TableError(BROKEN) from None

    def close(self) -> None:
        self._reader.close()
