"""The connection of one fit with a database: it runs queries and makes temporary tables. Sees sums, which queries return.

An error of the engine may quote rows or credentials, so none of its words are passed on.
"""

import contextlib
import secrets
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpforest.errors import ParameterError, TableError
from dpforest.records.memory.counter import Guarded

# Engines whose temporary tables hold rows. Those of others may be views, in which every query would draw anew.
KEEPERS = ("duckdb", "postgres")


class Session(Guarded):
    """The engine of a table with the temporary tables of one fit, which are dropped at the end.

    Privacy: not private by itself; what it fetches is sealed by its callers.
    """

    def __init__(self, backend: Any, temporary: bool | None) -> None:
        self.backend = backend
        self._prefix = f"dpforest_{secrets.token_hex(8)}"
        self._n_made = 0
        self._made: dict[str, None] = {}
        self._names: dict[Any, str] = {}
        self._sent: dict[tuple[str, ...], Any] = {}
        self._snapshot = contextlib.ExitStack()
        self._finalizer = weakref.finalize(self, _forget, backend, self._made, self._snapshot)
        if temporary and backend.name not in KEEPERS:
            raise ParameterError(
                f"Temporary tables of {backend.name!r} are not known to hold rows; leave out temporary=True."
            )
        self.temporary = self._may_keep() if temporary is None else temporary
        if not self.temporary:
            self._hold_still()

    def _may_keep(self) -> bool:
        """Whether this account may make temporary tables, which is a fact about the account and not about rows."""
        import ibis

        if self.backend.name not in KEEPERS:
            return False
        try:
            self.drop(self.keep(ibis.range(0, 1).unnest().name("x").as_table()))
        except TableError:
            return False
        return True

    def _hold_still(self) -> None:
        """Let all queries see the table as it is now, where the engine can (PostgreSQL): in a read-only transaction."""
        if self.backend.name != "postgres":
            return
        from psycopg import IsolationLevel

        with _refusals("A transaction was refused by the database."):
            connection = self.backend.con
            before = connection.isolation_level, connection.read_only
            connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
            self._snapshot.callback(_restore, connection, *before)
            self._snapshot.enter_context(connection.transaction())

    def keep(self, table: Any) -> Any:
        """A new temporary table with the rows of an expression."""
        self._n_made += 1
        name = f"{self._prefix}_{self._n_made}"
        with _refusals("The database could not make a temporary table, or the connection was lost."):
            self._made[name] = None
            kept = self.backend.create_table(name, table, temp=True)
            if self.backend.name == "postgres":
                self._analyze(name)
        self._names[kept] = name
        return kept

    def _analyze(self, name: str) -> None:
        """Let PostgreSQL analyse a new table; else it expects too many rows of joins, and compiles queries for nothing."""
        from psycopg import sql

        with self.backend.begin() as cursor:
            cursor.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(name)))

    def change(self, table: Any, columns: dict[str, Any]) -> Any:
        """A table that ``keep`` made, with columns that are added or replaced; the old table must not be used again."""
        if self.backend.name == "duckdb" and set(columns) <= set(table.columns):
            # DuckDB writes these columns only. Other engines would write whole rows, and keep the old ones beside them.
            with _refusals("The database could not change a temporary table, or the connection was lost."):
                self.backend.raw_sql(_update(self.backend.compile(table.select(**columns))))
            return table
        changed = self.keep(table.mutate(**columns))
        self.drop(table)
        return changed

    def look_up(self, columns: dict[str, np.ndarray]) -> Any:
        """A small public table of integers in the database, which is sent once in a fit."""
        import pyarrow as pa

        key = tuple(columns)
        if key not in self._sent:
            self._sent[key] = self.keep(pa.table({name: values.astype(np.int64) for name, values in columns.items()}))
        return self._sent[key]

    def drop(self, table: Any) -> None:
        """Drop a table that ``keep`` made; other tables are left alone."""
        name = self._names.pop(table, None)
        if name is not None:
            with _refusals("The database could not drop a temporary table, or the connection was lost."):
                _drop(self.backend, name)
            del self._made[name]

    def fetch(self, table: Any) -> dict[str, np.ndarray]:
        """The result of a query as arrays of integers, by column."""
        with _refusals("The database could not answer a query, or the connection was lost."):
            found = self.backend.to_pyarrow(table)
        return {name: np.asarray(found.column(name).to_numpy()).astype(np.int64) for name in found.column_names}

    def fetch_texts(self, table: Any) -> dict[str, int]:
        """The result of a query that gives a number ``n`` for each ``text``."""
        with _refusals("The database could not answer a query, or the connection was lost."):
            found = self.backend.to_pyarrow(table)
            return dict(zip(found.column("text").to_pylist(), found.column("n").to_pylist(), strict=True))

    def close(self) -> None:
        """Drop all temporary tables that are left; those that cannot be dropped end with the connection."""
        self._finalizer()


def can_run(backend: Any, table: Any) -> bool:
    """Whether an engine accepts a query; its answer is not looked at."""
    try:
        backend.to_pyarrow(table)
    except Exception:  # the engine's own words may quote rows
        return False
    return True


def _update(select: str) -> Any:
    """The SQL statement that sets columns of a table to the expressions of a selection from it, which Ibis has written."""
    from sqlglot import exp, parse_one

    chosen = parse_one(select, dialect="duckdb")
    (table,) = (clause.this for clause in chosen.find_all(exp.From))
    sets = [exp.EQ(this=exp.to_identifier(one.alias, quoted=True), expression=one.this) for one in chosen.expressions]
    return exp.Update(this=table, expressions=sets).sql("duckdb")


@contextlib.contextmanager
def _refusals(message: str) -> Iterator[None]:
    """Turn whatever an engine raises into a ``TableError`` with this message."""
    try:
        yield
    except Exception:
        raise TableError(message) from None


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
