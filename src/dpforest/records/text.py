"""Text columns that the schema declares as numbers. Sees rows.

Column types come from the schema, never from values, so a stray value cannot turn a file into an error.
"""

import pyarrow as pa
import pyarrow.compute as pc

from dpforest.schema import Classes, Numeric, Schema


def text_to_numbers(table: pa.Table, schema: Schema) -> pa.Table:
    """The table with text read as numbers where the schema has numbers; null where it is none."""
    for place, name in enumerate(table.column_names):
        kind = table.schema.field(place).type
        if is_number(schema, name) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            read = read_truths if _is_truth(schema, name) else read_numbers
            table = table.set_column(place, name, read(table.column(place)))
    return table


def is_number(schema: Schema, name: str) -> bool:
    """Whether a column holds numbers: a numeric feature, a bounded target, or categories that are numbers."""
    part = schema.target if name == schema.target.name else schema.features[name]
    if isinstance(part, Numeric) or part.kind == "bounded":
        return True
    values = part.labels if isinstance(part, Classes) else part.categories  # type: ignore[union-attr]
    return all(isinstance(value, int | float) for value in values)


def _is_truth(schema: Schema, name: str) -> bool:
    part = schema.target if name == schema.target.name else schema.features[name]
    values = getattr(part, "labels", getattr(part, "categories", (None,)))
    return all(isinstance(value, bool) for value in values)


def read_truths(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text such as true, False, 1 or 0 as numbers 1 and 0; null where it is none."""
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    numbers = pc.case_when(pc.make_struct(pc.equal(lower, "true"), pc.equal(lower, "false")), "1", "0", lower)
    return read_numbers(numbers)


def read_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
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
