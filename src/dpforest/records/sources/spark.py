"""Tables on a Spark cluster. Sees rows on workers only."""

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError, shown
from dpforest.records.people import read_ids
from dpforest.records.scan import MOST_HELD, Batch, Wanted
from dpforest.records.source import Progress, check_types, silent
from dpforest.records.sources.clusters import ClusterTable, Task, answer, types_of, used_columns
from dpforest.records.sources.tasks import Answer, Failure, Packed, Types
from dpforest.schema import Schema

N_BYTES = 8  # of a number that travels
# Types of Spark, and those in which workers get them.
TYPES = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


class SparkTable(ClusterTable):
    """A dataframe of Spark; see ``ClusterTable``.

    Spark may divide the same rows into other partitions for other columns, so only their sum is known to stay the same. No
    two answers are matched row by row, and coins are tossed in one of them.

    Every question costs Spark a pass over the table. Of a table that is declared to be small all rows are kept at the
    trainer after one pass, and questions are asked there: then ``works`` is False.
    """

    engine, whole = "Spark", True

    def __init__(self, frame: Any, types: pa.Schema, progress: Progress, works: bool = True) -> None:
        super().__init__(progress)
        self.works = works
        # By place: names may have dots, or differ by case alone, which Spark takes for the same.
        places = [f"column{place}" for place in range(len(frame.columns))]
        self._places = dict(zip(map(str, frame.columns), places, strict=True))
        self._frame, self._types = frame.toDF(*places), types

    def answers(self, wanted: Wanted, task: Task) -> Iterator[Answer | Failure]:
        """What workers answer, in the order of partitions."""
        types = pa.schema([self._types.field(name) for name in wanted.names])
        frame = self._frame.select(*(self._places[name] for name in wanted.names))
        run = partial(run_partition, Packed(answer, partial(read_partition, types), wanted, task))
        self.progress("reading the table")  # of which Spark gives all answers at once
        answers = [pickle.loads(payload) for payload in _payloads(frame.mapInArrow(run, "payload binary"))]
        # Failures first: they have no number.
        yield from (own for own in answers if isinstance(own, Failure))
        yield from sorted((own for own in answers if isinstance(own, Answer)), key=lambda own: own.number)


def _payloads(frame: Any) -> list[Any]:
    """The bytes of a column; Spark 4 gives them in half the time that a list of rows takes."""
    if not hasattr(frame, "toArrow"):
        return [row[0] for row in frame.collect()]
    return [payload.as_buffer() for payload in frame.toArrow().column(0)]


def run_partition(task: Packed, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row, with what a task gives of the partition, pickled."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found = pickle.dumps(task(None if context is None else context.partitionId(), batches))
    yield pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], ["payload"])


def read_partition(types: pa.Schema, wanted: Wanted, batches: Iterable[pa.RecordBatch]) -> tuple[Batch, Types]:
    """The wanted columns of a partition, and the names of their types; none of an empty one."""
    tables = [pa.Table.from_batches([batch]).rename_columns(types.names) for batch in batches]
    table = pa.concat_tables(tables) if tables else types.empty_table()
    return Batch.of(table, wanted), types_of(table) if tables else {}


def spark_table(frame: Any, schema: Schema, id_column: str | None = None, progress: Progress = silent) -> SparkTable:
    """A dataframe of Spark (3.5 or later), checked to have the columns and types of the schema; no row is read."""
    if not all(hasattr(frame, name) for name in ("mapInArrow", "toDF", "dtypes")):
        raise TableError(f"Expected a dataframe of Spark, not {shown(frame)}.")
    declared = dict(frame.dtypes)
    types = pa.schema([(name, _in_arrow(name, declared[name])) for name in used_columns(frame, schema, id_column)])
    check_types(types, schema, True, "The dataframe")
    if id_column is not None:
        read_ids(types.empty_table().column(id_column))
    is_small = schema.n_rows is not None and schema.n_rows * len(types) * N_BYTES <= MOST_HELD
    return SparkTable(frame, types, progress, works=not is_small)


def _in_arrow(name: str, type_: str) -> pa.DataType:
    """The type in which workers get a column, by the name of its type in Spark."""
    if type_.startswith("decimal("):
        return pa.decimal128(*map(int, type_[len("decimal(") : -1].split(",")))
    if type_ not in TYPES:
        raise TableError(
            f"Column {name!r} has the type {type_} of Spark, which is not read. Cast it to one of {', '.join(TYPES)} or a "
            "decimal."
        )
    return TYPES[type_]
