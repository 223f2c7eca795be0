"""Every criterion moves by at most its stated bound when one record is added, whatever its weight, and nearly reaches it."""

import itertools

import numpy as np
import pytest
from tests.support import naive
from tests.support.targets import NUMBER, classes

from dpforest.errors import AccountingError
from dpforest.parts.criteria import (
    UNITS,
    Balance,
    EntropyCount,
    GiniCount,
    MaxOperator,
    Mixture,
    ResidualGain,
    SoftAgreement,
    SquaredError,
    WeightedMajority,
)
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema import TARGET_STEPS, Classes

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
    "weighted majority": WeightedMajority(),
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


def all_tables(n_children, n_classes, most):
    """All tables of counts ``(n_tables, n_children, n_classes)`` with at most ``most`` records."""
    tables = np.zeros((1, 0), dtype=np.int64)
    for _ in range(n_children * n_classes):
        longer = [np.insert(tables, tables.shape[1], count, axis=1) for count in range(most + 1)]
        tables = np.concatenate(longer)
        tables = tables[tables.sum(axis=1) <= most]
    return tables.reshape(-1, n_children, n_classes)


def random_tables(rng, bits):
    """Tables of all sizes up to so many bits, some cells empty."""
    scale = 2.0 ** rng.uniform(0, bits, size=(20_000, 1, 1))
    return (rng.random((20_000, 2, 3)) * scale * (rng.random((20_000, 2, 3)) < 0.6)).astype(np.int64)


def moves_of(criterion, target, tables, records):
    """How each record ``(n_records, width)`` that joins any child moves the score of each table."""
    before, moves = criterion.score(tables, target), []
    for child, record in itertools.product(range(tables.shape[1]), records):
        more = tables.copy()
        more[:, child] += record
        moves.append(criterion.score(more, target) - before)
    return np.concatenate(moves)


def class_moves(criterion, tables, weights=(1,)):
    """The same for a record of any class that has one of some weights."""
    records = [weight * one for weight in weights for one in np.eye(tables.shape[2], dtype=np.int64)]
    return moves_of(criterion, classes(tables.shape[2]), tables, records)


def sums_of(values):
    return len(values), sum(values), sum(value * value for value in values)


def assert_within(moves, bound):
    assert moves.dtype == np.int64
    assert bound.low <= moves.min()
    assert moves.max() <= bound.high


@pytest.mark.parametrize("name", CLASS_CRITERIA)
def test_a_record_moves_the_score_of_any_table_within_its_bound_and_small_ones_nearly_reach_it(name):
    criterion, bound = CLASS_CRITERIA[name], CLASS_CRITERIA[name].bound()
    moves = np.concatenate([class_moves(criterion, all_tables(*shape)) for shape in SHAPES])
    assert_within(moves, bound)
    assert_within(class_moves(criterion, random_tables(np.random.default_rng(11), 29)), bound)
    if name not in ("entropy-to-1000", "entropy"):
        assert np.ptp(moves) > 0.9 * bound.width


@pytest.mark.parametrize("name", VALUE_CRITERIA)
def test_a_value_moves_the_score_of_any_table_within_its_bound(name):
    criterion, rng = VALUE_CRITERIA[name], np.random.default_rng(12)
    multisets = [m for n in range(6) for m in itertools.combinations_with_replacement(VALUES, n)]
    beside = [(), (0,), (1, TARGET_STEPS - 1), (TARGET_STEPS,) * 7]
    small = np.array([[sums_of(a), sums_of(b)] for a in multisets for b in beside])
    repeats = (2.0 ** rng.uniform(0, 28, size=(20_000, 2, 4))).astype(np.int64)
    values = rng.integers(0, TARGET_STEPS + 1, size=(20_000, 2, 4))
    large = np.stack([repeats.sum(-1), (repeats * values).sum(-1), (repeats * values**2).sum(-1)], axis=-1)
    for tables in (small, large):
        assert_within(moves_of(criterion, NUMBER, tables, [sums_of((value,)) for value in VALUES]), criterion.bound())


def test_entropy_stays_within_its_bound_on_counts_far_beyond_n_max():
    rng = np.random.default_rng(13)
    tables = rng.integers(0, 10_000_000, size=(5_000, 2, 3)) * rng.integers(0, 2, size=(5_000, 2, 3))
    for n_max in (1, 2, 8, 100, 129, 5_000):
        assert_within(class_moves(EntropyCount(n_max=n_max), tables), EntropyCount(n_max=n_max).bound())


# --- records of any weight ------------------------------------------------------------------------------------------

WEIGHTS = (1, 2, 3, MOST_WEIGHT)
# These reach both ends of what they state in small tables, also the last two, which see sides of a centre as classes.
REACHED = {
    "max": MaxOperator(),
    "balance": Balance(),
    "3max+balance": Mixture(((MaxOperator(), 3), (Balance(), 1))),
    "nested without gini": Mixture(((Mixture(((MaxOperator(), 2), (Balance(), 1))), 2), (MaxOperator(), 5))),
    "soft agreement": SoftAgreement(),
    "2soft": Mixture(((SoftAgreement(), 2),)),
}
WEIGHTED_GINI = {name: CLASS_CRITERIA[name] for name in ("gini", "gini+max/2", "gini+3balance", "nested")}
# As SHAPES, of weights; one child alone has many, since a heavy record nearly reaches the bound only beside many others.
WEIGHTED_SHAPES = [(1, 2, 70), (1, 3, 14), (2, 2, 12), (2, 3, 6), (3, 2, 7)]


def weighted_tables(n_classes, unit):
    """Tables ``(n, 2, n_classes)`` of weights: all with few different cells, or random ones for many classes."""
    cells = sorted({0, 1, unit // 2, unit, 3 * unit + 1})
    if len(cells) ** (2 * n_classes) <= 20_000:
        return np.array(list(itertools.product(cells, repeat=2 * n_classes))).reshape(-1, 2, n_classes)
    rng = np.random.default_rng(n_classes)
    return np.concatenate(
        [rng.choice(cells, size=(15_000, 2, n_classes)), rng.integers(0, 10**7 * unit, size=(5_000, 2, n_classes))]
    )


@pytest.mark.parametrize("unit", WEIGHTS)
@pytest.mark.parametrize("name", REACHED)
def test_a_record_of_any_weight_moves_a_score_within_its_bound_and_reaches_it(name, unit):
    bound = REACHED[name].bound(unit)
    for n_classes in (2,) if "soft" in name else (2, 3, 5):
        moves = class_moves(REACHED[name], weighted_tables(n_classes, unit), sorted({0, 1, unit // 3, unit - 1, unit}))
        assert_within(moves, bound)
        assert (moves.min(), moves.max()) == (bound.low, bound.high)


@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize("name", WEIGHTED_GINI)
def test_a_record_of_any_weight_moves_gini_of_any_small_table_within_its_bound(name, most):
    criterion, bound, weights = WEIGHTED_GINI[name], WEIGHTED_GINI[name].bound(most), range(most + 1)
    moves = np.concatenate([class_moves(criterion, all_tables(*shape), weights) for shape in WEIGHTED_SHAPES])
    assert_within(moves, bound)
    assert name != "gini" or np.ptp(moves) > 0.9 * bound.width


@pytest.mark.parametrize("most", [3, MOST_WEIGHT])
@pytest.mark.parametrize("bits", [10, 29, 39])
def test_random_tables_of_weights_move_gini_within_its_bound_and_never_up(bits, most):
    # With 39 bits, squares of some children do not fit 64 bits; of some they do before the record comes, and not after.
    rng = np.random.default_rng([17, bits, most])
    tables = random_tables(rng, bits)
    if bits > 31:
        tables[:1000, 0, 1:] %= 2**20
        tables[:1000, 0, 0] = 2**31 - tables[:1000, 0, 1:].sum(axis=1) - rng.integers(0, most + 1, 1000)
    for weight in sorted({1, most // 2, most}):
        assert_within(class_moves(GiniCount(), tables, [weight]), GiniCount().bound(weight))


@pytest.mark.parametrize(
    ("name", "unit"), [*((name, 1) for name in CLASS_CRITERIA), *itertools.product(REACHED | WEIGHTED_GINI, WEIGHTS[1:])]
)
def test_a_width_ten_percent_smaller_would_be_passed_by_two_splits_of_one_node(name, unit):
    # The first split puts the record with many of the other class, in the largest child; the second with its own kind.
    criterion = (CLASS_CRITERIA | REACHED)[name]
    size = unit << (20 if criterion == EntropyCount() else 10)
    node = np.array([[size, 0], [0, size // 2]])
    scores = [int(criterion.score(node + np.array(more), classes(2))) for more in ([[0, unit], [0, 0]], [[0, 0], [0, unit]])]
    assert 0.9 * criterion.bound(unit).width < scores[1] - scores[0] <= criterion.bound(unit).width


@pytest.mark.parametrize("name", VALUE_CRITERIA)
def test_a_width_ten_percent_smaller_would_be_passed_by_two_splits_of_a_bounded_target(name):
    criterion = VALUE_CRITERIA[name]
    low, high, record = sums_of((0,) * 60), sums_of((TARGET_STEPS,) * 30), sums_of((TARGET_STEPS,))
    with_others = int(criterion.score(np.array([np.add(low, record), high]), NUMBER))
    with_own = int(criterion.score(np.array([low, np.add(high, record)]), NUMBER))
    assert 0.9 * criterion.bound().width < with_own - with_others <= criterion.bound().width


UNWEIGHTED = {
    "entropy": EntropyCount(n_max=100),
    "squared error": SquaredError(),
    "weighted majority": WeightedMajority(),
    "mixture with entropy": Mixture(((EntropyCount(n_max=100), 1), (MaxOperator(), 2))),
    "mixture in a mixture": Mixture(((Mixture(((WeightedMajority(), 1), (Balance(), 1))), 1), (MaxOperator(), 2))),
}


@pytest.mark.parametrize("name", UNWEIGHTED)
def test_a_criterion_without_a_proof_for_weights_refuses_them(name):
    assert UNWEIGHTED[name].bound(1) == UNWEIGHTED[name].bound()
    for unit in (2, MOST_WEIGHT):
        with pytest.raises(AccountingError, match="no bound for weighted records"):
            UNWEIGHTED[name].bound(unit)


# --- residuals ------------------------------------------------------------------------------------------------------


def shared(g, n_others, rng):
    """Ways in which the others of a class can share -g: one has it all, all have alike, or at random."""
    yield from -g * np.eye(n_others, dtype=int)
    yield -np.bincount(np.arange(g) % n_others, minlength=n_others)
    yield -rng.multinomial(g, rng.dirichlet(np.ones(n_others)))


def addable(n_classes, unit, rng):
    """What a record can add to its child, ``(n, n_classes + 1)``: residuals of all classes, and its weight."""
    records = [
        [*np.insert(others, label, g), weight]
        for label in range(n_classes)
        for g in sorted({0, 1, unit // 3, unit - 1, unit})
        for others in shared(g, n_classes - 1, rng)
        for weight in sorted({g, unit})
    ]
    return np.array(records, dtype=np.int64)


def node_tables(records, rng):
    """Children ``(n, 2, n_classes + 1)``: no record, each alone, sums of few and of many, and any large numbers."""
    alone = np.zeros((len(records) + 1, 2, records.shape[1]), dtype=np.int64)
    alone[1:, 0] = records
    few, many = (rng.poisson(rate, (300, 2, len(records))) @ records for rate in (2 / len(records), 1e6))
    large = rng.integers(-(10**13), 10**13, (300, 2, records.shape[1]))
    return np.concatenate([alone, few, many, large])


@pytest.mark.parametrize("unit", WEIGHTS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("criterion", [ResidualGain(), Mixture(((ResidualGain(), 3),))], ids=["gain", "3gain"])
def test_a_record_of_any_residuals_moves_the_gain_within_its_bound_and_reaches_it(criterion, n_classes, unit):
    rng, target, bound = np.random.default_rng(n_classes), classes(n_classes), criterion.bound(unit)
    records = addable(n_classes, unit, rng)
    moves = moves_of(criterion, target, node_tables(records, rng), records)
    assert moves.dtype == np.int64
    assert (moves.min(), moves.max()) == (bound.low, bound.high)
    # One child has a record of the first class, the other one of the second; both were taken for each other.
    apart = np.zeros((2, n_classes + 1), dtype=np.int64)
    apart[0, [0, 1, -1]], apart[1, [0, 1, -1]] = [unit, -unit, unit], [-unit, unit, unit]
    with_other, with_own = (criterion.score(apart + np.outer(child, apart[1]), target) for child in ([1, 0], [0, 1]))
    assert with_own - with_other == bound.width


def test_the_gain_is_the_sum_of_what_leans_to_a_class():
    rng = np.random.default_rng(1)
    for children in rng.integers(-50, 50, (100, 3, 5)).tolist():
        expected = sum(max(lean, 0) for *leans, _ in children for lean in leans)
        assert ResidualGain().score(np.array(children), classes(4)) == expected


# --- formulas -------------------------------------------------------------------------------------------------------


def weighted_majority(table):
    return sum(64 * max(row) ** 2 // max(sum(row), 1) for row in table)


def test_entropy_of_large_tables_is_within_two_percent_of_a_nat_a_record():
    rng = np.random.default_rng(14)
    tables = (2.0 ** rng.uniform(5, 17, size=(300, 2, 3))).astype(np.int64)
    scores = EntropyCount().score(tables, classes(3)) / UNITS
    real = np.array([naive.entropy(table) for table in tables.tolist()])
    assert (np.abs(scores - real) <= 0.02 * tables.sum(axis=(1, 2))).all()


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("bits", [30, 31, 32, 36, 40])
def test_scores_of_weights_beyond_what_squares_fit_are_exact(bits, n_classes):
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
    if bits == 30:
        exact = [weighted_majority(table) for table in tables[:105].tolist()]
        assert WeightedMajority().score(tables[:105], classes(n_classes)).tolist() == exact


def test_huge_counts_do_not_overflow_the_squared_error():
    rng = np.random.default_rng(16)
    for n, share in zip(rng.integers(2**29, 2**31, size=200).tolist(), rng.random(200), strict=True):
        high = int(n * share)
        child = (n, TARGET_STEPS * high, TARGET_STEPS**2 * high)
        floor_of_error = child[2] - -(-(child[1] ** 2) // n)
        exact = -(64 * floor_of_error // TARGET_STEPS**2)
        assert int(SquaredError().score(np.array([child, (0, 0, 0)]), NUMBER)) == exact


def test_soft_agreement_is_its_formula():
    rng = np.random.default_rng(1)
    for children in rng.integers(0, 50, size=(100, 2, 2)).tolist():
        (below_left, above_left), (below_right, above_right) = children
        expected = max(below_left + above_right, above_left + below_right)
        assert SoftAgreement().score(np.array(children), NUMBER) == expected


@pytest.mark.parametrize("target", [classes(3), NUMBER])
def test_balance_is_for_every_target_and_a_mixture_for_what_all_its_parts_accept(target):
    assert Balance().accepts(target)
    assert Mixture(((Balance(), 1), (GiniCount(), 1))).accepts(target) == isinstance(target, Classes)
