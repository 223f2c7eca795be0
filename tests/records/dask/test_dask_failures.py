"""What is lost in the middle of a fit on a cluster: a worker costs time, a client its model; nothing is charged twice."""

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, Future, LocalCluster
from distributed.actor import ActorFuture
from tests.records.dask.pretended import assert_holds_at_most, held_keys
from tests.records.forests import assert_same_forest

from dpforest import Classes, Numeric, Schema, get_recipe
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.pipeline import fit_forest
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.dask import vault as dask
from dpforest.records.dask.vault import DaskVault

pytestmark = pytest.mark.slow

SCHEMA = Schema({"x": Numeric(0, 1), "z": Numeric(0, 1)}, Classes([0, 1], name="y"), n_rows=500)


def frame(n_rows=500, n_partitions=6):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.random((n_rows, 2)), columns=["x", "z"])
    table["y"] = (table["x"] + rng.normal(0, 0.3, n_rows) > 0.5).astype(int)
    return dd.from_pandas(table, npartitions=n_partitions)


def fit(client, recipe, progress=lambda step: None, table=None, seed=7, **shape):
    gate = Gate(Ledger(make_accountant(2.0, 0.0)), Entropy(seed))
    vault = DaskVault.seal(frame() if table is None else table, SCHEMA, client)
    return fit_forest(vault, get_recipe(recipe), gate, progress=progress, **shape), gate.ledger


def assert_same(one, other):
    assert_same_forest(one[0], other[0])
    assert one[1].to_json() == other[1].to_json()


def kill_a_worker(client):
    """End the process of the worker that holds most; gives its id."""
    held = client.run(lambda dask_worker: (len(dask_worker.data), os.getpid()))
    pid = max(held.values())[1]
    os.kill(pid, signal.SIGKILL)
    return pid


# Drawn weights, trees in sequence, and a part that is held out.
@pytest.mark.parametrize(
    ("recipe", "when"),
    [
        ("auto", "tree 3"),
        pytest.param("li-2020", "level 3", marks=pytest.mark.night),
        pytest.param("guan-2020", "leaves", marks=pytest.mark.night),
    ],
)
def test_a_worker_killed_in_the_middle_changes_neither_forest_nor_ledger(client, recipe, when):
    expected, killed = fit(client, recipe), []

    def kill(step):
        if step.startswith(when):
            killed.append(kill_a_worker(client))

    assert_same(fit(client, recipe, kill), expected)
    assert len(killed) == 1
    client.wait_for_workers(2, timeout=30)
    assert killed[0] not in client.run(os.getpid).values()


# Which answer is waited for: of two actors that are made, of partitions about their digests, then of questions.
@pytest.mark.parametrize(
    ("nth", "is_done"),
    [(1, False), (2, True), (5, False), *(pytest.param(*late, marks=pytest.mark.night) for late in [(3, False), (5, True)])],
)
def test_a_worker_killed_while_it_counts_changes_no_count(client, monkeypatch, nth, is_done):
    expected, fetch, n_asked = fit(client, "li-2020"), dask._fetch, Counter()

    def kill_then_fetch(future, patience):
        n_asked["answers"] += 1
        if n_asked["answers"] == nth:
            if is_done:
                future.result(30)
            kill_a_worker(client)
        return fetch(future, patience)

    monkeypatch.setattr(dask, "_fetch", kill_then_fetch)
    assert_same(fit(client, "li-2020"), expected)
    assert n_asked["answers"] > nth
    client.wait_for_workers(2, timeout=30)


KILLED = """
import os, signal, sys
import dask.dataframe as dd, numpy as np, pandas as pd
from distributed import Client
from dpforest import Classes, DPForestClassifier, Numeric, Schema

def kill(step):
    if step.startswith("level 2"):
        print("killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

rng = np.random.default_rng(0)
table = pd.DataFrame({"x": rng.random(300), "y": rng.integers(0, 2, 300)})
schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1], name="y"))
model = DPForestClassifier(schema, recipe="li-2020", random_state=0)
with Client(sys.argv[1]):
    model.fit_dask(dd.from_pandas(table, npartitions=4), progress=kill)
model.save("model.dpf")
"""


def test_a_client_killed_in_the_middle_leaves_no_model_and_no_codes(client, tmp_path):
    before = held_keys(client)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, client.scheduler.address], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "killed\n"), ended.stderr
    assert not list(tmp_path.iterdir())
    assert_holds_at_most(client, before)


def test_what_comes_to_the_client_does_not_grow_with_the_rows(client, monkeypatch):
    fetched = []

    def measured(result):
        def measure(future, *arguments):
            found = result(future, *arguments)
            fetched[-1].append(len(pickle.dumps(found)))
            return found

        return measure

    def refused(*_, **__):
        raise AssertionError("There is a second way to the trainer.")

    for kind in (Future, ActorFuture):
        monkeypatch.setattr(kind, "result", measured(kind.result))
    monkeypatch.setattr(Client, "gather", refused)
    for n_rows in (50, 50_000):
        fetched.append([])
        fit(client, "consul-2020-ert", table=frame(n_rows), max_depth=3, n_trees=5)
        fit(client, "auto", table=frame(n_rows))
        fit(client, "zhang-2021", table=frame(n_rows), max_depth=3, n_trees=5)
    few, many = fetched
    assert len(few) == len(many) > 10
    # The same shapes of the same integers; which nodes are open may differ with the noise.
    assert sum(many) <= 1.5 * sum(few)
    assert max(many) < 50_000


def test_a_scheduler_that_is_gone_is_an_error_and_charges_stand():
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    gate = Gate(Ledger(make_accountant(2.0, 0.0)), Entropy(1))

    def close(step):
        if step.startswith("level 2"):
            cluster.close()

    with Client(cluster) as client:
        vault = DaskVault.seal(frame(), SCHEMA, client)
        with pytest.raises(TableError, match="gave no answer") as caught:
            fit_forest(vault, get_recipe("li-2020"), gate, progress=close)
    assert caught.value.__suppress_context__
    assert 0 < gate.ledger.spent < 2
