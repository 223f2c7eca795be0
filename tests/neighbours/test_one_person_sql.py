"""One person with an odd id in a database, of any type: nobody sees a difference, and the rows of others are used as before.

The key of the draws is the same in both tables, so that rows can be compared one by one.
"""

import pytest
from tests.neighbours.one_record import root_counts
from tests.neighbours.test_one_record_sql import CASES, REFUSED, TRUTHS, engines, told_by  # noqa: F401

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.mechanisms import Entropy
from dpforest.records.people import BLANKS, People
from dpforest.records.sql.vault import SqlVault

pytestmark = pytest.mark.slow

MOST, N_ROWS = 2, 5
SCHEMA = Schema(
    {"record": Categorical([f"r{row}" for row in range(80)]), "x": Numeric(0, 80)}, Classes([0, 1], name="y"), n_rows=80
)
COLUMNS = {"record": "VARCHAR", "x": "INTEGER", "y": "INTEGER"}


def rows_of(ids, first=0):
    """Rows of some persons, with names of their own; those of each person have targets, but for one."""
    written = [own for own in ids for _ in range(N_ROWS)]
    return [[f"'r{first + place}'", str(place), str(min(place % N_ROWS, 2)), own] for place, own in enumerate(written)]


def sealed(engine, place, name):
    table = engine.connections[place].table(name)
    return SqlVault.seal(table, SCHEMA, engine.temporary, "person", People(MOST, Entropy(3)))


FAR = ("VARCHAR", "DOUBLE", "HUGEINT", "text", "double precision", "numeric")  # also tried without temporary tables
IDS = [(name, kind, True) for name, kind in CASES if kind is not TRUTHS]
IDS += [(name, kind, False) for name, kind in CASES if kind.name in FAR]


@pytest.mark.parametrize(("name", "kind", "temporary"), IDS, ids=[f"{name} {kind} {mode}" for name, kind, mode in IDS])
def test_a_person_with_an_extreme_id_changes_nobody_elses_rows(engines, name, kind, temporary):  # noqa: F811
    engine = engines(name, temporary)
    usual = [written for written, value in kind.usual.items() if value is not None]
    odd = [written for written, value in kind.extremes.items() if value not in kind.usual.values()]
    others = rows_of(usual)
    without, with_odd = (
        engine.make(COLUMNS | {"person": kind.name}, [*others, *rows_of(["NULL", *more], len(others))]) for more in ([], odd)
    )
    told = [told_by(lambda table=table: sealed(engine, 0, table).close()) for table in (without, with_odd)]
    assert told[0] == told[1]
    assert told[0].error is None
    with sealed(engine, 0, without) as fewer, sealed(engine, 1, with_odd) as more:
        assert fewer.count()._value == [MOST * len(usual)]
        change = root_counts(more)[0] - root_counts(fewer)[0]
        assert (change >= 0).all()
        values = [kind.extremes[written] for written in odd]
        is_nobody = [value != value or (isinstance(value, str) and not value.strip(BLANKS)) for value in values]
        assert more.count()._value - fewer.count()._value == [MOST * (len(odd) - sum(is_nobody))]
    engine.execute(f"DROP TABLE {without}")
    engine.execute(f"DROP TABLE {with_odd}")


FIT = ("UUID", "uuid", "oid")  # for ids
UNREADABLE = [(name, *item) for name, refused in REFUSED.items() for item in refused.items() if item[0] not in FIT]


@pytest.mark.parametrize(("name", "kind", "written"), UNREADABLE, ids=[f"{name} {kind}" for name, kind, _ in UNREADABLE])
def test_a_type_that_ids_cannot_have_is_refused_whatever_it_holds(engines, name, kind, written):  # noqa: F811
    engine = engines(name, True)
    tables = [engine.make(COLUMNS | {"person": kind}, rows) for rows in ([], rows_of([written]), rows_of(["NULL"]))]
    told = {told_by(lambda table=table: sealed(engine, 0, table).close()) for table in tables}
    assert len(told) == 1
    error = told.pop().error
    assert error is not None
    assert error.startswith("TableError")
    assert "'person'" in error


@pytest.mark.server
def test_ids_of_postgresql_are_compared_by_characters_and_by_value(engines):  # noqa: F811
    engine = engines("postgresql", True)
    engine.execute(
        "CREATE COLLATION IF NOT EXISTS base_letters (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    for kind, ids, n_persons in (
        ("text COLLATE base_letters", ["'a'", "'A'", "'\u00e1'", "'a'"], 3),
        ("numeric", ["'1.0'", "'1.00'", "'1'", "'NaN'", "'1e400'", "'Infinity'"], 3),
        ("uuid", ["'00000000-0000-0000-0000-000000000007'", "'00000000-0000-0000-0000-000000000008'"], 2),
        ("double precision", ["'0.0'", "'-0.0'", "'NaN'", "'0.1'"], 2),
        ("char(5)", ["'a'", "'a '", "'b'"], 2),
        ("mood", ["'sad'", "'happy'"], 2),
    ):
        with sealed(engine, 0, engine.make(COLUMNS | {"person": kind}, rows_of(ids))) as vault:
            assert vault.count()._value == [MOST * n_persons], kind
            assert vault.count()._value == [MOST * n_persons]


@pytest.mark.server
@pytest.mark.parametrize("odd", ["NULL", "'NaN'", "repeat('x', 1000000)", "'\U0010ffff'", "''"])
def test_a_fit_in_postgresql_succeeds_whatever_an_id_is(engines, odd):  # noqa: F811
    engine = engines("postgresql", True)
    table = engine.make(COLUMNS | {"person": "text"}, [*rows_of([f"'p{n}'" for n in range(9)]), *rows_of([odd], 45)])
    model = DPForestClassifier(SCHEMA, epsilon=2, recipe="consul-2020", max_depth=2, max_rows_per_person=MOST)
    model.fit_table(engine.connections[0].table(table), groups="person")
    assert (model.privacy_.unit, model.privacy_.holds) == ("person", True)
