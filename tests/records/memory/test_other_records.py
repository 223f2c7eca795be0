"""A record changes nothing about the weights, residuals and sides of other records."""

import numpy as np
import pytest
from tests.support.encoded import opened
from tests.support.strategies import put_at, scored_counter
from tests.support.targets import NUMBER, classes

from dpforest.schema import FINE_STEPS

FAR = 40_000  # score steps by which a class leads when the others have no share left


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
