"""Which rows belong to one person, and which of them are used: at most so many, drawn by lot. Sees rows."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numba import njit

from dpforest.errors import ParameterError, TableError, shown
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import uniform_below
from dpforest.records.coins import draw_kept
from dpforest.records.columns import asking, column_kind, distinct, read_values, require_columns
from dpforest.records.given import given_column, given_frame, to_objects
from dpforest.records.source import in_plain_types
from dpforest.schema import Schema


class Ids:
    """Columns of ids in types that can be written, the same for all parts of a table."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None

    def __call__(self, columns: pa.Table) -> pa.Table:
        plain, fields = in_plain_types(columns), []
        for field in plain.schema:
            if pa.types.is_nested(field.type) or "binary" in str(field.type):
                raise TableError(
                    f"Column {field.name!r}, named by --id, has the type {field.type}, which a table of predictions does "
                    "not hold. Use a column of numbers, text or dates."
                )
            fields.append(field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field)
        self._schema = self._schema or pa.schema(fields)
        for field, first in zip(fields, self._schema, strict=True):
            if field.type != first.type:
                raise TableError(
                    f"Column {field.name!r}, named by --id, has the type {first.type} in one file of the table and "
                    f"{field.type} in another. Write it with one type in all of them."
                )
        return plain.cast(self._schema)


# Types that an id may have, subclasses excluded: of values of other types it is not known when two are the same id.
IDS = frozenset({str, bytes, bool, int, float, complex, Decimal, Fraction, UUID, np.longdouble})
BLANKS = " \t\n\r\v\f"
PLAIN = (np.number, np.bool_, np.str_, np.bytes_)
NUMPY_IDS = frozenset(kind for kind in np.sctypeDict.values() if issubclass(kind, PLAIN))


def read_ids(groups: Any) -> Any:
    """The ids of rows as one array or series; its type is checked, values are not."""
    column = given_column(groups, "groups", "groups")
    kind, name = column_kind(column)
    if kind in ("date", "other"):
        raise TableError(f"groups holds {name}; ids of persons are numbers or text. Convert them.")
    return column


def check_groups(groups: Any, max_rows_per_person: Any) -> None:
    """Raise unless ids of persons and ``max_rows_per_person`` are both given, or neither."""
    if groups is not None and max_rows_per_person is None:
        raise ParameterError(
            "groups says whose rows they are; set max_rows_per_person to how many rows of one person may be used."
        )
    if groups is None and max_rows_per_person is not None:
        raise ParameterError(
            f"max_rows_per_person = {shown(max_rows_per_person)} protects persons, so groups is needed: the id of each "
            "row's person or, for a file, a database or a cluster, the name of the column of ids."
        )


def ids_beside(columns: Any, name: str) -> Any:
    """The ids in a column that a reader gave beside those of a schema; decimals of a database, read as text, as numbers."""
    noted, column = columns.schema.field(name).metadata or {}, columns.column(name)
    kind = b"".join(noted.get(engine, b"") for engine in (b"duckdb", b"postgres", b"sqlite")).decode().lower()
    if kind.startswith(("date", "time", "interval")):
        raise TableError(f"groups holds {kind}; ids of persons are numbers or text. Convert them.")
    if not kind.startswith(("decimal", "numeric", "hugeint", "uhugeint")):
        return read_ids(column)
    # 1.0 and 1.00 are one id and two texts.
    return to_objects([asking(Decimal, None)(text) for text in read_values(given_column(column, "groups", "groups"))])


def name_of_ids(groups: Any) -> str | None:
    """The name of a column of ids that is in memory; None if it has none. No id is read."""
    frame = given_frame(groups)
    names = getattr(groups, "column_names", None) if frame is None else frame.columns  # a batch of Arrow is no frame
    name = getattr(groups, "name", None) if names is None else names[0] if len(names) == 1 else None
    return None if name is None else str(name) or None


def check_no_feature(name: str | None, schema: Schema) -> None:
    """Raise ``TableError`` if the schema uses the column of ids of this name, or names another for them."""
    if name is not None and schema.id_column not in (None, name):
        raise TableError(
            f"groups names the column {name!r}, and one_row_per_person in the schema the column {schema.id_column!r}. Make "
            "them agree. Nothing was spent."
        )
    if name in (*schema.features, schema.target.name):
        raise TableError(
            f"Column {name!r}, named by groups, is in the schema; an id of a person is no feature. Delete it there. Nothing "
            "was spent."
        )


def check_id_column(name: Any, given: list[str], schema: Schema, where: str = "the table") -> None:
    """Raise ``TableError`` unless a table with these columns has one of this name that the schema does not use."""
    if not isinstance(name, str):
        raise TableError("Of a table that is not in memory, groups is the name of the column of ids.")
    check_no_feature(name, schema)
    require_columns(given, [name], where, "named by groups")


@dataclass(frozen=True)
class People:
    """The rule that at most ``most`` rows of each person are used, drawn by lot.

    Privacy:
        Claim: adding a person, with any number of rows, adds at most ``most`` records and changes no other; so what is e-DP
            (rho-zCDP) for a record is (``most`` e)-DP (``most**2`` rho-zCDP) for a person.
        Because: a row's person follows from its own id; each person's subset is drawn uniformly by coins of its own, so the
            law of the others' rows is the same with and without the person. For each outcome of all coins the tables
            differ by at most ``most`` records, and mixing over coins raises neither bound (both are quasi-convex).
            A row without an id could be anybody's, so it is left out: then nobody has more than ``most`` rows.
        Claim: one row more of a person who stays costs at most 2e (4 rho), not e: it may take the place of another.
        Because: a new row is drawn or not. If it is, the others are a uniform subset of the old rows with one place less, so
            coins can be paired such that the drawn rows are equal or differ in one; see docs/neighbours.md.
        Assumes: one person has one id; ``most`` is public; the coins stay secret.
    """

    most: int
    entropy: Entropy

    def leave_out(self, ids: list[Any], target_codes: np.ndarray) -> np.ndarray:
        """The target codes ``(n_rows,)``, with -1 also for rows that are not used.

        ``ids`` are columns of ids, each of which continues the one before.
        """
        persons = np.where(target_codes >= 0, person_indices(*ids), -1)
        kept = draw_rows(persons, self.most, self.entropy)
        return np.where(kept, target_codes, -1).astype(target_codes.dtype)

    def sample(self, ids: list[Any], share: Fraction) -> np.ndarray:
        """A mask of the rows ``(n_rows,)`` of the persons that a secret sample keeps; rows without an id are not in it."""
        persons = person_indices(*ids)
        is_kept = np.zeros(int(persons.max(initial=-1)) + 2, dtype=bool)  # the last place is for rows without an id
        is_kept[draw_kept(len(is_kept) - 1, share, self.entropy)] = True
        return np.asarray(is_kept[persons])


def person_indices(*columns: Any) -> np.ndarray:
    """A number for each row, ``(n_rows,)``, that is the same for all rows of one person; -1 for a row without an id.

    Each of the columns of ids continues the one before.
    """
    return number_persons(*map(distinct_ids, columns))


def distinct_ids(column: Any) -> tuple[list[Any], np.ndarray]:
    """A list of the ids in a column, None for a missing one, and the index of each row's id in it, ``(n_rows,)``."""
    values, inverse = distinct(column)
    read = asking(_to_id, None)
    return [read(value) for value in values], inverse


def number_persons(*parts: tuple[list[Any], np.ndarray], persons: dict[Any, int] | None = None) -> np.ndarray:
    """A number for each row, as ``person_indices`` has them, of the ids of parts of a table; see ``distinct_ids``.

    The number of each id is entered in ``persons``.
    """
    persons = {} if persons is None else persons
    found = [np.empty(0, dtype=np.int64)]
    for ids, inverse in parts:
        # Values that a library told apart are compared by Python's equality (0.0 equals -0.0), so that the person of a row
        # depends neither on the library nor on the type in its file.
        indices = [-1 if own is None else persons.setdefault(own, len(persons)) for own in ids]
        found.append(np.array(indices, dtype=np.int64)[inverse] if indices else np.empty(0, dtype=np.int64))
    return np.concatenate(found)


def _to_id(value: Any) -> Any:
    """The id as a value of Python; None if it is missing or of a type that an id cannot have."""
    if type(value) in NUMPY_IDS:
        value = value.item()
    if type(value) is np.longdouble:  # which equals floats, and not the decimals that equal these
        value = Fraction(*value.as_integer_ratio()) if np.isfinite(value) else float(value)
    if type(value) is str and not value.strip(BLANKS):  # how statistics programs write a missing text
        return None
    if type(value) is bytes:  # in a tuple: Python can be told to warn when bytes are compared with text, or to stop
        return ("bytes", value.hex())
    # NaN is not equal to itself. A tuple may hold it, and be its own person in each row.
    return value if type(value) in IDS and value == value else None


def draw_rows(persons: np.ndarray, most: int, entropy: Entropy) -> np.ndarray:
    """Mask ``(n_rows,)`` of ``most`` rows of each person (all, if there are fewer), each subset as likely as any other.

    Rows of person -1 are left out.
    """
    order = np.argsort(persons, kind="stable")
    sorted_persons = persons[order]
    begins = np.flatnonzero(np.diff(sorted_persons, prepend=-2))
    ranks = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    later = np.flatnonzero((ranks >= most) & (sorted_persons >= 0))
    draws = np.empty(len(later), dtype=np.int64)
    entropy.run(draw_below_each, len(later), ranks[later] + 1, draws)
    replace_rows(order, later, ranks[later], draws, most)
    kept = np.zeros(len(order), dtype=bool)
    kept[order[(ranks < most) & (sorted_persons >= 0)]] = True
    return kept


@njit(cache=True, nogil=True)
def draw_below_each(words, cursor, first, limits, values):
    """Fill ``values`` with uniform integers, each in 0 .. its limit - 1; see ``Entropy.run``."""
    for item in range(first, values.size):
        begin = cursor[0]
        values[item] = uniform_below(limits[item], words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return values.size


@njit(cache=True, nogil=True)
def replace_rows(order, later, ranks, draws, most):
    """Change ``order`` so that the first ``most`` rows of each person are drawn by lot, by reservoir sampling.

    The row of rank r takes the place of one of the first ``most`` rows of its person with probability most/(r+1), so that
    all subsets of the rows so far are equally likely [vitter1985, Algorithm R].
    """
    for item in range(later.size):
        if draws[item] < most:
            order[later[item] - ranks[item] + draws[item]] = order[later[item]]
