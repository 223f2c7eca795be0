"""What additive trees see of records, in integers, equals slow twins, and no record changes what is seen of another."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import opened
from tests.support.strategies import FIXED, SEEDS, put_at, random_codes, scored_counter
from tests.support.targets import NUMBER, classes

from dpforest import Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.mechanisms import Entropy
from dpforest.records import scores as kernels
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT, AllTrees
from dpforest.records.scores import PAIR_WEIGHTS, POWERS
from dpforest.schema import FINE_STEPS, TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

FAR = 40_000  # score steps by which a class leads when the others have no share left
# Scores near 0, of usual trees, where shares vanish, and as far as they can come; in score steps.
SCALES = (3, 700, 4_000, 30_000, 1 << 29)


@st.composite
def scored(draw):
    """Labels and scores of a few records: all alike, one class far ahead, or any."""
    n_classes, n_records = draw(st.sampled_from([2, 3, 5, 10])), draw(st.integers(0, 9))
    rng, scale = np.random.default_rng(draw(SEEDS)), draw(st.sampled_from(SCALES))
    scores = rng.integers(-scale, scale + 1, size=(n_records, n_classes))
    scores[rng.random(n_records) < 0.2] = draw(st.sampled_from([0, 5, -(1 << 29)]))
    return n_classes, rng.integers(0, n_classes, n_records), scores


def weights_of(labels, scores):
    """As the kernel gives them, in a type that would show a weight that does not fit one byte."""
    weights = np.full((1, len(labels)), -1, dtype=np.int64)
    scores = np.ascontiguousarray(np.asarray(scores, dtype=np.int32).T)
    kernels.weigh_residuals(np.asarray(labels), scores, POWERS, MOST_WEIGHT, 0, len(labels), weights)
    if len(scores) == 2:
        quick = np.full_like(weights, -1)
        kernels.weigh_pairs(np.asarray(labels), scores, PAIR_WEIGHTS, 0, len(labels), quick)
        np.testing.assert_array_equal(quick, weights)
    return weights[0]


def residuals_of(target, label, scores):
    """What one record alone adds to its leaf: residuals of all classes, then its weight."""
    return opened(scored_counter(target, [label], [scores]).sum_residuals(0, 1))[0]


def test_the_table_of_powers_is_rounded_down_and_goes_on_while_it_is_at_least_one():
    with localcontext() as context:
        context.prec = 50
        for step in (0, 1, 2, 1000, 1024, 7777, 20_000, len(POWERS) - 2, len(POWERS) - 1):
            assert POWERS[step] == int(2**30 * (Decimal(-step) / SCORE_STEPS).exp())
        assert POWERS[-1] >= 1 > 2**30 * (Decimal(-len(POWERS)) / SCORE_STEPS).exp()
    assert (np.diff(POWERS) <= 0).all()


@FIXED
@given(scored(), SEEDS)
def test_weights_and_residuals_are_those_of_the_softmax_in_whole_units(table, seed):
    n_classes, labels, scores = table
    weights, nodes = weights_of(labels, scores), np.random.default_rng(seed).integers(0, 6, len(labels))
    assert ((weights >= 0) & (weights <= MOST_WEIGHT)).all()
    leaves = np.zeros((6, n_classes + 1), dtype=np.int64)
    for weight, label, record, node in zip(weights, labels, scores, nodes, strict=True):
        *missed, own = residuals_of(classes(n_classes), label, record).tolist()
        leaves[node] += [*missed, own]
        exact, exact_weight = naive.residuals(record.tolist(), label)
        # The table of powers is good to one part in 2**30, which can pass a whole number either way.
        assert MOST_WEIGHT * exact_weight - 1 - 1e-3 < weight <= MOST_WEIGHT * exact_weight + 1e-3
        assert own == weight
        assert sum(missed) == 0
        assert 0 <= missed[label] <= MOST_WEIGHT
        for place, part in enumerate(missed):
            assert part <= 0 or place == label
            slack = 1 if place != label else n_classes - 1
            assert abs(part - MOST_WEIGHT * exact[place]) < slack + 1e-3
    counter = scored_counter(classes(n_classes), labels, scores, nodes)
    assert opened(counter.sum_residuals(1, 3)).tolist() == leaves[1:4].tolist()
    assert (counter.most_per_feature, counter.most_per_node) == (1, 1)
    counter.weigh_residuals()
    assert counter._weights.tolist() == [weights.tolist()]
    assert (counter.most_per_feature, counter.most_per_node) == (MOST_WEIGHT, MOST_WEIGHT)
    put_at(counter, nodes)
    assert (counter.most_per_feature, counter.most_per_node) == (1, 1)
    assert counter._weights.size == 0


@pytest.mark.parametrize("n_classes", [2, 300, MOST_CLASSES])
def test_residuals_of_as_many_classes_as_are_accepted_do_not_overflow(n_classes):
    assert Sequential((Phase(1.0, 2),)).accepts(classes(n_classes))
    rng = np.random.default_rng(3)
    for scores in (np.zeros(n_classes, dtype=int), rng.integers(-600, 600, n_classes), -9 * (np.arange(n_classes) == 1)):
        expected = naive.whole_residuals(scores.tolist(), 1)
        assert (residuals_of(classes(n_classes), 1, scores) == expected).all()
        assert weights_of([1], [scores]).tolist() == expected[-1:]


def test_more_classes_than_64_bits_have_room_for_are_refused():
    assert not Sequential((Phase(1.0, 2),)).accepts(classes(MOST_CLASSES + 1))
    # All classes as likely as the best: the largest product that the kernels form.
    largest = MOST_WEIGHT * MOST_CLASSES**2 * int(POWERS[0])
    assert largest < 2**63


# On the borders of bins, and beyond the last.
LEADS = (-1_000, -129, -128, -65, -64, -1, 0, 1, 63, 64, 127, 128, 1_000)


@FIXED
@given(scored(), st.sampled_from([1, 2, 7, 64, 5_000]), st.sampled_from([2, 4, 10, 256]))
@example((2, np.array([0, 1, 0, 1, 1]), np.array([[0, 0], [0, 0], [64, 0], [0, -64], [65, 0]])), 64, 4)
@example((2, np.array([0, 1]), np.array([[1 << 29, -(1 << 29)]] * 2)), 1, 2)
@example((2, np.zeros(len(LEADS), dtype=int), np.array([[lead, 0] for lead in LEADS])), 64, 4)
def test_records_are_counted_by_the_lead_of_their_class_as_a_slow_twin_counts_them(table, width, n_bins):
    n_classes, labels, scores = table
    counter = scored_counter(classes(n_classes), labels, scores, nodes=np.arange(len(labels)) % 3)
    found = opened(counter.count_leads(width, n_bins))
    assert found.shape == (n_bins, n_classes)
    assert found.dtype == np.int64
    assert found.sum() == len(labels)
    if len(labels):
        assert found.tolist() == naive.count_leads(scores.tolist(), labels.tolist(), width, n_bins)
    counter.weigh_residuals()
    assert opened(counter.count_leads(width, n_bins)).tolist() == found.tolist()  # weights and nodes do not matter


def test_scores_are_sums_of_votes_and_stop_at_half_a_billion_steps():
    rng = np.random.default_rng(4)
    counter = scored_counter(classes(3), [0, 1, 2, 1], np.zeros((4, 3)))
    expected = np.zeros((4, 3), dtype=object)
    for _ in range(12):
        nodes, votes = rng.integers(0, 5, 4), rng.integers(-(1 << 27), 1 << 27, size=(5, 3))
        put_at(counter, nodes).add_scores(votes.astype(np.int32))
        expected = expected + votes[nodes]
    assert np.abs(expected).max() < 1 << 29
    assert counter._scores.T.tolist() == expected.tolist()
    for sign in (1, -1):
        for _ in range(3):
            counter.add_scores(np.full((5, 3), sign * ((1 << 31) - 1), dtype=np.int32))
        assert (counter._scores == sign * (1 << 29)).all()


# --- a bounded target -----------------------------------------------------------------------------------------------

fine_values = st.lists(st.one_of(st.integers(0, FINE_STEPS), st.sampled_from([0, FINE_STEPS, 32, 31, 33])), max_size=9)


def residual_code(fine, score, half):
    """The step at which what is left of a value is seen."""
    seen = fine - score + half
    return min(max(seen, 0), 2 * half) * TARGET_STEPS // (2 * half)


@FIXED
@given(fine_values, st.sampled_from([1, 3, 1024, FINE_STEPS // 4, FINE_STEPS]), SEEDS)
def test_trees_see_the_nearest_step_of_the_target_grid_or_what_is_left_around_the_prediction(fine, half, seed):
    scores = np.random.default_rng(seed).integers(-FINE_STEPS // 8, FINE_STEPS, size=len(fine))
    scores[::3] = fine[::3]  # right, and seen in the middle
    counter = scored_counter(NUMBER, fine, scores)
    assert counter._target_codes.tolist() == [naive.seen_code_of(value) for value in fine]
    counter.set_residual_window(half)
    expected = [residual_code(value, int(score), half) for value, score in zip(fine, scores, strict=True)]
    assert counter._target_codes.tolist() == expected
    assert ((counter._target_codes >= 0) & (counter._target_codes <= TARGET_STEPS)).all()


@FIXED
@given(fine_values, SEEDS, st.sampled_from([1, 7, 102, TARGET_STEPS]))
def test_values_are_counted_at_their_step_or_by_their_distance_from_the_centre_of_their_node(fine, seed, reach):
    rng = np.random.default_rng(seed)
    nodes, centres = rng.integers(0, 6, len(fine)), rng.integers(0, TARGET_STEPS + 1, size=3)
    counter = scored_counter(NUMBER, fine, np.zeros(len(fine)), nodes)
    values, before = opened(counter.count_values(1, 3)), opened(counter.count_nodes(0, 6))
    assert before.sum(axis=0)[0] == len(fine)
    counter.weigh_distances(1, centres, reach)
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (MOST_WEIGHT, 1, 2)
    sides = np.zeros((3, counter.domain.total_codes, 2), dtype=np.int64)
    steps = np.zeros((3, TARGET_STEPS + 1), dtype=np.int64)
    for node, value in zip(nodes, fine, strict=True):
        if 1 <= node <= 3:
            code = naive.seen_code_of(value)
            steps[node - 1, code] += 1
            sides[node - 1, 0] += naive.side_of(code, int(centres[node - 1]), reach, MOST_WEIGHT)
    assert values.tolist() == steps.tolist()
    assert opened(counter.count_codes(1, np.ones((3, 1), dtype=bool))).tolist() == sides.tolist()
    assert opened(counter.count_nodes(0, 6)).tolist() == before.tolist()  # a record counts once, whatever its distance


def test_dealing_again_forgets_sides_and_weights():
    counter = scored_counter(NUMBER, [0, FINE_STEPS], [0, 0])
    counter.weigh_distances(0, np.array([512]), 102)
    put_at(counter, [0, 0])
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (1, 1, NUMBER.width)
    assert opened(counter.count_codes(0, np.ones((1, 1), dtype=bool)))[0, 0].tolist() == [2, 1024, 1024**2]


@pytest.mark.parametrize(
    "make", [lambda: Phase(0.0, 1), lambda: Phase(1.5, 1), lambda: Phase(1.0, 0), lambda: SequentialMeans(half_width=2.0)]
)
def test_a_phase_without_share_or_trees_and_a_window_wider_than_the_target_are_refused(make):
    with pytest.raises(ParameterError):
        make()


# --- residuals that are spread over codes -----------------------------------------------------------------------------


def spread_table():
    """Records of three classes at some of five nodes, with their residuals spread."""
    rng, target, n_records = np.random.default_rng(0), classes(3), 60
    domain = Domain.of(Schema({f"x{k}": Numeric(0, 1 + k, integer=True) for k in range(3)}, target), Grid())
    labels, scores = rng.integers(0, 3, n_records), rng.integers(-2000, 2000, (n_records, 3))
    nodes, codes = rng.integers(0, 5, n_records), random_codes(domain, n_records, rng)
    counter = scored_counter(target, labels, scores, nodes, codes, domain)
    counter.spread_residuals()
    return counter, labels, nodes


@pytest.mark.parametrize("is_weighted", [False, True])
def test_records_with_spread_residuals_count_once_in_their_nodes(is_weighted):
    counter, labels, nodes = spread_table()
    if is_weighted:
        put_at(counter, nodes).weigh_residuals()
        counter.spread_residuals()
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (MOST_WEIGHT, 1, 4)
    expected = [[int(((nodes == node) & (labels == c)).sum()) for c in range(3)] for node in range(5)]
    assert opened(counter.count_nodes(0, 5)).tolist() == expected


def test_dealing_again_forgets_residuals_and_several_trees_have_none():
    counter, labels, _ = spread_table()
    counter.deal(AllTrees(1), Entropy(0))
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (1, 1, 3)
    counts = opened(counter.count_codes(0, np.ones((1, 3), dtype=bool)))
    begin, end = counter.domain.offsets[:2]
    assert counts[0, begin:end].sum(axis=0).tolist() == np.bincount(labels, minlength=3).tolist()
    counter.deal(AllTrees(2), Entropy(0))
    with pytest.raises(ParameterError, match="one tree at a time"):
        counter.spread_residuals()
    assert (counter.most_per_feature, counter.code_width) == (1, 3)


# --- other records ----------------------------------------------------------------------------------------------------

# Around the widths of vector instructions, so that the tail of a vectorised loop would show.
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000)


def seen_of_classes(target, labels, scores):
    """All that is known about each record, one row each: its weight, and what it adds to a node of its own."""
    n_records = len(labels)
    counter = scored_counter(target, labels, scores, np.arange(n_records))
    counter.weigh_residuals()
    weighed = [counter._weights[0], opened(counter.sum_residuals(0, n_records)), opened(counter.count_nodes(0, n_records))]
    counter.spread_residuals()
    spread = opened(counter.count_codes(0, np.ones((n_records, 1), dtype=bool)))
    return np.column_stack([*weighed, counter._residuals, spread[:, 0], opened(counter.count_nodes(0, n_records))])


def seen_of_numbers(target, fine, scores):
    """As above: what is seen of it, its side and its weight, before and after a prediction."""
    n_records, seen = len(fine), []
    centres, reach = np.array([100, 512, 900]), 102
    counter = scored_counter(target, fine, scores, np.arange(n_records) % 3)
    for change in (lambda: None, lambda: counter.set_residual_window(16_384)):
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
