"""The private location and spread of a bounded target keep their claims, and are found whatever the scale."""

import math

import numpy as np
import pytest
from tests.support.encoded import facts_about

from dpforest import Bounded, Numeric, Schema
from dpforest.growing import target_scale
from dpforest.growing.target_scale import (
    ScalePlan,
    edges_around,
    find_scale,
    location_bound,
    location_scores,
    spread_bound,
    spread_scores,
)
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.columns import count_by_edges
from dpforest.records.memory.vault import Vault
from dpforest.schema.domain import Domain, Grid

DISTANCES = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 8.0])
TARGETS = {"any": Bounded(), "narrow": Bounded(-2, 3), "above 0": Bounded(lower=0)}
VALUES = [*np.linspace(-9, 9, 73), -1e300, 1e300, math.inf, -math.inf]


def spreads_of(values, within, target, centre=0.0):
    edges = edges_around(centre, DISTANCES, target)
    counts = count_by_edges(np.array(values, dtype=float), edges)
    return spread_scores(edges, centre, DISTANCES, target.range[0], within, counts)[0]


def locations_of(values, target):
    return location_scores(count_by_edges(np.array(values, dtype=float), edges_around(0.0, DISTANCES, target)))[0]


def moves(scores_of, bases):
    """The changes of all candidates' scores, for each record that joins each of many tables."""
    for base in bases:
        before = scores_of(base)
        for value in VALUES:
            yield scores_of([*base, value]) - before


def random_bases(seed):
    rng = np.random.default_rng(seed)
    yield []
    for n_records in range(1, 30):
        yield rng.choice([rng.uniform(-9, 9), 0.0, 0.75, 2.5, 6.0], n_records).tolist()
        yield [0.75] * n_records


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_record_moves_the_score_of_a_bin_beyond_its_bound_and_some_reach_its_width(target):
    bound, widest = location_bound(), 0
    for move in moves(lambda values: locations_of(values, target), random_bases(1)):
        assert bound.low <= move.min() <= move.max() <= bound.high
        widest = max(widest, np.ptp(move))
    assert widest == bound.width


@pytest.mark.parametrize("within", [2, 4, 8, 16])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_record_moves_the_score_of_a_distance_beyond_its_bound_and_some_reach_its_width(target, within):
    bound, widest = spread_bound(within), 0
    for move in moves(lambda values: spreads_of(values, within, target), random_bases(2)):
        assert bound.low <= move.min() <= move.max() <= bound.high
        widest = max(widest, np.ptp(move))
    assert widest == bound.width


def test_the_score_of_a_bin_is_by_how_many_records_the_median_misses_it():
    values, edges = [-3.0, 0.1, 0.6, 0.7, 5.0, 5.5, 6.0], edges_around(0.0, DISTANCES, Bounded())
    for low, high, score in zip(
        [-math.inf, *edges], [*edges, math.inf], locations_of(values, Bounded()).tolist(), strict=True
    ):
        below, above = sum(value < low for value in values), sum(value >= high for value in values)
        assert score == -max(0, 2 * below - 7, 2 * above - 7)
    assert locations_of(values, Bounded()).argmax() == np.searchsorted(edges, 0.7)


@pytest.mark.parametrize("within", [2, 4, 8, 16])
def test_the_score_of_a_distance_is_its_formula(within):
    values = [*np.linspace(-3.7, 3.1, 15), 7.0, 20.0]
    scores = spreads_of(values, within, Bounded(), centre=0.25)
    for near, far, score in zip([0, *DISTANCES], DISTANCES, scores.tolist(), strict=False):
        away = [abs(value - 0.25) for value in values]
        nearer, farther = sum(each < near for each in away), sum(each >= far for each in away)
        assert score == -max(0, within * nearer - (within - 1) * len(values), within * farther - len(values))


def scale_of(values, target, epsilon=1.0, delta=0.0, seed=1):
    """The scale that is found for a table of these values, and the share of the budget that is left."""
    schema = Schema({"x": Numeric(0, 1)}, target)
    facts = facts_about(Domain.of(schema, Grid()), target, float(len(values)), epsilon=epsilon, delta=delta)
    gate = Gate(Ledger(make_accountant(epsilon, delta)), Entropy(seed))
    vault, amount = Vault.seal(np.zeros((len(values), 1)), values, schema), gate.ledger.accountant.budget
    scale, rest = find_scale(vault, target, ScalePlan.of(facts), amount, gate)
    assert gate.ledger.total + rest <= amount * (1 + 1e-12)
    return scale, rest / amount


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("target", [Bounded(), Bounded(-1e12, 1e12), Bounded(lower=0)])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_scale_is_found_whatever_the_unit(target, unit, delta):
    values = np.random.default_rng(3).exponential(10.0, 2_000) * unit
    scale, left = scale_of(values, target, delta=delta)
    assert 2 * unit < scale.location < 12 * unit  # the median is 7
    assert 4 * unit < scale.spread < 60 * unit
    assert left > 0.9


@pytest.mark.parametrize("shift", [-1e5, 1e5, 1e6])
def test_values_far_from_zero_are_found_by_looking_again(shift):
    values = shift + np.random.default_rng(4).normal(0, 3, 20_000)
    scale, left = scale_of(values, Bounded())
    assert abs(scale.location - shift) < 1e-4 * abs(shift)
    assert scale.spread < 2e-4 * abs(shift)
    assert left > 0.8


def test_where_nearly_all_values_are_the_same_the_spread_is_a_public_guess():
    values = np.where(np.arange(3_000) % 50 == 0, 700.0, 0.0)
    assert scale_of(values, Bounded())[0] == target_scale.Scale(0.0, 1.0)
    assert scale_of(values + 40, Bounded())[0] == target_scale.Scale(40.0, 40.0)


def test_more_records_than_one_in_sixteen_are_seen_beside_a_common_value_where_the_budget_is_large():
    values = np.where(np.arange(30_000) % 10 == 0, 700.0, 0.0)
    assert 500 < scale_of(values, Bounded())[0].spread < 1_000


@pytest.mark.parametrize("target", [Bounded(-1e300, 1e300), Bounded(0, 5e-300), Bounded(1e17, 1e18)])
def test_extreme_ranges_give_finite_scales_within_them(target):
    values = np.full(500, target.mean_of(0.75))
    for delta in (0.0, 1e-6):
        scale, _ = scale_of(values, target, delta=delta)
        assert target.range[0] <= scale.location <= target.range[1]
        assert 0 < scale.spread < math.inf


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
def test_more_rows_make_a_scale_cheaper_and_no_number_of_rows_takes_all(delta):
    domain = Domain.of(Schema({"x": Numeric(0, 1)}, Bounded()), Grid())
    facts = [facts_about(domain, Bounded(), n_rows, delta=delta) for n_rows in (-5.0, 0.0, 10.0, 1e3, 1e4, 1e5, 1e9)]
    plans = [ScalePlan.of(each) for each in facts]
    locations = [plan.location for plan in plans]
    assert locations == sorted(locations, reverse=True)
    assert all(0 < share <= 0.25 for plan in plans for share in (plan.location, plan.spread))
    assert plans[-1] == ScalePlan(0.002, 0.002, 16)
    assert plans[0].within == 2
