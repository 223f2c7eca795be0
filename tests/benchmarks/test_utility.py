"""The utility benchmark: same splits for all, honest measures, and rows that name what they are."""

import json
from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss, roc_auc_score
from tests.benchmarks.small import said_by, toy

from benchmarks.core.results import Case, key
from benchmarks.core.trials import HeldOut
from benchmarks.peers import environment
from benchmarks.utility import run as utility
from benchmarks.utility.figures import APPROXIMATE, PURE
from benchmarks.utility.generated import FAMILIES, generate
from dpforest import Classes, Numeric, Schema

pytestmark = pytest.mark.slow

DP_EBM = "interpret DP-EBM"
FULL, QUICK = utility.all_cases(quick=False), utility.all_cases(quick=True)


def load(name, seed=0):
    """The toy of a benchmark's table."""
    task = next(table.task for table in utility.TABLES if table.name == name)
    return utility._indexed(*toy({"regression": 0, "binary": 2, "classes": 3}[task], 300))


def case(table, system, seed=0, epsilon=1.0, delta=0.0, **settings):
    if system in utility.REFERENCES:
        return Case.of("utility", table, system, "no privacy", seed)
    return Case.of("utility", table, system, "private", seed, epsilon=epsilon, delta=delta, **settings)


# What is run


def test_every_system_meets_every_table_of_its_task_on_the_same_seeds():
    assert set(QUICK) < set(FULL)
    assert len(set(FULL)) == len(FULL)
    for table in utility.TABLES:
        own = [case for case in FULL if case.dataset == table.name]
        assert {case.seed for case in own} == set(range(utility.N_SEEDS))
        budgets = [dict(case.parameters) for case in own if case.system == "auto"]
        assert {(budget["epsilon"], budget["delta"]) for budget in budgets} == {
            (epsilon, delta) for epsilon in utility.EPSILONS for delta in (PURE, APPROXIMATE)
        }
        systems = {case.system for case in own}
        assert (DP_EBM in systems) == (table.task != "classes")
        assert ("diffprivlib linear regression" in systems) == (table.task == "regression")
        assert ("fletcher-islam-2017" in systems) == (table.task != "regression")


def test_splits_are_those_that_nothing_was_tuned_on():
    for table in utility.TABLES:
        train, test = table.split.rows(np.zeros(1000), 3)
        expected = np.random.default_rng([2026, 3]).permutation(1000)
        n_test = 100 if table.task == "regression" else 250
        assert (test == expected[:n_test]).all()
        assert (train == expected[n_test:]).all()
        assert sorted(HeldOut(n_test / 1000).rows(np.zeros(1000), 3)[1]) != sorted(test)


TASKS = ("adult", "nursery", "abalone")


@pytest.mark.parametrize(("system", "table"), [*product(["auto"], TASKS), *zip(utility.REFERENCES, cycle(TASKS))])
def test_a_case_of_every_task_is_measured(table, system):
    measured = utility.measure(case(table, system, delta=1e-5 if system == "auto" else 0.0), None, load)
    assert "absent" not in measured
    assert (measured["n_train"], measured["n_test"]) == ((270, 30) if table == "abalone" else (225, 75))
    assert set(measured["metrics"]) == ({"r2"} if table == "abalone" else {"accuracy", "auc", "log_loss"})
    assert ("reliability" in measured) == (table == "adult" and system == "auto")
    if system == "auto":
        assert measured["holds"]
        assert measured["epsilon_spent"] <= 1.0 + 1e-9


def test_the_number_of_rows_is_private():
    X, y, schema = toy(2, 300)
    _, places, kept_schema = utility._indexed(X, y, replace(schema, target=Classes(["yes", "no"]), n_rows=300))
    assert kept_schema.n_rows is None
    assert kept_schema.target.labels == (0, 1)
    assert (places == (np.asarray(y) == "no")).all()


def test_a_peer_row_says_what_was_left_out(monkeypatch):
    class StandIn:
        def data(self, name, table, train, test):
            _, usable = table()
            return "file", train[usable[train]], test[usable[test]]

        def train(self, request):
            assert request["settings"] == {"C": 1.0}
            return np.tile([0.3, 0.7], (75 - n_missing, 1)), {"seconds": 0.5, "n_train": 10}

    n_missing = 2
    X, y, schema = load("adult")
    _, test = utility._table("adult").split.rows(y, 0)
    values = X["x"].to_pylist()
    for place in test[:n_missing]:
        values[place] = None
    X = X.set_column(0, "x", pa.array(values, pa.float64()))
    monkeypatch.setattr(environment, "trainer", lambda python: StandIn())
    asked = case("adult", "diffprivlib logistic regression", C=1.0)
    measured = utility.measure(asked, "python", lambda name, seed: (X, y, schema))
    assert (measured["n_left_out"], measured["n_test"], measured["n_train"]) == (2, 73, 10)


# What is measured


def test_metrics_are_those_of_scikit_learn_and_a_certain_error_costs_a_finite_loss():
    rng = np.random.default_rng(0)
    for n_classes in (2, 4):
        schema = Schema({"x": Numeric(0, 1)}, Classes(range(n_classes)))
        y, shares = rng.integers(0, n_classes, 200), rng.dirichlet(np.ones(n_classes), 200)
        found = utility.metrics(shares, y, schema)
        expected = roc_auc_score(y, shares[:, 1] if n_classes == 2 else shares, multi_class="ovr")
        assert found["auc"] == pytest.approx(expected)
        assert found["log_loss"] == pytest.approx(log_loss(y, shares), abs=1e-4)
        assert found["accuracy"] == (shares.argmax(axis=1) == y).mean()
    found = utility.metrics(np.eye(n_classes)[:1], np.array([1]), schema)
    assert found["log_loss"] == pytest.approx(-np.log(utility.LEAST_SHARE), rel=1e-3)
    assert "auc" not in found


# Generated tables


def generated(name, seed=0):
    table, y, schema = generate(name, seed)
    return np.column_stack([column.to_numpy() for column in table.columns]), np.asarray(y), schema


@pytest.mark.parametrize("name", FAMILIES)
def test_a_seed_gives_the_same_table_and_public_bounds_cut_off_next_to_nothing(name):
    X, y, schema = generated(name)
    again, y_again, _ = generated(name)
    assert (again == X).all()
    assert (y == y_again).all()
    assert not (generated(name, seed=1)[0] == X).all()
    assert schema.n_rows is None
    bounds = next(iter(schema.features.values()))
    assert (np.abs(X) > bounds.upper).mean() < 1e-3
    assert set(np.unique(y)) == set(schema.target.labels) == set(range(FAMILIES[name].n_classes))


def test_tables_are_what_their_names_say():
    X, y, _ = generated("weak_features")
    assert (X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)).mean() == pytest.approx(0.25, abs=0.02)
    X, y, _ = generated("wider_class")
    assert X[y == 1].std() / X[y == 0].std() == pytest.approx(2, abs=0.05)
    X, y, _ = generated("exclusive_or")
    assert (y == ((X[:, 0] > 0) ^ (X[:, 1] > 0))).all()
    assert max(abs(np.corrcoef(column, y)[0, 1]) for column in X.T) < 0.05  # one feature alone says nothing
    X, y, _ = generated("irrelevant_features")
    distances = np.abs(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
    assert (distances[:4] > 0.8).all()
    assert (distances[4:] < 0.2).all()
    assert generated("rare_positives")[1].mean() == pytest.approx(0.01, abs=0.003)


# The command


def test_the_command_runs_shows_and_goes_on(tmp_path):
    chosen = ["--systems", "auto,guess", "--tables", "exclusive_or", "--jobs", "1"]
    arguments = ["utility", "--quick", *chosen, "--results", str(tmp_path / "rows.jsonl"), "--no-peers"]
    assert "exclusive_or (accuracy)" in said_by(*arguments, "--report", str(tmp_path / "page"))
    assert (tmp_path / "page" / "utility.md").exists()
    rows = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert len({key(json.loads(line)) for line in rows}) == len(rows) == 6
    assert json.loads(said_by(*arguments, "--json"))[0]["table"] == "exclusive_or"
    assert (tmp_path / "rows.jsonl").read_text().splitlines() == rows
