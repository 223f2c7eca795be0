"""What additive trees see of records, in integers, equals slow twins: weights, residuals, windows, sides, values."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import opened
from tests.support.strategies import FIXED, SEEDS, put_at, scored_counter
from tests.support.targets import NUMBER, classes

from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT
from dpforest.records.memory import scores as kernels
from dpforest.records.residuals import PAIR_WEIGHTS, POWERS
from dpforest.schema import FINE_STEPS, TARGET_STEPS

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


@pytest.mark.parametrize("step", [0, 1, 2, 1000, 1024, 7777, 20_000, len(POWERS) - 2, len(POWERS) - 1])
def test_the_table_of_powers_is_rounded_down_and_goes_on_while_it_is_at_least_one(step):
    with localcontext() as context:
        context.prec = 50
        exact = 2**30 * (Decimal(-step) / SCORE_STEPS).exp()
        beyond = 2**30 * (Decimal(-len(POWERS)) / SCORE_STEPS).exp()
    assert POWERS[step] == int(exact)
    assert POWERS[-1] >= 1 > beyond
    assert (np.diff(POWERS) <= 0).all()


@FIXED
@given(scored())
def test_weights_are_those_of_the_softmax_rounded_down_to_one_byte(table):
    _, labels, scores = table
    weights = weights_of(labels, scores)
    assert ((weights >= 0) & (weights <= MOST_WEIGHT)).all()
    for weight, label, record in zip(weights, labels, scores.tolist(), strict=True):
        exact = MOST_WEIGHT * naive.residuals(record, label)[1]
        # The table of powers is good to one part in 2**30, which can pass a whole number either way.
        assert exact - 1 - 1e-3 < weight <= exact + 1e-3


@FIXED
@given(scored())
def test_shards_weigh_records_as_the_kernel_does_and_say_so(table):
    n_classes, labels, scores = table
    counter = scored_counter(classes(n_classes), labels, scores)
    assert (counter.most_per_feature, counter.most_per_node) == (1, 1)
    counter.weigh_residuals()
    assert counter._weights.tolist() == [weights_of(labels, scores).tolist()]
    assert (counter.most_per_feature, counter.most_per_node) == (MOST_WEIGHT, MOST_WEIGHT)
    put_at(counter, np.zeros(len(labels)))
    assert (counter.most_per_feature, counter.most_per_node) == (1, 1)
    assert counter._weights.size == 0


@pytest.mark.parametrize("n_classes", [2, 3, 7, 10, 255, 1000])
@pytest.mark.parametrize("score", [0, -5, 1 << 29, -(1 << 29)])
def test_before_any_tree_speaks_every_record_has_full_weight_and_residuals_are_its_class(n_classes, score):
    scores = np.full((n_classes, n_classes), score)
    assert (weights_of(np.arange(n_classes), scores) == MOST_WEIGHT).all()
    missed = residuals_of(classes(n_classes), 1, scores[0])
    share = MOST_WEIGHT // (n_classes - 1)
    assert missed[1] == (n_classes - 1) * share
    assert (np.delete(missed[:-1], 1) == -share).all()
    assert missed[-1] == MOST_WEIGHT


def test_a_record_that_the_trees_are_sure_about_weighs_nothing_and_one_they_are_wrong_about_everything():
    scores = [[30_000, 0, 0]]
    assert weights_of([0], scores) == [0]
    assert weights_of([1], scores) == [MOST_WEIGHT]
    # Being as wrong as a guess is enough for full weight; less wrong is less.
    assert weights_of([1], [[1, 0, 0]]) == [MOST_WEIGHT]
    assert weights_of([0], [[1, 0, 0]]) < MOST_WEIGHT


@FIXED
@given(scored())
def test_residuals_sum_to_zero_and_only_that_of_the_own_class_is_above_it(table):
    n_classes, labels, scores = table
    for label, record in zip(labels, scores, strict=True):
        *missed, weight = residuals_of(classes(n_classes), label, record).tolist()
        others = missed[:label] + missed[label + 1 :]
        assert sum(missed) == 0
        assert max(others) <= 0
        assert 0 <= missed[label] <= MOST_WEIGHT
        assert weight == weights_of([label], [record])[0]


@FIXED
@given(scored())
def test_residuals_are_those_of_the_softmax_within_one_unit_a_class(table):
    n_classes, labels, scores = table
    for label, record in zip(labels, scores, strict=True):
        *missed, _ = residuals_of(classes(n_classes), label, record).tolist()
        exact, _ = naive.residuals(record.tolist(), label)
        for place_, part in enumerate(missed):
            slack = 1 if place_ != label else n_classes - 1
            assert abs(part - MOST_WEIGHT * exact[place_]) < slack + 1e-3


@FIXED
@given(scored(), SEEDS)
def test_residuals_of_a_leaf_are_the_sums_over_its_records_and_others_are_left_out(table, seed):
    n_classes, labels, scores = table
    nodes = np.random.default_rng(seed).integers(0, 6, len(labels))
    found = opened(scored_counter(classes(n_classes), labels, scores, nodes).sum_residuals(1, 3))
    expected = np.zeros((3, n_classes + 1), dtype=np.int64)
    for node, label, record in zip(nodes, labels, scores, strict=True):
        if 1 <= node <= 3:
            expected[node - 1] += residuals_of(classes(n_classes), label, record)
    assert found.tolist() == expected.tolist()


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


@FIXED
@given(scored(), st.sampled_from([1, 2, 7, 64, 5_000]), st.sampled_from([2, 4, 10, 256]))
@example((2, np.array([0, 1, 0, 1, 1]), np.array([[0, 0], [0, 0], [64, 0], [0, -64], [65, 0]])), 64, 4)
@example((2, np.array([0, 1]), np.array([[1 << 29, -(1 << 29)]] * 2)), 1, 2)
def test_records_are_counted_by_the_lead_of_their_class_as_a_slow_twin_counts_them(table, width, n_bins):
    n_classes, labels, scores = table
    found = opened(scored_counter(classes(n_classes), labels, scores).count_leads(width, n_bins))
    assert found.shape == (n_bins, n_classes)
    assert found.dtype == np.int64
    assert found.sum() == len(labels)
    if len(labels):
        assert found.tolist() == naive.count_leads(scores.tolist(), labels.tolist(), width, n_bins)


def test_a_lead_on_the_border_of_two_bins_is_in_the_upper_one_and_the_ends_take_in_all_beyond():
    leads = [-1_000, -129, -128, -65, -64, -1, 0, 1, 63, 64, 127, 128, 1_000]
    scores = [[lead, 0] for lead in leads]
    counts = opened(scored_counter(classes(2), [0] * len(leads), scores).count_leads(64, 4))
    assert counts.tolist() == [[4, 0], [2, 0], [3, 0], [4, 0]]


def test_leads_do_not_depend_on_weights_or_on_where_records_are():
    labels, scores = [0, 1, 1], [[5, -5], [5, -5], [-9, 3]]
    counter = scored_counter(classes(2), labels, scores, nodes=[4, 0, 2])
    before = opened(counter.count_leads(2, 8)).tolist()
    counter.weigh_residuals()
    assert opened(counter.count_leads(2, 8)).tolist() == before


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


@FIXED
@given(fine_values)
def test_trees_see_the_nearest_step_of_the_target_grid(fine):
    counter = scored_counter(NUMBER, fine, np.zeros(len(fine)))
    assert counter._target_codes.tolist() == [naive.seen_code_of(value) for value in fine]
    assert ((counter._target_codes >= 0) & (counter._target_codes <= TARGET_STEPS)).all()


def residual_code(fine, score, half):
    """The step at which what is left of a value is seen."""
    seen = fine - score + half
    return min(max(seen, 0), 2 * half) * TARGET_STEPS // (2 * half)


@FIXED
@given(fine_values, st.sampled_from([1, 3, 1024, FINE_STEPS // 4, FINE_STEPS]), SEEDS)
def test_residuals_are_seen_around_the_prediction(fine, half, seed):
    scores = np.random.default_rng(seed).integers(-FINE_STEPS // 8, FINE_STEPS, size=len(fine))
    counter = scored_counter(NUMBER, fine, scores)
    counter.set_residual_window(half)
    expected = [residual_code(value, int(score), half) for value, score in zip(fine, scores, strict=True)]
    assert counter._target_codes.tolist() == expected
    assert ((counter._target_codes >= 0) & (counter._target_codes <= TARGET_STEPS)).all()


def test_a_prediction_that_is_right_is_seen_in_the_middle():
    counter = scored_counter(NUMBER, [1000, 40_000, FINE_STEPS], [1000, 40_000, FINE_STEPS])
    counter.set_residual_window(FINE_STEPS // 4)
    assert counter._target_codes.tolist() == [TARGET_STEPS // 2] * 3


@FIXED
@given(fine_values, SEEDS, st.sampled_from([1, 7, 102, TARGET_STEPS]))
def test_records_count_on_the_side_of_the_centre_of_their_node_by_their_distance(fine, seed, reach):
    rng = np.random.default_rng(seed)
    nodes, centres = rng.integers(0, 6, len(fine)), rng.integers(0, TARGET_STEPS + 1, size=3)
    counter = scored_counter(NUMBER, fine, np.zeros(len(fine)), nodes)
    counter.weigh_distances(1, centres, reach)
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (MOST_WEIGHT, 1, 2)
    expected = np.zeros((3, counter.domain.total_codes, 2), dtype=np.int64)
    for node, value in zip(nodes, fine, strict=True):
        if 1 <= node <= 3:
            code = naive.seen_code_of(value)
            expected[node - 1, 0] += naive.side_of(code, int(centres[node - 1]), reach, MOST_WEIGHT)
    assert opened(counter.count_codes(1, np.ones((3, 1), dtype=bool))).tolist() == expected.tolist()


@FIXED
@given(fine_values, SEEDS)
def test_the_leaves_of_a_bounded_target_count_each_record_once_whatever_its_distance(fine, seed):
    nodes = np.random.default_rng(seed).integers(0, 3, len(fine))
    counter = scored_counter(NUMBER, fine, np.zeros(len(fine)), nodes)
    before = opened(counter.count_nodes(0, 3))
    counter.weigh_distances(0, np.array([0, 500, 1024]), 102)
    assert opened(counter.count_nodes(0, 3)).tolist() == before.tolist()
    assert before.sum(axis=0)[0] == len(fine)


@FIXED
@given(fine_values, SEEDS)
def test_values_are_counted_at_their_step_in_their_node(fine, seed):
    nodes = np.random.default_rng(seed).integers(0, 5, len(fine))
    counts = opened(scored_counter(NUMBER, fine, np.zeros(len(fine)), nodes).count_values(1, 3))
    expected = np.zeros((3, TARGET_STEPS + 1), dtype=np.int64)
    for node, value in zip(nodes, fine, strict=True):
        if 1 <= node <= 3:
            expected[node - 1, naive.seen_code_of(value)] += 1
    assert counts.tolist() == expected.tolist()


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
