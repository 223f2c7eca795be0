"""Rows of a batch on their way from a worker to the trainer, as what the schema says that they are. Sees rows.

The type of a column that travels follows from the schema alone, never from a value: numbers are doubles, dates are seconds,
texts are texts, and values of a list, which may be of any types, are their places in it. What is read of them at the trainer
is what would have been read on the worker.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from dpforest.records.batch import Batch, Wanted
from dpforest.records.categories import PLACES, category_codes, to_texts
from dpforest.records.columns import to_numbers
from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.records.people import distinct_ids, number_persons
from dpforest.schema import Categorical, Classes, Date, Feature

# No text in UTF-8 has this byte, so it stands for a value that has no text, and is read as one.
NO_TEXT = b"\xff"

Ids = tuple[list[Any], np.ndarray]  # see ``distinct_ids``


def pack(batch: Batch, wanted: Wanted, rows: np.ndarray | None = None) -> tuple[pa.Table, Ids | None]:
    """Some rows of a batch, by index, as a table of plain types, and their ids, if these are wanted; all rows by default."""
    schema = wanted.schema
    given = dict(zip(schema.features, batch.columns, strict=True))
    parts = [(name, *_packed(schema.features[name], given[name])) for name in wanted.features]
    parts.append((schema.target.name, pa.array(batch.values), isinstance(schema.target, Classes)))
    fields = [pa.field(name, array.type, metadata=PLACES if is_place else None) for name, array, is_place in parts]
    table = pa.Table.from_arrays([array for _, array, _ in parts], schema=pa.schema(fields))
    ids = None if wanted.ids is None else distinct_ids(batch.ids)
    if rows is None:
        return table, ids
    return table.take(pa.array(rows)), ids and (ids[0], ids[1][rows])


@np.errstate(all="ignore")  # numpy may warn about a value, or raise if callers have asked for that
def _packed(feature: Feature, column: Any) -> tuple[pa.Array, bool]:
    """A column of a feature, and whether it holds places in a list."""
    if isinstance(feature, Date):
        seconds = to_seconds(column)
        return pa.array(seconds, mask=seconds == NO_DATE).view(pa.timestamp("s")), False
    if not isinstance(feature, Categorical):
        return pa.array(to_numbers(column).astype(np.float64)), False
    if not feature.by_text:
        return pa.array(category_codes(column, feature)), True
    texts, indices = to_texts(column)
    values = pa.array([*map(str.encode, texts), NO_TEXT, None], pa.large_binary())
    return values.view(pa.large_string()).take(pa.array(indices)), False


def unpack(table: pa.Table, ids: Ids | None, wanted: Wanted, persons: dict[Any, int]) -> pa.Table:
    """The table with the number of each row's person in the place of its id; new ids are entered in ``persons``."""
    if wanted.ids is None or ids is None:
        return table
    numbers = number_persons(ids, persons=persons)
    return table.append_column(wanted.ids, pa.array(numbers, mask=numbers < 0))
