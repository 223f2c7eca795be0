"""Bands hold the truth as often as they say, and importances are free of what noise and chance alone give.

Fits and noise are seeded, so that no test fails by chance.
"""

from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from tests.support import naive

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.forest.bands import NORMAL_95, Bands, ratio_band
from dpforest.model.importances import importances_of
from dpforest.model.signal import Signal
from dpforest.parts.postprocess import plain_shares
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.schema.domain import Domain, Grid

TARGET = Classes(["no", "yes"])


def split(*children, target=TARGET, variance=1.0):
    """One split into children of given counts."""
    n = len(children)
    domain = Domain.of(Schema({"c": Categorical([str(index) for index in range(max(n - 2, 1))])}, target), Grid(2))
    routes = np.minimum(np.arange(domain.n_codes[0]), n - 1).tolist()
    return naive.plant(domain, target, (0, routes, [list(map(float, child)) for child in children]), variance=variance)


def gain(forest, records):
    forest = forest.summed()
    return forest.bands.gains(forest.parents, forest.level_slices(), np.full(forest.n_nodes, records))[:, 0]


# --- importances ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "sizes"), [([0, 0, 1, 1, 1], [2, 3]), ([0, 1, 1, 2, 2, 2], [1, 2, 3]), ([0, 0, 1, 1, 1], [0, 1, 4])]
)
def test_splits_at_random_gain_nothing_on_average(labels, sizes):
    # Every way to hand out the labels to the children, each as likely: the mean is exact.
    ends, n_classes, found = np.cumsum(sizes), max(labels) + 1, []
    target = Classes(range(n_classes))
    for order in permutations(labels):
        children = [np.bincount(order[end - n : end], minlength=n_classes) for n, end in zip(sizes, ends, strict=True)]
        found.append(gain(split(*children, target=target, variance=0.0), 1.0)[0])
    assert np.mean(found) == pytest.approx(0, abs=1e-12)
    assert max(found) > 0.1


NOISY = {
    "signal far above noise": ([[100, 300], [300, 100]], 10.0, 0.02),
    "noise as large as the counts": ([[100, 300], [300, 100]], 100.0, 0.1),
    "nothing but noise": ([[0, 0], [0, 0]], 10.0, 0.1),
    "many children of few records": ([[6, 2]] * 100, 10.0, 0.1),
    "many children that differ": ([[60, 20], [20, 60]] * 50, 10.0, 0.06),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISY)
def test_noise_adds_nothing_to_a_decrease_on_average_and_varies_as_stated(name):
    truth, deviation, part = NOISY[name]
    planted, rng, found = split(*truth, variance=deviation**2), np.random.default_rng(1), []
    leaves = planted.is_leaf
    for _ in range(1500):
        counts = planted.counts.copy()
        counts[leaves] += rng.laplace(0, deviation / np.sqrt(2), counts[leaves].shape)
        found.append(gain(replace(planted, counts=counts), 0.0))
    gains, stated, _ = np.array(found).T
    exact = gain(split(*truth, variance=0.0), 0.0)[0]
    # What noise alone would add: its variance over sizes that are at least three standard deviations.
    added = len(truth) * deviation**2 / max(np.mean(np.sum(truth, axis=1)), 3 * np.sqrt(2) * deviation)
    assert abs(gains.mean() - exact) <= max(part * max(exact, added), 5 * gains.std() / np.sqrt(len(gains)))
    # Where there is nothing, the positive half of the noise passes for a decrease, and the stated deviation is too wide.
    assert 0.85 <= np.sqrt(stated.mean()) / gains.std() <= 1.8


@cache
def table_with_noise(n_codes, n_rows=20_000):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": rng.random(n_rows), "c": rng.choice(list("abcd"), n_rows), "noise": rng.integers(0, n_codes, n_rows)}
    )
    score = 1.5 * (X["x"] > 0.6) + (X["c"] == "a") - 0.9
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-2 * score))).astype(int)
    return X, y, score, {"x": Numeric(0, 1), "c": Categorical(list("abcd")), "noise": Categorical(range(n_codes))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "target", "n_codes", "settings"),
    [
        ("friedman-schuster-2010", Classes([0, 1]), 1000, {}),
        ("jagannathan-2009", Classes([0, 1]), 1000, {}),
        ("auto", Classes([0, 1]), 1000, {}),
        pytest.param("auto", Classes([0, 1]), 1000, {"delta": 1e-6, "n_trees": 30}, marks=pytest.mark.night),
        ("consul-2020-ert", Classes([0, 1]), 10_000, {}),
        ("auto", Bounded(-1, 2), 1000, {}),
        ("consul-2020-ert", Bounded(-1, 2), 10_000, {}),
    ],
)
def test_a_column_of_noise_has_next_to_no_importance(recipe, target, n_codes, settings):
    X, labels, score, features = table_with_noise(n_codes)
    kind, y = (DPForestRegressor, score) if isinstance(target, Bounded) else (DPForestClassifier, labels)
    model = kind(Schema(features, target), 2.0, recipe=recipe, random_state=1, **settings).fit(X, y)
    x, c, noise = model.feature_importances_
    assert noise <= 0.03
    assert x > c > 0
    found = importances_of(model.forest_, model.ledger_)
    assert [estimate.value for estimate in found] == [x, c, noise]
    assert all(0 < estimate.deviation < 0.3 for estimate in found)


@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_importances_of_a_table_of_nothing_may_be_anything(recipe):
    X, y, _, features = table_with_noise(4, n_rows=1)
    schema = Schema(features, Classes([0, 1]), n_rows=100)
    model = DPForestClassifier(schema, 1.0, recipe=recipe, random_state=1).fit(X, y)
    found = importances_of(model.forest_, model.ledger_)
    assert all(each.value <= NORMAL_95 * each.deviation for each in found)


# --- bands ----------------------------------------------------------------------------------------------------------


def test_a_share_of_a_size_at_noise_level_may_be_anything():
    low, high = ratio_band(np.array([5.0, 500.0]), np.array([10.0, 1000.0]), *np.full((3, 2), 100.0))
    assert (low[0], high[0]) == (0, 1)
    assert 0.45 < low[1] < 0.5 < high[1] < 0.55


def test_without_noise_a_share_has_a_band_of_no_width():
    forest = plain_shares(split([3, 1], [2, 2], variance=0.0).summed())
    low, high = forest.bands.shares
    np.testing.assert_allclose(low, forest.shares, atol=1e-7)
    np.testing.assert_allclose(high, forest.shares, atol=1e-7)


def first_leaves(forest, X, schema):
    """The leaf of the first tree that each record comes to."""
    codes = encode(read_columns(X, schema), forest.domain)
    return np.array([naive.path(forest, 0, record)[-1] for record in codes.T.tolist()])


def shown_of(forest, X, y, schema):
    """Whether the band of each shown figure of the first tree holds the truth, by the name of the figure."""
    where, bands = first_leaves(forest, X, schema), forest.bands
    low, high = bands.shares
    ones = np.asarray(y, dtype=float)
    if isinstance(forest.target, Bounded):
        ones = (np.clip(y, *forest.target.range) - forest.target.range[0]) / forest.target.span
    rules, inside = {rule["node"]: rule for rule in forest.rules()}, {}
    for node in [0, *np.unique(where).tolist()]:
        own = np.full(len(y), True) if node == 0 else where == node
        name, mean, rule = "root" if node == 0 else "leaf", ones[own].mean(), rules[node]
        inside.setdefault(f"size of {name}", []).append(abs(bands.sizes[node] - own.sum()) <= rule["support_band"])
        inside.setdefault(f"share of {name}", []).append(low[node, 1] <= mean <= high[node, 1])
        if "lead" in rule:
            lead = np.array([own.sum() - ones[own].sum(), ones[own].sum()]) @ [-1, 1] * (1 if rule["class"] else -1)
            inside.setdefault(f"lead of {name}", []).append(abs(rule["lead"] - lead) <= rule["lead_band"])
    if forest.n_records is not None:
        inside["records"] = [abs(forest.n_records.value - len(y)) <= 1.96 * forest.n_records.deviation]
    return inside


COVERED = {
    "counts": (DPForestClassifier, {"recipe": "consul-2020-ert", "n_trees": 1, "max_depth": 2, "epsilon": 0.5}, "counts"),
    "lead": (DPForestClassifier, {"epsilon": 2.0}, "lead"),
    "lead with delta": (DPForestClassifier, {"epsilon": 1.0, "delta": 1e-5, "n_trees": 4, "max_depth": 2}, "lead"),
    "mean": (DPForestRegressor, {"epsilon": 1.0, "max_depth": 2}, "counts"),
    "mean with delta": (DPForestRegressor, {"epsilon": 2.0, "delta": 1e-5, "max_depth": 2}, "counts"),
}


def sums(kind, n_rows):
    """A table of two whole numbers, the target that tells whether their sum is large, and its schema."""
    X = np.random.default_rng(5).integers(0, 8, size=(n_rows, 2)).astype(float)
    labels = (X[:, 0] + X[:, 1] > 7).astype(int)
    y, target = (labels, Classes([0, 1])) if kind is DPForestClassifier else (X[:, 0] / 7 + labels, Bounded(-1, 3))
    return X, y, Schema({"a": Numeric(0, 7, integer=True), "b": Numeric(0, 7, integer=True)}, target)


@pytest.mark.slow
@pytest.mark.parametrize("name", COVERED)
def test_bands_hold_the_truth_in_95_of_100_fits(name):
    kind, settings, release = COVERED[name]
    X, y, schema = sums(kind, 500)
    X, y, inside = np.repeat(X, 4, axis=0), np.repeat(y, 4), {}
    for seed in range(200):
        model = kind(schema, random_state=seed, **settings).fit(X, y)
        assert Signal.of(model.forest_, model.ledger_).release == release
        for figure, held in shown_of(model.forest_, X, y, schema).items():
            inside.setdefault(figure, []).extend(held)
    for figure, held in inside.items():
        assert 0.9 <= np.mean(held) <= 0.995, figure


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPForestClassifier, DPForestRegressor])
def test_the_balance_of_trees_on_parts_is_that_of_the_table(kind):
    X, y, schema = sums(kind, 2000)
    held = []
    for seed in range(200):
        settings = {"recipe": "consul-2020", "epsilon": 4.0, "n_trees": 20, "max_depth": 2, "random_state": seed}
        model = kind(schema, **settings).fit(X, y)
        balance = Signal.of(model.forest_, model.ledger_).balance()
        row = balance["classes"][1] if kind is DPForestClassifier else balance
        held.append([row["low"] <= y.mean() <= row["high"], abs(balance["size"] - len(y)) <= balance["size_band"]])
    for share in np.mean(held, axis=0):
        assert 0.9 <= share <= 0.995


@pytest.mark.parametrize("n_values", [1, 2, 3, 7])
def test_deviations_of_counts_are_those_of_the_stated_covariance(n_values):
    rng = np.random.default_rng(n_values)
    bands = Bands(rng.random((5, n_values)), rng.random(5), rng.random((5, 3)))
    centre = np.eye(n_values) - 1 / n_values
    for node in range(5):
        first, rest, common = bands.factors[node]
        covariance = bands.variances[node] * (np.diag([first, *[rest] * (n_values - 1)]) + common)
        np.testing.assert_allclose(bands.count_deviations[node] ** 2, np.diag(covariance))
        np.testing.assert_allclose(bands.centred_deviations[node] ** 2, np.diag(centre @ covariance @ centre), atol=1e-15)
