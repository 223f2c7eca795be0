"""The vault of a table in a database, which is read through Ibis. Rows stay there; sums leave, sealed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.errors import MissingExtraError, TableError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import Openable, Scored, Weighted
from dpforest.records.draws import COIN_SIDES
from dpforest.records.memory.counter import Guarded
from dpforest.records.people import People
from dpforest.schema import Bounded, Schema
from dpforest.schema.domain import Domain
from dpforest.schema.scales import N_BINS

if TYPE_CHECKING:
    from dpforest.records.sql.codes import Coded, Codes
    from dpforest.records.sql.counter import SqlCounter
    from dpforest.records.sql.people import Persons
    from dpforest.records.sql.session import Relation, Session

NOT_KEPT = (
    "This account may not make temporary tables (or temporary=False was asked for), so the database keeps nothing beside "
    "each record. Use an account that may, another recipe, or a table in memory."
)
TOO_DEEP = (
    "Without temporary tables all splits are part of every query, and there are too many of them. Use fewer trees or "
    "levels, or an account that may make temporary tables."
)
NO_DRAWS = (
    "The vote of this recipe draws labels by coins that databases cannot compute. Take another vote, or search a table in "
    "memory or a Parquet file."
)


class SqlVault(Guarded):
    """The rows of a table in a database, checked against the schema and not yet encoded.

    Use it as a context manager, or call ``close``: temporary tables are dropped then, also after an error.

    Privacy: as ``Vault``. Checks look at names and types of columns, and at the rights of the account; so whether an error
    occurs does not depend on rows. Queries return sums over all records of a group, and only here and in ``Sealed``.
    """

    def __init__(
        self,
        table: Any,
        schema: Schema,
        session: "Session",
        persons: "Persons | None" = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.schema = schema
        self._given = table
        self._session = session
        # Whose rows they are, if the unit of privacy is a person; ``entropy`` draws some of them, without it that is done.
        self._persons, self._entropy = persons, entropy
        self.in_one_book = False

    @classmethod
    def seal(
        cls, table: Any, schema: Schema, temporary: bool | None = None, groups: Any = None, people: People | None = None
    ) -> "SqlVault":
        """The vault of a table of Ibis, whose columns and types are checked and taken as public; no row is read yet.

        ``temporary`` says whether records may be kept in temporary tables: by default if the account may make them.
        ``groups`` is the name of the column of ids, if the unit of privacy is a person.
        """
        try:
            import ibis
        except ImportError:
            raise MissingExtraError("A table in a database", "sql") from None
        from dpforest.records.sql.codes import check_columns, check_lists, check_names, check_reading
        from dpforest.records.sql.dates import check_dates
        from dpforest.records.sql.people import Persons
        from dpforest.records.sql.session import Session
        from dpforest.records.sql.texts import check_md5

        if not isinstance(table, ibis.Table):
            raise TableError(f"A table of Ibis is needed, not a value of type {type(table).__name__}.")
        try:
            backend = table.get_backend()
        except Exception:  # an expression of several engines, or of none
            raise TableError("The table belongs to no database, or to several. Take it from one connection.") from None
        check_columns(table, schema)
        check_dates(backend.name, table, schema)
        check_names(backend.name, schema)
        check_lists(backend.name, schema)
        check_md5(backend, schema)
        session, persons = Session(backend, temporary), None if people is None else Persons(groups, people.most)
        try:
            check_reading(table, schema, session)
            if persons is not None:
                persons.check(table, schema, session)
        except TableError:
            session.close()
            raise
        return cls(table, schema, session, persons, None if people is None else people.entropy)

    @cached_property
    def _table(self) -> Any:
        """The table of Ibis; of each person as many rows as are used, drawn once, so that all answers are about one set."""
        if self._persons is None or self._entropy is None:
            return self._given
        from dpforest.records.sql.coins import draw_key

        persons, session = self._persons, self._session
        drawn = persons.drawn(self._given, self.schema, session, draw_key(self._entropy))
        if session.temporary:
            drawn = session.let(f"SELECT * FROM {drawn.name}", drawn.columns, drawn)
        return self._known(drawn, self._given, persons.names(self.schema))

    def _known(self, drawn: "Relation", table: Any, names: Mapping[str, str]) -> Any:
        """A relation with some rows of a table, for Ibis, under the names of the table."""
        types = table.schema()
        known = self._session.table(drawn, {short: types[name] for short, name in names.items()})
        return known.rename({name: short for short, name in names.items()})

    @property
    def temporary(self) -> bool:
        """Whether records are kept in temporary tables."""
        return self._session.temporary

    @property
    def counter(self) -> "type[SqlCounter]":
        """The type of counter that ``encode`` will give: it can keep weights and scores if there are temporary tables."""
        from dpforest.records.sql.counter import KeepingSqlCounter, SqlCounter

        return KeepingSqlCounter if self.temporary else SqlCounter

    @property
    def gaps(self) -> dict[type, str]:
        """For each protocol that is not supported here, sentences that say why, and what to do."""
        gaps: dict[type, str] = {
            Openable: "Rows do not leave the database. Use variant='private', or fit a table in memory."
        }
        return gaps if self.temporary else gaps | {Weighted: NOT_KEPT, Scored: NOT_KEPT}

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""
        query = self._codes({})
        return Sealed(
            self._session.fetch(f"SELECT COUNT(*) AS n FROM ({query.select}) AS t WHERE y >= 0", query.source)["n"]
        )

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        """Sealed numbers of records in each bin around some centres; see ``Source``."""
        from dpforest.records.sql.scales import counted, distances, part_of
        from dpforest.records.sql.session import QUERIES_AT_ONCE

        query = self._codes(distances(self._table, domain, centres))
        names = [f"d{part}" for part in range(len(centres))]
        kept = self._session.define(
            f"SELECT {', '.join(names)} FROM ({query.select}) AS t WHERE y >= 0", names, query.source, "NOT MATERIALIZED"
        )
        counts = np.zeros((len(centres), N_BINS + 1), dtype=np.int64)
        for start in range(0, len(centres), QUERIES_AT_ONCE):
            parts = range(start, min(start + QUERIES_AT_ONCE, len(centres)))
            found = self._session.fetch(counted(kept.name, parts, self._session.backend.name), kept)
            counts[part_of(found["cell"])] = found["n"]
        return Sealed(counts)

    def _codes(self, coded: "Mapping[str, Coded]") -> "Codes":
        """A query for the codes of some columns and, as ``y``, of the target: that of a row to leave out is below 0."""
        from dpforest.records.sql.codes import Codes, target_code

        target = target_code(self._table, self.schema.target, self._session.backend.name)
        return Codes(self._table, {**coded, "y": target}, self._session)

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed numbers of records by the public edges at or below their target; see ``Source``."""
        from dpforest.records.sql.codes import Codes, target_bin

        assert isinstance(self.schema.target, Bounded)
        query = Codes(self._table, {"bin": target_bin(self._table, self.schema.target, edges)}, self._session)
        binned = f"SELECT bin, COUNT(*) AS n FROM ({query.select}) AS t WHERE bin >= 0 GROUP BY bin"
        found = self._session.fetch(binned, query.source)
        counts = np.zeros(len(edges) + 1, dtype=np.int64)
        counts[found["bin"]] = found["n"]
        return Sealed(counts)

    def narrowed(self, target: Bounded) -> "SqlVault":
        """The vault of the same records with the target read within another range."""
        return SqlVault(self._table, replace(self.schema, target=target), self._session)

    @property
    def can_sample(self) -> bool:
        """Whether records can have coins of their own: they are drawn once, and kept in a temporary table."""
        return self._session.temporary and not self.in_one_book

    def sampled(self, share: Fraction, entropy: Entropy) -> "SqlVault":
        """The vault of a secret sample of the records, or persons, which is a temporary table; see ``Source``."""
        # The side that is drawn with a probability that is rounded up is that of those who are left out.
        tossed, names, source = self._tossed(1 - share, entropy)
        kept = f"SELECT {', '.join(names)} FROM ({tossed}) AS tossed WHERE side = 0"
        sample = self._session.let(kept, tuple(names), source)
        return SqlVault(self._known(sample, self._table, names), self.schema, self._session)

    def _tossed(self, share: Fraction, entropy: Entropy) -> "tuple[str, dict[str, str], Relation]":
        """A query for all rows with a ``side``: 1 with this probability, by the coin of each record, or person, and else 0.

        Beside it: names of the table's columns by those in the query, and what the query is about.
        """
        from dpforest.records.sql.coins import draw_key, draw_side, word_of_row
        from dpforest.records.sql.people import number_of_person

        names = {f"f{k}": name for k, name in enumerate((*self.schema.features, self.schema.target.name))}
        engine, table, number = self._session.backend.name, self._table, "ROW_NUMBER() OVER ()"
        asked = names
        if self._persons is not None:
            asked = self._persons.names(self.schema)
            number = number_of_person([*asked][-1], table[self._persons.column], engine)
        source = self._session.compiled(table.select(**{short: table[name] for short, name in asked.items()}))
        word, columns = word_of_row(draw_key(entropy), engine, number), ", ".join(names)
        words = f"SELECT {columns}, {word} AS word FROM {source.name}"
        return f"SELECT {columns}, {draw_side(share, 'word')} AS side FROM ({words}) AS words", names, source

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[SqlVault, SqlVault]":
        """Two vaults, of the records to train on and of those held out, which are temporary tables; see ``Searched``.

        Close this one last. To close a part drops what a fit on it has made; the part can then be used for another fit.

        Privacy: as ``Counter.hold_out``; for the coins see ``coins``.
        """
        tossed, names, source = self._tossed(Fraction(round(share * COIN_SIDES), COIN_SIDES), entropy)
        # Kept before it is parted: a coin that was drawn again could put a record into both parts, or into none.
        whole = self._session.let(tossed, (*names, "side"), source)
        parts = self._part(whole, names, 0), self._part(whole, names, 1)
        self._session.drop(whole)
        return parts

    def _part(self, whole: "Relation", names: dict[str, str], side: int) -> "SqlVault":
        """A vault, with a session of its own, of the rows on one side."""
        from dpforest.records.sql.session import Session

        own = f"SELECT {', '.join(names)} FROM {whole.name} WHERE side = {side}"
        known = self._known(self._session.let(own, tuple(names), whole), self._table, names)
        part = SqlVault(known, self.schema, Session(self._session.backend, temporary=True))
        part.in_one_book = True
        return part

    def hits(self, forest: Forest) -> Sealed[np.ndarray]:
        """Sealed sums ``(1, 2)`` of hits and misses of a released forest on these records; see ``records.sql.hits``."""
        from dpforest.records.sql.hits import count_hits
        from dpforest.records.sql.session import Session

        with SqlVault(self._table, self.schema, Session(self._session.backend, temporary=True)) as apart:
            return count_hits(apart._encoded(forest.domain), apart._session, forest, self.schema.target)

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        """The sealed number of records of each text of a column."""
        from dpforest.records.sql.codes import Coded
        from dpforest.records.sql.expressions import exact
        from dpforest.records.sql.texts import text_of

        # By characters: a group of texts that a collation takes for the same would be named after one record of it.
        text = exact("v0", self._session.backend.name)
        query = self._codes({"text": Coded({"v0": text_of(self._table[name])}, text)})
        counted = f"SELECT text, COUNT(*) AS n FROM ({query.select}) AS t WHERE y >= 0 AND text IS NOT NULL GROUP BY text"
        return Sealed(self._session.fetch_texts(counted, query.source))

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> "SqlCounter":
        """A counter of the encoded records (a temporary table or a query), without those whose target is left out."""
        return self.counter(self._encoded(domain), self._session, domain, self.schema.target)

    def _encoded(self, domain: Domain) -> "Relation":
        """The table of the encoded records; for its columns see ``placed``."""
        from dpforest.records.sql.codes import feature_codes
        from dpforest.records.sql.session import listed

        codes = feature_codes(self._table, domain, self._session.backend.name)
        query, target = self._codes(codes), "fine" if isinstance(self.schema.target, Bounded) else "y"
        # The column of nodes is there from the start: it will change, and then the table need not be copied to add it.
        columns = {name: name for name in codes} | {target: "y", "n0": "CAST(0 AS INTEGER)"}
        return self._session.let(
            f"SELECT {listed((), columns)} FROM ({query.select}) AS t WHERE y >= 0", tuple(columns), query.source
        )

    def close(self) -> None:
        """Drop all temporary tables of this fit."""
        self._session.close()

    def __enter__(self) -> "SqlVault":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
