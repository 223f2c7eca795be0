"""Tables in a database, read through Ibis. Rows stay there; what leaves is sums, sealed."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.domain import Domain
from dpforest.errors import MissingExtraError, ParameterError, TableError
from dpforest.privacy.sealed import Sealed
from dpforest.records.memory import refuse_copy
from dpforest.records.sql_gaps import GAPS, ONLY_WITHOUT_TABLES
from dpforest.schema import Bounded, Schema

if TYPE_CHECKING:
    from dpforest.records.sql_counter import SqlCounter
    from dpforest.records.sql_session import Session

__all__ = ["GAPS", "ONLY_WITHOUT_TABLES", "SqlVault"]


class SqlVault:
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
    def seal(cls, table: Any, schema: Schema, temporary: bool | None = None, keeps: Iterable[str] = ()) -> "SqlVault":
        """Check columns and types, which are taken as public; no row is read.

        ``temporary`` says whether records may be kept in temporary tables: by default if the account may make them.
        ``keeps`` are the kinds of training that are asked for: one that needs such tables is refused here, not half-way.
        """
        try:
            import ibis
        except ImportError:
            raise MissingExtraError("A table in a database", "sql") from None
        from dpforest.records.sql_codes import check_columns, check_names, check_reading
        from dpforest.records.sql_session import Session

        if not isinstance(table, ibis.Table):
            raise TableError(f"A table of Ibis is needed, not a value of type {type(table).__name__}.")
        try:
            backend = table.get_backend()
        except Exception:  # an expression of several engines, or of none
            raise TableError("The table belongs to no database, or to several. Take it from one connection.") from None
        check_columns(table, schema)
        check_names(backend.name, schema)
        check_reading(table, schema, backend)
        session = Session(backend, temporary)
        for kind in keeps:
            if kind in ONLY_WITHOUT_TABLES and not session.temporary:
                session.close()
                raise ParameterError(f"This cannot be done in a database: {GAPS[kind]}")
        return cls(table, schema, session)

    @property
    def temporary(self) -> bool:
        """Whether records are kept in temporary tables."""
        return self._session.temporary

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""
        from dpforest.records.sql_codes import target_code

        kept = self._table.select(y=target_code(self._table, self.schema.target))
        kept = kept.filter(kept["y"] >= 0)
        return Sealed(self._session.fetch(kept.aggregate(n=kept.count()))["n"])

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> "SqlCounter":
        """Records as codes, in a temporary table or as an expression; those that the target leaves out are dropped."""
        from dpforest.records.sql_codes import feature_codes, target_code
        from dpforest.records.sql_counter import SqlCounter
        from dpforest.records.sql_placed import apart
        from dpforest.records.sql_steps import number

        target = self.schema.target
        name = "fine" if isinstance(target, Bounded) else "y"
        codes = feature_codes(self._table, domain) | {name: target_code(self._table, target)}
        table = self._table.select(**codes)
        table = table.filter(table[name] >= 0)
        # The first node of each record has its place from the start: it will change, and the table need not be copied then.
        table = self._session.keep(table.mutate(n0=number(0))) if self._session.temporary else apart(table)
        return SqlCounter(table, self._session, domain, target)

    def rows(self) -> Sealed[Any]:
        """Refused: a declared gap."""
        raise ParameterError(f"This cannot be done in a database: {GAPS['published variants']}")

    def close(self) -> None:
        """Drop all temporary tables of this fit."""
        self._session.close()

    def __enter__(self) -> "SqlVault":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "SqlVault(...)"

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = refuse_copy
