"""Columns that say which row is which, as predictions carry them. Sees ids of rows.

Files of a folder may have a column in different types. The first part decides which type is written, by types alone.
"""

import pyarrow as pa

from dpforest.errors import TableError


class Ids:
    """A function that gives columns of ids in types that can be written, the same for all parts of a table."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None

    def __call__(self, columns: pa.Table) -> pa.Table:
        plain = pa.table({name: _plain(name, columns.column(name)) for name in columns.column_names})
        fields = [field.with_metadata(columns.schema.field(field.name).metadata) for field in plain.schema]
        self._schema = self._schema or pa.schema(fields)
        for field, first in zip(fields, self._schema, strict=True):
            if field.type != first.type:
                raise TableError(
                    f"Column {field.name!r}, named by --id, has the type {first.type} in one file of the table and "
                    f"{field.type} in another. Write it with one type in all of them."
                )
        return plain.cast(self._schema)


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without categories or views of texts; raises ``TableError`` for one that holds no plain values."""
    if pa.types.is_dictionary(column.type):
        return _plain(name, column.cast(column.type.value_type))
    if pa.types.is_string_view(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_nested(column.type) or "binary" in str(column.type):
        raise TableError(
            f"Column {name!r}, named by --id, has the type {column.type}, which a table of predictions does not hold. Use a "
            "column of numbers, text or dates."
        )
    return column
