"""Tables on a Dask cluster: dataframes, and Parquet files that workers can read. Sees rows on workers only."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from dpforest.errors import MissingExtraError, ParameterError, TableError, shown
from dpforest.records.columns import asking, column_kind, read_columns, read_target, read_values, target_values, to_numbers
from dpforest.records.given import to_objects
from dpforest.records.people import check_id_column, read_ids
from dpforest.records.scan import BATCH_ROWS, Batch, Wanted
from dpforest.records.source import Asked, Progress, silent, telling
from dpforest.records.sources.arrow import DAMAGED, File, check_unchanged, open_files
from dpforest.records.sources.clusters import ClusterTable, Read, Task, answer, types_of, used_columns
from dpforest.records.sources.tasks import Answer, Failure, Packed, Types
from dpforest.schema import Bounded, Numeric, Schema

# Row groups of a file are read together up to this many rows: a task for each of many small ones would take longer.
PARTITION_ROWS = 1 << 19
# Numbers of numpy: a partition in which one is missing has floats for whole numbers, and not for all of them from EXACT on.
INEXACT, EXACT = ("int64", "uint64", "float64"), 1 << 53
Partition = tuple[Read, tuple[Any, ...]]  # what reads a partition, and delayed values for it


class DaskTable(ClusterTable):
    """A table on a Dask cluster, of partitions with some columns each; see ``ClusterTable``."""

    engine = "Dask"

    def __init__(self, client: Any, parts: Callable[[list[str]], list[Partition]], progress: Progress) -> None:
        super().__init__(progress)
        self._client, self._parts = client, parts

    def answers(self, wanted: Wanted, task: Task) -> Iterator[Answer | Failure]:
        """What workers answer, in the order of partitions."""
        from dask import delayed

        tasks = [
            delayed(Packed(answer, read, wanted, task), pure=False)(number, *given)
            for number, (read, given) in enumerate(self._parts(wanted.names))
        ]
        futures = self._client.compute(tasks)[::-1]
        with telling(self.progress) as tell:
            while futures:  # each result is freed on its worker when it is here
                yield futures.pop().result()
                tell(1 - len(futures) / len(tasks))


def dask_table(
    table: Any, schema: Schema, client: Any = None, id_column: str | None = None, progress: Progress = silent
) -> DaskTable:
    """A dask dataframe, or the Parquet file or folder at a path, checked to have what the schema declares; no row is read.

    ``client`` is by default the current one.
    """
    client = default_client() if client is None else client
    if isinstance(table, str | os.PathLike):
        return _table_of_files(os.fspath(table), schema, client, id_column, progress)
    if not all(hasattr(table, name) for name in ("to_delayed", "columns", "dtypes")):
        raise TableError(f"Expected a dask dataframe or the path of a Parquet folder, not {shown(table)}.")
    given = {str(name): name for name in table.columns}
    names = {name: given[name] for name in used_columns(table, schema, id_column)}
    numeric = [name for name, part in schema.features.items() if isinstance(part, Numeric)]
    numeric += [schema.target.name] if isinstance(schema.target, Bounded) else []
    inexact = {name for name, own in names.items() if str(table.dtypes[own]) in INEXACT} - {*numeric}
    declared = Declared(_kinds(table, names, schema, id_column), names, frozenset(inexact))

    def parts(wanted: list[str]) -> list[Partition]:
        return [(declared.read, (frame,)) for frame in table[[names[name] for name in wanted]].to_delayed()]

    return DaskTable(client, parts, progress)


def _kinds(table: Any, names: dict[str, Any], schema: Schema, id_column: str | None) -> dict[str, str]:
    """The kind of each column, by the types that a whole dataframe declares; raises if they do not fit the schema."""
    import pandas as pd

    empty = pd.DataFrame({name: pd.Series(dtype=table.dtypes[given]) for name, given in names.items()})
    read_columns(empty[[*schema.features]], schema)
    read_target(empty[schema.target.name], schema.target)
    if id_column is not None:
        read_ids(empty[id_column])
    frame = nw.from_native(empty, eager_only=True)
    return {name: column_kind(frame.get_column(name))[0] for name in names}


@dataclass(frozen=True)
class Declared:
    """What a dataframe declares of its columns as a whole, by which workers read each partition."""

    kinds: dict[str, str]  # see ``column_kind``
    names: dict[str, Any]  # how the dataframe names each column of the schema
    inexact: frozenset[str]  # columns whose values are compared, and may be floats in one partition and not in another

    def read(self, wanted: Wanted, frame: Any) -> tuple[Batch, Types]:
        """The wanted columns of a partition, and the names of their types."""
        whole, schema = nw.from_native(frame, eager_only=True), wanted.schema
        features = [self._column(whole, name) if name in wanted.features else None for name in schema.features]
        values = target_values(self._column(whole, schema.target.name), schema.target)
        ids = None if wanted.ids is None else read_ids(self._column(whole, wanted.ids))
        given = {name: self.names[name] for name in wanted.names}
        types = {name: str(frame[own].dtype) for name, own in given.items() if own in whole.columns}
        return Batch(features, values, ids), types

    def _column(self, frame: "nw.DataFrame[Any]", name: str) -> Any:
        """A column of a partition; as an array of objects if its kind is not the one that the table declares.

        Values may be the reason for another kind. One that does not fit is missing or "other", as everywhere, and never an
        error.
        """
        given = self.names[name]
        if given not in frame.columns:
            return np.full(len(frame), None, dtype=object)
        column = frame.get_column(given)
        if name in self.inexact:
            return _exact(column)
        return column if column_kind(column)[0] == self.kinds[name] else to_objects(read_values(column))


def _if_exact(value: Any) -> Any:
    value = np.generic.item(value) if isinstance(value, np.generic) else value
    is_number = type(value) in (int, float, Decimal)
    return value if not is_number or abs(value) < EXACT else None


@np.errstate(all="ignore")
def _exact(column: Any) -> Any:
    """A column without numbers that are not the same as floats and as whole numbers: these count as missing."""
    if column_kind(column)[0] != "number":
        known = asking(_if_exact, None)
        return to_objects([known(value) for value in read_values(column)])
    values = to_numbers(column)
    beyond = ~((values < EXACT) & (values > -EXACT))
    return np.where(beyond, np.nan, values.astype(np.float64)) if beyond.any() else values


def _table_of_files(path: str, schema: Schema, client: Any, id_column: str | None, progress: Progress) -> DaskTable:
    files = open_files(path, Asked(schema, with_target=True))
    if id_column is not None:
        for file in files:
            check_id_column(id_column, file.names, schema, file.shown)
            read_ids(file.empty([id_column]).column(0))
    # A file need not have the same number on the disks of all machines.
    pieces = [piece for file in files for piece in _pieces(replace(file, stamp=file.stamp[:-1]))]
    return DaskTable(client, lambda _: [(partial(read_file, piece), ()) for piece in pieces], progress)


def _pieces(file: File) -> list[File]:
    """The pieces of a file, each of whole row groups; a file without row groups has none."""
    pieces, n_rows = list[list[int]](), PARTITION_ROWS
    for group in file.fragment.row_groups:
        if n_rows >= PARTITION_ROWS:
            pieces.append([])
            n_rows = 0
        pieces[-1].append(group.id)
        n_rows += group.num_rows
    return [file.of(piece) for piece in pieces]


def read_file(file: File, wanted: Wanted) -> tuple[Batch, Types]:
    """The wanted columns of some row groups, and the names of their types; raises if the file changed since."""
    check_unchanged([file])
    tables = [*file.batches(wanted.names, BATCH_ROWS)]
    check_unchanged([file])
    table = pa.concat_tables(tables) if tables else file.empty(wanted.names)
    if len(table) != file.n_rows:
        raise TableError(DAMAGED)
    return Batch.of(table, wanted), types_of(table)


def default_client() -> Any:
    try:
        from distributed import get_client
    except ImportError:
        raise MissingExtraError("A Dask cluster", "dask") from None
    try:
        return get_client()
    except ValueError:
        raise ParameterError(
            "There is no Dask client. Start one, for example client = distributed.Client('tcp://scheduler:8786'), or "
            "distributed.Client() for a cluster on this machine."
        ) from None
