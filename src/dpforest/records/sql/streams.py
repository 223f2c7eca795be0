"""The result of a query as batches of Arrow, some rows at a time, as DuckDB and PostgreSQL each give them. Sees rows."""

import re
import secrets
from collections.abc import Generator, Mapping
from typing import Any

import pyarrow as pa

from dpforest.records.columns import asking

# The number of rows that are fetched at once; as values of Python these take more memory than as arrays.
PART_ROWS = {"duckdb": 1 << 17, "postgres": 1 << 15}
# Texts that do not depend on the settings of a server, and floats to the last digit.
PLAIN = ("SET LOCAL datestyle = 'ISO'", "SET LOCAL timezone = 'UTC'", "SET LOCAL extra_float_digits = 3")
# Types that every database of an engine has and whose values their texts give back, as DuckDB or PostgreSQL names them.
KEPT = re.compile(
    r"(?:uuid|date|time|interval|decimal|numeric|u?hugeint|inet|cidr|macaddr)[a-z0-9_ ]*(?:\(\d+(?:, ?\d+)?\))?[a-z ]*",
    re.IGNORECASE | re.ASCII,
)


def stream(backend: Any, query: str, types: Mapping[str, pa.DataType]) -> Generator[pa.Table]:
    """Tables of some rows of a query's result, at least one; columns have these types."""
    return (_of_duckdb if backend.name == "duckdb" else _of_postgres)(backend.con, query, types)


def _of_duckdb(connection: Any, query: str, types: Mapping[str, pa.DataType]) -> Generator[pa.Table]:
    connection.execute("SET TimeZone = 'UTC'")
    with connection.sql(query).to_arrow_reader(PART_ROWS["duckdb"]) as reader:
        is_empty = True
        for batch in reader:
            is_empty = False
            yield pa.Table.from_batches([batch])
        if is_empty:
            yield reader.schema.empty_table()


def _of_postgres(connection: Any, query: str, types: Mapping[str, pa.DataType]) -> Generator[pa.Table]:
    with connection.cursor() as cursor:
        for setting in PLAIN:
            cursor.execute(setting)
    # With a name the server keeps the result, and sends the rows that are asked for.
    with connection.cursor(name=f"dpforest_{secrets.token_hex(8)}") as cursor:
        cursor.execute(query)
        rows = cursor.fetchmany(PART_ROWS["postgres"])
        while True:
            columns = zip(*rows, strict=True) if rows else ([] for _ in types)
            arrays = [_array(list(column), kind) for column, kind in zip(columns, types.values(), strict=True)]
            yield pa.Table.from_arrays(arrays, list(types))
            rows = cursor.fetchmany(PART_ROWS["postgres"])
            if not rows:
                return


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as an array of a type; null for those that it cannot hold."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError):
        read = asking(lambda value: pa.scalar(value, kind), None)
        return pa.array([read(value) for value in values], kind)


def types_in(backend: Any, query: str) -> dict[str, str]:
    """The types of a query's columns as the engine names them; "" for those that are kept as text elsewhere."""
    nobody = f"SELECT * FROM ({query}) AS rows LIMIT 0"
    if backend.name == "duckdb":
        found = backend.con.sql(nobody)
        types = dict(zip(found.columns, map(str, found.types), strict=True))
    else:
        with backend.con.cursor() as cursor:
            cursor.execute(nobody)
            numbers = {column.name: column.type_code for column in cursor.description}
            cursor.execute("SELECT format_type(number, NULL) FROM UNNEST(%s) AS number", [list(numbers.values())])
            types = dict(zip(numbers, (name for (name,) in cursor.fetchall()), strict=True))
    return {name: kind if is_kept(kind) else "" for name, kind in types.items()}


def is_kept(kind: str) -> bool:
    """Whether a text is the name of a type in which a column of texts may be written."""
    return KEPT.fullmatch(kind) is not None
