"""The choices of a fit that starts from an earlier model keep their claims: whether to keep its range, and its trees."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.encoded import vault_of
from tests.support.gates import KeepingGate

from dpforest import Bounded, Numeric, Schema
from dpforest.growing import earlier
from dpforest.growing.earlier import HURDLE, N_BINS, OUTSIDE, covers, lead_gains, lead_scores, near_score, option_bound
from dpforest.privacy.bounds import Bound
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes


def reaches(bound, moves):
    """Whether all moves of the scores of options are within the bound, and one moves one option from the other by all of it.

    A bound that is a tenth smaller fails the first part, since that move is beyond it.
    """
    moves = np.array(moves)
    assert bound.monotone
    assert (bound.low <= moves).all()
    assert (moves <= bound.high).all()
    return np.ptp(moves, axis=-1).max() > 0.9 * bound.width


@pytest.mark.parametrize("n_classes", [2, 3, 7, 40, 4096])
def test_a_record_raises_the_scores_of_keeping_trees_and_of_leaving_them_within_the_bound(n_classes):
    gains, moves = lead_gains(n_classes), []
    for lead, label in itertools.product(range(N_BINS), (0, n_classes - 1)):
        record = np.zeros((N_BINS, n_classes), dtype=np.int64)
        record[lead, label] = 1
        moves.append(lead_scores(gains, record)[0])
    assert reaches(option_bound(Classes(range(n_classes))), moves)
    # Of each record that leads, the model does better; of each that lags, knowing nothing.
    assert (np.diff(gains[1]) >= 0).all()
    assert (gains[0] * gains[1] == 0).all()


def test_scores_of_records_add_up():
    gains, rng = lead_gains(3), np.random.default_rng(0)
    counts = rng.integers(0, 1 << 40, (N_BINS, 3))
    exact = [sum(int(gain) * int(n) for gain, n in zip(row, counts.sum(axis=1), strict=True)) for row in gains]
    assert lead_scores(gains, counts).tolist() == [exact]


def test_a_value_raises_the_scores_of_a_model_and_of_its_mean_within_the_bound():
    bound = option_bound(Bounded(0, 1))
    one = np.eye(TARGET_STEPS + 1, dtype=np.int64)[:, None]
    scores = [[int(near_score(hurdle, record)[0]) for record in one] for hurdle in (HURDLE, 0)]
    moves = list(itertools.product(scores[0][::8], scores[1][::8]))
    assert reaches(bound, moves)
    assert scores[1][TARGET_STEPS // 2] == bound.width
    assert (scores[1][0], scores[1][-1]) == (0, 0)


PUBLIC = Bounded(0, 128)  # on whose grid whole numbers lie exactly


@pytest.mark.parametrize("kept", [Bounded(20, 50), Bounded(0, 50), Bounded(20, 128)], ids=repr)
def test_a_value_raises_the_scores_of_a_range_and_of_leaving_it_within_the_bound(kept):
    schema = Schema({"x": Numeric(0, 1)}, PUBLIC)

    def asked(values):
        gate = KeepingGate()
        covers(vault_of(schema, [int(value * FINE_STEPS / 128) for value in values]), kept, 0.1, gate)
        return gate

    base = [10, 30, 40, 90]
    before, moves = asked(base), []
    for value in [*range(129), 19.5, 50.5]:
        moves.append((asked([*base, value]).values - before.values)[0])
        assert moves[-1].tolist() == ([0, 1] if kept.lower <= value <= kept.upper else [OUTSIDE, 0])
    assert before.stated == Bound(0, OUTSIDE)
    assert reaches(before.stated, moves)


def test_the_share_of_the_choices_is_within_its_ends_and_falls_with_the_signal():
    shares = [earlier.share_of(SimpleNamespace(n_rows=n, epsilon=0.5)) for n in (-3.0, 0.0, 100.0, 1e4, 2e4, 1e9)]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (earlier.MOST_SHARE, earlier.LEAST_SHARE)
    assert len({*shares}) > 2
