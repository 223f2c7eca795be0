"""Class means keep their claim: what a record moves, by brute force, and what is asked at all."""

import itertools
from collections import Counter

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import random_table, with_one_more
from tests.support.strategies import MEAN, mixed_table, recipe_of

from dpforest import Categorical, Classes, DPForestRegressor, Numeric, Schema
from dpforest.errors import DPForestError
from dpforest.growing.class_means import STEPS, ClassMeans
from dpforest.parts.criteria import SquaredError
from dpforest.parts.leaves import TwoBinMean
from dpforest.parts.proposals import Menu
from dpforest.privacy.events import Purpose
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

NUMBERS = Schema(
    {"a": Numeric(0, 1), "b": Numeric(0, 1), "c": Categorical(["u", "v"]), "d": Numeric(0, 1)}, Classes([0, 1, 2])
)


class KeepingGate:
    """Keeps what it is handed, releases zeros."""

    def add_noise(self, values, sensitivity, amount, label):
        values.map(lambda array: setattr(self, "values", array.copy()))
        self.sensitivity, self.amount = sensitivity, amount
        return np.zeros_like(self.values), 1.0


def class_sums(schema, grid, codes, labels, positions, reach):
    """What ``ClassMeans`` hands to the gate, and the sensitivity that it states."""
    domain, menu, gate = Domain.of(schema, grid), Menu(), KeepingGate()
    counter = MemoryCounter(codes, labels, domain, schema.target)
    counter._start(positions, np.empty((0, 0), dtype=np.uint8))
    candidates = menu.propose(domain, menu.fixed(domain), reach, np.random.default_rng(0))
    narrowed = ClassMeans().narrow(candidates, counter, 0, 0.25, gate, Purpose("splits", level=0))
    return gate, candidates, narrowed


@pytest.mark.slow
@pytest.mark.parametrize("bins", [1, 2, 3, 7])
@pytest.mark.parametrize("n_open", [4, 1])
def test_any_added_record_moves_the_class_sums_within_the_stated_norms_and_reaches_them(bins, n_open):
    domain, codes, labels = random_table(NUMBERS, Grid(bins), 30, seed=bins)
    # In all nodes but the last a feature is settled, so that nodes use different numbers of features.
    reach = np.ones((n_open, domain.total_codes), dtype=bool)
    reach[: n_open - 1, domain.offsets[1] + 1 : domain.offsets[2]] = False
    positions = np.random.default_rng(1).integers(0, n_open, size=(1, 30), dtype=np.int32)
    before, *_ = class_sums(NUMBERS, Grid(bins), codes, labels, positions, reach)
    most_l1 = most_l2_squared = 0
    records = naive.all_records(domain)[:: 1 + 2 * (bins == 7)]
    for record, label, node in itertools.product(records, range(3), range(n_open)):
        more = with_one_more(codes, labels, record, label)
        after, *_ = class_sums(NUMBERS, Grid(bins), *more, np.append(positions, [[node]], 1).astype(np.int32), reach)
        move = after.values - before.values
        assert np.flatnonzero(move.any(axis=(1, 2, 3))).tolist() in ([], [node])
        most_l1 = max(most_l1, int(np.abs(move).sum()))
        most_l2_squared = max(most_l2_squared, int(np.square(move).sum()))
    assert most_l1 == before.sensitivity.l1 == 3 * STEPS
    assert most_l2_squared == before.sensitivity.l2_squared == 3 * STEPS**2


def test_class_means_leave_one_cut_of_each_number_and_all_splits_of_categories():
    domain, codes, labels = random_table(NUMBERS, Grid(5), 40, seed=3)
    reach, positions = np.ones((2, domain.total_codes), dtype=bool), np.zeros((1, 40), dtype=np.int32)
    _, before, after = class_sums(NUMBERS, Grid(5), codes, labels, positions, reach)
    assert (after.valid <= before.valid).all()
    for node in range(2):
        left = Counter(after.features[node, after.valid[node]].tolist())
        assert left == {0: 1, 1: 1, 2: 4, 3: 1}


def test_class_means_ask_nothing_where_no_number_can_be_cut():
    domain, codes, labels = random_table(NUMBERS, Grid(3), 10, seed=4)
    reach = np.ones((1, domain.total_codes), dtype=bool)
    for feature in np.flatnonzero(domain.is_numeric):
        reach[0, domain.offsets[feature] + 1 : domain.offsets[feature + 1]] = False
    gate, before, after = class_sums(NUMBERS, Grid(3), codes, labels, np.zeros((1, 10), dtype=np.int32), reach)
    assert not hasattr(gate, "values")
    assert after is before


def test_class_means_have_no_meaning_for_a_bounded_target_and_are_refused_before_anything_is_charged():
    # Statistics of a bounded target are n, sum z and sum z**2: a record moves their sums far beyond the stated norms.
    X, _, z = mixed_table(60, seed=1)
    recipe = recipe_of(narrow=ClassMeans(), criterion=SquaredError(), leaf=TwoBinMean())
    model = DPForestRegressor(MEAN, recipe=recipe)
    with pytest.raises(DPForestError):
        model.fit(X, z)
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
