"""The private range of a bounded target keeps its claim."""

import math

import numpy as np
import pytest
from tests.support.encoded import facts_about

from dpforest import Bounded, Classes, Numeric, Schema, get_recipe
from dpforest.errors import ParameterError
from dpforest.growing.target_range import STEPS, TargetRange, range_bound, range_scores, ranges, with_range
from dpforest.growing.target_scale import Scale, edges_within
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.columns import count_by_edges
from dpforest.records.memory.vault import Vault
from dpforest.schema.domain import Domain, Grid

ANY = Bounded()
SCALE = Scale(10.0, 4.0)


def scores_of(values, scale=SCALE, target=ANY):
    """The score of each range for a list of values."""
    lows, highs, prices = ranges(scale, target)
    edges = edges_within(np.concatenate([lows, np.nextafter(highs, np.inf)]), target)
    counts = count_by_edges(np.clip(np.array(values, dtype=float), *target.range), edges)
    return range_scores(edges, lows, highs, prices, target.range[0], counts)[0]


@pytest.mark.parametrize("target", [ANY, Bounded(8, 30), Bounded(lower=10)])
def test_every_value_lowers_the_scores_of_all_ranges_within_the_bound_and_reaches_its_width(target):
    base, bound = [10.0, 14.0, 11.5, 42.0, -3.0], range_bound(ranges(SCALE, target)[2])
    before, widest = scores_of(base, target=target), 0
    for value in [*np.linspace(-40, 60, 201), -1e300, 1e300, 42.0, math.inf]:
        move = scores_of([*base, value], target=target) - before
        assert bound.low <= move.min() <= move.max() <= bound.high
        widest = max(widest, np.ptp(move))
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


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_a_share_of_the_range_outside_0_to_1_is_refused(share):
    with pytest.raises(ParameterError):
        TargetRange(share)


@pytest.mark.parametrize("target", [ANY, Bounded(-1e9, 1e9), Bounded(0, 100), Bounded(lower=0)])
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
def test_a_range_costs_what_was_planned_and_holds_what_is_there(delta, target):
    schema, values = Schema({"x": Numeric(0, 1)}, target), np.random.default_rng(15).uniform(20, 30, 3_000)
    facts = facts_about(Domain.of(schema, Grid()), target, epsilon=500.0, delta=delta)
    gate = Gate(Ledger(make_accountant(500.0, delta)), Entropy(4))
    amount = gate.ledger.accountant.budget
    released, rest = TargetRange(0.25).release(Vault.seal(np.zeros((3_000, 1)), values, schema), amount, gate, facts)
    assert gate.ledger.total == pytest.approx(TargetRange(0.25).planned_share(facts) * amount)
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
    schema = Schema({"x": Numeric(0, 1)}, Bounded(0, 10))
    assert len(ranges(Scale(5.0, 100.0), schema.target)[0]) == 1
    gate = Gate(Ledger(make_accountant(500.0, 0.0)), Entropy(4))
    facts = facts_about(Domain.of(schema, Grid()), schema.target, epsilon=500.0)
    vault = Vault.seal(np.zeros((3_000, 1)), np.repeat([0.0, 10.0], 1_500), schema)
    released, _ = TargetRange().release(vault, 500.0, gate, facts)
    assert released == Bounded(0.0, 10.0)
    assert [entry["label"] for entry in gate.ledger.entries()] == ["location of the target", "spread of the target"]
