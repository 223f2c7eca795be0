"""The peers: their environment is built once, their worker is handed arrays, and nothing they do stops a run."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.core.results import NotMeasured
from benchmarks.peers import environment
from benchmarks.peers import worker as peers_worker
from benchmarks.peers.environment import Trainer, arrays_of
from benchmarks.peers.settings import LEFT_OUT, PEERS
from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import ParameterError

pytestmark = pytest.mark.slow

# Stands in for both libraries: every model gives the shares of its training rows, and shows what it was given.
STAND_IN = """
import warnings
import numpy as np

class Model:
    def __init__(self, *arguments, **settings):
        print("noise on standard output")
        self.settings = settings

    def fit(self, X, y):
        if self.settings.get("C") == 13:
            warnings.warn("This will result in additional privacy leakage.")
        if self.settings.get("C") == 14:
            import os
            os._exit(3)
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares, self.mean = counts / counts.sum(), float(np.mean(y))
        return self

    def predict_proba(self, X):
        return np.tile(self.shares, (len(X), 1))

    def predict(self, X):
        return np.full(len(X), self.mean + 100)

RandomForestClassifier = GaussianNB = LogisticRegression = LinearRegression = Model
DPExplainableBoostingClassifier = DPExplainableBoostingRegressor = Model
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    for package, module in (("diffprivlib", "models"), ("interpret", "privacy")):
        (tmp_path / "site" / package).mkdir(parents=True)
        (tmp_path / "site" / package / "__init__.py").write_text("")
        (tmp_path / "site" / package / f"{module}.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    started = Trainer(Path(sys.executable))
    yield started
    started.close()


def small(target):
    X = pa.table({"x": [0.5, None, 9.0, -1.0], "c": ["a", "b", None, "a"]})
    schema = Schema({"x": Numeric(0, 2), "c": Categorical(["a", "b"])}, target)
    return X, np.array([0, 1, 1, 1]), schema


def asked(worker, system, target, name="small", **settings):
    rows = np.arange(4)
    path, train, test = worker.data(name, lambda: arrays_of("small", *small(target)), rows, rows)
    request = {"data": str(path), "system": system, "epsilon": 1.0, "delta": 0.0, "settings": settings, "max_rows": None}
    return worker.train(request), train, test


def test_tables_are_clipped_and_what_is_missing_has_a_place_or_is_left_out(monkeypatch):
    arrays, usable = arrays_of("small", *small(Classes([0, 1])))
    assert usable.tolist() == [True, False, True, True]
    assert arrays["features"][:, 0].tolist()[2:] == [2.0, 0.0]
    assert arrays["features"][:, 1].tolist() == [0, 1, 2, 0]
    assert arrays["n_categories"].tolist() == [0, 3]
    assert (arrays["lower"].tolist(), arrays["upper"].tolist()) == ([0.0, 0.0], [2.0, 2.0])
    monkeypatch.setitem(LEFT_OUT, "small", ("x",))
    arrays, usable = arrays_of("small", *small(Classes([0, 1])))
    assert arrays["features"].shape == (4, 1)
    assert usable.all()


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.system} for {peer.tasks[0]}")
def test_every_setting_of_every_peer_is_trained_by_the_worker(worker, peer):
    is_number = peer.tasks == ("regression",)
    for settings in peer.settings:
        target = Bounded(0, 1) if is_number else Classes([0, 1, 2])
        (predictions, answer), train, test = asked(worker, peer.system, target, **settings)
        assert answer["n_train"] == len(train) == 3
        if is_number:
            assert predictions.tolist() == [1.0] * len(test)  # clipped to the public bounds
        else:
            assert predictions == pytest.approx(np.tile([1 / 3, 2 / 3, 0], (3, 1)))


@pytest.mark.parametrize(("C", "words"), [(13, "privacy leakage"), (14, "before it answered")])
def test_a_worker_that_is_warned_of_a_leak_or_ends_goes_on(worker, C, words):
    with pytest.raises(NotMeasured, match=words):
        asked(worker, "diffprivlib logistic regression", Classes([0, 1]), C=C)
    asked(worker, "diffprivlib logistic regression", Classes([0, 1]), C=1)


def test_a_table_is_handed_over_once(worker):
    calls = []

    def table():
        calls.append(1)
        return arrays_of("small", *small(Classes([0, 1])))

    rows = np.arange(4)
    paths = [worker.data(name, table, rows, rows)[0] for name in ("a", "a", "b")]
    assert len(calls) == 2
    assert [path.exists() for path in paths] == [False, False, True]


def test_one_hot_columns_are_scaled_and_add_up(tmp_path):
    arrays, _ = arrays_of("small", *small(Classes([0, 1])))
    np.savez(tmp_path / "data.npz", **arrays, train=np.arange(2), test=np.arange(2))
    data = peers_worker.Data(str(tmp_path / "data.npz"))
    X, lower, upper = data.form("one-hot")
    assert X[:, 0].tolist()[2:] == [1.0, 0.0]
    assert (X[:, 1:].sum(axis=1) == 1).all()
    assert (len(lower), len(upper)) == (4, 4)
    assert data.form("named")[0][:, 1].tolist() == ["0", "1", "2", "0"]


# The environment


def test_an_environment_that_cannot_be_built_says_why_and_other_files_are_left_alone(tmp_path, monkeypatch):
    def fail(command, **options):
        raise subprocess.CalledProcessError(1, command, stderr="first line\nERROR: no network\n")

    monkeypatch.setattr(subprocess, "run", fail)
    for _ in range(2):  # what is half done is not taken for whole
        with pytest.raises(NotMeasured, match="ERROR: no network"):
            environment.build(tmp_path / "env", lambda step: None)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years of work")
    with pytest.raises(ParameterError, match="empty or new"):
        environment.build(tmp_path / "own", lambda step: None)
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["thesis.txt"]
