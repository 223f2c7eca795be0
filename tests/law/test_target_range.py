"""Private location, spread, range and centres of a bounded target keep their claims, and are found whatever the scale."""

import itertools
import math

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import facts_about
from tests.support.gates import KeepingGate
from tests.support.strategies import scored_counter
from tests.support.targets import NUMBER, share_of_range

from dpforest import Bounded, Classes, Numeric, Schema, get_recipe
from dpforest.common.work import Workers
from dpforest.growing.target import (
    STEPS,
    Centres,
    Scale,
    ScalePlan,
    TargetRange,
    _weights,
    edges_around,
    edges_within,
    find_scale,
    median_scores,
    quantile_bound,
    range_bound,
    range_scores,
    ranges,
    spread_scores,
    with_range,
)
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT
from dpforest.records.scan import Batch
from dpforest.records.vault import Vault, tally_targets
from dpforest.schema import FINE_STEPS, TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

ANY = Bounded()
DISTANCES = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 8.0])
TARGETS = {"any": ANY, "narrow": Bounded(-2, 3), "above 0": Bounded(lower=0)}
VALUES = [*np.linspace(-9, 9, 73), -1e300, 1e300, math.inf, -math.inf]
SCALE = Scale(10.0, 4.0)
DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])


def asked(target, epsilon, delta, n_rows, seed):
    """A schema of that target, what is known of a table of so many rows, and a gate for it."""
    schema = Schema({"x": Numeric(0, 1)}, target)
    facts = facts_about(Domain.of(schema, Grid()), target, float(n_rows), epsilon=epsilon, delta=delta)
    return schema, facts, Gate(Ledger(make_accountant(epsilon, delta)), Entropy(seed))


def sealed_rows(schema, values):
    return Vault.seal(np.zeros((len(values), 1)), values, schema)


def count_by_edges(values, edges):
    return tally_targets(edges, Batch([], np.array(values, dtype=float)), Workers())


# --- location and spread --------------------------------------------------------------------------------------------


def spreads_of(values, within, target, centre=0.0):
    edges = edges_around(centre, DISTANCES, target)
    counts = count_by_edges(values, edges)
    return spread_scores(edges, centre, DISTANCES, target.range[0], within, counts)[0]


def locations_of(values, target):
    return median_scores(count_by_edges(values, edges_around(0.0, DISTANCES, target)))


def random_bases(seed):
    rng = np.random.default_rng(seed)
    yield []
    for n_records in (1, 2, 3, 5, 8, 15, 16, 29):
        yield rng.choice([rng.uniform(-9, 9), 0.0, 0.75, 2.5, 6.0], n_records).tolist()
        yield [0.75] * n_records


def widest_move(scores_of, bases, values, bound):
    """By how much one record moves one candidate from another at most; all moves are within the bound."""
    widest = 0
    for base in bases:
        before = scores_of(base)
        for value in values:
            move = scores_of([*base, value]) - before
            assert bound.low <= move.min() <= move.max() <= bound.high
            widest = max(widest, np.ptp(move))
    return widest


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_record_moves_the_score_of_a_bin_or_a_distance_beyond_its_bound_and_some_reach_its_width(target):
    bound = quantile_bound()
    assert widest_move(lambda values: locations_of(values, target), random_bases(1), VALUES, bound) == bound.width
    for within in (2, 4, 8, 16):
        bound = quantile_bound(within)
        found = widest_move(lambda values, t=within: spreads_of(values, t, target), random_bases(2), VALUES, bound)
        assert found == bound.width


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


def scale_of(values, target, epsilon=1.0, delta=0.0):
    """The scale that is found for a table of these values, and the share of the budget that is left."""
    schema, facts, gate = asked(target, epsilon, delta, len(values), seed=1)
    amount = gate.ledger.accountant.budget
    scale, rest = find_scale(sealed_rows(schema, values), target, ScalePlan.of(facts), amount, gate)
    assert gate.ledger.total + rest <= amount * (1 + 1e-12)
    return scale, rest / amount


@DELTAS
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
    assert scale_of(values, Bounded())[0] == Scale(0.0, 1.0)
    assert scale_of(values + 40, Bounded())[0] == Scale(40.0, 40.0)


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


@DELTAS
def test_more_rows_make_a_scale_cheaper_and_no_number_of_rows_takes_all(delta):
    domain = Domain.of(Schema({"x": Numeric(0, 1)}, Bounded()), Grid())
    facts = [facts_about(domain, Bounded(), n_rows, delta=delta) for n_rows in (-5.0, 0.0, 10.0, 1e3, 1e4, 1e5, 1e9)]
    plans = [ScalePlan.of(each) for each in facts]
    locations = [plan.location for plan in plans]
    assert locations == sorted(locations, reverse=True)
    assert all(0 < share <= 0.25 for plan in plans for share in (plan.location, plan.spread))
    assert plans[-1] == ScalePlan(0.002, 0.002, 16)
    assert plans[0].within == 2


# --- ranges ---------------------------------------------------------------------------------------------------------


def scores_of(values, scale=SCALE, target=ANY):
    """The score of each range for a list of values."""
    lows, highs, prices = ranges(scale, target)
    edges = edges_within(np.concatenate([lows, np.nextafter(highs, np.inf)]), target)
    counts = count_by_edges(np.clip(values, *target.range), edges)
    return range_scores(edges, lows, highs, prices, target.range[0], counts)[0]


@pytest.mark.parametrize("target", [ANY, Bounded(8, 30), Bounded(lower=10)])
def test_every_value_lowers_the_scores_of_all_ranges_within_the_bound_and_reaches_its_width(target):
    base, bound = [10.0, 14.0, 11.5, 42.0, -3.0], range_bound(ranges(SCALE, target)[2])
    values = [*np.linspace(-40, 60, 201), -1e300, 1e300, 42.0, math.inf]
    widest = widest_move(lambda values: scores_of(values, target=target), [base], values, bound)
    assert bound.monotone
    # A record outside of the widest range is outside of all, so it is not the widest that moves farthest from another;
    # ranges that all begin at the location are within each other, and the cheapest moves farthest.
    assert (0.79 if target.lower == SCALE.location else 0.9) * bound.width < widest <= bound.width


@pytest.mark.parametrize("target", [ANY, Bounded(8, 30)])
def test_the_score_of_a_range_is_its_formula_ends_included(target):
    values = [10.0, 14.0, 14.0000001, 18.0, 26.0, 42.0, 42.5, -22.0, 8.0, 6.0, 30.0, 31.0, 9.0]
    clipped = np.clip(values, *target.range)
    lows, highs, prices = ranges(SCALE, target)
    for low, high, price, score in zip(lows, highs, prices, scores_of(values, target=target), strict=True):
        outside = sum(not low <= value <= high for value in clipped)
        assert score == -(1000 * outside + price * len(values))


def test_ranges_go_in_doublings_to_both_sides_and_a_doubled_width_costs_four_hundredths_of_the_records():
    lows, highs, prices = ranges(SCALE, ANY)
    assert {*lows} == {10 - 4 * step for step in STEPS}
    assert {*highs} == {10 + 4 * step for step in STEPS}
    price = dict(zip(zip(lows, highs, strict=True), prices, strict=True))
    assert price[10, 14] == 0
    assert (price[6, 14], price[10, 26]) == (40, 80)


@pytest.mark.parametrize("location", [8.0, 19.5, 30.0])
@pytest.mark.parametrize("spread", [1e-6, 4.0, 1e9])
def test_ranges_are_within_the_bounds_of_the_schema_and_none_is_empty(location, spread):
    lows, highs, prices = ranges(Scale(location, spread), Bounded(8, 30))
    assert len(prices)
    assert lows.min() >= 8
    assert highs.max() <= 30
    assert (lows < highs).all()
    assert len({*zip(lows, highs, strict=True)}) == len(lows)


def test_scores_of_ranges_of_a_trillion_records_are_exact():
    lows, highs, prices = ranges(SCALE, ANY)
    edges = edges_within(np.concatenate([lows, np.nextafter(highs, np.inf)]), ANY)
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    counts[-1] = 10**12
    assert range_scores(edges, lows, highs, prices, -(2.0**63), counts)[0].tolist() == [-(1000 + p) * 10**12 for p in prices]


@pytest.mark.parametrize("target", [ANY, Bounded(-1e9, 1e9), Bounded(0, 100), Bounded(lower=0)])
@DELTAS
def test_a_range_costs_what_was_planned_and_holds_what_is_there(delta, target):
    schema, facts, gate = asked(target, 500.0, delta, 3_000, seed=4)
    values, amount = np.random.default_rng(15).uniform(20, 30, 3_000), gate.ledger.accountant.budget
    released, rest = TargetRange(0.25).release(sealed_rows(schema, values), amount, gate, facts)
    assert gate.ledger.total == pytest.approx(share_of_range(TargetRange(0.25), facts) * amount)
    assert exact(rest) + exact(gate.ledger.total) <= exact(amount)
    assert [entry["label"] for entry in gate.ledger.entries()] == [
        f"{what} of the target" for what in ("location", "spread", "range")
    ]
    assert released.name == target.name
    assert released.range[0] <= 21
    assert released.range[1] >= 29
    assert released.span <= 25


def test_a_recipe_without_a_range_gets_one_where_a_bound_is_missing():
    plain, auto = get_recipe("consul-2020"), get_recipe("auto")
    for target in (Bounded(), Bounded(lower=0), Bounded(upper=0)):
        assert with_range(plain, target).target_range == TargetRange()
        assert with_range(plain, target).needs_rows
        assert with_range(auto, target) is auto
    for target in (Bounded(0, 1), Classes([0, 1])):
        assert with_range(plain, target) is plain


def test_where_bounds_leave_one_range_nothing_is_asked():
    schema, facts, gate = asked(Bounded(0, 10), 500.0, 0.0, 3_000, seed=4)
    assert len(ranges(Scale(5.0, 100.0), schema.target)[0]) == 1
    released, _ = TargetRange().release(sealed_rows(schema, np.repeat([0.0, 10.0], 1_500)), 500.0, gate, facts)
    assert released == Bounded(0.0, 10.0)
    assert [entry["label"] for entry in gate.ledger.entries()] == ["location of the target", "spread of the target"]


# --- centres ---------------------------------------------------------------------------------------------------------


def centre_scores(centres, fine, nodes, n_nodes):
    """What ``Centres`` hands to the gate."""
    gate = KeepingGate()
    centres.release(
        scored_counter(NUMBER, fine, np.zeros(len(fine)), nodes), 0, n_nodes, 1.0, gate, Purpose("splits", level=0)
    )
    return gate


CENTRES = [Centres(), Centres(n_centres=2), Centres(n_centres=1), Centres(reach=1.0), Centres(reach=1 / TARGET_STEPS)]
CENTRES += [Centres(n_centres=200, reach=0.2)]


@pytest.mark.parametrize("centres", CENTRES, ids=repr)
def test_a_record_raises_the_scores_of_centres_of_its_node_within_their_bound(centres):
    rng, spreads, highest = np.random.default_rng(11), [], 0
    tables = [rng.choice([0, 9_000, 32_768, 50_000, FINE_STEPS], n_records) for n_records in (0, 1, 2, 40)]
    for fine in [*tables, np.zeros(400, dtype=int)]:
        nodes = rng.integers(0, 2, len(fine))
        before = centre_scores(centres, fine, nodes, 2)
        assert before.stated == Bound(0, MOST_WEIGHT)
        for value, node in itertools.product([0, 1, 20_000, 32_768, 33_000, FINE_STEPS], range(2)):
            after = centre_scores(centres, np.append(fine, value), np.append(nodes, node), 2)
            move = after.values - before.values
            assert not move[1 - node].any()
            assert (move >= 0).all()
            assert (move <= MOST_WEIGHT).all()
            spreads.append(int(np.ptp(move[node])))
            highest = max(highest, move.max())
    assert highest > 0.9 * MOST_WEIGHT
    if centres.n_centres > 1:
        assert max(spreads) > 0.9 * MOST_WEIGHT
    if centres == Centres():
        assert max(spreads) == MOST_WEIGHT


@pytest.mark.parametrize("centres", CENTRES, ids=repr)
def test_the_score_of_a_centre_is_the_smaller_of_its_two_sides(centres):
    rng = np.random.default_rng(12)
    fine = rng.integers(0, FINE_STEPS + 1, 30)
    found = centre_scores(centres, fine, np.zeros(30), 1).values[0]
    grid, reach = _weights(centres.n_centres, round(centres.reach * TARGET_STEPS))[0], round(centres.reach * TARGET_STEPS)
    assert len(grid) == centres.n_centres == len(set(grid.tolist()))
    for centre, score in zip(grid.tolist(), found.tolist(), strict=True):
        sides = [naive.side_of(naive.seen_code_of(int(value)), centre, reach, MOST_WEIGHT) for value in fine]
        assert score == min(sum(below for below, _ in sides), sum(above for _, above in sides))


def test_scores_of_centres_of_a_billion_records_are_exact():
    counts = np.random.default_rng(13).integers(0, 10**9 // 500, size=(3, TARGET_STEPS + 1))
    counter, gate = scored_counter(NUMBER, [], []), KeepingGate()
    counter.count_values = lambda first, n_nodes: Sealed(counts)
    Centres().release(counter, 0, 3, 1.0, gate, Purpose("splits", level=0))
    _, above, below = _weights(64, round(0.1 * TARGET_STEPS))
    exact = np.minimum(counts.astype(object) @ above.astype(object), counts.astype(object) @ below.astype(object))
    assert gate.values.tolist() == exact.tolist()


def test_a_turned_level_sees_the_centre_that_was_released():
    values, nodes = [0, 20_000, 60_000, FINE_STEPS], [0, 0, 1, 1]
    counter, gate = scored_counter(NUMBER, values, np.zeros(4), nodes), KeepingGate()
    Centres(n_centres=4).release(counter, 0, 2, 1.0, gate, Purpose("splits", level=0))
    chosen = _weights(4, round(0.1 * TARGET_STEPS))[0][gate.values.argmax(axis=1)]
    expected = [naive.seen_code_of(fine) > chosen[node] for fine, node in zip(values, nodes, strict=True)]
    assert counter._sides.tolist() == expected
