"""The private range of a bounded target keeps its claim."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.support import naive
from tests.support.strategies import scored_counter
from tests.support.targets import NUMBER

from dpforest import Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.growing.target_range import CELLS, TargetRange, range_bound, range_scores, widened
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.schema import TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

LOWS, HIGHS = np.triu_indices(CELLS + 1, 1)


def counts_of(values):
    return np.bincount(values, minlength=TARGET_STEPS + 1)[None]


def test_every_value_lowers_the_scores_of_all_ranges_within_the_bound_and_reaches_its_width():
    base = counts_of(np.array([0, 7, 8, 500, 1024, 1024]))
    before, widest = range_scores(LOWS, HIGHS, base)[0], 0
    lowest, highest = 0, -(10**9)
    for value in range(TARGET_STEPS + 1):
        move = range_scores(LOWS, HIGHS, base + counts_of(np.array([value])))[0] - before
        lowest, highest = min(lowest, move.min()), max(highest, move.max())
        widest = max(widest, np.ptp(move))
    bound = range_bound()
    assert bound.low <= lowest
    assert highest <= bound.high
    assert bound.monotone
    # A range of all cells holds every value, so a record outside of 128 cells cannot be: 1407, not 1408.
    assert (lowest, highest) == (-(10 * CELLS + CELLS - 1), -1)
    assert 0.99 * bound.width < widest <= bound.width


def test_the_score_of_a_range_is_its_formula_ends_included():
    values = np.random.default_rng(14).integers(0, TARGET_STEPS + 1, 60)
    scores = range_scores(LOWS, HIGHS, counts_of(values))[0]
    for low, high, score in zip(LOWS[::97], HIGHS[::97], scores[::97], strict=True):
        outside = sum(not 8 * low <= value <= 8 * high for value in values.tolist())
        assert score == -(1280 * outside + (high - low) * len(values))


def test_scores_of_ranges_of_a_billion_records_are_exact():
    counts = np.full((1, TARGET_STEPS + 1), 10**6)
    scores = range_scores(LOWS, HIGHS, counts)[0]
    assert scores.dtype == np.int64
    assert scores.min() == -(1280 * (1025 - 9) + 1) * 10**6 - 1024 * 10**6


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_a_share_of_the_range_outside_0_to_1_is_refused(share):
    with pytest.raises(ParameterError):
        TargetRange(share)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
def test_a_range_costs_its_share_leaves_the_rest_and_shows_the_window(delta):
    gate = Gate(Ledger(make_accountant(500.0, delta)), Entropy(4))
    fine = np.random.default_rng(15).integers(20_000, 30_000, 3_000)
    counter, amount = scored_counter(NUMBER, fine, np.zeros(3_000)), gate.ledger.accountant.budget
    (low, high), rest = TargetRange(0.25).release(counter, amount, gate)
    assert gate.ledger.total == pytest.approx(0.25 * amount)
    assert rest == pytest.approx(0.75 * amount)
    assert Fraction(rest) + Fraction(gate.ledger.total) <= Fraction(amount)
    # At so large an epsilon the range is nearly the best: it holds what is there and little more.
    assert 19_000 <= low <= 20_600
    assert 29_400 <= high <= 31_000
    assert counter._target_codes.tolist() == [naive.seen_code_of(int(value), low, high) for value in fine]


def test_a_widened_forest_says_in_the_public_range_what_its_trees_say_in_the_window():
    domain = Domain.of(Schema({"x": Numeric(0, 1)}, NUMBER), Grid(2))
    forest = naive.plant(domain, NUMBER, (0, [0, 1, 1], [[3, 1], [0, 4]]), [2, 6]).summed()
    votes = np.stack([1 - forest.counts[:, 1] / 8, forest.counts[:, 1] / 8], axis=1)
    votes[forest.trees == 1] -= [1, 0]
    forest = replace(forest, votes=votes, shares=np.abs(votes), link="sum")
    codes = np.array([[0, 1, 2]], dtype=np.uint8)
    narrow, wide = forest.predict(codes)[:, 1], widened(forest, (16_384, 49_152)).predict(codes)[:, 1]
    np.testing.assert_allclose(wide, 0.25 + 0.5 * (forest.vote(codes)[:, 1]), atol=1e-12)
    assert ((narrow >= 0) & (narrow <= 1)).all()
