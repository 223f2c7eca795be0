"""Cuts and weights of features, against values worked out by hand and against sums over raw records."""

import math
from collections import Counter

import numpy as np
import pytest

from dpforest.recipes.papers.first_look import (
    chance,
    kept_by_elimination,
    mdl_cuts,
    mutual_information,
    normalised_interaction_gain,
    relevance,
    runs,
    sum_runs,
    symmetric_uncertainty,
    worth,
)

# --- description length ---------------------------------------------------------------------------------------------


CUTS = {
    # S = (8, 8), S1 = (8, 0), S2 = (0, 8): gain 1, delta = (log2 15 + log2 7 - 2) / 16 = 0.294.
    "a clear cut, and none of a pure part": ([[5, 0], [3, 0], [0, 2], [0, 6]], [2]),
    # S = (4m, 4m), S1 = (3m, m), S2 = (m, 3m): H(S) = 1, H(S1) = H(S2) = 0.8113, so the gain is 0.1887. By eq. 4.4
    # delta = (log2(8m - 1) + log2 7 - (2 - 2 * 0.8113 - 2 * 0.8113)) / 8m: 0.2001 for m = 6, 0.1756 for m = 7.
    "just too few": ([[18, 6], [6, 18]], []),
    "just enough": ([[21, 7], [7, 21]], [1]),
    # First at 1: then the rest, (9, 20) with a pure last bin, is worth a cut by itself.
    "parts are cut again": ([[0, 30], [20, 0], [0, 25]], [1, 2]),
    "one class": ([[7, 0], [9, 0]], []),
    "nothing": ([[0, 0], [0, 0]], []),
    "next to nothing": ([[1, 0], [1, 0]], []),
    "one bin": ([[50, 50]], []),
    "the same shares": ([[10, 10], [20, 20]], []),
    "a thousand classes": (np.repeat(np.eye(2, 1000, dtype=np.int64), 2, axis=0) * 5, [2]),
}


@pytest.mark.parametrize(("table", "cuts"), CUTS.values(), ids=CUTS)
def test_cuts_are_made_where_the_gain_reaches_the_description_length(table, cuts):
    assert mdl_cuts(np.array(table)) == cuts


@pytest.mark.slow
def test_noise_alone_is_seldom_cut():
    # One class is a fifth of every bin, half of the bins are empty. Eq. 4.4 on the noisy counts as they are cuts most.
    # The seed was not chosen by the result.
    rng, deviation, n_cut, n_plain = np.random.default_rng(0), 60.0, 0, 0
    for _ in range(200):
        table = np.zeros((32, 2))
        table[:16] = rng.multinomial(10_000, [0.2 / 16] * 16 + [0.8 / 16] * 16).reshape(2, 16).T
        noisy = np.rint(table + rng.normal(0, deviation, table.shape))
        n_cut += mdl_cuts(noisy, deviation**2) != []
        n_plain += mdl_cuts(np.maximum(noisy, 0)) != []
    assert n_cut <= 20
    assert n_plain >= 150


# --- runs -----------------------------------------------------------------------------------------------------------


def test_without_noise_each_value_is_its_own_run():
    assert runs(np.array([3, 0, 5, 0]), 0.0).tolist() == [0, 1, 2, 3]


def test_runs_stand_out_of_their_own_noise_and_the_rest_joins_the_last():
    # Deviation 1: a run of one needs 4, of two 5.7, of three 6.9.
    assert runs(np.array([4, 3, 3, 2, 1]), 1.0).tolist() == [0, 1, 1, 1, 1]
    assert runs(np.array([4, 3, 3, 5, 1]), 1.0).tolist() == [0, 1, 1, 2, 2]
    assert runs(np.array([1, -2, 1]), 1.0).tolist() == [0, 0, 0]
    assert runs(np.array([4, 4, 9, 4]), 0.0, least=8).tolist() == [0, 0, 1, 1]
    assert sum_runs(np.array([[4, -3], [3, -1], [3, 4]]), np.array([0, 1, 1])).tolist() == [[4, 0], [6, 3]]


def test_noise_makes_records_worth_less():
    assert worth(100, 0) == 100
    assert worth(100, 300) == 25
    assert worth(0, 5) == worth(-3, 0) == 0


# --- uncertainty and gain -------------------------------------------------------------------------------------------


def from_records(*columns):
    """Entropy in bits of what several columns of records say together."""
    counts = Counter(zip(*columns, strict=True)).values()
    n = sum(counts)
    return -sum(count / n * math.log2(count / n) for count in counts)


def test_tables_of_one_value_have_no_uncertainty_and_a_gain_in_the_middle():
    assert symmetric_uncertainty(np.array([[5, 0], [0, 0]])) == 0
    assert normalised_interaction_gain(np.array([[[3, 4]]])) == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_uncertainty_and_gain_are_those_of_the_records(seed):
    rng = np.random.default_rng(seed)
    x, y, z = rng.integers(0, 4, 90), rng.integers(0, 3, 90), rng.integers(0, 3, 90)
    z = np.where(rng.random(90) < 0.5, (x + y) % 3, z)
    table = np.zeros((5, 4, 3), dtype=np.int64)
    np.add.at(table, (x, y, z), 1)
    about_x = from_records(x) + from_records(z) - from_records(x, z)
    about_y = from_records(y) + from_records(z) - from_records(y, z)
    about_both = from_records(x, y) + from_records(z) - from_records(x, y, z)
    expected = 2 * about_x / (from_records(x) + from_records(z))
    assert symmetric_uncertainty(table.sum(axis=1)) == pytest.approx(expected)
    gain = (about_both - about_x - about_y) / (2 * (from_records(x) + from_records(y)))
    assert normalised_interaction_gain(table) == pytest.approx(0.5 + gain)


def test_what_noise_adds_to_an_information_is_taken_off_on_average():
    rng, deviation = np.random.default_rng(3), 40.0
    table = np.outer([1000, 2000, 500, 1500], [0.3, 0.7])
    noisy = np.rint(table + rng.normal(0, deviation, (2000, 4, 2)))
    plain = [mutual_information(one) for one in noisy]
    left = [mutual_information(one, deviation**2 * 8) for one in noisy]
    # Cells differ, so the stated average is not exact. What is below it counts as 0, so some of it is left.
    assert np.mean(plain) == pytest.approx(chance(table, deviation**2 * 8), rel=0.5)
    assert np.mean(left) < 0.6 * np.mean(plain)


def test_relevant_features_come_in_the_order_of_their_uncertainty_and_all_of_them_if_none_is():
    strong, weak, none = np.array([[90, 10], [10, 90]]), np.array([[60, 40], [40, 60]]), np.array([[50, 50], [50, 50]])
    weights, kept = relevance([none, weak, strong], 0.0)
    assert weights == pytest.approx([symmetric_uncertainty(table) for table in (none, weak, strong)])
    assert kept.tolist() == [2, 1]
    assert relevance([none, none], 0.0)[1].tolist() == [0, 1]
    # So much noise that a weak feature is not told from chance.
    assert relevance([none * 1.0, weak * 1.0, strong * 100.0], 400.0)[1].tolist() == [2]


def test_the_lightest_feature_is_removed_and_the_others_are_weighed_again():
    # All: 0.1 + (0.3 + 0) / 2, 0.1 + (0.3 + 0) / 2, 0.2 + 0: the last goes, though its own weight is the largest.
    gains = np.array([[0, 0.3, 0], [0.3, 0, 0], [0, 0, 0]])
    assert kept_by_elimination(np.array([0.1, 0.1, 0.2]), gains, 2).tolist() == [0, 1]
    assert kept_by_elimination(np.array([0.1, 0.2, 0.9]), gains, 1).tolist() == [2]
    assert kept_by_elimination(np.array([0.1, 0.2]), gains[:2, :2], 2).tolist() == [0, 1]
