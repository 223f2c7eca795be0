"""Importances of trees that add up say what the effects say, without what noise alone gives.

Fits and noise are seeded, so that no test fails by chance.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests.support.crosses import pairwise

from dpforest import Bounded, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.forest.bands import NORMAL_95
from dpforest.model.effects import Effect, Effects, Interaction, ValuePart
from dpforest.model.importances import EVENLY, importance_rows, importances_of

FEATURES = {"signal": Numeric(0, 1), "noise1": Numeric(0, 1), "noise2": Numeric(0, 1)}


def table(n_rows=5000):
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.random(n_rows) for name in FEATURES}), rng


def fitted(y, X, epsilon=5.0, **settings):
    return DPForestClassifier(Schema(FEATURES, Classes(["n", "y"])), epsilon, random_state=1, **settings).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize(("flipped", "epsilon", "delta"), pairwise([0.0, 0.1, 0.3], [1.0, 5.0], [0.0, 1e-6]))
def test_the_only_column_that_matters_has_nearly_all_importance(flipped, epsilon, delta):
    X, rng = table()
    model = fitted(np.where((X["signal"] > 0.5) ^ (rng.random(len(X)) < flipped), "y", "n"), X, epsilon, delta=delta)
    assert model.feature_importances_[0] >= 0.9
    assert model.effects().features[0].feature == importance_rows(model.forest_, model.ledger_)[0]["feature"] == "signal"


@pytest.mark.parametrize("seed", range(3))
def test_a_rule_of_labels_on_few_records_gives_its_importance_to_the_column_that_decides(seed):
    # Labels alone are released of its leaves, and its other splits cut next to nothing off.
    X, _ = table(300)
    y = np.where(X["signal"] > 0.5, "y", "n")
    model = DPForestClassifier(Schema(FEATURES, Classes(["n", "y"])), 1.0, random_state=seed).fit(X, y)
    assert model.effects().features[0].feature == "signal"
    assert model.feature_importances_[0] > 0.9


@pytest.mark.slow
def test_columns_that_matter_together_only_share_the_importance():
    X, _ = table()
    model = fitted(np.where((X["signal"] > 0.5) ^ (X["noise1"] > 0.5), "y", "n"), X)
    np.testing.assert_allclose(model.feature_importances_, [0.5, 0.5, 0], atol=0.1)


@pytest.mark.slow
def test_without_noise_importances_are_shares_of_squared_strengths():
    X, _ = table()
    y = np.where(X["signal"] + 0.3 * X["noise1"] > 0.65, "y", "n")
    model = fitted(y, X, np.inf)
    found = model.effects()
    alone = dict.fromkeys(FEATURES, 0.0) | {effect.feature: effect.strength**2 for effect in found.features}
    squares = dict(alone)
    for pair in found.pairs:
        weights = [alone[name] + EVENLY * pair.strength**2 for name in pair.features]
        for name, weight in zip(pair.features, weights, strict=True):
            squares[name] += pair.strength**2 * weight / sum(weights)
    assert found.pairs
    np.testing.assert_allclose(model.feature_importances_, np.array([*squares.values()]) / sum(squares.values()))
    assert all(row["band"] == 0 for row in importance_rows(model.forest_, model.ledger_))


@pytest.mark.slow
def test_a_date_has_the_importance_of_all_that_is_derived_from_it():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 360, 4000), unit="D")
    X = pd.DataFrame({"day": days, "x": rng.random(4000)})
    schema = Schema({"day": Date("2024-01-01", "2024-12-31"), "x": Numeric(0, 1)}, Bounded(0, 10))
    y = 5.0 * (X["day"].dt.day_of_week >= 5) + 3.0 * X["x"]
    model = DPForestRegressor(schema, 20.0, random_state=1).fit(X, y)
    assert model.effects().of("day (weekday)") is not None
    assert 0.75 < model.feature_importances_[0] < 0.95  # 5.1 of a variance of 5.9


# --- from effects alone ---------------------------------------------------------------------------------------------


@cache
def forest():
    X, _ = table(400)
    return fitted(np.where(X["signal"] > 0.5, "y", "n"), X)


def effect(name, values, noise):
    """An effect of equal parts, with the standard deviation of its noise; None if that is not known."""
    values, n = np.asarray(values, dtype=float), len(values)
    bands = None if noise is None else (NORMAL_95 * noise,)
    parts = tuple(ValuePart(str(index), "range", 1 / n, (float(value),), bands) for index, value in enumerate(values))
    stands_out = None if noise is None else bool((np.abs(values) > 3 * noise).any())
    return Effect(name, "number", float(np.sqrt(np.square(values).mean())), stands_out, parts)


def importances(model, *features, pairs=()):
    found = Effects(("y",), "log-odds", (0.0,), features, tuple(pairs), None)
    return importances_of(model.forest_, model.ledger_, found)


def test_what_noise_adds_to_a_strength_is_taken_off_and_the_band_holds():
    model, rng = forest(), np.random.default_rng(1)
    truths = {"signal": np.tile([-1.0, 1.0], 8), "noise1": np.tile([-0.7, 0.7], 8), "noise2": np.zeros(16)}
    exact = np.array([1, 0.49, 0]) / 1.49
    found, held = [], []
    for _ in range(400):
        effects = [effect(name, values + 0.2 * rng.normal(size=16), 0.2) for name, values in truths.items()]
        estimates = importances(model, *effects)
        found.append([each.value for each in estimates])
        both = zip(estimates, exact, strict=True)
        held.append([abs(each.value - true) <= NORMAL_95 * each.deviation for each, true in both])
    np.testing.assert_allclose(np.mean(found, axis=0), exact, atol=0.01)
    assert np.mean(held, axis=0).min() >= 0.95


def test_effects_within_noise_or_of_unknown_noise_are_worth_nothing_for_sure(monkeypatch):
    model, within, unknown = forest(), effect("signal", [-0.1, 0.1], 0.1), effect("signal", [-1, 1], None)
    assert [each.value for each in importances(model, effect("noise1", [-2, 2], 0.1), within)] == [0, 1, 0]
    assert [(each.value, each.deviation) for each in importances(model, within)] == [(0, 1), (0, 0), (0, 0)]
    for found in importances(model, unknown, effect("noise1", [-1, 1], 0.01))[:2]:
        assert (found.value, found.deviation) == (pytest.approx(0.5, abs=1e-3), pytest.approx(0.5, abs=0.02))
    assert [(each.value, each.deviation) for each in importances(model, unknown)[:1]] == [(1, 1)]
    # Beyond those whose noise is worked out, effects have no importance.
    monkeypatch.setattr("dpforest.model.importances.MOST_BANDS", 1)
    weak = replace(effect("noise1", [-1, 1], 0.1), stands_out=None)
    assert [each.value for each in importances(model, effect("signal", [-2, 2], 0.1), weak)] == [1, 0, 0]


def test_an_interaction_is_divided_by_what_its_columns_do_alone():
    sides = tuple(tuple(ValuePart(word, "range", 0.5, (), None) for word in "ab") for _ in range(2))
    values = np.array([[[2.0], [-2.0]], [[-2.0], [2.0]]])
    pair = Interaction(("signal", "noise1"), 2.0, True, sides, values, np.full((2, 2, 1), NORMAL_95 * 0.5))
    taken, even = 4 - 0.25, EVENLY * 4
    for own in (0.01, 1.0, 30.0):
        share = (own**2 + even) / (own**2 + 2 * even)
        one, two, three = importances(forest(), effect("noise1", [-own, own], 0.0), pairs=[pair])
        expected = [taken * (1 - share), taken * share + own**2, 0]
        assert [one.value, two.value, three.value] == pytest.approx(np.array(expected) / (taken + own**2))
