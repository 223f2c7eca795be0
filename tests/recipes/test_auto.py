"""The default recipe end to end: it spends its budget and no more, keeps the asked shape, and predicts on any table.

Every fit is seeded, so a test passes always or never; no seed was chosen by what it gives.
"""

import itertools
import math

import numpy as np
import pytest
from tests.support.strategies import MIXED, mixed_table

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model

DELTA = 1e-5
TASKS = {"one class": 1, "two classes": 2, "three classes": 3, "ten classes": 10, "number": None}
LEARNERS = {name: TASKS[name] for name in ("two classes", "three classes", "number")}
BUDGETS = list(itertools.product([0.01, 0.1, 1.0, 20.0], [0.0, DELTA]))
FEW_BUDGETS = [(0.01, DELTA), (0.1, 0.0), (1.0, DELTA), (20.0, 0.0)]


def rows(n_rows, n_classes, seed=1):
    """A table with missing values, and its target."""
    X, _, values = mixed_table(n_rows, seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.05] = None
    y = values if n_classes is None else np.round(3 * values).astype(int) % n_classes
    return X, y


def model_of(n_classes, epsilon=1.0, delta=0.0, features=MIXED, n_rows=None, **parameters):
    target = Bounded(0, 1) if n_classes is None else Classes(list(range(n_classes)))
    make = DPForestRegressor if n_classes is None else DPForestClassifier
    return make(Schema(features, target, n_rows=n_rows), epsilon, delta, **{"random_state": 3} | parameters)


def assert_predicts(model, X):
    """Shares that sum to one, labels of the schema, values within the bounds."""
    if isinstance(model, DPForestRegressor):
        predicted = model.predict(X)
        assert predicted.shape == (len(X),)
        assert ((predicted >= 0) & (predicted <= 1)).all()
        return
    shares = model.predict_proba(X)
    assert shares.shape == (len(X), len(model.classes_))
    assert np.isfinite(shares).all()
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert set(model.predict(X)) <= set(model.classes_)


def assert_spent(model):
    ledger = model.ledger_
    assert ledger.spent <= model.epsilon
    assert ledger.spent == pytest.approx(model.epsilon, rel=1e-9)
    assert (model.privacy_.epsilon, model.privacy_.delta) == (ledger.spent, model.delta)
    for book in ledger.books:
        assert book.accountant.delta <= model.delta
    for entry in ledger.entries():
        assert entry.get("epsilon", entry.get("rho")) > 0


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [0, 1, 50, 2000])
@pytest.mark.parametrize("name", TASKS)
def test_any_number_of_rows_is_fitted_for_exactly_the_budget(name, n_rows):
    X, y = rows(n_rows, TASKS[name])
    probe, _ = rows(20, TASKS[name], seed=2)
    for epsilon, delta in FEW_BUDGETS if n_rows == 2000 else BUDGETS:
        model = model_of(TASKS[name], epsilon, delta).fit(X, y)
        assert_spent(model)
        assert_predicts(model, probe)
        entries = model.ledger_.entries()
        assert entries[0]["label"] == "number of rows"
        assert entries[-1]["label"] in ("leaves", "lead of the rule", "linear: order")
        assert "epsilon" in entries[0]
        assert delta or all("epsilon" in entry for entry in entries)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("n_rows", [0, 50])
@pytest.mark.parametrize("name", TASKS)
def test_without_privacy_everything_is_exact_and_the_statement_says_so(name, n_rows, delta):
    X, y = rows(n_rows, TASKS[name])
    model = model_of(TASKS[name], math.inf, delta, max_depth=2, n_trees=4).fit(X, y)
    assert {entry["mechanism"] for entry in model.ledger_.entries()} == {"exact"}
    assert model.ledger_.spent == math.inf
    assert not model.privacy_.holds
    assert_predicts(model, rows(20, TASKS[name])[0])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", TASKS)
def test_a_constant_target_is_fitted_and_learnt_where_the_budget_allows(name, delta):
    X, _ = rows(1000, TASKS[name])
    constant = 0.25 if TASKS[name] is None else TASKS[name] - 1
    for epsilon in (0.05, 5.0):
        model = model_of(TASKS[name], epsilon, delta, n_trees=3).fit(X, np.full(1000, constant))
        assert_spent(model)
        assert_predicts(model, X[:20])
    predicted = model.predict(X[:200])
    assert np.abs(predicted - constant).max() < 0.1 if TASKS[name] is None else (predicted == constant).all()


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_table_of_missing_values_is_fitted(name, delta):
    _, y = rows(200, LEARNERS[name])
    X = np.full((200, len(MIXED)), None, dtype=object)
    model = model_of(LEARNERS[name], 2.0, delta, n_trees=3).fit(X, y)
    assert_spent(model)
    assert_predicts(model, X[:5])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    "feature", [Numeric(0, 1), Numeric(0, 1, integer=True), Categorical(["only"]), Categorical([0, 1])], ids=repr
)
def test_one_feature_is_enough(feature, name, delta):
    _, y = rows(300, LEARNERS[name])
    X = np.random.default_rng(4).integers(0, 2, size=(300, 1))
    X = X.astype(object) if isinstance(feature, Categorical) else X.astype(float)
    for n_rows in (None, 10**6):
        model = model_of(LEARNERS[name], 2.0, delta, {"x": feature}, n_rows, n_trees=4, max_depth=3).fit(X, y)
        assert_spent(model)
        assert_predicts(model, X[:5])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_thousand_categories_are_fitted(name, delta):
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 1000, 2000)
    X = np.array([[f"c{code}", code / 1000] for code in codes], dtype=object)
    features = {"c": Categorical([f"c{code}" for code in range(1000)]), "x": Numeric(0, 1)}
    y = codes / 1000 if LEARNERS[name] is None else codes * LEARNERS[name] // 1000
    # The plan for a million rows has trees with a child for each category.
    for n_rows in (None, 10**6):
        model = model_of(LEARNERS[name], 1.0, delta, features, n_rows, max_depth=2, n_trees=4).fit(X, y)
        assert_spent(model)
        assert_predicts(model, X[:50])


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_rare_positives_give_small_shares_and_the_right_order(delta):
    rng = np.random.default_rng(6)
    x = rng.random((4000, 2))
    y = (x[:, 0] > 0.98) & (rng.random(4000) < 0.5)
    assert 0.005 < y.mean() < 0.02
    model = model_of(2, 5.0, delta, {"a": Numeric(0, 1), "b": Numeric(0, 1)}).fit(x, y.astype(int))
    assert_spent(model)
    assert_predicts(model, x[:50])
    shares = model.predict_proba(x)[:, 1]
    assert shares.mean() < 0.1
    assert shares[x[:, 0] > 0.98].mean() > 3 * shares[x[:, 0] < 0.9].mean()


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", TASKS)
def test_the_shape_that_was_asked_for_is_grown_for_ten_to_ten_million_rows(name, delta):
    X, y = rows(60, TASKS[name])
    for (n_trees, depth), n_rows in zip(
        itertools.cycle([(1, 1), (2, 3), (5, 1), (9, 2), (1, 5)]), [None, 10, 10**3, 10**5, 10**7], strict=False
    ):
        model = model_of(TASKS[name], 1.0, delta, n_rows=n_rows, n_trees=n_trees, max_depth=depth).fit(X, y)
        assert model.forest_.n_trees == n_trees
        assert model.forest_.depth <= depth
        assert_spent(model)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_plan_for_many_rows_spends_its_budget_in_all_its_phases(name, delta):
    X, y = rows(60, LEARNERS[name])
    model = model_of(LEARNERS[name], 1.0, delta, n_rows=10**6, max_depth=2).fit(X, y)
    assert_spent(model)
    scopes = {entry["scope"] for entry in model.ledger_.entries() if "tree" in entry["scope"]}
    assert len(scopes) == model.forest_.n_trees > 1


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", TASKS)
def test_a_model_from_a_file_predicts_the_same(name, delta, tmp_path):
    X, y = rows(300, TASKS[name])
    model = model_of(TASKS[name], 3.0, delta, n_trees=3).fit(X, y)
    model.save(tmp_path / "m.dpf")
    back = load_model(tmp_path / "m.dpf")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    if TASKS[name] is not None:
        np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.ledger_ == model.ledger_
    assert back.privacy_ == model.privacy_
    assert back.forest_.link == model.forest_.link


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_forest_does_not_depend_on_the_order_of_rows(name, delta):
    X, y = rows(150, LEARNERS[name])
    order = np.random.default_rng(7).permutation(150)
    one = model_of(LEARNERS[name], 3.0, delta, n_trees=3).fit(X, y).forest_
    two = model_of(LEARNERS[name], 3.0, delta, n_trees=3).fit(X[order], y[order]).forest_
    for part in ("parents", "features", "routes", "counts", "votes"):
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", LEARNERS)
def test_with_a_large_budget_much_is_learnt(name, delta):
    rng = np.random.default_rng(8)
    X = rng.random((4000, 3))
    steps = (X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.6)
    features = {column: Numeric(0, 1) for column in "abc"}
    y = steps / 2 if LEARNERS[name] is None else np.minimum(steps, LEARNERS[name] - 1)
    model = model_of(LEARNERS[name], 5.0, delta, features, max_depth=4).fit(X[:3000], y[:3000])
    assert model.score(X[3000:], y[3000:]) > 0.85
