"""The utility benchmark: same splits for all, honest figures, rows that name what they are, a page made from rows."""

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
from benchmarks.peers.settings import PEERS
from benchmarks.utility import run as utility
from benchmarks.utility.figures import APPROXIMATE, PURE, Figures, metrics_of
from benchmarks.utility.generated import FAMILIES, generate
from benchmarks.utility.overview import left_out, panels
from benchmarks.utility.verdicts import verdicts
from dpforest import Classes, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.recipes import get_recipe

pytestmark = pytest.mark.slow

DIFFPRIVLIB, DP_EBM = "diffprivlib forest", "interpret DP-EBM"
FULL, QUICK = utility.all_cases(quick=False), utility.all_cases(quick=True)


def load(name, seed=0):
    """The toy of a benchmark's table."""
    task = next(table.task for table in utility.TABLES if table.name == name)
    return utility._indexed(*toy({"regression": 0, "binary": 2, "classes": 3}[task], 300))


def case(table, system, seed=0, epsilon=1.0, delta=0.0, **settings):
    if system in utility.REFERENCES:
        return Case.of("utility", table, system, "no privacy", seed)
    return Case.of("utility", table, system, "private", seed, epsilon=epsilon, delta=delta, **settings)


def row(case, value, **more):
    metrics = dict.fromkeys(metrics_of(utility._table(case.dataset)), value)
    return case.to_dict() | {"metrics": metrics, "n_train": 75, "n_test": 25, "seconds": 0.1} | more


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


def test_systems_and_tables_can_be_chosen_by_name_or_group(monkeypatch):
    def systems(*words):
        return {case.system for case in utility.wanted(False, words)}

    chosen = utility.wanted(False, ("auto",), ("adult", "nursery"))
    assert {(case.system, case.dataset) for case in chosen} == {("auto", "adult"), ("auto", "nursery")}
    assert systems("peers") == {peer.system for peer in PEERS}
    assert systems("references", "dong-2022") == {*utility.REFERENCES, "dong-2022"}
    with pytest.raises(ParameterError, match="adults"):
        utility.wanted(False, (), ("adults",))
    monkeypatch.setattr(utility, "ABLATIONS", {"nothing": get_recipe("auto")})
    cases = utility.wanted(False, ("ablations",))
    assert {case.dataset for case in cases} == {table.name for table in utility.TABLES if table.in_ablations}
    assert {dict(case.parameters)["epsilon"] for case in cases} == set(utility.ABLATION_EPSILONS)
    measured = utility.measure(cases[0], None, load)
    assert (measured["system"], measured["holds"]) == ("ablation: nothing", True)


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


# What is shown


def test_the_best_peer_is_the_best_mean_over_all_splits():
    scores = {(0, 0.1): 0.7, (1, 0.1): 0.8, (0, 1.0): 0.9, (1, 1.0): 0.5}
    name = "diffprivlib logistic regression"
    rows = [row(case("adult", name, seed, C=C), value) for (seed, C), value in scores.items()]
    rows += [row(case("adult", DIFFPRIVLIB, 0, n_estimators=1), 0.99)]  # one split only
    rows += [row(case("adult", DP_EBM, seed, delta=1e-5), 0.85) for seed in range(2)]
    figures = Figures.of(rows)
    pure = figures.best_peer("adult", "accuracy", 1.0, PURE)
    assert (pure.system, json.loads(pure.settings), pure.figure.mean) == (name, {"C": 0.1}, 0.75)
    assert figures.best_peer("adult", "accuracy", 1.0, APPROXIMATE).system == DP_EBM
    assert figures.best_peer("adult", "log_loss", 1.0, APPROXIMATE).figure.mean == pytest.approx(0.7)
    assert figures.best_peer("adult", "accuracy", 2.0, PURE) is None


@pytest.mark.parametrize(("auto", "verdict"), [(0.804, "above"), (0.798, "alike"), (0.79, "below")])
def test_cells_are_above_alike_or_below(auto, verdict):
    rows = [row(case("adult", "auto"), auto), row(case("adult", DIFFPRIVLIB), 0.8)]
    (cell,) = Figures.of(rows).cells("accuracy")
    assert cell.verdict == verdict


def test_a_setting_that_is_chosen_on_the_other_splits_gets_no_credit_for_luck():
    lucky = {0: 0.9, 1: 0.5, 2: 0.5}  # the best on the mean of all
    rows = [row(case("adult", DIFFPRIVLIB, seed, n_estimators=1), value) for seed, value in lucky.items()]
    rows += [row(case("adult", DIFFPRIVLIB, seed, n_estimators=5), 0.6) for seed in lucky]
    rows += [row(case("adult", DIFFPRIVLIB, 0, n_estimators=9), 0.99)]  # one split only
    figures = Figures.of(rows)
    assert figures.best_peer("adult", "accuracy", 1.0, PURE).figure.mean == pytest.approx(1.9 / 3)
    # Split 0 takes the steady setting; splits 1 and 2 see the lucky one ahead on the others, and get what it does there.
    assert figures.chosen_peer("adult", "accuracy", 1.0, PURE) == pytest.approx((0.6 + 0.5 + 0.5) / 3)
    assert figures.chosen_peer("adult", "accuracy", 2.0, PURE) is None


# The picture of README.md, and what is said beside it


def rows(table, *, auto=0.8, peer=0.7, ebm=0.75, n_peer_splits=utility.N_SEEDS):
    """Every system on a table: what it reaches, a little more with a larger budget."""
    for seed in range(utility.N_SEEDS):
        yield row(case(table, "guess", seed), 0.5)
        yield row(case(table, "boosting", seed), 0.9)
        for epsilon in utility.EPSILONS:
            for delta, more in ((PURE, 0.0), (APPROXIMATE, 0.01)):
                yield row(case(table, "auto", seed, epsilon, delta), auto + epsilon / 100 + more)
            if seed < n_peer_splits:
                yield row(case(table, DIFFPRIVLIB, seed, epsilon, n_estimators=1), peer)
                yield row(case(table, DIFFPRIVLIB, seed, epsilon, n_estimators=9), peer - 0.1)
            if ebm is not None:
                yield row(case(table, DP_EBM, seed, epsilon, 1e-5), ebm)


def of(*tables):
    return Figures.of(row for table in tables for row in table)


def test_a_panel_is_the_mean_over_its_tables_of_the_default_and_of_the_best_settings():
    two, more = panels(of(rows("adult", auto=0.8), rows("pima", auto=0.6), rows("nursery", ebm=None)))
    assert two.title == "2 real tables with two classes"
    assert two.curves["dpforest, δ = 0"][1.0].mean == pytest.approx(0.71)
    assert two.curves["dpforest, δ = 10⁻⁵"][1.0].mean == pytest.approx(0.72)
    assert two.curves["diffprivlib, δ = 0"][1.0].mean == pytest.approx(0.7)
    assert two.curves["DP-EBM, δ = 10⁻⁵"][1.0].mean == pytest.approx(0.75)
    assert two.levels == pytest.approx({"boosting": 0.9, "guess": 0.5})
    assert more.title == "1 real tables with more classes"
    assert "DP-EBM, δ = 10⁻⁵" not in more.curves


def test_a_table_on_which_a_system_lacks_a_split_is_left_out_for_all():
    figures = of(rows("adult"), rows("pima", peer=0.1, n_peer_splits=utility.N_SEEDS - 1), rows("banknote", ebm=None))
    (panel,) = panels(figures)
    assert panel.title == "1 real tables with two classes"
    assert panel.curves["diffprivlib, δ = 0"][1.0].mean == pytest.approx(0.7)
    assert left_out(figures) == ["banknote", "pima"]


def test_verdicts_count_every_table_once():
    figures = of(rows("adult", auto=0.6), rows("pima", peer=0.81, ebm=0.7), rows("exclusive_or"))
    pure, approximate = verdicts(figures).split("\n")
    assert (
        "above the best peer on 1 of 3 tables (2 real, 1 generated), within 0.3 points of it on 1, and below it on 1" in pure
    )
    assert "on 2 of 3 tables" in approximate


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
