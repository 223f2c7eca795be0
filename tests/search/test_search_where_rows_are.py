"""A search in a file, a database or on a cluster: hits are those in memory, parts hold each record once, nothing is left.

Coins are fresh where no seed is said: tests then fail about once in a million runs, if the samplers are sound.
"""

import itertools
import os
from dataclasses import replace

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dpforest.records.parquet import ParquetVault
from dpforest.records.sql.vault import SqlVault
from tests.conformance.conformance import NAME, in_memory
from tests.conformance.conformance_backends import opened as backend_of
from tests.conformance.conformance_tables import easy, nasty
from tests.conformance.postgres_server import KEEPER, READER, as_root, connect, write_table
from tests.search.small import CLASSES, LABELS, N_KNOWN, N_ROWS, ROWS, SPACE, TASKS, budget_in, search, watch
from tests.support.chances import FAILURE, at_least, at_most, seed_coins

import dpforest.search.estimator as search_module
from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import ParameterError, TableError
from dpforest.mechanisms import Entropy
from dpforest.records import parquet
from dpforest.records.vault import Vault
from dpforest.schema import FINE_STEPS, TARGET_STEPS
from dpforest.search.runs import _most_per_record

SLOW, SERVER = pytest.mark.slow, pytest.mark.server
BACKENDS = {"duckdb": [SLOW], "postgresql": [SERVER], "dask": [SLOW]}
N_DRAWS = {"duckdb": 30, "postgresql": 30, "dask": 8}  # of a cluster fewer, which takes longer
CASES = [
    ("mixed", "two classes"), ("mixed", "four classes"), ("mixed", "bounded"), ("empty", "bounded"),
    ("all left out", "two classes"),
]  # fmt: skip
LEFT = "SELECT count(*) FROM duckdb_tables() WHERE temporary"


@pytest.fixture(scope="module", params=[pytest.param(name, marks=marks) for name, marks in BACKENDS.items()])
def backend(request, tmp_path_factory):
    with backend_of(request.param, tmp_path_factory.mktemp("engine"), lambda: request.getfixturevalue("server")) as found:
        yield found


@pytest.fixture
def duck():
    connection = ibis.duckdb.connect()
    yield connection
    connection.disconnect()


# --- hits ---------------------------------------------------------------------------------------------------------------


def forests(kind):
    """Forests of every link, with votes that no fit has made: some tie, some leave the range of the target."""
    table, schema = nasty("mixed", kind)
    estimator = DPForestRegressor if kind == "bounded" else DPForestClassifier
    model = estimator(schema, epsilon=50, recipe="consul-2020", n_trees=3, max_depth=3, random_state=1)
    forest, rng = model.fit(table.drop_columns("y"), table.column("y")).forest_, np.random.default_rng(2)
    shape, first = forest.votes.shape, (forest.trees == 0)[:, None]
    shares = replace(forest, votes=rng.dirichlet(np.ones(shape[1]), shape[0]), link="shares")
    if kind != "bounded":
        steps, few = rng.normal(0, 2000, shape), rng.integers(0, 3, shape).astype(float)
        return [shares, replace(forest, votes=np.rint(steps) / 1024, link="softmax"), replace(forest, votes=few)]
    means = np.rint(FINE_STEPS * rng.normal(0.2, 0.5, (shape[0], 1))) / FINE_STEPS
    added = replace(forest, votes=np.hstack([first - means, means]), link="sum")
    inner = Bounded(-1.5, 2, name="y")
    return [shares, added, replace(shares, target=inner), replace(added, target=inner)]


@pytest.mark.parametrize(("size", "kind"), CASES)
def test_hits_are_those_in_memory_and_those_of_the_parts_add_up(backend, size, kind):
    table, schema = nasty(size, kind)
    near, far = in_memory(table, schema), backend.seal(table, schema)
    parts, seen = far.hold_out(0.3, Entropy()), set()
    for forest in forests(kind):
        expected = near.hits(forest)._value
        np.testing.assert_array_equal(far.hits(forest)._value, expected)
        np.testing.assert_array_equal(sum(part.hits(forest)._value for part in parts), expected)
        seen.add(tuple(expected[0]))
    assert len(seen) > 1 or size != "mixed"
    far.close()


TOY = {"x": Numeric(0, 1)}
TOYS = {
    "classes": (DPForestClassifier, Schema(TOY, Classes(["a", "b", "c"], name="y")), ["a", "b", "c", "unlisted", None]),
    "numbers": (DPForestRegressor, Schema(TOY, Bounded(0, 1, name="y")), [0.0, 0.3, 1.0, 7.0, -7.0, None]),
}


@pytest.mark.parametrize("engine", ["memory", pytest.param("duckdb", marks=SLOW)])
@pytest.mark.parametrize("kind", [*TOYS])
def test_whatever_record_is_added_hits_and_misses_move_by_their_unit_and_no_more(duck, kind, engine):
    store, (estimator, schema, targets) = duck if engine == "duckdb" else None, TOYS[kind]
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.random(60), "y": rng.choice(np.array(targets[:3], dtype=object), 60)})
    forest = estimator(schema, epsilon=5, max_depth=2).fit(rows[["x"]], rows["y"]).forest_
    tried, unit, moved = [forest], _most_per_record(schema), set()
    if kind == "numbers":
        # One that predicts 0.3, and one that predicts so far outside that it would miss by more than the range.
        votes = np.tile([0.7, 0.3], (forest.n_nodes, 1))
        calm = replace(forest, votes=votes, link="shares", target=schema.target)
        tried = [calm, replace(calm, target=Bounded(3, 60, name="y"))]
    assert unit == (1 if kind == "classes" else TARGET_STEPS)
    for forest in tried:
        before = hits_in(store, rows, schema, forest)
        for x, y in itertools.product((0.1, None), targets):
            added = pd.concat([rows, pd.DataFrame({"x": [x], "y": [y]}, dtype=object)]).astype(rows.dtypes)
            change = hits_in(store, added, schema, forest) - before
            assert (change >= 0).all()
            assert change.sum() == (0 if y is None or y == "unlisted" else unit)  # so 0.9 of it would be too small
            moved.add(tuple((change[0] == unit).tolist()))
    assert {(True, False), (False, True)} <= moved


def hits_in(duck, rows, schema, forest):
    if duck is None:
        return Vault.seal(rows[["x"]], rows["y"], schema).hits(forest)._value
    with SqlVault.seal(duck.create_table("rows", rows, overwrite=True), schema) as vault:
        return vault.hits(forest)._value


# --- parts --------------------------------------------------------------------------------------------------------------


def names_in(vault):
    """The names of the records in a vault, each of which occurs once."""
    found = vault.count_texts(NAME)._value
    assert all(n == 1 for n in found.values())
    return {*found}


def test_parts_hold_each_record_once_and_coins_are_those_of_the_share(backend):
    table, schema = easy(60)
    vault, n_draws = backend.seal(table, schema), N_DRAWS[backend.name]
    times = dict.fromkeys(table.column(NAME).to_pylist(), 0)
    for _ in range(n_draws):
        training, held = map(names_in, vault.hold_out(0.3, Entropy()))
        assert not training & held
        assert training | held == {*times}
        for name in held:
            times[name] += 1
    failure = FAILURE / (2 * len(times))
    assert all(at_least(n_draws, 0.3, failure) <= n <= at_most(n_draws, 0.3, failure) for n in times.values())
    n_coins = n_draws * len(times)
    assert at_least(n_coins, 0.3, FAILURE / 2) <= sum(times.values()) <= at_most(n_coins, 0.3, FAILURE / 2)
    vault.close()


def test_a_part_is_charged_to_one_book_gives_no_sample_and_answers_after_it_was_closed(duck):
    table, schema = easy(40)
    with SqlVault.seal(duck.create_table("t", table), schema) as vault:
        assert vault.can_sample
        parts = vault.hold_out(0.5, Entropy())
        assert duck.con.execute(LEFT).fetchone() == (2,)
        for part in parts:
            assert part.in_one_book
            assert not part.can_sample
            before = names_in(part)
            part.close()
            assert names_in(part) == before
    assert duck.con.execute(LEFT).fetchone() == (0,)


# --- searches -----------------------------------------------------------------------------------------------------------

TEXTS = pa.schema({"x": pa.float64(), "z": pa.string(), "y": pa.string()})


def counts_of(*parts):
    return [int(part.count()._value[0]) for part in parts]


def assert_found(found, parts, kind, delta):
    """All runs are about the same parts, which hold each record once, and what is found is worth something."""
    assert all(part == parts[0] and sum(part) == N_KNOWN[kind] for part in parts)
    assert at_least(N_KNOWN[kind], 0.2, FAILURE / 2) <= parts[0][1] <= at_most(N_KNOWN[kind], 0.2, FAILURE / 2)
    assert found.privacy_.holds
    assert (found.privacy_.epsilon, found.privacy_.delta) == (4.0, delta)
    # A tree of depth 1 or 2 with a part of 4 has next to no noise for 600 rows: a guess scores 0.5, or -0.25.
    assert found.best_score_ > (0.8 if kind == "classes" else -0.2)
    assert found.predict(ROWS).shape == (N_ROWS,)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "delta"), [("classes", 0.0), ("numbers", 1e-6)])
def test_a_search_in_a_database_finds_what_there_is_and_leaves_nothing(duck, kind, delta, monkeypatch, tmp_path):
    estimator, schema, target = TASKS[kind]
    table, left, parts = duck.create_table("t", ROWS.assign(y=target)), [], []

    def look(*given):
        left.append(duck.con.execute(LEFT).fetchone()[0])
        parts.append(counts_of(*given[:2]))

    watch(monkeypatch, search_module, "run", look)
    budget = budget_in(tmp_path, delta=delta)
    found = search(estimator(schema, delta=delta, n_trees=2), budget=budget).fit_table(table)
    assert {*left} == {2}
    assert duck.con.execute(LEFT).fetchone() == (0,)
    assert_found(found, parts, kind, delta)
    assert len(budget.history()) == 1
    assert list(found.feature_names_in_) == ["x", "z"]


@pytest.mark.slow
def test_a_part_is_there_for_one_run_after_the_other(duck):
    with SqlVault.seal(duck.create_table("t", ROWS.assign(y=LABELS)), CLASSES) as vault:
        training, held_out = vault.hold_out(0.5, Entropy())
        for _ in range(2):
            # Trees in sequence, whose weights are looked up in a table that is sent once for each fit.
            model = DPForestClassifier(CLASSES, epsilon=50, n_trees=3).fit(training)
            assert duck.con.execute(LEFT).fetchone() == (2,)
            ((hits, _),) = held_out.hits(model.forest_)._value
            assert hits > 0.8 * held_out.count()._value[0]
            assert duck.con.execute(LEFT).fetchone() == (2,)


def test_an_error_inside_a_run_ends_the_search_charged_and_leaves_no_table(duck, monkeypatch, tmp_path):
    budget = budget_in(tmp_path)

    def fail(*_):
        assert duck.con.execute(LEFT).fetchone()[0] >= 2
        raise TableError("lost")

    monkeypatch.setattr(SqlVault, "hits", fail)
    table = duck.create_table("t", ROWS.assign(y=LABELS))
    with pytest.raises(TableError, match="lost"):
        search(DPForestClassifier(CLASSES, n_trees=1), budget=budget).fit_table(table)
    assert len(budget.history()) == 1
    assert duck.con.execute(LEFT).fetchone() == (0,)


DRAWING = {"recipe": ["bojarski-2015"], "recipe_params": [{"vote": "majority"}, {"vote": "probabilistic"}]}


@pytest.mark.parametrize(
    ("given", "space", "error", "message"),
    [
        ("frame", SPACE, TableError, "A table of Ibis is needed"),
        ("other columns", SPACE, TableError, "y"),
        ("no tables", SPACE, ParameterError, "temporary tables"),
        ("table", DRAWING, ParameterError, "draws labels by coins"),
    ],
)
def test_what_a_database_cannot_search_is_refused_uncharged(duck, given, space, error, message, monkeypatch, tmp_path):
    budget = budget_in(tmp_path)
    table = duck.create_table("t", ROWS if given == "other columns" else ROWS.assign(y=LABELS))
    if given == "no tables":
        monkeypatch.setattr("dpforest.records.sql.session.KEEPERS", ())
    with pytest.raises(error, match=message):
        search(DPForestClassifier(CLASSES), param_distributions=space, budget=budget).fit_table(
            ROWS if given == "frame" else table
        )
    assert budget.history() == []
    assert duck.con.execute(LEFT).fetchone() == (0,)


@pytest.mark.server
def test_an_account_of_a_server_searches_if_it_may_make_temporary_tables(server, tmp_path):
    rows = pa.table({"x": ROWS["x"], "z": ROWS["z"], "y": pa.array(LABELS, pa.string())}).cast(TEXTS)
    with as_root(server) as root:
        write_table(root, "searched", rows)
    budget = budget_in(tmp_path)
    asked = search(DPForestClassifier(CLASSES, n_trees=2), budget=budget)
    connections = [connect(server, user) for user in (READER, KEEPER)]
    refused, used = (connection.table("searched") for connection in connections)
    with pytest.raises(ParameterError, match="Use an account that may make temporary tables"):
        asked.fit_table(refused)
    assert budget.history() == []
    assert asked.fit_table(used).best_score_ > 0.8
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'dpforest%'"
    assert connections[1].con.execute(left).fetchone()[0] == 0
    for connection in connections:
        connection.disconnect()


# --- a cluster ----------------------------------------------------------------------------------------------------------


def dask_frame():
    import dask.dataframe as dd

    return dd.from_pandas(ROWS.assign(y=LABELS), npartitions=2)


@pytest.fixture(scope="module")
def client():
    import distributed

    with distributed.Client(processes=False, threads_per_worker=2, dashboard_address=None) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_search_on_a_cluster_finds_what_there_is(client, delta, monkeypatch, tmp_path):
    (tmp_path / "t").mkdir()
    for part, rows in enumerate((slice(0, 200), slice(200, None))):
        ROWS.assign(y=LABELS)[rows].to_parquet(tmp_path / "t" / f"{part}.parquet")
    parts = []
    watch(monkeypatch, search_module, "run", lambda *given: parts.append(counts_of(*given[:2])))
    found = search(DPForestClassifier(CLASSES, delta=delta, n_trees=2)).fit_dask(str(tmp_path / "t"), client)
    assert_found(found, parts, "classes", delta)


@pytest.mark.slow
def test_a_dask_dataframe_is_refused_before_anything_is_charged(client, tmp_path):
    budget = budget_in(tmp_path)
    frame = dask_frame()
    with pytest.raises(ParameterError, match="write the rows to Parquet files"):
        search(DPForestClassifier(CLASSES), budget=budget).fit_dask(frame, client)
    assert budget.history() == []


# --- a file -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a table as a file of several row groups, of which few rows are read at a time."""
    monkeypatch.setattr(parquet, "BATCH_ROWS", 40)

    def written(target, n_rows=N_ROWS):
        path = tmp_path / f"table{n_rows}.parquet"
        ROWS.assign(y=target)[:n_rows].to_parquet(path, row_group_size=150)
        return path

    return written


def test_a_file_that_changes_during_a_search_ends_it(write, monkeypatch):
    path, encode = write(LABELS), ParquetVault.encode

    def late(vault, *arguments):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
        return encode(vault, *arguments)

    monkeypatch.setattr(ParquetVault, "encode", late)
    with pytest.raises(TableError, match="was changed while"):
        search(DPForestClassifier(CLASSES)).fit(path)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "delta"), [("classes", 1e-6), ("numbers", 0.0)])
def test_a_file_gives_what_a_table_in_memory_gives(task, delta, write, monkeypatch):
    (kind, schema, target), found = TASKS[task], []
    for table in ((ROWS, target), (write(target),)):
        seed_coins(monkeypatch, 5)
        found.append(search(kind(schema, delta=delta, n_trees=2)).fit(*table))
    memory, file = found
    for part in ("best_params_", "best_score_", "ledger_"):
        assert getattr(memory, part) == getattr(file, part)
    assert memory.best_estimator_.to_json() == file.best_estimator_.to_json()
    assert list(file.feature_names_in_) == ["x", "z"]
    assert file.predict(ROWS).shape == (N_ROWS,)


@pytest.mark.parametrize(("task", "share"), [("classes", 0.01), ("classes", 0.9), ("numbers", 0.3)])
def test_parts_of_a_file_are_those_in_memory_and_so_are_their_answers(task, share, write):
    kind, schema, target = TASKS[task]
    model = kind(schema, epsilon=5, max_depth=2).fit(ROWS, target)
    memory = Vault.seal(ROWS, target, schema).hold_out(share, Entropy(4))
    file = ParquetVault.seal(write(target), schema, n_jobs=2).hold_out(share, Entropy(4))
    for mine, other in zip(file, memory, strict=True):
        assert (mine._kept == (other._target_codes >= 0)).all()
        assert (mine.count()._value == other.count()._value).all()
        assert (mine.hits(model.forest_)._value == other.hits(model.forest_)._value).all()
        assert mine.in_one_book
        assert not mine.can_sample


@pytest.mark.parametrize(
    ("table", "target", "message"),
    [
        (lambda: "missing.parquet", None, "missing.parquet"),
        (None, LABELS, "pass y with a table only"),
        (object, LABELS, "table in memory or the path of a Parquet file"),
        (lambda: ibis.memtable(ROWS), None, "table in memory or the path of a Parquet file"),
        pytest.param(dask_frame, None, "table in memory or the path of a Parquet file", marks=SLOW),
    ],
    ids=["missing", "own", "object", "ibis", "dask"],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_charged(table, target, message, write, tmp_path):
    budget = budget_in(tmp_path)
    with pytest.raises(TableError, match=message):
        search(DPForestClassifier(CLASSES), budget=budget).fit(table() if table else write(LABELS), target)
    assert budget.history() == []
