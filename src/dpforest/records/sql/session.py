"""The connection of one fit with a database: it runs queries and makes temporary tables. Sees sums, which queries return.

What depends on the names and types of the table's columns is compiled by Ibis. All later queries are text of this package,
over tables of whole numbers whose names are its own, in what DuckDB and PostgreSQL share: compiling them took longer than
running them. An error of the engine may quote rows or credentials, so none of its words are passed on.
"""

import contextlib
import secrets
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ibis.expr.operations import SQLQueryResult

from dpforest.errors import ParameterError, TableError
from dpforest.records.files.cell_text import NO_TEXT
from dpforest.records.memory.counter import Guarded
from dpforest.records.sql.expressions import READERS
from dpforest.records.sql.streams import as_bytes, decoder

# Engines whose temporary tables hold rows. Those of others may be views, in which every query would draw anew.
KEEPERS = ("duckdb", "postgres")
# The number of groupings that are asked for in one query: with more, engines take more memory and no less time.
QUERIES_AT_ONCE = 5


@dataclass(frozen=True)
class Relation:
    """A table in the database with its columns: one that is kept, or a query, which is part of all queries about it."""

    name: str
    columns: tuple[str, ...]
    definitions: "tuple[Definition, ...]" = ()  # of queries that it needs, and last its own

    def numbered(self, letter: str) -> list[str]:
        """The names of columns that are this letter and a number, such as w0, w1, …"""
        return [name for name in self.columns if name[0] == letter and name[1:].isdigit()]


@dataclass(frozen=True)
class Definition:
    """A query with a name, by which others may ask about its result; ``hint`` says whether an engine should keep that."""

    name: str
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Join:
    """A small public table of which each record finds one row, by this condition."""

    table: Relation
    condition: str


class Session(Guarded):
    """The engine of a table with the temporary tables of one fit, which are dropped at the end.

    Privacy: not private by itself; what it fetches is sealed by its callers.
    """

    def __init__(self, backend: Any, temporary: bool | None) -> None:
        self.backend = backend
        self._prefix = f"dpforest_{secrets.token_hex(8)}"
        self._n_made = 0
        self._made: dict[str, None] = {}
        self._sent: dict[tuple[str, ...], Relation] = {}
        self._named: dict[str, tuple[Definition, ...]] = {}  # what queries that Ibis knows need, by their text
        self._snapshot = contextlib.ExitStack()
        self._owns_transactions = backend.name == "postgres" and _is_idle(backend.con)
        weakref.finalize(self, _forget, backend, self._made, self._snapshot)
        if temporary and backend.name not in KEEPERS:
            raise ParameterError(
                f"Temporary tables of {backend.name!r} are not known to hold rows; leave out temporary=True."
            )
        self.temporary = self._may_keep() if temporary is None else temporary
        if not self.temporary:
            self._hold_still()

    def _may_keep(self) -> bool:
        """Whether this account may make temporary tables, which is a fact about the account and not about rows."""
        if self.backend.name not in KEEPERS:
            return False
        try:
            self.drop(self._keep("SELECT 1 AS x", ("x",)))
        except TableError:
            return False
        return True

    def _hold_still(self) -> None:
        """Let all queries see the table as it is now, where the engine can (PostgreSQL): in a read-only transaction."""
        if self.backend.name != "postgres":
            return
        from psycopg import IsolationLevel

        with refusing("A transaction was refused by the database."):
            connection = self.backend.con
            before = connection.isolation_level, connection.read_only
            connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
            self._snapshot.callback(_restore, connection, *before)
            self._snapshot.enter_context(connection.transaction())

    def compiled(self, table: Any) -> Relation:
        """A table of Ibis as a query."""
        name = self._new_name()
        # Each query reads the few columns that it needs anew: to keep them all could take more memory than there is.
        own = Definition(name, str(self.backend.compile(table)), "NOT MATERIALIZED")
        asked = [each.query for each in table.op().find(SQLQueryResult)]
        needed = (definition for each in asked for definition in self._named.get(each, ()))
        return Relation(name, tuple(table.columns), (*needed, own))

    def table(self, known: Relation, schema: Any) -> Any:
        """A table that was kept, or a query, for Ibis; its columns have the types of ``schema``."""
        query = self.backend.sql(f"SELECT * FROM {known.name}", schema=schema)
        self._named[query.op().query] = known.definitions
        return query

    def define(self, select: str, columns: Sequence[str], source: Relation, hint: str = "") -> Relation:
        """A query about ``source`` that is part of later queries."""
        name = self._new_name()
        return Relation(name, tuple(columns), (*source.definitions, Definition(name, self._translated(select), hint)))

    def let(self, select: str, columns: Sequence[str], source: Relation) -> Relation:
        """A table with the result of a query about ``source``: a temporary one or, without these, part of later queries."""
        return self._keep(select, columns, source) if self.temporary else self.define(select, columns, source)

    def _new_name(self) -> str:
        self._n_made += 1
        return f"{self._prefix}_{self._n_made}"

    def _keep(self, select: Any, columns: Sequence[str], source: Relation | None = None) -> Relation:
        """A new temporary table with the result of a query, or with the rows of a table of Arrow."""
        name = self._new_name()
        with refusing("The database could not make a temporary table, or the connection was lost."):
            self._made[name] = None
            if isinstance(select, str):
                self._run(f"CREATE TEMPORARY TABLE {name} AS {self._with(source)}{select}")
            else:
                self.backend.create_table(name, select, temp=True)
        return Relation(name, tuple(columns))

    def change(self, table: Relation, columns: dict[str, str], join: Join | None = None) -> Relation:
        """A table that was kept, with columns that are added or replaced; the old table must not be used again."""
        if self.backend.name == "duckdb" and set(columns) <= set(table.columns):
            # DuckDB writes these columns only. Other engines would write whole rows, and keep the old ones beside them.
            sets = ", ".join(f"{name} = {value}" for name, value in columns.items())
            with refusing("The database could not change a temporary table, or the connection was lost."):
                self._run(
                    f"UPDATE {table.name} SET {sets}{f' FROM {join.table.name} WHERE {join.condition}' if join else ''}"
                )
            return table
        source = f"{table.name} JOIN {join.table.name} ON {join.condition}" if join else table.name
        changed = self.let(f"SELECT {listed(table.columns, columns)} FROM {source}", names(table.columns, columns), table)
        self.drop(table)
        return changed

    def send(self, columns: dict[str, Sequence[int]]) -> Relation:
        """A new temporary table of public whole numbers."""
        if self.backend.name == "duckdb":
            import pyarrow as pa

            # DuckDB takes long to read long texts.
            return self._keep(pa.table(columns), tuple(columns))
        arrays = (f"UNNEST(ARRAY[{', '.join(map(str, values))}]) AS {name}" for name, values in columns.items())
        return self._keep(f"SELECT {', '.join(arrays)}", tuple(columns))

    def look_up(self, columns: dict[str, np.ndarray]) -> Relation:
        """A temporary table of public whole numbers, which is sent once in a fit."""
        key = tuple(columns)
        if key not in self._sent:
            self._sent[key] = self.send({name: values.tolist() for name, values in columns.items()})
        return self._sent[key]

    def drop(self, table: Relation) -> None:
        """Drop a table that was kept; other tables are left alone."""
        if table.name in self._made:
            with refusing("The database could not drop a temporary table, or the connection was lost."):
                _drop(self.backend, table.name)
            del self._made[table.name]

    def fetch(self, select: str, source: Relation) -> dict[str, np.ndarray]:
        """The result of a query about ``source``, without nulls, as arrays of integers by column."""
        with refusing("The database could not answer a query, or the connection was lost."):
            return {name: _whole(values) for name, values in self._answer(select, source).items()}

    def fetch_texts(self, select: str, source: Relation) -> dict[str, int]:
        """The result of a query about ``source`` that gives a number ``n`` for each ``text``."""
        with refusing("The database could not answer a query, or the connection was lost."):
            if self.backend.name != "postgres":
                found = self._answer(select, source)
                return dict(zip(map(str, found["text"]), map(int, found["n"]), strict=True))
            found = self._answer(f"SELECT {as_bytes('text')} AS text, n FROM ({select}) AS counted", source)
            texts = map(decoder(self.backend.con), found["text"])
            return {text.decode(): int(n) for text, n in zip(texts, found["n"], strict=True) if text not in (None, NO_TEXT)}

    def _answer(self, select: str, source: Relation) -> dict[str, Any]:
        """The columns of a query's result."""
        if self.backend.name == "duckdb":
            return dict(self.backend.con.execute(self._with(source) + select).fetchnumpy())
        if self.backend.name == "postgres":
            with self._transaction() as cursor:
                cursor.execute(self._with(source) + select)
                columns = [column.name for column in cursor.description]
                found = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(columns)
            return dict(zip(columns, found, strict=True))
        text = self._with(source) + self._translated(select)
        table = self.backend.to_pyarrow(self.backend.sql(text))
        return {name: table.column(name).to_pylist() for name in table.column_names}

    def _run(self, statement: str) -> None:
        """Run a statement without a result."""
        if self.backend.name == "postgres":
            with self._transaction() as cursor:
                cursor.execute(statement)
        else:
            self.backend.con.execute(statement)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A cursor of PostgreSQL in a transaction, or in a part of the user's own."""
        with self.backend.begin() as cursor:
            if self._owns_transactions:
                # To compile a program for a query takes longer than to run it. The setting ends with the transaction.
                cursor.execute("SET LOCAL jit = off")
            yield cursor

    def _with(self, source: Relation | None) -> str:
        """The clause that defines the queries that a query about ``source`` needs."""
        definitions = () if source is None else source.definitions
        reads = self.backend.name in READERS
        texts = (
            f"{each.name if reads else self._translated(each.name)} AS {each.hint if reads else ''} ({each.text})"
            for each in definitions
        )
        return f"WITH {', '.join(texts)} " if definitions else ""

    def _translated(self, text: str) -> str:
        """A query of this package in the SQL of the engine."""
        if self.backend.name in READERS:
            return text
        import sqlglot

        return sqlglot.transpile(text, read="postgres", write=self.backend.dialect, identify=True)[0]

    def close(self) -> None:
        """Drop all temporary tables that are left; those that cannot be dropped end with the connection.

        The session can make others afterwards, as a vault does on which several models are fitted.
        """
        _forget(self.backend, self._made, self._snapshot)
        self._sent.clear()


def names(columns: Sequence[str], changed: dict[str, str]) -> tuple[str, ...]:
    """The names of all columns, once some have been added or replaced."""
    return tuple(dict.fromkeys([*columns, *changed]))


def listed(columns: Sequence[str], changed: dict[str, str]) -> str:
    """The columns of a table as those of a query, with some that are added or replaced by expressions."""
    whole = {name: name for name in columns} | changed
    return ", ".join(name if value == name else f"{value} AS {name}" for name, value in whole.items())


def _whole(values: Any) -> np.ndarray:
    """Values of a column as integers; raises if one is null, which DuckDB gives as a masked entry."""
    if np.ma.is_masked(values):
        raise ValueError("null")
    return np.asarray(values).astype(np.int64)


@contextlib.contextmanager
def refusing(message: str) -> Iterator[None]:
    """Turn whatever an engine raises into a ``TableError`` with this message."""
    try:
        yield
    except Exception:
        raise TableError(message) from None


def _is_idle(connection: Any) -> bool:
    """Whether a connection with PostgreSQL is in no transaction, so that what is set in one of ours ends with it."""
    from psycopg.pq import TransactionStatus

    return connection.info.transaction_status == TransactionStatus.IDLE


def _restore(connection: Any, isolation_level: Any, read_only: Any) -> None:
    if not connection.closed:
        connection.isolation_level, connection.read_only = isolation_level, read_only


def _drop(backend: Any, name: str) -> None:
    # Temporary tables of DuckDB live in a catalog of their own.
    where: dict[str, Any] = {"database": ("temp", "main")} if backend.name == "duckdb" else {}
    backend.drop_table(name, force=True, **where)


def _forget(backend: Any, made: dict[str, None], snapshot: contextlib.ExitStack) -> None:
    """Drop all tables that were made, and end the transaction; errors are ignored."""
    steps: list[Callable[[], None]] = [lambda name=name: _drop(backend, name) for name in made]  # type: ignore[misc]
    for step in (*steps, snapshot.close):
        # With the connection lost there is nothing left to forget.
        with contextlib.suppress(Exception):
            step()
    made.clear()
