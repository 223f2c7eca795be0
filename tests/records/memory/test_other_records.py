"""A record changes nothing about the weights, residuals and sides of other records."""

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import opened
from tests.support.strategies import put_at, random_codes, scored_counter
from tests.support.targets import NUMBER, classes

from dpforest import Numeric, Schema
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain, Grid

FAR = 40_000  # score steps by which a class leads when the others have no share left


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


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_record_adds_its_residuals_to_the_cells_of_its_own_codes_and_to_no_others(n_classes):
    rng, target = np.random.default_rng(11), classes(n_classes)
    domain = Domain.of(Schema({f"x{k}": Numeric(0, 4) for k in range(5)}, target), Grid(4))

    def summed(table, labels, scores, nodes):
        counter = scored_counter(target, labels, scores, nodes, np.ascontiguousarray(table.T), domain)
        counter.spread_residuals()
        return opened(counter.count_codes(0, np.ones((3, 5), dtype=bool)))

    for n_records in (0, 1, 7, 40):
        records = [random_codes(domain, n_records, rng).T, rng.integers(0, n_classes, n_records)]
        records += [rng.integers(-4_000, 4_000, (n_records, n_classes)), rng.integers(0, 3, n_records)]
        before = summed(*records)
        for spot in sorted({0, n_records // 2, n_records}):
            label, node = int(rng.integers(n_classes)), int(rng.integers(3))
            own, odd = random_codes(domain, 1, rng)[:, 0], rng.choice([-(1 << 29), -FAR, -700, 0, 700, FAR], n_classes)
            added = zip(records, (own, label, odd, node), strict=True)
            moved = summed(*(np.insert(kept, spot, value, axis=0) for kept, value in added)) - before
            expected = np.zeros_like(moved)
            expected[node, domain.offsets[:-1] + own] = naive.whole_residuals(odd.tolist(), label)
            assert (moved == expected).all()
