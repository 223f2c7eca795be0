"""Which rows of a person a database uses: at most so many, drawn by lot where they are. Builds queries; sees no rows.

The rows of a person are numbered in the order of their values. A digest of a secret key, the id and the number ranks them,
and those of the first ranks are kept.

Privacy:
    Claim: for every key, adding a person, with any number of rows, adds at most ``most`` records to the table and changes no
        other. So what holds for ``records.people.People`` holds here, and nothing of it rests on the hash. As far as that is
        pseudo-random (see ``coins``), all subsets of ``most`` rows of a person are equally likely, whoever else is there.
    Because: ranks are counted among rows of one id, so no more than ``most`` are kept of it. A number, a digest and a rank
        follow from the key and from the person's own rows. Rows that the order of all columns does not tell apart are read
        alike by every later query, so whichever of them is kept, its answers are the same: what is kept is a function of
        the person's rows and the key, also when a query is asked again. Numbers of one person differ, so their digests are
        as good as independent words, and every order of them is as likely as any other.
        A row without an id (null, NaN, a text of blanks) could be anybody's and is left out.
    Assumes: one person has one id; ``most`` is public; the key stays secret. Texts are compared by their characters and
        numbers by their value, so engines of which that is not known are refused.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import ibis

from dpforest.errors import TableError
from dpforest.records.people import check_id_column
from dpforest.records.sql.codes import Coded, Codes, target_code
from dpforest.records.sql.coins import digest
from dpforest.records.sql.expressions import READERS, exact
from dpforest.records.sql.numbers import is_missing, real, to_real
from dpforest.records.sql.session import Relation, Session
from dpforest.schema import Schema

KNOWN = "dpforest"  # a text whose MD5 an engine must find


@dataclass(frozen=True)
class Persons:
    """Whose rows they are: the name of the column of ids, and how many rows of one person are used."""

    column: str
    most: int

    def check(self, table: Any, schema: Schema, session: Session) -> None:
        """Raise ``TableError`` unless an engine can draw rows by the ids of a table; types alone decide, no row is read."""
        check_id_column(self.column, list(table.columns), schema)
        engine, dtype = session.backend.name, table.schema()[self.column]
        if engine not in READERS:
            raise TableError(
                f"Persons are told apart in DuckDB and PostgreSQL only, not in {engine!r}, which may take ids for the same "
                "that are not. Fit a Parquet file of the table, or draw rows into a table and protect records."
            )
        if not (dtype.is_string() or dtype.is_numeric() or dtype.is_boolean() or dtype.is_uuid()):
            raise TableError(
                f"Column {self.column!r}, named by groups, has the type {type(dtype).__name__} in the database; ids of "
                "persons are numbers, text or UUIDs. Convert the column, for example in a view."
            )
        try:
            known = f"SELECT COUNT(*) AS n FROM (SELECT MD5('{KNOWN}') AS d) AS t WHERE d = '{_md5(KNOWN)}'"
            is_able = session.fetch(known, Relation("", ()))["n"][0] == 1
            drawn = self.drawn(table.limit(0), schema, session, "")
            session.fetch(f"SELECT COUNT(*) AS n FROM {drawn.name}", drawn)
        except Exception:  # of Ibis, or of the engine
            is_able = False
        if not is_able:
            raise TableError(
                f"The database cannot draw rows by the ids in column {self.column!r}, because of its type there, for want "
                "of a function md5, or the connection was lost. Convert the column, for example in a view."
            )

    def drawn(self, table: Any, schema: Schema, session: Session, key: str) -> Relation:
        """A query for the rows that are used: the columns of the schema as f0, f1, …, the target, and last the id."""
        engine, names = session.backend.name, self.names(schema)
        columns = {short: Coded({short: table[name]}, short) for short, name in names.items()}
        *values, own = names
        columns[own] = Coded({own: _id(table[self.column])}, own)
        columns["nobody"] = Coded({"nobody": _is_nobody(table[self.column]).cast("int32")}, "nobody")
        query = Codes(table, {**columns, "y": target_code(table, schema.target, engine)}, session)
        kept = f"SELECT * FROM ({query.select}) AS coded WHERE y >= 0 AND nobody = 0"
        if table[self.column].type().is_string():  # of which one of blanks is none, see ``BLANKS``
            plain = f"TRANSLATE({exact(own, engine)}, {' || '.join(f'CHR({code})' for code in range(9, 14))}, '     ')"
            kept += f" AND LENGTH(TRIM({plain})) > 0"
        # Of a decimal 1.0 and 1.00 are one id and two texts, so these take part in the order.
        texts = f"SELECT *, {_compared(own, table[self.column], engine)} AS person, CAST({own} AS VARCHAR) AS written"
        order = ", ".join(_compared(short, table[names[short]], engine) for short in values)
        within = f"PARTITION BY person ORDER BY {order}, {exact('written', engine)}"
        numbered = f"SELECT *, ROW_NUMBER() OVER ({within}) AS number FROM ({texts} FROM ({kept}) AS kept) AS named"
        # The id by its own digest: with the key before it a text could be longer than a text can be.
        coin = digest(key, ["MD5(written)", "number"])
        tossed = f"SELECT *, {exact(coin, engine)} AS coin FROM ({numbered}) AS numbered"
        ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY coin, number) AS rank FROM ({tossed}) AS tossed"
        chosen = f"SELECT {', '.join(names)} FROM ({ranked}) AS ranked WHERE rank <= {self.most}"
        # Where nothing is kept, a query asks several things of these rows, which are sorted once for all.
        return session.define(chosen, tuple(names), query.source, "" if session.temporary else "MATERIALIZED")

    def names(self, schema: Schema) -> dict[str, str]:
        """The columns of a drawn table, by the names that they have there."""
        return {f"f{k}": name for k, name in enumerate((*schema.features, schema.target.name, self.column))}


def _id(column: Any) -> Any:
    """The id of each row as an engine compares it: in floating point there is one 0, without a sign."""
    if not column.type().is_floating():
        return column
    value = column.cast("float64")
    return ibis.cases((value == real(0.0), real(0.0)), else_=value)


def _is_nobody(column: Any) -> Any:
    """Whether each row is without an id; decimals of PostgreSQL may be NaN."""
    return is_missing(to_real(column) if column.type().is_decimal() else column)


def number_of_person(name: str, column: Any, engine: str) -> str:
    """A number for each row that is the same for all rows of one id, by a column of ids that are not missing."""
    return f"DENSE_RANK() OVER (ORDER BY {_compared(name, column, engine)})"


def _compared(name: str, column: Any, engine: str) -> str:
    return exact(name, engine) if column.type().is_string() else name


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
