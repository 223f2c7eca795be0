"""Every criterion and every leaf moves by at most its stated bound when one record is added, and nearly reaches it."""

import itertools
import math

import numpy as np
import pytest
from tests.support.targets import classes

from dpforest.errors import ParameterError
from dpforest.parts.criteria import Balance, EntropyCount, GiniCount, MaxOperator, Mixture, SoftAgreement, SquaredError
from dpforest.parts.criteria.entropy import UNITS as ENTROPY_UNITS
from dpforest.parts.criteria.gini import UNITS as GINI_UNITS
from dpforest.parts.criteria.squared_error import UNITS as ERROR_UNITS
from dpforest.parts.leaves import NoisyCounts, NoisyMargin, PrivateLabel, TwoBinMean
from dpforest.privacy.base import Bound, Sensitivity
from dpforest.privacy.sealed import Sealed
from dpforest.schema import TARGET_STEPS, Bounded, Classes

# (children, classes, most records): the shapes whose tables are all enumerated.
SHAPES = [(2, 2, 16), (2, 3, 7), (3, 2, 8), (3, 3, 5)]
CLASS_CRITERIA = {
    "gini": GiniCount(),
    "max": MaxOperator(),
    "entropy-to-1": EntropyCount(n_max=1),
    "entropy-to-12": EntropyCount(n_max=12),
    "entropy-to-1000": EntropyCount(n_max=1000),
    "entropy": EntropyCount(),
    "balance": Balance(),
    "gini+max/2": Mixture(((GiniCount(), 16), (MaxOperator(), 8))),
    "gini+4max": Mixture(((GiniCount(), 16), (MaxOperator(), 64))),
    "gini+3balance": Mixture(((GiniCount(), 1), (Balance(), 3))),
    "entropy+max+balance": Mixture(((EntropyCount(n_max=12), 2), (MaxOperator(), 1), (Balance(), 1))),
    "nested": Mixture(((Mixture(((GiniCount(), 2), (MaxOperator(), 1))), 3), (Balance(), 2))),
}
VALUE_CRITERIA = {
    "squared-error": SquaredError(),
    "value-balance": Balance(),
    "squared-error+balance/16": Mixture(((SquaredError(), 16), (Balance(), 1))),
    "squared-error+2balance": Mixture(((SquaredError(), 1), (Balance(), 2))),
}
VALUES = (0, 1, 1000, TARGET_STEPS // 2, TARGET_STEPS - 1, TARGET_STEPS)
TARGET = Bounded(-3.0, 5.0)


def all_tables(n_children: int, n_classes: int, most: int) -> np.ndarray:
    """All tables of counts ``(n_tables, n_children, n_classes)`` with at most ``most`` records."""
    n_cells = n_children * n_classes
    tables = np.zeros((1, 0), dtype=np.int64)
    for _ in range(n_cells):
        longer = [np.insert(tables, tables.shape[1], count, axis=1) for count in range(most + 1)]
        tables = np.concatenate(longer)
        tables = tables[tables.sum(axis=1) <= most]
    return tables.reshape(-1, n_children, n_classes)


def one_more_record(tables: np.ndarray) -> list[np.ndarray]:
    """The tables with one record added, once for each child and class."""
    cells = itertools.product(range(tables.shape[1]), range(tables.shape[2]))
    added = []
    for child, label in cells:
        more = tables.copy()
        more[:, child, label] += 1
        added.append(more)
    return added


def sums_of(values: tuple[int, ...]) -> tuple[int, int, int]:
    return len(values), sum(values), sum(value * value for value in values)


def value_tables() -> np.ndarray:
    """Two children of a bounded target: one runs through all small multisets of values, the other through a few."""
    multisets = [m for n in range(6) for m in itertools.combinations_with_replacement(VALUES, n)]
    beside = [(), (0,), (1, TARGET_STEPS - 1), (TARGET_STEPS,) * 7]
    return np.array([[sums_of(a), sums_of(b)] for a in multisets for b in beside])


def value_moves(criterion) -> np.ndarray:
    tables = value_tables()
    before = criterion.score(tables, TARGET)
    moves = []
    for child, value in itertools.product(range(2), VALUES):
        more = tables.copy()
        more[:, child] += (1, value, value * value)
        moves.append(criterion.score(more, TARGET) - before)
    return np.concatenate(moves)


def class_moves(criterion) -> np.ndarray:
    moves = []
    for n_children, n_classes, most in SHAPES:
        tables = all_tables(n_children, n_classes, most)
        before = criterion.score(tables, classes(n_classes))
        moves += [criterion.score(more, classes(n_classes)) - before for more in one_more_record(tables)]
    return np.concatenate(moves)


def assert_within(moves: np.ndarray, bound: Bound) -> None:
    assert moves.dtype == np.int64
    assert bound.low <= moves.min()
    assert moves.max() <= bound.high
    if bound.monotone:
        assert (moves >= 0).all() or (moves <= 0).all()


@pytest.mark.parametrize("name", CLASS_CRITERIA)
def test_adding_any_record_to_any_small_table_moves_the_score_within_its_bound(name):
    criterion = CLASS_CRITERIA[name]
    assert_within(class_moves(criterion), criterion.bound())


@pytest.mark.parametrize("name", VALUE_CRITERIA)
def test_adding_any_value_to_any_small_child_moves_the_score_within_its_bound(name):
    criterion = VALUE_CRITERIA[name]
    assert_within(value_moves(criterion), criterion.bound())


@pytest.mark.parametrize("name", CLASS_CRITERIA)
def test_random_tables_of_up_to_a_billion_records_move_within_the_bound(name):
    criterion, rng = CLASS_CRITERIA[name], np.random.default_rng(11)
    scale = 2.0 ** rng.uniform(0, 29, size=(20_000, 1, 1))
    tables = (rng.random((20_000, 2, 3)) * scale * (rng.random((20_000, 2, 3)) < 0.6)).astype(np.int64)
    before = criterion.score(tables, classes(3))
    for more in one_more_record(tables):
        assert_within(criterion.score(more, classes(3)) - before, criterion.bound())


@pytest.mark.parametrize("name", VALUE_CRITERIA)
def test_random_children_of_up_to_a_billion_values_move_within_the_bound(name):
    criterion, rng = VALUE_CRITERIA[name], np.random.default_rng(12)
    repeats = (2.0 ** rng.uniform(0, 28, size=(20_000, 2, 4))).astype(np.int64)
    values = rng.integers(0, TARGET_STEPS + 1, size=(20_000, 2, 4))
    tables = np.stack([repeats.sum(-1), (repeats * values).sum(-1), (repeats * values**2).sum(-1)], axis=-1)
    before = criterion.score(tables, TARGET)
    for value in VALUES:
        more = tables.copy()
        more[:, 0] += (1, value, value * value)
        assert_within(criterion.score(more, TARGET) - before, criterion.bound())


def test_entropy_stays_within_its_bound_on_counts_far_beyond_n_max():
    rng = np.random.default_rng(13)
    tables = rng.integers(0, 10_000_000, size=(5_000, 2, 3)) * rng.integers(0, 2, size=(5_000, 2, 3))
    for n_max in (1, 2, 8, 100, 129, 5_000):
        criterion = EntropyCount(n_max=n_max)
        before = criterion.score(tables, classes(3))
        for more in one_more_record(tables):
            assert_within(criterion.score(more, classes(3)) - before, criterion.bound())


def moves_of_two_candidates(criterion, size: int) -> tuple[int, int]:
    """How the same record, of the second class, moves two splits of the same node.

    The first split puts it with ``size`` records of the other class, the largest child; the second puts it with its own
    kind, in the smaller child.
    """
    before, with_others, with_own = np.array(
        [[[size, 0], [0, size // 2]], [[size, 1], [0, size // 2]], [[size, 0], [0, size // 2 + 1]]]
    )
    scores = [int(criterion.score(table, classes(2))) for table in (before, with_others, with_own)]
    return scores[1] - scores[0], scores[2] - scores[0]


@pytest.mark.parametrize("name", CLASS_CRITERIA)
def test_a_width_ten_percent_smaller_would_be_passed_by_two_splits_of_one_node(name):
    criterion = CLASS_CRITERIA[name]
    first, second = moves_of_two_candidates(criterion, 1 << 20 if name == "entropy" else 1000)
    assert 0.9 * criterion.bound().width < second - first <= criterion.bound().width


@pytest.mark.parametrize("name", VALUE_CRITERIA)
def test_a_width_ten_percent_smaller_would_be_passed_by_two_splits_of_a_bounded_target(name):
    criterion = VALUE_CRITERIA[name]
    low, high, record = sums_of((0,) * 60), sums_of((TARGET_STEPS,) * 30), sums_of((TARGET_STEPS,))
    before = int(criterion.score(np.array([low, high]), TARGET))
    with_others = int(criterion.score(np.array([np.add(low, record), high]), TARGET)) - before
    with_own = int(criterion.score(np.array([low, np.add(high, record)]), TARGET)) - before
    assert 0.9 * criterion.bound().width < with_own - with_others <= criterion.bound().width


@pytest.mark.parametrize("name", [name for name in CLASS_CRITERIA if name not in ("entropy-to-1000", "entropy")])
def test_small_tables_alone_nearly_reach_both_ends_of_the_bound(name):
    moves, bound = class_moves(CLASS_CRITERIA[name]), CLASS_CRITERIA[name].bound()
    assert moves.max() - moves.min() > 0.9 * bound.width


# As SHAPES, of weights; one child alone has many, since a heavy record nearly reaches the bound only beside many others.
WEIGHTED_SHAPES = [(1, 2, 70), (1, 3, 14), (2, 2, 12), (2, 3, 6), (3, 2, 7)]
WEIGHTED_GINI = {name: CLASS_CRITERIA[name] for name in ("gini", "gini+max/2", "gini+3balance", "nested")}


def weighted_moves(criterion, most: int) -> np.ndarray:
    """How a record of each weight up to ``most`` moves the score of all small tables of weights."""
    moves = []
    for n_children, n_classes, largest in WEIGHTED_SHAPES:
        tables = all_tables(n_children, n_classes, largest)
        before = criterion.score(tables, classes(n_classes))
        for child, label, weight in itertools.product(range(n_children), range(n_classes), range(most + 1)):
            more = tables.copy()
            more[:, child, label] += weight
            moves.append(criterion.score(more, classes(n_classes)) - before)
    return np.concatenate(moves)


@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize("name", WEIGHTED_GINI)
def test_adding_a_record_of_any_weight_to_any_small_table_moves_gini_within_its_bound(name, most):
    moves, bound = weighted_moves(WEIGHTED_GINI[name], most), WEIGHTED_GINI[name].bound(most)
    assert_within(moves, bound)
    if name == "gini":
        assert bound == Bound(-2 * GINI_UNITS * most, 0)
        assert moves.max() - moves.min() > 0.9 * bound.width


@pytest.mark.parametrize("most", [3, 255])
@pytest.mark.parametrize("bits", [10, 29, 39])
def test_random_tables_of_weights_move_gini_within_its_bound_and_never_up(bits, most):
    # With 39 bits, squares of some children do not fit 64 bits; of some they do before the record comes, and not after.
    rng = np.random.default_rng([17, bits, most])
    scale = 2.0 ** rng.uniform(0, bits, size=(20_000, 1, 1))
    tables = (rng.random((20_000, 2, 3)) * scale * (rng.random((20_000, 2, 3)) < 0.6)).astype(np.int64)
    if bits > 31:
        tables[:1000, 0, 1:] %= 2**20
        tables[:1000, 0, 0] = 2**31 - tables[:1000, 0, 1:].sum(axis=1) - rng.integers(0, most + 1, 1000)
    before = GiniCount().score(tables, classes(3))
    for weight, (child, label) in itertools.product(sorted({1, most // 2, most}), np.ndindex(2, 3)):
        more = tables.copy()
        more[:, child, label] += weight
        assert_within(GiniCount().score(more, classes(3)) - before, GiniCount().bound(weight))


@pytest.mark.parametrize("most", [2, 3, 255])
@pytest.mark.parametrize("name", WEIGHTED_GINI)
def test_a_width_ten_percent_smaller_would_be_passed_by_a_heavy_record_in_two_splits_of_one_node(name, most):
    criterion, size = WEIGHTED_GINI[name], 1000 * most
    before, with_others, with_own = np.array(
        [[[size, 0], [0, size // 2]], [[size, most], [0, size // 2]], [[size, 0], [0, size // 2 + most]]]
    )
    scores = [int(criterion.score(table, classes(2))) for table in (before, with_others, with_own)]
    width = criterion.bound(most).width
    assert 0.9 * width < scores[2] - scores[1] <= width


def real_gini(table: np.ndarray) -> float:
    return -sum(sum(row) - sum(c * c for c in row) / sum(row) for row in table.tolist() if sum(row))


def real_entropy(table: np.ndarray) -> float:
    g = lambda x: x * math.log(x) if x else 0.0  # noqa: E731
    return -sum(g(sum(row)) - sum(g(c) for c in row) for row in table.tolist())


def test_gini_is_the_real_score_rounded_down_by_less_than_one_unit_a_child():
    for n_children, n_classes, most in SHAPES:
        tables = all_tables(n_children, n_classes, min(most, 6))
        scores = GiniCount().score(tables, classes(n_classes))
        real = GINI_UNITS * np.array([real_gini(table) for table in tables])
        assert (scores <= real + 1e-9).all()
        assert (scores > real - n_children).all()


def test_entropy_is_the_real_score_within_one_unit_a_record():
    for n_children, n_classes, most in SHAPES:
        tables = all_tables(n_children, n_classes, min(most, 6))
        scores = EntropyCount().score(tables, classes(n_classes))
        real = ENTROPY_UNITS * np.array([real_entropy(table) for table in tables])
        assert (np.abs(scores - real) <= tables.sum(axis=(1, 2)) + 1e-9).all()


def test_entropy_of_large_tables_is_within_two_percent_of_a_nat_a_record():
    rng = np.random.default_rng(14)
    tables = (2.0 ** rng.uniform(5, 17, size=(300, 2, 3))).astype(np.int64)
    scores = EntropyCount().score(tables, classes(3)) / ENTROPY_UNITS
    real = np.array([real_entropy(table) for table in tables])
    assert (np.abs(scores - real) <= 0.02 * tables.sum(axis=(1, 2))).all()


def test_max_operator_and_balance_are_their_formulas_exactly():
    for n_children, n_classes, most in SHAPES:
        tables = all_tables(n_children, n_classes, min(most, 6))
        majority = [sum(max(row) for row in table) for table in tables.tolist()]
        outside = [sum(map(sum, table)) - max(map(sum, table)) for table in tables.tolist()]
        assert MaxOperator().score(tables, classes(n_classes)).tolist() == majority
        assert Balance().score(tables, classes(n_classes)).tolist() == outside


def test_balance_of_two_children_is_the_smaller_one():
    tables = all_tables(2, 2, 8)
    assert (Balance().score(tables, classes(2)) == tables.sum(axis=2).min(axis=1)).all()


def test_squared_error_is_the_real_score_rounded_by_at_most_one_unit_and_a_step_a_child():
    multisets = [m for n in range(6) for m in itertools.combinations_with_replacement(VALUES, n)]
    tables = np.array([[sums_of(a), sums_of((7, 4000))] for a in multisets])
    scores = SquaredError().score(tables, TARGET)
    beside = np.var([7, 4000]) * 2
    real = np.array([(np.var(m) * len(m) if m else 0.0) + beside for m in multisets]) / TARGET_STEPS**2
    assert (scores / ERROR_UNITS >= -real - 1e-9).all()
    assert (scores / ERROR_UNITS <= -real + 2 * (1 / ERROR_UNITS + 1 / TARGET_STEPS**2)).all()


def test_huge_counts_do_not_overflow_the_gini_score():
    rng = np.random.default_rng(15)
    for table in rng.integers(0, 2**30, size=(200, 2, 2)):
        exact = sum((64 * sum(c * c for c in row)) // sum(row) - 64 * sum(row) for row in table.tolist())
        assert int(GiniCount().score(table, classes(2))) == exact


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("bits", [31, 32, 36, 40])
def test_the_gini_score_of_weights_beyond_what_squares_fit_is_exact(bits, n_classes):
    rng = np.random.default_rng([18, bits, n_classes])
    tables = rng.integers(0, 2**bits, size=(300, 2, n_classes)) * rng.integers(0, 2, size=(300, 2, n_classes))
    tables[:100] >>= rng.integers(0, bits, size=(100, 2, n_classes))
    tables[100:103, 0] = 2**bits - 1
    tables[103, 0] = [2**bits - 1, *[0] * (n_classes - 1)]
    tables[104, 0] = [2**bits - 1, 1, *[0] * (n_classes - 2)]
    # Sizes at the edge where squares are taken apart: one below it, on it and one above.
    for index, size in enumerate([2**31 - 1, 2**31, 2**31 + 1]):
        first = 2**31 // 3 + index
        tables[105 + index, 1] = [first, size - first, *[0] * (n_classes - 2)]
    exact = [
        sum((64 * sum(c * c for c in row)) // sum(row) - 64 * sum(row) for row in table if sum(row))
        for table in tables.tolist()
    ]
    assert GiniCount().score(tables, classes(n_classes)).tolist() == exact


def test_huge_counts_do_not_overflow_the_squared_error():
    rng = np.random.default_rng(16)
    for n, share in zip(rng.integers(2**29, 2**31, size=200).tolist(), rng.random(200), strict=True):
        high = int(n * share)
        child = (n, TARGET_STEPS * high, TARGET_STEPS**2 * high)
        floor_of_error = child[2] - -(-(child[1] ** 2) // n)
        exact = -(64 * floor_of_error // TARGET_STEPS**2)
        assert int(SquaredError().score(np.array([child, (0, 0, 0)]), TARGET)) == exact


def test_a_mixture_weighs_its_parts_by_their_widths():
    mixture = Mixture(((GiniCount(), 16), (MaxOperator(), 8)))
    tables = all_tables(2, 2, 6)
    parts = GiniCount().score(tables, classes(2)) / 128 + MaxOperator().score(tables, classes(2)) / 2
    unit = mixture.bound().width / 1.5
    np.testing.assert_allclose(mixture.score(tables, classes(2)), unit * parts, rtol=1e-12)


class RecordingGate:
    """Stands for the gate: keeps what it is handed, releases zeros."""

    def __init__(self):
        self.seen: list[np.ndarray] = []
        self.sensitivity: Sensitivity | None = None
        self.bound: Bound | None = None

    def add_noise(self, values: Sealed, sensitivity: Sensitivity, amount: float, label: str):
        values.map(lambda array: self.seen.append(array.copy()))
        self.sensitivity = sensitivity
        return np.zeros(self.seen[-1].shape, dtype=np.int64), 1.0

    def select(self, scores: Sealed, valid, bound: Bound, amount: float, label: str, mechanism=None):
        assert valid is None
        scores.map(lambda array: self.seen.append(array.copy()))
        self.bound = bound
        return np.zeros(len(self.seen[-1]), dtype=np.int64)


def handed_over(leaf, statistics: np.ndarray, target) -> tuple[np.ndarray, RecordingGate]:
    gate = RecordingGate()
    leaf.release(Sealed(statistics), 1.0, gate, target, "leaves")
    (seen,) = gate.seen
    return seen, gate


def leaf_tables(target) -> list[tuple[np.ndarray, np.ndarray]]:
    """Neighbouring statistics ``(n_leaves, width)`` of two leaves."""
    if isinstance(target, Bounded):
        pairs = []
        for table, leaf, value in itertools.product(value_tables()[::40], range(2), VALUES):
            more = table.copy()
            more[leaf] += (1, value, value * value)
            pairs.append((table, more))
        return pairs
    tables = all_tables(2, target.width, 4)
    return [pair for more in one_more_record(tables) for pair in zip(tables, more, strict=True)]


@pytest.mark.parametrize(
    ("leaf", "target"),
    [(NoisyCounts(), classes(2)), (NoisyCounts(), classes(3)), (NoisyMargin(), classes(2)), (TwoBinMean(), TARGET)],
    ids=["counts-of-2", "counts-of-3", "margin", "two-bin-mean"],
)
def test_a_record_moves_what_a_leaf_gets_noised_by_at_most_the_stated_norms_and_nearly_that(leaf, target):
    most_l1 = most_l2_squared = 0
    for table, more in leaf_tables(target):
        before, gate = handed_over(leaf, table, target)
        after, _ = handed_over(leaf, more, target)
        assert before.dtype == np.int64
        move = (after - before).ravel()
        most_l1 = max(most_l1, int(np.abs(move).sum()))
        most_l2_squared = max(most_l2_squared, int(np.square(move).sum()))
    assert 0.9 * gate.sensitivity.l1 < most_l1 <= gate.sensitivity.l1
    assert 0.9 * gate.sensitivity.l2_squared < most_l2_squared <= gate.sensitivity.l2_squared


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_record_moves_the_scores_of_labels_within_their_bound_and_in_one_leaf(n_classes):
    spreads = []
    for table, more in leaf_tables(classes(n_classes)):
        before, gate = handed_over(PrivateLabel(), table, classes(n_classes))
        after, _ = handed_over(PrivateLabel(), more, classes(n_classes))
        move = after - before
        assert_within(move, gate.bound)
        assert np.count_nonzero(move.any(axis=1)) == 1
        spreads.append(int((move.max(axis=1) - move.min(axis=1)).max()))
    assert 0.9 * gate.bound.width < max(spreads) <= gate.bound.width


@pytest.mark.parametrize(
    ("leaf", "target"),
    [(NoisyCounts(), classes(3)), (NoisyMargin(), classes(2)), (PrivateLabel(), classes(3)), (TwoBinMean(), TARGET)],
    ids=["counts", "margin", "label", "two-bin-mean"],
)
def test_an_empty_leaf_is_released_like_any_other(leaf, target):
    statistics = np.zeros((3, target.width), dtype=np.int64)
    seen, _ = handed_over(leaf, statistics, target)
    assert len(seen) == 3
    counts, _ = leaf.release(Sealed(statistics), 1.0, RecordingGate(), target, "leaves")
    assert counts.shape == (3, target.n_values)


@pytest.mark.parametrize(
    "parts", [(), ((GiniCount(), 0),), ((GiniCount(), 0.5),), ((SquaredError(), 1), (SoftAgreement(), 1))]
)
def test_a_mixture_whose_bound_would_not_be_the_sum_of_its_parts_is_refused(parts):
    with pytest.raises(ParameterError, match="A mixture needs criteria"):
        Mixture(parts)


@pytest.mark.parametrize("target", [classes(3), TARGET])
def test_balance_is_for_every_target_and_a_mixture_for_what_all_its_parts_accept(target):
    assert Balance().accepts(target)
    assert Mixture(((Balance(), 1), (GiniCount(), 1))).accepts(target) == isinstance(target, Classes)
