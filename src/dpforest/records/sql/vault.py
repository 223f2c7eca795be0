"""The vault of a table in a database, which is read through Ibis. Rows stay there; sums leave, sealed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.errors import MissingExtraError, TableError
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import Openable, Scored, Weighted
from dpforest.records.memory.counter import Guarded
from dpforest.schema import Bounded, Schema
from dpforest.schema.domain import Domain
from dpforest.schema.scales import N_BINS

if TYPE_CHECKING:
    from dpforest.records.sql.counter import SqlCounter
    from dpforest.records.sql.session import Session

NOT_KEPT = (
    "This account may not make temporary tables (or temporary=False was asked for), so the database keeps nothing beside "
    "each record. Use an account that may, another recipe, or a table in memory."
)
TOO_DEEP = (
    "Without temporary tables all splits are part of every query, and there are too many of them. Use fewer trees or "
    "levels, or an account that may make temporary tables."
)


class SqlVault(Guarded):
    """The rows of a table in a database, checked against the schema and not yet encoded.

    Use it as a context manager, or call ``close``: temporary tables are dropped then, also after an error.

    Privacy: as ``Vault``. Checks look at names and types of columns, and at the rights of the account; so whether an error
    occurs does not depend on rows. Queries return sums over all records of a group, and only here and in ``Sealed``.
    """

    def __init__(self, table: Any, schema: Schema, session: "Session") -> None:
        self.schema = schema
        self._table = table
        self._session = session

    @classmethod
    def seal(cls, table: Any, schema: Schema, temporary: bool | None = None) -> "SqlVault":
        """The vault of a table of Ibis, whose columns and types are checked and taken as public; no row is read yet.

        ``temporary`` says whether records may be kept in temporary tables: by default if the account may make them.
        """
        try:
            import ibis
        except ImportError:
            raise MissingExtraError("A table in a database", "sql") from None
        from dpforest.records.sql.codes import check_columns, check_lists, check_names, check_reading
        from dpforest.records.sql.dates import check_dates
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
        check_lists(schema)
        check_md5(backend, schema)
        check_reading(table, schema, backend)
        return cls(table, schema, Session(backend, temporary))

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
        kept = self._kept()
        return Sealed(self._session.fetch(kept.aggregate(n=kept.count()))["n"])

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        """Sealed numbers of records in each bin around some centres; see ``Source``."""
        from dpforest.records.sql.scales import counted_around

        counts = np.zeros((len(centres), N_BINS + 1), dtype=np.int64)
        found = self._session.fetch(counted_around(self._kept(), domain, centres))
        counts[found["part"], found["cell"]] = found["n"]
        return Sealed(counts)

    def _kept(self) -> Any:
        """The rows whose target is not left out, as they are."""
        from dpforest.records.sql.codes import target_code

        return self._table.filter(target_code(self._table, self.schema.target) >= 0)

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed numbers of records by the public edges at or below their target; see ``Source``."""
        from dpforest.records.sql.codes import target_bin

        assert isinstance(self.schema.target, Bounded)
        binned = self._table.select(bin=target_bin(self._table, self.schema.target, edges))
        found = self._session.fetch(binned.filter(binned["bin"] >= 0).group_by("bin").aggregate(n=lambda each: each.count()))
        counts = np.zeros(len(edges) + 1, dtype=np.int64)
        counts[found["bin"]] = found["n"]
        return Sealed(counts)

    def narrowed(self, target: Bounded) -> "SqlVault":
        """The vault of the same records with the target read within another range."""
        return SqlVault(self._table, replace(self.schema, target=target), self._session)

    @property
    def can_sample(self) -> bool:
        """Whether records can have coins of their own: they are drawn once, and kept in a temporary table."""
        return self._session.temporary

    def sampled(self, share: Fraction, entropy: Entropy) -> "SqlVault":
        """The vault of a secret sample of the records, which is a temporary table; see ``Source``."""
        from dpforest.records.sql.coins import digits_of_row, draw_key, draw_side

        names = [*self.schema.features, self.schema.target.name]
        taken = {name.casefold() for name in names}  # some engines take names that differ in case for the same
        coin = next(name for n in count() if (name := f"coin_{n}") not in taken)
        # A record is kept by the upper end of its digits: those that are too few count as low, so none is kept too often.
        drawn = self._table.select(*names).mutate(**{coin: draw_side(1 - share, digits_of_row(draw_key(entropy)))})
        kept = drawn.filter(drawn[coin] == 0).select(*names)
        return SqlVault(self._session.keep(kept), self.schema, self._session)

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        """The sealed number of records of each text of a column."""
        from dpforest.records.sql.codes import target_code
        from dpforest.records.sql.texts import text_of

        kept = self._table.select(text=text_of(self._table[name]), y=target_code(self._table, self.schema.target))
        kept = kept.filter((kept["y"] >= 0) & kept["text"].notnull())
        return Sealed(self._session.fetch_texts(kept.group_by("text").aggregate(n=kept.count())))

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> "SqlCounter":
        """A counter of the encoded records (a temporary table or an expression), without those whose target is left out."""
        from dpforest.records.sql.codes import feature_codes, target_code
        from dpforest.records.sql.lookups import number
        from dpforest.records.sql.placed import unmerged

        target = self.schema.target
        name = "fine" if isinstance(target, Bounded) else "y"
        codes = feature_codes(self._table, domain) | {name: target_code(self._table, target)}
        table = self._table.select(**codes)
        table = table.filter(table[name] >= 0)
        # The column of nodes is there from the start: it will change, and then the table need not be copied to add it.
        table = self._session.keep(table.mutate(n0=number(0))) if self._session.temporary else unmerged(table)
        return self.counter(table, self._session, domain, target)

    def close(self) -> None:
        """Drop all temporary tables of this fit."""
        self._session.close()

    def __enter__(self) -> "SqlVault":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
