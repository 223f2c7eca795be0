"""Reading of text cells of a CSV file as numbers, where the schema declares numbers. Sees rows.

A text file has no types: these come from the schema, never from values, so a stray value cannot turn a file into an error.
A table that has types is refused instead if it has text where numbers are declared.
"""

import pyarrow as pa
import pyarrow.compute as pc

from dpforest.schema import Bounded, Categorical, Classes, Date, Numeric, Schema


def text_to_numbers(table: pa.Table, schema: Schema) -> pa.Table:
    """The table of text, with columns of numbers where the schema has numbers; null where a text is no number."""
    for index, name in enumerate(table.column_names):
        if is_number(schema, name):
            read = read_truths if _is_truth(schema, name) else read_numbers
            table = table.set_column(index, name, read(table.column(index)))
    return table


def is_number(schema: Schema, name: str) -> bool:
    """Whether a column holds numbers: a numeric feature, a bounded target, or categories that are numbers."""
    part = schema.target if name == schema.target.name else schema.features[name]
    if isinstance(part, Date):
        return False  # text is read as dates wherever it comes from
    if isinstance(part, Numeric | Bounded):
        return True
    if isinstance(part, Categorical) and part.by_text:
        return False
    values = part.labels if isinstance(part, Classes) else part.categories
    return all(isinstance(value, int | float) for value in values)


def _is_truth(schema: Schema, name: str) -> bool:
    part = schema.target if name == schema.target.name else schema.features[name]
    values = getattr(part, "labels", getattr(part, "categories", (None,)))
    return all(isinstance(value, bool) for value in values)


def read_truths(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers that texts stand for, with 1 for "true" and 0 for "false" in any case; null where a text is neither."""
    lower = pc.ascii_lower(pc.ascii_trim_whitespace(column))
    numbers = pc.case_when(pc.make_struct(pc.equal(lower, "true"), pc.equal(lower, "false")), "1", "0", lower)
    return read_numbers(numbers)


def read_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers that texts stand for, as Python's ``float`` reads them; null where a text is no number, or not UTF-8."""
    try:
        return pc.cast(pc.ascii_trim_whitespace(column), pa.float64())
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array([_number(cell) for cell in column.cast(pa.binary()).to_pylist()], pa.float64())])


def _number(cell: bytes | None) -> float | None:
    try:
        return None if cell is None else float(cell.decode())
    except ValueError:  # no number, or no UTF-8
        return None
