"""The printed form of SuLQ-ID3: what it asks, what it spends, and that its claim holds but for the arithmetic."""

import math
from itertools import product

import numpy as np
import pytest
from tests.published.opened import fit, paths, rows_of, train, with_one_more
from tests.recipes.tables import make_table

from dpforest import Categorical, Numeric
from dpforest.published import blum_2005
from dpforest.published.form import laplace

NAME = "blum-2005"
FEATURES = {"a": Categorical(["u", "v"]), "b": Categorical(["u", "v", "w"]), "x": Numeric(0, 1)}


def random_rows(n_rows, seed):
    """Opened rows whose class follows the second feature."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 2, n_rows), rng.integers(0, 3, n_rows), rng.random(n_rows)
    target = np.where(rng.random(n_rows) < 0.9, columns[1] % 2, rng.integers(0, 2, n_rows))
    return rows_of(columns, target, FEATURES)


def entropy(counts):
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


class Watched:
    """Stands for ``laplace``: keeps what is asked and at which scale, and releases the same on every table."""

    def __init__(self):
        self.asked, self._rng = [], np.random.default_rng(11)

    def __call__(self, counts, scale, rng):
        self.asked.append((counts.copy(), scale))
        return self._rng.normal(20, 20, counts.shape)


@pytest.mark.parametrize(("depth", "n_trees"), [(1, 1), (2, 1), (2, 3)])
def test_in_real_numbers_a_record_loses_all_of_the_budget_and_no_more(depth, n_trees, monkeypatch):
    """The loss of Laplace noise is the move of what is asked over its scale, with one more record and the same answers."""
    rows, budget, losses = random_rows(40, 1), 0.7, []
    monkeypatch.setattr(blum_2005, "laplace", before := Watched())
    one = train(NAME, rows, budget, depth=depth, n_trees=n_trees)
    for a, b, x, label in product(range(2), range(3), (0.1, 0.9), range(2)):
        monkeypatch.setattr(blum_2005, "laplace", after := Watched())
        two = train(NAME, with_one_more(rows, (a, b, x), label), budget, depth=depth, n_trees=n_trees)
        assert [paths(tree) for tree in one] == [paths(tree) for tree in two]
        pairs = zip(before.asked, after.asked, strict=True)
        losses.append(sum(np.abs(more - less).sum() / scale for (less, scale), (more, _) in pairs))
    # Below the root a feature is used and asks nothing, though m still counts it.
    idle = budget / (depth + 1) / 3 * sum(range(depth))
    assert losses == pytest.approx([budget - idle] * len(losses))


def test_queries_have_the_budgets_of_the_thesis(monkeypatch):
    monkeypatch.setattr(blum_2005, "laplace", seen := Watched())
    train(NAME, random_rows(40, 1), 0.6, depth=1)
    d, m = 2, 3
    root, leaves = seen.asked[: 2 * m], seen.asked[2 * m :]
    assert [1 / scale for _, scale in root] == pytest.approx([0.6 / (2 * d * m)] * 6)
    assert [1 / scale for _, scale in leaves] == pytest.approx([0.6 / d] * len(leaves))
    for (counts, _), (sizes, _) in zip(root[::2], root[1::2], strict=True):
        np.testing.assert_array_equal(counts.sum(axis=1), sizes)


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_root_has_the_largest_information_gain(seed):
    rows = random_rows(60, seed)
    rows = rows_of(rows.columns, np.random.default_rng(seed).integers(0, 2, 60), FEATURES)
    gains = []
    for column in (rows.columns[0], rows.columns[1], np.minimum((rows.columns[2] * 5).astype(int), 4)):
        parts = [np.bincount(rows.target[column == value], minlength=2) for value in np.unique(column)]
        gains.append(entropy(rows.class_counts()) - sum(part.sum() / 60 * entropy(part) for part in parts))
    (root,) = train(NAME, rows, math.inf, depth=1)
    assert root.feature == int(np.argmax(gains))


def test_what_is_no_share_adds_nothing_to_the_gain():
    counts, sizes = np.array([[8.0, 2.0], [-3.0, 5.0], [4.0, 4.0]]), np.array([10.0, 4.0, -1.0])
    assert blum_2005.gain(counts, sizes) == pytest.approx(8 * math.log2(0.8) + 2 * math.log2(0.2))


def test_a_path_uses_an_attribute_once_and_ends_where_all_are_used():
    (root,) = train(NAME, random_rows(200, 3), math.inf, depth=9)
    assert {len(path) for path in paths(root)} == {3}
    assert all(len(set(path)) == 3 for path in paths(root))


def test_the_noise_is_that_of_laplace_and_the_model_is_called_not_private_for_it():
    assert blum_2005.laplace is laplace
    (reason,) = fit(NAME, *make_table("numeric", 2)).privacy_.reasons
    assert "floating point; in real numbers the claim would hold" in reason
