"""Private centres of a bounded target keep their claim."""

import itertools

import numpy as np
import pytest
from tests.support import naive
from tests.support.gates import KeepingGate
from tests.support.strategies import scored_counter
from tests.support.targets import NUMBER

from dpforest.growing.target import Centres, _weights
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema import FINE_STEPS, TARGET_STEPS


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
