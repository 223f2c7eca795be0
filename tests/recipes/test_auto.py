"""The default recipe end to end: it spends its budget and no more, keeps the asked shape, and predicts on any table.

Every fit is seeded, so a test passes always or never; no seed was chosen by what it gives.
"""

import json
import math

import numpy as np
import pytest
from tests.support.crosses import pairwise
from tests.support.strategies import MIXED, mixed_table

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model

pytestmark = pytest.mark.slow

DELTA = 1e-5
TASKS = {"one class": 1, "two classes": 2, "three classes": 3, "ten classes": 10, "number": None}
LEARNERS = {name: TASKS[name] for name in ("two classes", "three classes", "number")}
with_and_without_delta = pytest.mark.parametrize("delta", [0.0, DELTA])
WORDS = [f"c{code}" for code in range(400)]
ONE = {"number": Numeric(0, 1), "bit": Numeric(0, 1, integer=True), "word": Categorical(["only"])}
KINDS = {
    "no row": (MIXED, 0), "one row": (MIXED, 1), "few rows": (MIXED, 50), "many rows": (MIXED, 2000),
    "all missing": (MIXED, 200), "all left out": (MIXED, 300), **{name: ({"x": ONE[name]}, 300) for name in ONE},
    "many words": ({"c": Categorical(WORDS), "x": Numeric(0, 1)}, 1000),
}  # fmt: skip
BUDGETS = [(0.001, 0.0), (0.1, DELTA), (1.0, 0.0), (1.0, DELTA), (20.0, 0.0), (1e6, DELTA), (math.inf, 0.0)]
# The number of trees, the depth, and the number of rows that is declared.
SHAPES = [(None, None, None), (None, 1, 300), (1, 1, None), (2, 3, 10), (9, 2, 10**5), (4, 2, 10**6), (1, 5, 10**7)]


def target_of(values, n_classes):
    return values if n_classes is None else np.round(3 * values).astype(int) % n_classes


def rows(n_rows, n_classes, seed=1):
    """A table with missing values, and its target."""
    X, _, values = mixed_table(n_rows, seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.05] = None
    return X, target_of(values, n_classes)


def table_of(kind, n_classes):
    """The features, the rows and the target of a kind of table."""
    features, n_rows = KINDS[kind]
    X, y = rows(n_rows, n_classes)
    codes = np.random.default_rng(5).integers(0, 400, n_rows)
    if kind == "all missing":
        X[:] = None
    elif kind == "all left out":
        y = np.full(n_rows, np.nan)
    elif kind == "many words":
        X, y = np.array([[WORDS[code], code / 400] for code in codes], dtype=object), target_of(codes / 400, n_classes)
    elif kind in ONE:
        X = (codes % 2).reshape(-1, 1).astype(object if kind == "word" else float)
    return features, X, y


def model_of(n_classes, epsilon=1.0, delta=0.0, features=MIXED, n_rows=None, **parameters):
    target = Bounded(0, 1) if n_classes is None else Classes(list(range(n_classes)))
    make = DPForestRegressor if n_classes is None else DPForestClassifier
    return make(Schema(features, target, n_rows=n_rows), epsilon, delta, **{"random_state": 3} | parameters)


def assert_predicts(model, X):
    """Shares that sum to one, labels of the schema, values within the bounds."""
    predicted = model.predict(X)
    if isinstance(model, DPForestRegressor):
        assert ((predicted >= 0) & (predicted <= 1)).all()
        return
    shares = model.predict_proba(X)
    assert shares.shape == (len(X), len(model.classes_))
    assert shares.min(initial=0) >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert (predicted == model.classes_[shares.argmax(axis=1)]).all()


def assert_spent(model):
    """All of the budget, at most 1e-9 less, in the units that the ledger may have; and the statement says it."""
    ledger, statement = model.ledger_, model.privacy_
    assert ledger.spent <= model.epsilon
    assert ledger.spent == pytest.approx(model.epsilon, rel=1e-9)
    assert (statement.epsilon, statement.delta) == (ledger.spent, model.delta)
    assert str(statement).endswith(".")
    content = json.loads(json.dumps(statement.to_dict(), allow_nan=False))
    assert float(content["replace_one"]["epsilon"]) == 2 * statement.epsilon
    assert all(book.accountant.delta <= model.delta for book in ledger.books)
    units = {book.accountant.unit for book in ledger.books}
    assert units <= {"epsilon", "rho" if model.delta else "epsilon"}
    for entry in ledger.entries():
        (unit,) = set(entry) & units
        assert set(entry) == {"label", "mechanism", unit, "scope"}
        assert entry[unit] > 0
        assert all(isinstance(entry[name], str) and entry[name] for name in ("label", "mechanism", "scope"))


@pytest.mark.parametrize(("name", "kind", "budget", "shape"), pairwise([*TASKS], [*KINDS], BUDGETS, SHAPES), ids=str)
def test_any_table_is_fitted_for_exactly_the_budget_in_the_asked_shape(name, kind, budget, shape):
    (epsilon, delta), (n_trees, depth, declared) = budget, shape
    features, X, y = table_of(kind, TASKS[name])
    model = model_of(TASKS[name], epsilon, delta, features, declared, n_trees=n_trees, max_depth=depth).fit(X, y)
    assert_spent(model)
    assert_predicts(model, X[:50] if len(X) else rows(20, None)[0])
    entries = model.ledger_.entries()
    assert (entries[0]["label"] == "number of rows") == (declared is None)
    assert entries[-1]["label"] in ("leaves", "lead of the rule", "linear: order")
    assert {entry["mechanism"] for entry in entries} == {"exact"} or epsilon < math.inf
    importances = model.feature_importances_
    assert importances.shape == (len(features),)
    assert importances.min() >= 0
    assert importances.sum() in (0.0, pytest.approx(1.0))
    assert model.forest_.n_trees == (n_trees or model.forest_.n_trees)
    assert model.forest_.depth <= (depth or math.inf)


@with_and_without_delta
@pytest.mark.parametrize("name", TASKS)
def test_a_constant_target_is_learnt(name, delta):
    X, _ = rows(1000, TASKS[name])
    constant = 0.25 if TASKS[name] is None else TASKS[name] - 1
    model = model_of(TASKS[name], 5.0, delta, n_trees=3).fit(X, np.full(1000, constant))
    predicted = model.predict(X[:200])
    assert np.abs(predicted - constant).max() < 0.1 if TASKS[name] is None else (predicted == constant).all()


@with_and_without_delta
def test_rare_positives_give_small_shares_and_the_right_order(delta):
    rng = np.random.default_rng(6)
    x = rng.random((4000, 2))
    y = (x[:, 0] > 0.98) & (rng.random(4000) < 0.5)
    assert 0.005 < y.mean() < 0.02
    model = model_of(2, 5.0, delta, {"a": Numeric(0, 1), "b": Numeric(0, 1)}).fit(x, y.astype(int))
    assert_spent(model)
    shares = model.predict_proba(x)[:, 1]
    assert shares.mean() < 0.1
    assert shares[x[:, 0] > 0.98].mean() > 3 * shares[x[:, 0] < 0.9].mean()


@with_and_without_delta
@pytest.mark.parametrize("name", LEARNERS)
def test_the_plan_for_many_rows_spends_its_budget_in_all_its_phases(name, delta):
    X, y = rows(60, LEARNERS[name])
    model = model_of(LEARNERS[name], 1.0, delta, n_rows=10**6, max_depth=2).fit(X, y)
    assert_spent(model)
    scopes = {entry["scope"] for entry in model.ledger_.entries() if "tree" in entry["scope"]}
    assert len(scopes) == model.forest_.n_trees > 1


@with_and_without_delta
@pytest.mark.parametrize("name", LEARNERS)
def test_a_file_and_another_order_of_rows_give_the_same_forest(name, delta, tmp_path):
    X, y = rows(150, LEARNERS[name])
    order = np.random.default_rng(7).permutation(150)
    one, two = (model_of(LEARNERS[name], 3.0, delta, n_trees=3).fit(X[some], y[some]) for some in (slice(None), order))
    one.save(tmp_path / "m.dpf")
    back = load_model(tmp_path / "m.dpf")
    for other in (two, back):
        for part in ("parents", "features", "routes", "counts", "votes"):
            np.testing.assert_array_equal(getattr(one.forest_, part), getattr(other.forest_, part))
    np.testing.assert_array_equal(back.predict(X), one.predict(X))
    assert (back.ledger_, back.privacy_, back.forest_.link) == (one.ledger_, one.privacy_, one.forest_.link)


@with_and_without_delta
@pytest.mark.parametrize("name", LEARNERS)
def test_with_a_large_budget_much_is_learnt(name, delta):
    rng = np.random.default_rng(8)
    X = rng.random((4000, 3))
    steps = (X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.6)
    features = {column: Numeric(0, 1) for column in "abc"}
    y = steps / 2 if LEARNERS[name] is None else np.minimum(steps, LEARNERS[name] - 1)
    model = model_of(LEARNERS[name], 5.0, delta, features, max_depth=4).fit(X[:3000], y[:3000])
    assert model.score(X[3000:], y[3000:]) > 0.85
