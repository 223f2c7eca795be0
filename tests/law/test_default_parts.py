"""The parts of the default recipe keep their claims, also where records have weights, and no claim is wider than it must be.

Weights, residuals and sides come from real ``MemoryCounter``, so kernels and parts are tested together.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import opened, random_table, resolved, with_one_more
from tests.support.replay import assert_paid, assert_same_release, check_neighbours, train
from tests.support.strategies import MIXED, put_at, recipe_of, scored_counter

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, get_recipe
from dpforest.audit.replay import cost
from dpforest.errors import AccountingError, DPForestError, ParameterError
from dpforest.forest.bands import INDEPENDENT
from dpforest.growing.centres import Centres, _weights
from dpforest.growing.choosing import FeatureFirst, Medians
from dpforest.growing.class_means import ClassMeans
from dpforest.growing.noisy_gain import NoisyGain
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.growing.target_range import CELLS, TargetRange, range_bound, range_scores, widened
from dpforest.mechanisms import Entropy
from dpforest.parts.allocation import LeavesOnly, Uniform
from dpforest.parts.criteria import (
    Balance,
    EntropyCount,
    GiniCount,
    MaxOperator,
    Mixture,
    SoftAgreement,
    SquaredError,
    WeightedMajority,
)
from dpforest.parts.leaves import NoisyCounts, NoisyMargin, PrivateLabel, ResidualSums, Rotated, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.proposals import Menu, Routes
from dpforest.parts.voting import LogShares, MeanOfShares
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.base import Bound
from dpforest.privacy.events import SPLITS, Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema import FINE_STEPS, TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

NUMBER = Bounded(0, 1)
FAR = 40_000  # score steps by which a class leads when the others have no share left
UNITS = (1, 2, MOST_WEIGHT)


def classes(n_classes):
    return Classes(list(range(n_classes)))


# --- criteria on weighted counts ------------------------------------------------------------------------------------

WEIGHTED = {
    "max": MaxOperator(),
    "balance": Balance(),
    "3max+balance": Mixture(((MaxOperator(), 3), (Balance(), 1))),
    "nested": Mixture(((Mixture(((MaxOperator(), 2), (Balance(), 1))), 2), (MaxOperator(), 5))),
}
SIDED = {
    "soft agreement": SoftAgreement(),
    "2soft": Mixture(((SoftAgreement(), 2),)),
}


def weighted_tables(n_classes, unit):
    """Tables ``(n, 2, n_classes)`` of weights: all with few different cells, or random ones for many classes."""
    cells = sorted({0, 1, unit // 2, unit, 3 * unit + 1})
    if len(cells) ** (2 * n_classes) <= 20_000:
        return np.array(list(itertools.product(cells, repeat=2 * n_classes))).reshape(-1, 2, n_classes)
    rng = np.random.default_rng(n_classes)
    return np.concatenate(
        [rng.choice(cells, size=(15_000, 2, n_classes)), rng.integers(0, 10**7 * unit, size=(5_000, 2, n_classes))]
    )


def weighted_moves(criterion, target, n_columns, unit):
    """How a record of any weight up to ``unit``, in any cell, moves the score of each table."""
    tables, moves = weighted_tables(n_columns, unit), []
    before = criterion.score(tables, target)
    for child, column in np.ndindex(2, n_columns):
        for weight in sorted({0, 1, unit // 3, unit - 1, unit}):
            more = tables.copy()
            more[:, child, column] += weight
            moves.append(criterion.score(more, target) - before)
    return np.concatenate(moves)


def assert_bound_is_kept_and_reached(moves, bound):
    assert moves.dtype == np.int64
    assert bound.low <= moves.min()
    assert moves.max() <= bound.high
    # All of these can reach both ends of what they state.
    assert (moves.min(), moves.max()) == (bound.low, bound.high)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", WEIGHTED)
def test_a_record_of_any_weight_moves_a_weighted_score_within_its_bound_and_reaches_it(name, n_classes, unit):
    moves = weighted_moves(WEIGHTED[name], classes(n_classes), n_classes, unit)
    assert_bound_is_kept_and_reached(moves, WEIGHTED[name].bound(unit))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", SIDED)
def test_a_record_on_either_side_moves_the_agreement_within_its_bound_and_reaches_it(name, unit):
    moves = weighted_moves(SIDED[name], NUMBER, 2, unit)
    assert_bound_is_kept_and_reached(moves, SIDED[name].bound(unit))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", [*WEIGHTED, *SIDED])
def test_two_splits_of_one_node_reach_the_whole_width_of_a_weighted_score(name, unit):
    # Sides and classes are columns alike: the record, of the second kind, joins many of the first or its own few.
    criterion, target = (WEIGHTED | SIDED)[name], NUMBER if name in SIDED else classes(2)
    apart, together = np.array([[[9, 0], [0, 4]], [[9, 0], [0, 4]]]) * unit
    with_others, with_own = apart.copy(), together.copy()
    with_others[0, 1] += unit
    with_own[1, 1] += unit
    moves = [criterion.score(after, target) - criterion.score(apart, target) for after in (with_others, with_own)]
    assert moves[1] - moves[0] == criterion.bound(unit).width


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_mixture_scales_its_bound_with_the_weight_of_a_record(name):
    one, many = WEIGHTED[name].bound(), WEIGHTED[name].bound(MOST_WEIGHT)
    assert (many.low, many.high) == (MOST_WEIGHT * one.low, MOST_WEIGHT * one.high)


UNWEIGHTED = {
    "gini": GiniCount(),
    "entropy": EntropyCount(n_max=100),
    "squared error": SquaredError(),
    "weighted majority": WeightedMajority(),
    "mixture with gini": Mixture(((GiniCount(), 1), (MaxOperator(), 2))),
    "mixture in a mixture": Mixture(((Mixture(((WeightedMajority(), 1), (Balance(), 1))), 1), (MaxOperator(), 2))),
}


@pytest.mark.parametrize("unit", [2, MOST_WEIGHT])
@pytest.mark.parametrize("name", UNWEIGHTED)
def test_a_criterion_without_a_proof_for_weights_refuses_them(name, unit):
    assert UNWEIGHTED[name].bound(1) == UNWEIGHTED[name].bound()
    with pytest.raises(AccountingError, match="no bound for weighted records"):
        UNWEIGHTED[name].bound(unit)


@pytest.mark.parametrize("criterion", [GiniCount(), EntropyCount(), WeightedMajority()], ids=lambda c: type(c).__name__)
def test_a_criterion_for_plain_counts_may_choose_the_first_tree_and_no_later_one(criterion):
    X, y, own = np.zeros((3, 2)), [0, 1, 1], {"criterion": criterion}
    for phases in [(Phase(1.0, 2, own),), (Phase(0.5, 1), Phase(0.5, 1, own))]:
        model = DPForestClassifier(TINY_TWO, recipe=recipe_of(**ADDITIVE | {"stages": Sequential(phases)}))
        with pytest.raises(AccountingError, match="weighted records"):
            model.fit(X, y)
        assert not hasattr(model, "ledger_")
    first = Sequential((Phase(0.5, 1, own), Phase(0.5, 1)))
    assert DPForestClassifier(TINY_TWO, recipe=recipe_of(**ADDITIVE | {"stages": first})).fit(X, y).forest_.n_trees == 2


def test_soft_agreement_is_its_formula():
    rng = np.random.default_rng(1)
    for children in rng.integers(0, 50, size=(100, 2, 2)).tolist():
        (below_left, above_left), (below_right, above_right) = children
        expected = max(below_left + above_right, above_left + below_right)
        assert SoftAgreement().score(np.array(children), NUMBER) == expected


def test_the_max_operator_on_two_weighted_classes_is_half_the_weight_and_half_the_absolute_margins():
    tables = np.random.default_rng(2).integers(0, 10**9, size=(200, 2, 2))
    margins = np.abs(tables[..., 1] - tables[..., 0]).sum(axis=1)
    assert (2 * MaxOperator().score(tables, classes(2)) == tables.sum(axis=(1, 2)) + margins).all()


# --- leaves on weighted records and residuals -----------------------------------------------------------------------


class KeepingGate:
    """Keeps what it is handed and what was stated about it; releases it as it is."""

    def add_noise(self, values, sensitivity, amount, label):
        self.values, self.stated = opened(values).copy(), sensitivity
        return self.values.copy(), 1.0

    def select(self, scores, valid, bound, amount, label):
        assert valid is None
        self.values, self.stated = opened(scores).copy(), bound
        return self.values.argmax(axis=1)


def statistics_of(leaf, counter, n_nodes):
    return counter.sum_residuals(0, n_nodes) if getattr(leaf, "residuals", False) else counter.count_nodes(0, n_nodes)


def handed_over(leaf, target, target_codes, scores, nodes, n_nodes=3):
    """What a leaf hands to the gate for records with these scores, each at its node; classes are weighted by residuals."""
    counter, gate = scored_counter(target, target_codes, scores, nodes), KeepingGate()
    if isinstance(target, Classes):
        counter.weigh_residuals()
    leaf.release(statistics_of(leaf, counter, n_nodes), 1.0, gate, target, "leaves", counter.most_per_node)
    return gate


def score_vectors(n_classes, seed):
    """Scores as trees leave them: none, a little, one class far ahead, two far ahead, and random ones of all sizes."""
    rng = np.random.default_rng(seed)
    vectors = [np.zeros(n_classes), *(FAR * np.eye(n_classes)), *(700 * np.eye(n_classes)), -FAR * np.eye(n_classes)[0]]
    vectors += [rng.integers(-scale, scale, n_classes) for scale in (5, 500, 3_000, FAR, 1 << 29) for _ in range(3)]
    return [vector.astype(int) for vector in vectors]


def moves_of_leaves(leaf, target, seed):
    """Moves of what the gate is handed when any of many records joins any of three leaves, and the stated norms."""
    rng, moves = np.random.default_rng(seed), []
    if isinstance(target, Classes):
        n_scores = target.n_values
        added = [(label, vector) for label in range(n_scores) for vector in score_vectors(n_scores, seed)]
        draw = lambda n: rng.integers(0, n_scores, n)  # noqa: E731
    else:
        n_scores, added = 1, [(value, [0]) for value in (0, 1, 40, 30_000, FINE_STEPS - 1, FINE_STEPS)]
        draw = lambda n: rng.integers(0, FINE_STEPS + 1, n)  # noqa: E731
    for n_records in (0, 1, 20):
        codes, nodes = draw(n_records), rng.integers(0, 3, n_records)
        scores = rng.integers(-3_000, 3_000, size=(n_records, n_scores)) * rng.integers(0, 2, size=(n_records, 1))
        before = handed_over(leaf, target, codes, scores, nodes)
        for place_, (code, vector) in enumerate(added):
            after = handed_over(
                leaf, target, np.append(codes, code), [*scores.tolist(), vector], np.append(nodes, place_ % 3)
            )
            assert after.stated == before.stated
            move = after.values - before.values
            assert not np.delete(move, place_ % 3, axis=0).any()
            moves.append(np.atleast_1d(move[place_ % 3]))
    return np.array(moves), before.stated


LEAVES = {
    "rotated": (Rotated(), 2),
    "rotated with more mass": (Rotated(0.3), 2),
    "rotated with least mass": (Rotated(0.05), 2),
    "rotated with all mass": (Rotated(1.0), 2),
    "rotated with mass between two parts": (Rotated(0.17), 2),
    "rotated means": (Rotated(0.6), None),
    "two-bin means": (TwoBinMean(), None),
    "residuals of 2": (ResidualSums(), 2),
    "residuals of 3": (ResidualSums(), 3),
    "residuals of 5 with more mass": (ResidualSums(0.3), 5),
    "residuals of 10": (ResidualSums(0.05), 10),
    "counts of 2": (NoisyCounts(), 2),
    "counts of 5": (NoisyCounts(), 5),
    "margin": (NoisyMargin(), 2),
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_weighted_record_moves_what_a_leaf_gets_noised_by_exactly_the_stated_norms_at_most(name):
    leaf, n_classes = LEAVES[name]
    moves, stated = moves_of_leaves(leaf, NUMBER if n_classes is None else classes(n_classes), seed=7)
    assert moves.dtype == np.int64
    assert np.abs(moves).sum(axis=1).max() == stated.l1
    assert np.square(moves).sum(axis=1).max() == stated.l2_squared


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_weighted_record_raises_one_label_by_at_most_the_stated_width_and_reaches_it(n_classes):
    moves, stated = moves_of_leaves(PrivateLabel(), classes(n_classes), seed=8)
    assert stated == Bound(0, MOST_WEIGHT)
    assert (np.count_nonzero(moves, axis=1) <= 1).all()
    assert (moves.min(), moves.max()) == (0, MOST_WEIGHT)


@pytest.mark.parametrize("leaf", [TwoBinMean(), Rotated()], ids=["two-bin", "rotated"])
@pytest.mark.parametrize("unit", [2, MOST_WEIGHT])
def test_a_mean_refuses_weighted_records_before_anything_is_charged(leaf, unit):
    ledger = Ledger(make_accountant(1.0, 0.0))
    with pytest.raises(AccountingError, match="weighted records"):
        leaf.release(Sealed(np.zeros((2, 3), dtype=np.int64)), 0.5, Gate(ledger, Entropy(0)), NUMBER, "leaves", unit)
    assert ledger.entries() == []


@pytest.mark.parametrize("part", [Rotated, ResidualSums])
@pytest.mark.parametrize("mass", [0.0, 0.04, 1.01, -1.0, math.nan])
def test_a_mass_that_no_part_of_twenty_can_be_is_refused(part, mass):
    with pytest.raises(ParameterError, match="mass"):
        part(mass)


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_leaves_accept_the_targets_that_their_proofs_are_about(n_classes):
    assert Rotated().accepts(classes(n_classes)) == (n_classes == 2)
    assert ResidualSums().accepts(classes(n_classes)) == (n_classes > 1)
    assert Rotated().accepts(NUMBER)
    assert not ResidualSums().accepts(NUMBER)


@pytest.mark.parametrize(
    ("leaf", "n_classes"),
    [(Rotated(), 2), (Rotated(0.3), 2), (NoisyCounts(), 3), (ResidualSums(), 2), (ResidualSums(), 3), (ResidualSums(1), 5)],
    ids=str,
)
def test_without_noise_and_before_the_first_tree_a_leaf_releases_its_class_counts(leaf, n_classes):
    rng = np.random.default_rng(9)
    labels, nodes = rng.integers(0, n_classes, 500), rng.integers(0, 3, 500)
    counter = scored_counter(classes(n_classes), labels, np.zeros((500, n_classes)), nodes)
    counter.weigh_residuals()
    counts, _ = leaf.release(statistics_of(leaf, counter, 3), 1.0, KeepingGate(), classes(n_classes), "leaves", MOST_WEIGHT)
    expected = np.zeros((3, n_classes))
    np.add.at(expected, (nodes, labels), 1)
    # Residuals of several classes are rounded down to 1/255 each.
    np.testing.assert_allclose(counts, expected, rtol=0.02 if n_classes > 2 else 1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize(
    ("leaf", "n_classes"), [(Rotated(), 2), (Rotated(0.4), 2), (ResidualSums(), 2), (ResidualSums(), 5)], ids=str
)
def test_the_lead_of_a_class_has_twice_the_variance_that_is_stated(leaf, n_classes, delta):
    n_leaves, width = 20_000, n_classes + leaf.residuals
    gate = Gate(Ledger(make_accountant(3.0, delta)), Entropy(3))
    statistics = Sealed(np.zeros((n_leaves, width), dtype=np.int64))
    amount = gate.ledger.accountant.budget
    counts, variance = leaf.release(statistics, amount, gate, classes(n_classes), "leaves", MOST_WEIGHT)
    size = counts.sum(axis=1, keepdims=True)
    lead = (n_classes * counts - size) / (n_classes - 1)
    # Of 20,000 leaves: 7 standard deviations of an estimated variance of Laplace noise are below 0.12 of it.
    assert lead.var() == pytest.approx(2 * variance, rel=0.12)


@pytest.mark.parametrize(
    ("leaf", "target"),
    [(Rotated(), classes(2)), (Rotated(0.4), classes(2)), (Rotated(0.6), NUMBER), (ResidualSums(), classes(2)),
     (ResidualSums(0.3), classes(5)), (NoisyCounts(), classes(3)), (TwoBinMean(), NUMBER)],
    ids=str,
)  # fmt: skip
def test_the_noise_of_counts_has_the_covariance_that_bands_are_made_of(leaf, target):
    gate = Gate(Ledger(make_accountant(3.0, 1e-6)), Entropy(3))
    residual, n_leaves = getattr(leaf, "residuals", False), 20_000
    statistics = Sealed(np.zeros((n_leaves, target.width + residual), dtype=np.int64))
    unit = 1 if target is NUMBER else MOST_WEIGHT
    counts, variance = leaf.release(statistics, gate.ledger.accountant.budget, gate, target, "leaves", unit)
    first, rest, common = leaf.noise(target) or INDEPENDENT
    stated = variance * (np.diag([first] + [rest] * (target.n_values - 1)) + common)
    # Of 20,000 leaves of Gaussian noise an estimated covariance is off by 0.01 of sqrt(Var Var): 7 of that are 0.07.
    assert np.abs(np.cov(counts.T) - stated).max() <= 0.07 * stated.max()


def test_leaves_of_very_many_records_are_summed_exactly():
    n_rows = 10**9
    statistics = np.array([[n_rows * MOST_WEIGHT, 3]])
    gate = KeepingGate()
    Rotated(1.0).release(Sealed(statistics), 1.0, gate, classes(2), "leaves", MOST_WEIGHT)
    assert gate.values.tolist() == [[20 * (3 - n_rows * 255), 20 * (n_rows * 255 + 3)]]
    sums = np.array([[n_rows, n_rows * TARGET_STEPS, n_rows * TARGET_STEPS**2]])
    Rotated(1.0).release(Sealed(sums), 1.0, gate, NUMBER, "leaves", 1)
    assert gate.values.tolist() == [[20 * n_rows * 1024, 20 * n_rows * 1024]]


# --- a record changes nothing about other records -------------------------------------------------------------------

# Around the widths of vector instructions, so that the tail of a vectorised loop would show.
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000)


def seen_of_classes(target, labels, scores):
    """All that is known about each record, one row each: its weight, and what it adds to a leaf of its own."""
    counter = scored_counter(target, labels, scores, np.arange(len(labels)))
    counter.weigh_residuals()
    return np.column_stack(
        [counter._weights[0], opened(counter.sum_residuals(0, len(labels))), opened(counter.count_nodes(0, len(labels)))]
    )


def seen_of_numbers(target, fine, scores):
    """As above: what is seen of it, its side and its weight, before and after a window and a prediction."""
    n_records, seen = len(fine), []
    centres, reach = np.array([100, 512, 900]), 102
    counter = scored_counter(target, fine, scores, np.arange(n_records) % 3)
    for change in (lambda: None, lambda: counter.set_window(8192, 40_960), lambda: counter.set_residual_window(16_384)):
        change()
        # Nodes by value, so that a record's node is its own matter as well.
        put_at(counter, counter._target_codes % 3)
        counter.weigh_distances(0, centres, reach)
        seen += [counter._target_codes, counter._positions[0], counter._sides, counter._weights[0]]
    return np.column_stack(seen)


@pytest.mark.parametrize("n_classes", [2, 3, 10, None])
def test_a_record_at_any_place_changes_nothing_about_any_other_record(n_classes):
    rng = np.random.default_rng(10)
    if n_classes is None:
        target, seen_of, n_values, n_scores = NUMBER, seen_of_numbers, FINE_STEPS + 1, 1
    else:
        target, seen_of, n_values, n_scores = classes(n_classes), seen_of_classes, n_classes, n_classes
    for n_records in SIZES:
        codes = rng.integers(0, n_values, n_records)
        scores = rng.integers(-4_000, 4_000, size=(n_records, n_scores))
        alone = seen_of(target, codes, scores)
        for spot in sorted({0, n_records // 2, n_records}):
            odd = rng.choice([-(1 << 29), -FAR, 0, FAR, 1 << 29], n_scores)
            more = seen_of(target, np.insert(codes, spot, rng.integers(n_values)), np.insert(scores, spot, odd, axis=0))
            assert (np.delete(more, spot, axis=0) == alone).all()


# --- private centres ------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "bad", [{"share": 0}, {"share": 1}, {"reach": 0}, {"reach": 1.1}, {"n_centres": 0}, {"n_centres": 1025}], ids=str
)
def test_centres_of_an_impossible_kind_are_refused(bad):
    with pytest.raises(ParameterError):
        Centres(**bad)


# --- a private range ------------------------------------------------------------------------------------------------

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


# --- what a record really costs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneCutEach:
    """A candidate for each numeric feature: its first cut."""

    def fixed(self, domain):
        return Routes.of_runs(domain, [(feature, 0, 1, 2) for feature in range(domain.n_features)])

    def drawn(self, domain, n_nodes, rng):
        return None


TINY = {"x": Numeric(0, 2), "z": Numeric(0, 2)}
TINY_TWO, TINY_THREE, TINY_NUMBER = (Schema(TINY, target) for target in (classes(2), classes(3), NUMBER))
# Votes so loud that the second tree finds records it must trust fully and records it may forget.
ADDITIVE = {
    "criterion": MaxOperator(), "stages": Sequential((Phase(1.0, 2),)), "leaf": NoisyCounts(), "refine": (EvenShrinkage(),),
    "vote": LogShares(60.0), "allocate": Uniform(split_share=0.65), "propose": Menu((OneCutEach(),)), "grid": Grid(2),
    "n_trees": 2, "depth": 1,
}  # fmt: skip
MEANS = {
    "criterion": SoftAgreement(), "stages": SequentialMeans(1.0), "centres": Centres(n_centres=3), "vote": MeanOfShares(),
    "refine": (), "target_range": TargetRange(0.3),
}  # fmt: skip
# Gini's own width is reached in large tables only; beside enough of the max operator that does not show.
GINI = Mixture(((GiniCount(), 1), (MaxOperator(), 20)))
RANDOM = {"propose": Menu((OneCutEach(),), random=True), "allocate": LeavesOnly()}
PLANS = {
    "margins": (TINY_TWO, {"leaf": Rotated()}),
    "residuals": (TINY_THREE, {"leaf": ResidualSums()}),
    "counts": (TINY_THREE, {}),
    "labels": (TINY_TWO, {"leaf": PrivateLabel()}),
    "margin only": (TINY_TWO, {"criterion": Balance(), "leaf": NoisyMargin()}),
    "inner counts": (TINY_TWO, {"criterion": Balance(), "leaf": Rotated(), "allocate": Uniform(count_share=0.5)}),
    "mixed": (TINY_TWO, {"criterion": Mixture(((MaxOperator(), 1), (Balance(), 2))), "leaf": Rotated(0.3)}),
    "medians": (TINY_TWO, {"choose": Medians(), "propose": Menu(), "leaf": Rotated()}),
    "medians jointly": (TINY_TWO, {"choose": Medians(jointly=True, weight=0.5), "propose": Menu(), "leaf": Rotated()}),
    "feature first": (TINY_TWO, {"choose": FeatureFirst(), "propose": Menu(), "leaf": Rotated()}),
    "noisy counts": (TINY_TWO, {"choose": NoisyGain(), "leaf": Rotated()}),
    "gini first": (
        TINY_THREE,
        {"stages": Sequential((Phase(0.5, 1, {"criterion": GINI}), Phase(0.5, 1))), "leaf": ResidualSums()},
    ),
    "random trees first": (TINY_TWO, {"stages": Sequential((Phase(0.2, 1, RANDOM), Phase(0.8, 1))), "leaf": Rotated()}),
    "two-bin means": (TINY_NUMBER, MEANS | {"leaf": TwoBinMean()}),
    "rotated means": (TINY_NUMBER, MEANS | {"leaf": Rotated(0.6)}),
    "rotated means without a range": (TINY_NUMBER, MEANS | {"leaf": Rotated(0.6), "target_range": None}),
}


def tiny_tables(schema, n_tables):
    """Tables of 0 to 4 records, and every record that could join them."""
    rng, values = np.random.default_rng(16), range(len(schema.target.labels)) if isinstance(schema.target, Classes) else None
    values = list(values) if values is not None else [0, 21_000, 32_768, 45_000, FINE_STEPS]
    records = list(itertools.product(range(2), range(2), values))
    for place_ in range(n_tables):
        kept = [records[k] for k in rng.integers(0, len(records), place_ % 5)]
        table = np.array(kept, dtype=np.int64).reshape(-1, 3)
        yield np.ascontiguousarray(table[:, :2].T.astype(np.uint8)), table[:, 2], records


def costs(recipe, schema, delta, n_tables):
    """For each kind of release: what any of many records cost it, as a share of what was charged."""
    found = defaultdict(list)
    for seed, (codes, target_codes, records) in enumerate(tiny_tables(schema, n_tables)):
        one = train(recipe, schema, codes, target_codes, seed=seed, delta=delta)
        for x, z, value in records:
            two = train(recipe, schema, *with_one_more(codes, target_codes, [x, z], value), one.queries, seed, delta)
            assert_paid(one, two)
            for before, after in zip(one.queries, two.queries, strict=True):
                tree = next((scope.label for scope in before.scopes if scope.purpose.kind == "tree"), "")
                found[f"{tree} {before.label}"].append(cost(before, after) / Fraction(before.amount))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("name", PLANS)
def test_no_record_costs_more_than_was_charged_and_some_record_costs_nearly_that(name, delta):
    schema, parts = PLANS[name]
    recipe = recipe_of(**ADDITIVE | parts)
    # What a median leaves to choose among moves in some tables only; so do splits after a random tree.
    found = costs(recipe, schema, delta, n_tables=40 if "choose" in parts else 18)
    assert len(found) >= 3
    for label, shares in found.items():
        assert max(shares) <= 1, label
        # Before the first tree residuals of three classes are 1, -1/2, -1/2: three quarters of the largest L2**2.
        even = isinstance(recipe.leaf, ResidualSums) and delta and label == "tree 1 leaves"
        assert max(shares) > (0.7 if even else 0.9), label


def log_laws(scores, rate, mechanism):
    """Exact log-probabilities of choosing the first and the second of two candidates."""
    gap = float(rate) * int(scores[1] - scores[0])
    if mechanism == "exponential":
        return np.array([-math.log1p(math.exp(gap)), -math.log1p(math.exp(-gap))])
    # Permute-and-flip: the worse one is taken if it comes first, by a fair coin, and its flip succeeds.
    worse = math.log(0.5) - abs(gap)
    laws = np.array([math.log1p(-math.exp(worse)), worse])
    return laws if gap <= 0 else laws[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("tree", ["tree 1", "tree 2"])
def test_the_law_of_a_choice_between_two_splits_of_weighted_records_moves_by_what_was_charged(tree, delta):
    schema, parts = PLANS["margins"]
    recipe, most = recipe_of(**ADDITIVE | parts), 0.0
    for seed, (codes, labels, records) in enumerate(tiny_tables(schema, 9)):
        one = train(recipe, schema, codes, labels, seed=seed, delta=delta)
        choices = [k for k, query in enumerate(one.queries) if query.purpose.kind == SPLITS]
        place_ = next(k for k in choices if tree in [scope.label for scope in one.queries[k].scopes])
        query, run = one.queries[place_], one.queries[place_].runs[0]
        assert query.stated == Bound(0, 1 if tree == "tree 1" else MOST_WEIGHT)
        for x, z, label in records:
            two = train(recipe, schema, *with_one_more(codes, labels, [x, z], label), one.queries, seed, delta)
            before, after = (log_laws(fit.queries[place_].values[0], run.spread, run.mechanism) for fit in (one, two))
            if delta:
                losses = before - after
                for order in (1.001, 2, 16, 200):
                    renyi = math.log(math.fsum(np.exp(before + (order - 1) * losses))) / (order - 1)
                    assert renyi <= query.amount * order * (1 + 1e-9)
                most = max(most, math.fsum(np.exp(before) * losses) / query.amount)
            else:
                assert np.abs(before - after).max() <= query.amount * (1 + 1e-12)
                most = max(most, np.abs(before - after).max() / query.amount)
    assert most > 0.9


# --- whole plans, replayed ------------------------------------------------------------------------------------------

AUTO = get_recipe("auto")
SCHEMAS = {
    "two": Schema(MIXED, classes(2)),
    "three": Schema(MIXED, classes(3)),
    "ten": Schema(MIXED, classes(10)),
    "number": Schema(MIXED, NUMBER),
}
# Rows, and trees that the user asks for: plans of one tree, of a few, and of several phases.
ASKED = {"few rows": (200.0, None), "some rows": (3_000.0, 4), "several phases": (1e6, None)}


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", SCHEMAS)
def test_with_the_same_releases_one_more_record_moves_only_what_a_planned_forest_paid_for(name, asked, delta):
    n_rows, n_trees = ASKED[asked]
    recipe = resolved(AUTO, SCHEMAS[name], n_trees, n_rows=n_rows, delta=delta)
    moved = check_neighbours(recipe, SCHEMAS[name], seed=1, n_rows=60, delta=delta)
    assert "leaves" in moved
    assert any(label.startswith("splits") for label in moved)
    if name == "number":
        assert "range of the target" in moved
        assert any(label.endswith("centres") for label in moved)


@pytest.mark.parametrize("name", SCHEMAS)
def test_with_the_same_releases_a_planned_forest_does_not_depend_on_its_table(name):
    recipe = resolved(AUTO, SCHEMAS[name], n_trees=4, n_rows=1e6)
    _, codes, target_codes = random_table(SCHEMAS[name], recipe.grid, 80, seed=1)
    one = train(recipe, SCHEMAS[name], codes, target_codes)
    for n_rows, seed in [(80, 2), (1, 3), (0, 4)]:
        _, other_codes, others = random_table(SCHEMAS[name], recipe.grid, n_rows, seed)
        assert_same_release(one, train(recipe, SCHEMAS[name], other_codes, others, one.queries))


# --- companies that have no proof -----------------------------------------------------------------------------------

NO_PROOF = {
    "soft agreement without centres": {"criterion": SoftAgreement(), "leaf": TwoBinMean()},
    "soft agreement in a mixture, without centres": {"criterion": Mixture(((SoftAgreement(), 2),)), "leaf": TwoBinMean()},
    "squared error beside centres": {"criterion": SquaredError(), "leaf": TwoBinMean(), "centres": Centres()},
    "centres of trees that are grown together": {
        "criterion": SoftAgreement(), "leaf": TwoBinMean(), "centres": Centres(), "n_trees": 3,
    },
    "residuals of no trees": {"criterion": MaxOperator(), "leaf": ResidualSums()},
    "class means of weighted records": {
        "criterion": MaxOperator(), "narrow": ClassMeans(), "stages": Sequential((Phase(1.0, 2),)), "n_trees": 2,
        "refine": (EvenShrinkage(),), "vote": LogShares(),
    },
    "class means in a later phase": {
        "criterion": MaxOperator(), "stages": Sequential((Phase(0.5, 1), Phase(0.5, 1, {"narrow": ClassMeans()}))),
        "n_trees": 2, "refine": (EvenShrinkage(),), "vote": LogShares(),
    },
    "fewer trees than the phases have": {
        "criterion": MaxOperator(), "stages": Sequential((Phase(1.0, 4),)), "n_trees": 2, "refine": (EvenShrinkage(),),
        "vote": LogShares(),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PROOF)
def test_parts_in_a_company_that_they_have_no_proof_for_are_refused_and_nothing_is_charged(name):
    recipe = recipe_of(**NO_PROOF[name])
    is_number = isinstance(recipe.leaf, TwoBinMean)
    model = DPForestRegressor(TINY_NUMBER, recipe=recipe) if is_number else DPForestClassifier(TINY_THREE, recipe=recipe)
    with pytest.raises(DPForestError):
        model.fit(np.ones((3, 2)), [0, 1, 1])
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
