"""The codes of a table in a database, as its own queries find them."""

from typing import Any

import numpy as np

from dpforest.records.sql.codes import Coded, Codes
from dpforest.records.sql.session import Session


def fetched(session: Session, table: Any, codes: dict[str, Coded], order: str) -> dict[str, np.ndarray]:
    """The codes of all rows, kept in a temporary table if the session may, in the order of a column of whole numbers."""
    query = Codes(table, codes | {"number": Coded({"number_of_row": table[order]}, "number_of_row")}, session)
    columns = (*codes, "number")
    kept = session.let(query.select, columns, query.source)
    found = session.fetch(f"SELECT {', '.join(columns)} FROM {kept.name} ORDER BY number", kept)
    session.drop(kept)
    return {name: found[name] for name in codes}
