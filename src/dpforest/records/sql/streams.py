"""The result of a query as batches of Arrow, some rows at a time, as DuckDB and PostgreSQL each give them. Sees rows."""

import codecs
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import asking
from dpforest.records.files.cell_text import NO_TEXT
from dpforest.schema import LONGEST_TEXT

# The number of rows that are fetched at once; as values of Python these take more memory than as arrays.
PART_ROWS = {"duckdb": 1 << 17, "postgres": 1 << 15}
# Texts that do not depend on the settings of a server, and floats to the last digit.
PLAIN = ("SET LOCAL datestyle = 'ISO'", "SET LOCAL timezone = 'UTC'", "SET LOCAL extra_float_digits = 3")
# Encodings of PostgreSQL that Python has under other names; bytes in none are taken for UTF-8.
CODECS = {"SQL_ASCII": "UTF-8", "EUC_CN": "GB2312", "KOI8R": "KOI8-R", "KOI8U": "KOI8-U"}
# Types that every database of an engine has and whose values their texts give back, as DuckDB or PostgreSQL names them.
KEPT = re.compile(
    r"(?:uuid|date|time|interval|decimal|numeric|u?hugeint|inet|cidr|macaddr)[a-z0-9_ ]*(?:\(\d+(?:, ?\d+)?\))?[a-z ]*",
    re.IGNORECASE | re.ASCII,
)


def stream(backend: Any, query: str, types: Mapping[str, pa.DataType], longest: int) -> Generator[pa.Table]:
    """Tables of some rows of a query's result, at least one; columns have these types.

    Of a text with more than ``longest`` characters so many are given, and a digest.
    """
    own, encoding = backend.name, "UTF8" if backend.name == "duckdb" else server_encoding(backend.con)
    read = [f"{_carried(name, longest, encoding)} AS {name}" if types[name] == pa.string() else name for name in types]
    # A batch of texts of Arrow has at most 2 GiB.
    n_rows = max(PART_ROWS[own] * LONGEST_TEXT // longest, 1)
    query = f"SELECT {', '.join(read)} FROM ({query}) AS rows"
    return (_of_duckdb if own == "duckdb" else _of_postgres)(backend.con, query, types, n_rows)


def _carried(name: str, longest: int, encoding: str) -> str:
    """An expression for texts of any type, such as an enumeration, that the driver carries whatever they are."""
    text = f"CAST({name} AS TEXT)"
    short = f"CASE WHEN LENGTH({text}) <= {longest} THEN {text} ELSE LEFT({text}, {longest}) || MD5({text}) END"
    return short if encoding == "UTF8" else as_bytes(short)


def as_bytes(text: str) -> str:
    """An expression for the bytes of a text in PostgreSQL, which fails for none, as a change of the encoding would."""
    return f"CONVERT_TO({text}, CURRENT_SETTING('server_encoding'))"


def server_encoding(connection: Any) -> str:
    """What PostgreSQL calls the encoding of a database."""
    return str(connection.info.parameter_status("server_encoding"))


def decoder(connection: Any) -> Callable[[bytes | None], bytes | None]:
    """A function that gives bytes of a database's encoding in UTF-8, and ``NO_TEXT`` for what is no text in it.

    Raises ``TableError`` for an encoding that Python does not know.
    """
    named = server_encoding(connection)
    try:
        codec = codecs.lookup(CODECS.get(named) or named.replace("WIN", "CP"))
    except LookupError:
        raise TableError(
            f"The database is in the encoding {named}, whose texts cannot be read. Copy the table to a database in UTF8."
        ) from None
    read = asking(lambda raw: codec.decode(raw)[0].encode(), NO_TEXT)
    return lambda raw: None if raw is None else read(raw)


def check_encoding(backend: Any) -> None:
    """Raise ``TableError`` unless texts of a database can be read, whatever they are."""
    if backend.name == "postgres":
        decoder(backend.con)


def _of_duckdb(connection: Any, query: str, types: Mapping[str, pa.DataType], n_rows: int) -> Generator[pa.Table]:
    connection.execute("SET TimeZone = 'UTC'")
    with connection.sql(query).to_arrow_reader(n_rows) as reader:
        is_empty = True
        for batch in reader:
            is_empty = False
            yield pa.Table.from_batches([batch])
        if is_empty:
            yield reader.schema.empty_table()


def _of_postgres(connection: Any, query: str, types: Mapping[str, pa.DataType], n_rows: int) -> Generator[pa.Table]:
    decode = decoder(connection)
    with connection.cursor() as cursor:
        for setting in PLAIN:
            cursor.execute(setting)
    # With a name the server keeps the result, and sends the rows that are asked for.
    with connection.cursor(name=f"dpforest_{secrets.token_hex(8)}") as cursor:
        cursor.execute(query)
        rows = cursor.fetchmany(n_rows)
        while True:
            columns = zip(*rows, strict=True) if rows else ([] for _ in types)
            arrays = [_array(list(column), kind, decode) for column, kind in zip(columns, types.values(), strict=True)]
            yield pa.Table.from_arrays(arrays, list(types))
            rows = cursor.fetchmany(n_rows)
            if not rows:
                return


def _array(values: list[Any], kind: pa.DataType, decode: Callable[[bytes | None], bytes | None]) -> pa.Array:
    """Values as an array of a type; null for those that it cannot hold. Texts may be bytes of the database's encoding."""
    if kind == pa.string() and any(isinstance(value, bytes) for value in values):
        return pa.array(map(decode, values), pa.binary()).view(kind)
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
