"""A forest that is trained on a Dask cluster: every answer is that of the records in memory, to the last unit."""

import math
import pickle
import re
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster, get_task_stream
from distributed.actor import ActorFuture
from tests.conformance.conformance import NAME, TwinSource, times_in_trees
from tests.records.dask.pretended import assert_holds_at_most, held_keys
from tests.support.encoded import opened

from dpforest import Bounded, Categorical, Classes, Numeric, Schema, get_recipe, list_recipes
from dpforest.errors import ParameterError, TableError
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.mechanisms.exact import draw_below
from dpforest.pipeline import fit_forest
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import AllTrees, OneTree, Poisson
from dpforest.records.dask import frames, replayed
from dpforest.records.dask import partitions as partitioned
from dpforest.records.dask import vault as dask_vault
from dpforest.records.dask.frames import Codes
from dpforest.records.dask.holders import Holder, tree
from dpforest.records.dask.replayed import BEHIND, Operation, Partition, Question, answer, find_digests
from dpforest.records.dask.tasks import Failure, Packed
from dpforest.records.dask.vault import DaskVault
from dpforest.records.memory.vault import Vault
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

NAMES = [recipe["name"] for recipe in list_recipes()]
FEATURES = {
    "x": Numeric(0, 1), "whole": Numeric(0, 9, integer=True), "city": Categorical(["Oslo", "Rome"]),
    "flag": Categorical([0, 1]), NAME: Categorical([f"r{row}" for row in range(300)]),
}  # fmt: skip
EDGES = [0, 70, 70, 130, 240, 300]  # the second partition is empty
CLASSES = Schema(FEATURES, Classes(["a", "b", "c"]), n_rows=300)
BOUNDED = Schema(FEATURES, Bounded(-1, 3), n_rows=300)
SECRET = "zebra-secret-value"


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def table(schema=CLASSES, n_rows=300):
    """Values of all kinds, some missing; some labels that are not listed."""
    rng = np.random.default_rng(4)
    columns = {"x": rng.random(n_rows), "whole": rng.integers(0, 12, n_rows).astype(float)}
    columns |= {"city": rng.choice(["Oslo", "Rome", "Lima"], n_rows), "flag": rng.integers(0, 3, n_rows).astype(float)}
    whole = pd.DataFrame(columns).mask(rng.random((n_rows, 4)) < 0.15).assign(**{NAME: [f"r{row}" for row in range(n_rows)]})
    high = (whole["x"].fillna(0) > 0.5).to_numpy()
    if isinstance(schema.target, Classes):
        labels = np.where(high, "a", rng.choice(["b", "c"], n_rows))
        return whole.assign(target=np.where(rng.random(n_rows) < 0.1, "unlisted", labels))
    return whole.assign(target=np.where(rng.random(n_rows) < 0.1, np.nan, 2.0 * high + rng.normal(0, 0.4, n_rows)))


def parts_of(whole):
    return [whole.iloc[start:stop] for start, stop in pairwise(EDGES)]


def frame_of(parts, meta=None):
    return dd.from_map(lambda part: part, parts, meta=parts[0].iloc[:0] if meta is None else meta)


def in_memory(schema=CLASSES):
    return Vault.seal(table(schema)[[*FEATURES]], table(schema)["target"], schema)


def far(client, schema=CLASSES, parts=None):
    """The table, or these parts of it, on the cluster."""
    return DaskVault.seal(frame_of(parts or parts_of(table(schema))), schema, client)


def encoded(source, assignment=None, grid=Grid(9)):  # noqa: B008 - frozen
    """A counter of the records of a source, dealt to one tree."""
    counter = source.encode(Domain.of(source.schema, grid))
    counter.deal(assignment or AllTrees(1), Entropy())
    return counter


def all_codes(counter):
    return opened(counter.count_codes(0, np.ones((1, len(FEATURES)), dtype=bool)))


def ledger_of(vault, name, epsilon=4.0, delta=0.0, seed=None):
    gate = Gate(Ledger(make_accountant(epsilon, delta)), Entropy(seed))
    return fit_forest(vault, get_recipe(name), gate, n_trees=2, max_depth=2), gate.ledger


# Every recipe with classes, and those that take a number.
FITS = [(CLASSES, name, 0.0) for name in NAMES]
FITS += [(BOUNDED, name, delta) for name in ("auto", "consul-2020", "consul-2020-ert") for delta in (0.0, 1e-6)]
FITS += [(replace(CLASSES, n_rows=None), "auto", 1e-6)]


@pytest.mark.parametrize(("schema", "name", "delta"), FITS)
def test_every_count_of_every_recipe_is_that_of_memory_and_so_is_what_is_spent(client, schema, name, delta):
    _, ledger = ledger_of(TwinSource(far(client, schema), in_memory(schema)), name, delta=delta, seed=5)
    _, expected = ledger_of(in_memory(schema), name, delta=delta, seed=5)
    assert ledger.spent == pytest.approx(expected.spent, rel=1e-12)
    assert ("number of rows" in ledger.to_json()) == (schema.n_rows is None)
    if name not in ("li-2022", "fletcher-islam-2015-dpdf", "rana-2015", "auto"):  # which go on as released values say
        assert ledger.to_json() == expected.to_json()


def test_records_at_the_same_place_of_two_partitions_have_coins_of_their_own(client):
    part = table()[table()["target"] == "a"].iloc[:100]
    parts = [part.assign(**{NAME: [f"r{first + row}" for row in range(100)]}) for first in (0, 100)]
    times = times_in_trees(encoded(far(client, parts=parts), OneTree(2)), 2, [*FEATURES].index(NAME))[0]
    assert (times[:100] != times[100:200]).any()  # but with a chance of 2**-100


def test_a_seed_gives_the_same_forest_twice_and_that_of_memory_where_records_need_no_coins(client):
    first, near = (ledger_of(source, "auto", seed=5)[0] for source in (far(client), in_memory()))
    np.testing.assert_array_equal(first.counts, near.counts)
    np.testing.assert_array_equal(first.features, near.features)
    once, again, other = (ledger_of(far(client), "li-2020", epsilon=np.inf, seed=seed)[0] for seed in (5, 5, None))
    assert once.counts.tolist() == again.counts.tolist()
    assert once.counts.tolist() != other.counts.tolist()


@pytest.mark.parametrize("group_size", [1000, 17])
def test_a_folder_of_parquet_gives_the_counts_of_memory(client, tmp_path, monkeypatch, group_size):
    monkeypatch.setattr(partitioned, "PARTITION_ROWS", 40)
    for index, part in enumerate(parts_of(table())):
        pq.write_table(pa.Table.from_pandas(part), tmp_path / f"{index}.parquet", row_group_size=group_size)
    vault, told = DaskVault.seal(tmp_path, CLASSES, client), []
    assert opened(vault.count()).tolist() == opened(in_memory().count()).tolist()
    counter = vault.encode(Domain.of(CLASSES, Grid(9)), told.append)
    counter.deal(AllTrees(1), Entropy())
    np.testing.assert_array_equal(all_codes(counter), all_codes(encoded(in_memory())))
    assert told == [f"partitions encoded: {percent} %" for percent in range(5, 101, 5)]  # however many there are
    assert len(counter._partitions) == (5 if group_size == 1000 else 10)


def test_files_without_rows_give_zeros(client, tmp_path):
    pq.write_table(pa.Table.from_pandas(table().iloc[:0]), tmp_path / "t.parquet")
    counter = encoded(DaskVault.seal(str(tmp_path / "t.parquet"), CLASSES, client), OneTree(3))
    assert opened(counter.count_nodes(0, 3)).tolist() == [[0, 0, 0]] * 3


def as_categories(part):
    return part.assign(city=part["city"].astype("category"), target=part["target"].astype("category"))


TYPES = {  # Dask turns objects into text, so only columns that read the same as text
    "objects": lambda part: part.astype({"x": object, "whole": object, "city": object, "target": object}),
    "categories": as_categories,
    "single precision": lambda part: part.assign(flag=part["flag"].astype("float32")),
    "arrow": lambda part: part.convert_dtypes(dtype_backend="pyarrow"),
}
UNFIT = {
    "text for numbers": lambda part: part.assign(x=part["x"].astype("string"), flag=part["flag"].astype("string")),
    "a column that is not there": lambda part: part.drop(columns=["x"]),
    "words for numbers": lambda part: part.assign(x=SECRET),
}


@pytest.mark.parametrize("change", TYPES.values(), ids=TYPES)
def test_types_of_a_partition_may_differ_from_those_of_the_table(client, change):
    parts = [change(part) if index % 2 else part for index, part in enumerate(parts_of(table()))]
    source = far(client, parts=parts)
    assert opened(source.count()).tolist() == opened(in_memory().count()).tolist()
    np.testing.assert_array_equal(all_codes(encoded(source)), all_codes(encoded(in_memory())))


@pytest.mark.parametrize("change", UNFIT.values(), ids=UNFIT)
def test_a_partition_that_does_not_fit_has_missing_values_and_is_no_error(client, change):
    parts = parts_of(table())
    parts[2] = change(parts[2])
    kept = table()["target"].isin(CLASSES.target.labels).sum()
    assert opened(encoded(far(client, parts=parts)).count_nodes(0, 1)).sum() == kept


def test_a_whole_dataframe_of_text_and_unknown_categories_gives_the_counts_of_memory(client):
    frame = dd.from_pandas(as_categories(table()), npartitions=1).categorize(columns=[]).repartition(npartitions=1)
    frame["city"] = frame["city"].cat.as_unknown()
    counter = encoded(DaskVault.seal(frame, CLASSES, client))
    np.testing.assert_array_equal(all_codes(counter), all_codes(encoded(in_memory())))


def changed(**columns):
    return dd.from_pandas(table().assign(**columns), npartitions=2)


REFUSED = {
    "a missing column": (lambda: changed().drop(columns=["x"]), "'x' of the schema is missing"),
    "a missing target": (lambda: changed().drop(columns=["target"]), "'target' of the schema is missing"),
    "dates for numbers": (lambda: changed(x=pd.Timestamp("2020-01-01")), "'x' is declared numeric"),
    "numbers for text": (lambda: changed(city=987654.5), "'city' holds numbers"),
    "a dataframe of another library": (table, "Expected a dask dataframe"),
    "no such folder": (lambda: "no/such/folder", "cannot be read as a Parquet"),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_a_table_that_will_not_do_is_refused_by_its_types_alone(client, make, words):
    with pytest.raises(TableError, match=words) as caught:
        DaskVault.seal(make(), CLASSES, client)
    assert "987654" not in str(caught.value)


def test_without_a_client_the_error_says_how_to_start_one(monkeypatch):
    def no_client():
        raise ValueError("No global client found")

    monkeypatch.setattr("distributed.get_client", no_client)
    with pytest.raises(ParameterError, match=re.escape("distributed.Client()")):
        DaskVault.seal(table(), CLASSES)


def broken(*_):
    raise ValueError(SECRET)


def test_what_fails_on_a_worker_shows_no_value_in_errors_or_logs(client, monkeypatch, caplog):
    monkeypatch.setattr(frames, "encode", broken)
    vault = far(client, parts=[part.assign(city=SECRET) for part in parts_of(table())])
    with pytest.raises(TableError, match=r"could not read or count a partition of the table \(ValueError\)") as caught:
        vault.encode(Domain.of(CLASSES, Grid(9)))
    assert SECRET not in str(caught.value) + caplog.text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_partition_that_cannot_be_made_is_an_error_without_its_words(client):
    frame = dd.from_map(broken, range(2), meta=table().iloc[:0])
    with pytest.raises(TableError, match=r"gave no answer") as caught:
        DaskVault.seal(frame, CLASSES, client).count()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("change", ["damaged", "another"])
def test_a_file_that_changes_during_a_fit_is_an_error(client, tmp_path, change):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pandas(table()), path)
    vault = DaskVault.seal(path, CLASSES, client)
    if change == "damaged":
        path.write_bytes(b"\xff" * path.stat().st_size)
    else:
        time.sleep(0.02)
        pq.write_table(pa.Table.from_pandas(table().iloc[::-1]), path)
    with pytest.raises(TableError, match="changed") as caught:
        vault.encode(Domain.of(CLASSES, Grid(9)))
    assert "Oslo" not in str(caught.value)


def test_workers_forget_the_codes_when_the_counter_is_gone(client):
    counter = far(client).encode(Domain.of(CLASSES, Grid(9)))
    training, held = counter.hold_out(0.3, Entropy())
    for part in (training, held):
        part.deal(AllTrees(1), Entropy())
        part.count_nodes(0, 1)
    assert len(counter._partitions) == 5
    n_held, n_own = held_keys(client), 15 + sum(len(each._holders) for each in (counter, training, held))
    del counter, training, held, part
    assert_holds_at_most(client, n_held - n_own)  # less five partitions and some actors, each for three counters


def test_vaults_and_counters_show_and_copy_nothing(client):
    vault = far(client)
    assert repr(vault) == "DaskVault(...)"
    for held in (vault, vault.encode(Domain.of(CLASSES, Grid(9)))):
        with pytest.raises(TypeError, match="cannot be copied"):
            pickle.dumps(held)


def partition(index=0, n_rows=200):
    rng, domain = np.random.default_rng(3), Domain.of(CLASSES, Grid(9))
    codes = np.stack([rng.integers(0, n, n_rows) for n in domain.n_codes]).astype(domain.dtype)
    return Partition(Codes(codes, rng.integers(0, 3, n_rows).astype(np.int16), domain, CLASSES.target, 1), index)


def log_of(assignment=Poisson(3), key=bytes(range(32))):  # noqa: B008 - both are constants
    domain = Domain.of(CLASSES, Grid(9))
    routes = np.tile(np.arange(domain.n_codes.max(), dtype=np.uint16) % 2, (3, 1))
    descend = (0, np.array([0, 1, 2]), routes, np.array([3, 5, 7]))
    return (Operation("deal", (assignment,), key), Operation("descend", descend))


def nodes_of(own, *log):
    """What a partition answers about the nodes below the roots."""
    return own.answer(Question(0, log, "tally_nodes", (3, 6))).tolist()


@pytest.mark.parametrize("assignment", [OneTree(3), Poisson(3)])
def test_a_partition_that_was_sent_or_made_again_answers_the_same(assignment):
    log, first = log_of(assignment), partition()
    roots, below = Question(0, log[:1], "tally_nodes", (0, 3)), Question(0, log, "tally_nodes", (3, 6))
    news = Question(1, log[1:], "tally_nodes", (3, 6))
    answers = [first.answer(question).tolist() for question in (roots, news)]
    sent = pickle.loads(pickle.dumps(first))
    assert [sent.answer(below).tolist(), first.answer(below).tolist()] == [answers[1]] * 2
    assert partition().answer(news) == BEHIND
    # A task that comes late has a log that is behind.
    assert [own.answer(roots).tolist() for own in (sent, first, partition())] == [answers[0]] * 3
    assert first.fork().answer(below).tolist() == answers[1]


def test_partitions_and_keys_draw_coins_of_their_own():
    cases = ((0, b"a" * 32), (1, b"a" * 32), (0, b"b" * 32))
    counts = [nodes_of(partition(index), *log_of(key=key)) for index, key in cases]
    assert counts[0] != counts[1] != counts[2] != counts[0]
    with pytest.raises(Exception):  # a sampling that says that it has no coins
        nodes_of(partition(), *log_of(key=None))


def test_a_partition_that_is_made_again_in_another_order_refuses():
    first, codes = partition(), partition()._origin
    digests = find_digests(1, first)
    question = Question(0, log_of(), "tally_nodes", (3, 6), digests)
    assert pickle.loads(pickle.dumps(first)).answer(question).tolist() == first.answer(question).tolist()
    for order in (np.arange(200)[::-1], np.arange(199)):
        other = Codes(codes.codes[:, order], codes.target_codes[order], codes.domain, codes.target, 1)
        with pytest.raises(TableError, match="another order"):
            Partition(other, 0).answer(question)


def test_a_worker_need_not_import_scikit_learn():
    code = "import sys, dpforest.records.dask.partitions, dpforest.records.dask.frames; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_a_scheduler_need_not_import_what_tasks_are_made_of():
    read = "import pickle, sys; pickle.loads(sys.stdin.buffer.read()); print({'numba', 'pyarrow'} & {*sys.modules})"
    task = pickle.dumps((Holder, Packed(answer, Question(0, log_of(), "tally_nodes", (0, 3)))))
    done = subprocess.run([sys.executable, "-c", read], input=task, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "set()"


def test_a_task_that_a_worker_cannot_unpack_is_a_value_and_no_error(monkeypatch):
    task = Packed(answer, Question(0, log_of(), "tally_nodes", (0, 3)))
    assert task(partition()).tolist() == partition().answer(Question(0, log_of(), "tally_nodes", (0, 3))).tolist()
    monkeypatch.delattr(replayed, "answer")
    assert task(partition()) == Failure("A worker could not read or count a partition of the table (AttributeError).")


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_question_is_one_call_of_one_actor_and_no_task(n_threads, monkeypatch):
    shape = {"n_workers": 3, "threads_per_worker": n_threads, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**shape) as cluster, Client(cluster) as client:
        parts = dd.from_pandas(table(), npartitions=8)
        counter = encoded(DaskVault.seal(parts, CLASSES, client))
        counter.count_nodes(0, 1)
        # What keeps the cluster awake is a task, and may take its time.
        counter._awake.result()
        counter._awake_until = math.inf
        calls, result = [], ActorFuture.result
        monkeypatch.setattr(ActorFuture, "result", lambda *arguments: calls.append(result(*arguments)) or calls[-1])
        with get_task_stream(client) as tasks:
            counts = opened(counter.count_nodes(0, 1))
        assert tasks.data == []
        assert len(calls) == 1
        assert counts.tolist() == calls[0].tolist() == [[(table()["target"] == label).sum() for label in "abc"]]
        holders = [own for worker in cluster.workers.values() for own in worker.state.actors.values()]
        assert [len(holder._parts) for holder in holders] == [n_threads] * 3


def test_answers_are_added_up_in_a_tree_in_which_nobody_waits_for_many():
    holders = [(f"worker {number}", f"key {number}") for number in range(30)]

    def named(branch):
        address, key, below = branch
        assert len(below) <= 4
        return [(address, key), *(found for own in below for found in named(own))]

    assert sorted(named(tree(holders, 4))) == sorted(holders)
    assert tree(holders[:1], 4) == ("worker 0", "key 0", [])


def test_a_cluster_that_only_answers_questions_is_given_a_task_now_and_then(client, monkeypatch):
    counter = encoded(far(client))
    counter.count_nodes(0, 1)
    counter._awake.result()
    for seconds, is_given in ((3600.0, False), (0.0, True)):
        monkeypatch.setattr(dask_vault, "AWAKE", seconds)
        counter._awake_until = time.monotonic() + seconds
        before = counter._awake
        with get_task_stream(client) as tasks:
            counter.count_nodes(0, 1)
            counter._awake.result()
        assert (counter._awake is not before) == is_given
        assert (counter._awake.key in {task["key"] for task in tasks.data}) == is_given


def test_a_partition_begins_again_after_an_operation_that_failed():
    own, wrong = partition(), Operation("descend", (0, None, None, None))
    with pytest.raises(Exception):
        nodes_of(own, *log_of(), wrong)
    assert nodes_of(own, *log_of()) == nodes_of(partition(), *log_of())


def test_keyed_words_follow_from_key_and_number_and_look_uniform():
    def words(key, number, n=4096):
        values = np.empty(n, dtype=np.int64)
        KeyedEntropy(key, number).draw_for_records(draw_below, values, 10)
        return values

    first = words(b"k" * 32, 3)
    assert first.tolist() == words(b"k" * 32, 3).tolist()
    for other in (words(b"k" * 32, 4), words(b"l" * 32, 3)):
        assert abs((first == other).mean() - 0.1) < 0.03
    assert np.abs(np.bincount(first, minlength=10) / first.size - 0.1).max() < 0.03
    with pytest.raises(ValueError, match="256 bits"):
        KeyedEntropy(b"short", 0)
