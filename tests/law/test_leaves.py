"""Leaves keep their claims on whole and weighted records and on residuals, and state their noise.

Weights and residuals come from real ``MemoryCounter``, so kernels and parts are tested together.
"""

import numpy as np
import pytest
from tests.support.gates import KeepingGate
from tests.support.laws import largest_norms
from tests.support.strategies import scored_counter
from tests.support.targets import NUMBER, classes

from dpforest import Classes
from dpforest.errors import AccountingError
from dpforest.forest.bands import INDEPENDENT
from dpforest.mechanisms import Entropy
from dpforest.parts.leaves import LeafRelease, NoisyCounts, NoisyMargin, PrivateLabel, ResidualSums, Rotated, TwoBinMean
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.bounds import Bound
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema import FINE_STEPS, TARGET_STEPS

FAR = 40_000  # score steps by which a class leads when the others have no share left


def statistics_of(leaf, counter, n_nodes):
    return counter.sum_residuals(0, n_nodes) if getattr(leaf, "residuals", False) else counter.count_nodes(0, n_nodes)


def handed_over(leaf, target, target_codes, scores, nodes, weighted):
    """What one of three leaves hands to the gate for records with these scores, each at its node."""
    counter, gate = scored_counter(target, target_codes, scores, nodes), KeepingGate()
    if weighted:
        counter.weigh_residuals()
    counts, _ = leaf.release(statistics_of(leaf, counter, 3), 1.0, gate, target, "leaves", counter.most_per_node)
    assert counts.shape == (3, target.n_values)
    return gate


def score_vectors(n_classes, seed):
    """Scores as trees leave them: none, a little, one class far ahead, two far ahead, and random ones of all sizes."""
    rng = np.random.default_rng(seed)
    vectors = [np.zeros(n_classes), *(FAR * np.eye(n_classes)), *(700 * np.eye(n_classes)), -FAR * np.eye(n_classes)[0]]
    vectors += [rng.integers(-scale, scale, n_classes) for scale in (5, 500, 3_000, FAR, 1 << 29) for _ in range(3)]
    return [vector.astype(int) for vector in vectors]


def moves_of_leaves(leaf, target, weighted):
    """Moves of what the gate is handed when any of many records joins any of three leaves, and the stated norms."""
    rng, moves = np.random.default_rng(7), []
    if isinstance(target, Classes):
        n_scores = target.n_values
        added = [(label, vector) for label in range(n_scores) for vector in score_vectors(n_scores, 7)]
        draw = lambda n: rng.integers(0, n_scores, n)  # noqa: E731
    else:
        n_scores, added = 1, [(value, [0]) for value in (0, 1, 40, 30_000, FINE_STEPS - 1, FINE_STEPS)]
        draw = lambda n: rng.integers(0, FINE_STEPS + 1, n)  # noqa: E731
    for n_records in (0, 1, 20):
        codes, nodes = draw(n_records), rng.integers(0, 3, n_records)
        scores = rng.integers(-3_000, 3_000, size=(n_records, n_scores)) * rng.integers(0, 2, size=(n_records, 1))
        before = handed_over(leaf, target, codes, scores, nodes, weighted)
        for place_, (code, vector) in enumerate(added):
            more = np.append(codes, code), [*scores.tolist(), vector], np.append(nodes, place_ % 3)
            after = handed_over(leaf, target, *more, weighted)
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


def test_every_leaf_of_the_library_is_here():
    own = {kind for kind in LeafRelease.__subclasses__() if kind.__module__ == LeafRelease.__module__}
    assert own == {type(leaf) for leaf, _ in LEAVES.values()} | {PrivateLabel}


OF_WHOLE_RECORDS = ("rotated means", "two-bin means", "counts of 2", "counts of 5", "margin")


@pytest.mark.parametrize(
    ("name", "weighted"),
    [(name, False) for name in OF_WHOLE_RECORDS] + [(name, True) for name, (_, n) in LEAVES.items() if n is not None],
)
def test_a_record_moves_what_a_leaf_gets_noised_by_exactly_the_stated_norms_at_most(name, weighted):
    leaf, n_classes = LEAVES[name]
    moves, stated = moves_of_leaves(leaf, NUMBER if n_classes is None else classes(n_classes), weighted)
    assert moves.dtype == np.int64
    assert largest_norms(moves) == (stated.l1, stated.l2_squared)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_record_raises_one_label_by_at_most_the_stated_width_and_reaches_it(n_classes, weighted):
    moves, stated = moves_of_leaves(PrivateLabel(), classes(n_classes), weighted)
    assert (np.count_nonzero(moves, axis=1) <= 1).all()
    assert stated == Bound(moves.min(), moves.max()) == Bound(0, MOST_WEIGHT if weighted else 1)


@pytest.mark.parametrize("leaf", [TwoBinMean(), Rotated()], ids=["two-bin", "rotated"])
@pytest.mark.parametrize("unit", [2, MOST_WEIGHT])
def test_a_mean_refuses_weighted_records_before_anything_is_charged(leaf, unit):
    ledger = Ledger(make_accountant(1.0, 0.0))
    with pytest.raises(AccountingError, match="weighted records"):
        leaf.release(Sealed(np.zeros((2, 3), dtype=np.int64)), 0.5, Gate(ledger, Entropy(0)), NUMBER, "leaves", unit)
    assert ledger.entries() == []


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_leaves_accept_the_targets_that_their_proofs_are_about(n_classes):
    assert Rotated().accepts(classes(n_classes)) == NoisyMargin().accepts(classes(n_classes)) == (n_classes == 2)
    assert ResidualSums().accepts(classes(n_classes)) == (n_classes > 1)
    assert Rotated().accepts(NUMBER)
    assert not ResidualSums().accepts(NUMBER)
    assert not NoisyMargin().accepts(NUMBER)


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
