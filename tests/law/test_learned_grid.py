"""The learnt grid of cuts keeps its claim, and finds where numbers lie."""

import itertools
import math

import numpy as np
import pytest

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.growing.learnt import (
    MOST_PURE_SHARE,
    MOST_SHARE,
    MOST_SHARE_FOR_FAR,
    LearnedGrid,
    Zooms,
    middle_scores,
    quantile_bound,
    quarter_cuts,
    wide,
)
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.vault import Vault
from dpforest.schema.domain import Domain, Grid

N_SMALL = 6
PARTS = {"whole": ((0, N_SMALL),), "halves": ((0, 2), (3, N_SMALL))}


def small_tables(most):
    """All numbers of records in some bins, of up to ``most`` in each, and none without a value."""
    return [np.array([[*counts, 0]]) for counts in itertools.product(range(most + 1), repeat=N_SMALL)]


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_adding_any_record_moves_every_score_within_the_bound_and_reaches_its_width(parts):
    bound, widest, moves = quantile_bound(), 0, set()
    for counts in small_tables(2):
        before = middle_scores(0, [1], parts, counts)
        for place in range(N_SMALL + 1):
            more = counts.copy()
            more[0, place] += 1
            move = middle_scores(0, [1], parts, more) - before
            moves |= set(move.ravel().tolist())
            widest = max(widest, *np.ptp(move, axis=1))
            # A record of one half changes no score of the other: both halves cost one choice.
            assert np.count_nonzero(move.any(axis=1)) <= 1
            assert move.any() <= (place not in (1, N_SMALL))
    assert (bound.low, bound.high) == (min(moves), max(moves))
    assert widest == bound.width == 2
    assert not bound.monotone


def test_the_score_of_a_bin_is_its_formula():
    counts = np.array([[3, 0, 5, 1, 0, 2, 9]])
    scores = middle_scores(0, [4], ((0, N_SMALL),), counts)
    below, above, n = [0, 3, 3, 8, 9, 9], [8, 8, 3, 2, 2, 0], 11
    assert scores.tolist() == [[-max(0, 2 * max(a, b) - n) for a, b in zip(below, above, strict=True)]]
    assert scores.argmax() == 2


def test_columns_that_choose_at_once_have_the_scores_that_each_has_alone():
    counts = np.random.default_rng(0).integers(0, 9, (5, N_SMALL + 1))
    for parts in PARTS.values():
        together = middle_scores(1, [0, 3, 5], parts, counts)
        alone = [middle_scores(row, [left_out], parts, counts) for row, left_out in ((1, 0), (2, 3), (3, 5))]
        np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(("n_columns", "number"), [(1, 1), (1, 3), (3, 2), (130, 2)])
def test_every_column_is_charged_its_choices_which_cost_their_share_and_alike(n_columns, number, delta):
    schema = Schema({f"x{index}": Numeric() for index in range(n_columns)}, Classes([0, 1]))
    vault = Vault.seal(np.zeros((5, n_columns)), np.zeros(5, dtype=int), schema)
    gate = Gate(Ledger(make_accountant(1.0, delta)), Entropy(3))
    amount, zooms = gate.ledger.accountant.budget, Zooms(number, 0.25)
    _, rest = LearnedGrid(zooms).release(vault, Domain.of(schema, Grid(8)), 8, 5, amount, gate)
    (cost,) = {entry[gate.ledger.unit] for entry in gate.ledger.entries()}
    assert {entry["label"] for entry in gate.ledger.entries()} == {"grid: middle", "grid: quarters"}
    assert exact(gate.ledger.total) >= (zooms.number + 1) * n_columns * exact(cost)
    assert gate.ledger.total == pytest.approx(0.25 * amount, rel=1e-6)
    assert gate.ledger.total + rest <= amount


@pytest.mark.parametrize(
    ("counts", "scores"),
    [([0, 0, 0, 50, 0, 0, 0], [-50, -50, -50, 0, -50, -50]), ([10**9] * 7, [-(10**9) * n for n in (5, 3, 1, 0, 1, 3)])],
    ids=["all in one bin", "a billion"],
)
def test_scores_are_exact_where_one_bin_holds_all_records_and_of_billions(counts, scores):
    assert middle_scores(0, [0], ((0, N_SMALL),), np.array([counts])).tolist() == [scores]


def released(values, part=None, bins=32, seed=0, epsilon=1e4, delta=1e-5, zooms=None, n_rows=None):
    """The cuts that are learnt of a column, and the ledger."""
    schema = Schema({"x": part or Numeric()}, Classes([0]))
    vault = Vault.seal(np.asarray(values, dtype=float)[:, None], np.zeros(len(values), dtype=int), schema)
    gate = Gate(Ledger(make_accountant(epsilon, delta)), Entropy(seed))
    domain, amount = Domain.of(schema, Grid(bins, scales=True)), gate.ledger.accountant.budget
    n_rows = len(values) if n_rows is None else n_rows
    learnt, rest = LearnedGrid(zooms).release(vault, domain, bins, n_rows, amount, gate)
    assert exact(rest) + exact(gate.ledger.total) <= exact(amount) if math.isfinite(amount) else rest == amount
    return learnt.cuts[0], gate.ledger, learnt is domain


@pytest.mark.parametrize(
    ("shift", "scale"), [(0.0, 1.0), (1e5, 1.0), (-3e8, 1e5), (1e-6, 1e-9), (5e15, 1e11)], ids=lambda number: f"{number:g}"
)
def test_cuts_are_spread_over_the_values_wherever_they_lie(shift, scale):
    values = shift + scale * np.random.default_rng(1).normal(size=4000)
    cuts, _, _ = released(values)
    inner = cuts[(cuts > values.min()) & (cuts < values.max())]
    shares = np.diff(np.searchsorted(np.sort(values), inner)) / len(values)
    assert len(inner) >= 24
    assert shares.max() < 0.12


def test_values_at_zero_do_not_hide_the_others_and_zero_is_set_apart():
    values = np.where(np.random.default_rng(2).random(4000) < 0.9, 0, np.random.default_rng(3).uniform(3000, 9000, 4000))
    cuts, _, _ = released(values, Numeric(0), zooms=Zooms(3, 0.5))
    assert ((cuts > 3000) & (cuts < 9000)).sum() > 20
    assert ((cuts > 0) & (cuts < 1)).sum() == 1


def test_whole_numbers_close_together_have_a_bin_each():
    cuts, _, _ = released(10**6 + np.random.default_rng(4).integers(0, 9, 3000), Numeric(integer=True))
    assert set(range(10**6 + 1, 10**6 + 9)) <= set(cuts)


@pytest.mark.parametrize(
    "values", [np.zeros(500), np.full(500, np.nan), np.full(500, 7.0), np.array([]), np.full(50, np.inf)]
)
def test_columns_that_hold_one_value_or_none_are_no_error(values):
    cuts, ledger, _ = released(values, zooms=Zooms(2, 0.1), n_rows=500)
    assert (np.diff(cuts) > 0).all()
    assert np.isfinite(cuts).all()
    assert ledger.n_charges == 3


def test_without_noise_cuts_follow_the_values():
    _, ledger, is_public = released(np.arange(100.0), epsilon=math.inf, delta=0.0)
    assert not is_public
    assert {entry["mechanism"] for entry in ledger.entries()} == {"exact"}


def test_without_signal_public_cuts_stay_and_nothing_is_charged():
    for settings in ({"n_rows": 0}, {"n_rows": -5}, {"epsilon": 1e-3}):
        _, ledger, is_public = released(np.arange(100.0), **settings)
        assert is_public
        assert ledger.n_charges == 0


def test_the_plan_follows_the_signal():
    grid = LearnedGrid()
    assert grid.plan(0, 1e9, 1.0, "rho") == Zooms(0, 0.0)
    numbers = [grid.plan(10, n_rows, 0.02, "rho").number for n_rows in (600, 700, 1_200, 1_300, 10**6)]
    assert numbers == [0, 1, 1, 3, 3]
    shares = [grid.plan(10, n_rows, 0.02, "rho").share for n_rows in (700, 1_200, 1_300, 10**6)]
    assert max(shares) == MOST_SHARE
    assert shares == sorted(shares, reverse=True)
    assert grid.plan(10, 31_999, 1.0, "epsilon").number == 0
    assert grid.plan(10, 32_000, 1.0, "epsilon") == Zooms(3, MOST_PURE_SHARE)
    assert grid.plan(10, 320_000, 1.0, "epsilon").share == pytest.approx(MOST_PURE_SHARE / 10)


def test_features_with_a_bin_for_each_whole_number_need_no_search():
    features = {
        "few": Numeric(0, 9, integer=True),
        "many": Numeric(0, 99, integer=True),
        "real": Numeric(0, 9),
        "c": Categorical(["a"]),
    }
    domain = Domain.of(Schema(features, Classes([0])), Grid(16, scales=True))
    assert wide(domain, 16) == [1, 2]


def test_quarters_are_cut_evenly_and_tails_ever_wider():
    cuts = quarter_cuts(10.0, 20.0, 40.0, 16, Numeric(-1000, 1000))
    assert set(np.linspace(10, 20, 5)) <= set(cuts)
    assert set(np.linspace(20, 40, 5)) <= set(cuts)
    assert {80.0, 120.0, 200.0, -10.0, -30.0, -70.0, 0.0} <= set(cuts)


FAR = 1e5 + np.random.default_rng(5).normal(size=(6000, 3))


def test_a_fit_learns_its_grid_where_the_signal_pays():
    schema = Schema({name: Numeric() for name in "abc"}, Classes([False, True]))
    model = DPForestClassifier(schema, epsilon=1.0, delta=1e-5, random_state=1).fit(FAR, FAR[:, 0] > 1e5)
    assert model.score(FAR, FAR[:, 0] > 1e5) > 0.95
    assert any("grid" in entry["label"] for entry in model.ledger_.entries())
    assert any(note.endswith("% of the loss was spent to find where numbers lie") for note in model.privacy_.notes)


def test_a_regression_finds_values_far_from_zero():
    schema, X, y = Schema({"a": Numeric(), "b": Numeric()}, Bounded(-3, 3)), FAR[:, :2], np.sign(FAR[:, 0] - 1e5)
    assert DPForestRegressor(schema, epsilon=2.0, delta=1e-5, random_state=1).fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize(("shift", "learns"), [(0.0, False), (5.0, False), (20.0, True), (1e5, True)])
def test_where_only_far_values_are_looked_for_others_keep_their_public_cuts(shift, learns):
    values = shift + np.random.default_rng(6).normal(size=4000)
    schema = Schema({"x": Numeric()}, Bounded(0, 1))
    vault = Vault.seal(values[:, None], np.zeros(4000), schema)
    gate = Gate(Ledger(make_accountant(100.0, 1e-5)), Entropy(2))
    domain, amount = Domain.of(schema, Grid(32, scales=True)), gate.ledger.accountant.budget
    learnt, rest = LearnedGrid(far_only=True).release(vault, domain, 32, 4000, amount, gate)
    assert (learnt.cuts[0] is not domain.cuts[0]) == learns
    assert gate.ledger.n_charges == 4
    assert amount - rest <= 1.001 * MOST_SHARE_FOR_FAR * amount
