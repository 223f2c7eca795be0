"""Choices of splits, and of whether to keep an earlier model, keep their claims; distinct roots have their exact law."""

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.encoded import random_table, vault_of
from tests.support.gates import KeepingGate
from tests.support.laws import assert_drawn_from, exponential_law, permute_and_flip_law
from tests.support.replay import train
from tests.support.strategies import TWO, mixed_table, recipe_of

from dpforest import Bounded, Classes, DPForestClassifier, Numeric, Schema
from dpforest.growing import earlier
from dpforest.growing.choosing import FeatureFirst, Medians
from dpforest.growing.earlier import HURDLE, N_BINS, OUTSIDE, covers, lead_gains, lead_scores, near_score, option_bound
from dpforest.mechanisms import Entropy
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import GiniCount, MaxOperator, WeightedMajority
from dpforest.parts.proposals import Menu, OneChildPerValue
from dpforest.privacy.accountants import Pure, make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.bounds import Bound
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.schema import FINE_STEPS, TARGET_STEPS

N_CHOICES = 20_000


# --- two steps ------------------------------------------------------------------------------------------------------


def test_a_feature_without_a_valid_split_is_not_offered_in_the_first_step_and_the_second_stays_with_the_first():
    recipe = recipe_of(choose=FeatureFirst(), propose=Menu(n_features=2), depth=3)
    _, codes, labels = random_table(TWO, recipe.grid, 80, seed=3)
    *choices, leaves = train(recipe, TWO, codes, labels).queries
    steps = [f"splits of level {n}: {step}" for n in range(3) for step in ("feature", "split")]
    assert [query.label for query in choices] == steps
    for query in choices:
        (run,) = query.runs
        assert run.valid[np.arange(len(run.released)), run.released].all()
        assert query.purpose.step == "split" or (run.valid.sum(axis=1) <= 2).all()
    assert float(sum(exact(query.amount) for query in (*choices, leaves))) == pytest.approx(1.0)


@pytest.mark.parametrize("criterion", [GiniCount(), MaxOperator(), WeightedMajority()], ids=["gini", "max", "weighted"])
def test_without_noise_two_steps_choose_what_one_joint_step_chooses(criterion):
    X, y, _ = mixed_table(200, seed=7)
    recipes = [recipe_of(criterion=criterion, choose=choose, depth=4) for choose in (None, FeatureFirst())]
    one, two = (DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=0).fit(X, y).forest_ for recipe in recipes)
    assert one.depth == 4
    assert one.features.tolist() == two.features.tolist()
    assert one.routes.tolist() == two.routes.tolist()


# --- medians --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_features", "n_charges"), [(None, 5), (3, 4), (1, 1)])
def test_each_median_of_a_level_is_paid_and_so_is_the_choice_among_them(n_features, n_charges):
    X, y, _ = mixed_table(80, seed=3)
    recipe = recipe_of(choose=Medians(), propose=Menu(n_features=n_features), depth=1, allocate=Uniform(split_share=0.5))
    model = DPForestClassifier(TWO, recipe=recipe, random_state=1).fit(X, y)
    entries = [(entry["label"], entry["epsilon"]) for entry in model.ledger_.entries()]
    shares = [pytest.approx(0.5 / n_charges)] * n_charges
    labels = ["splits of level 0: median"] * max(n_charges - 1, 1) + ["splits of level 0: feature"] * (n_charges > 1)
    assert entries == [*zip(labels, shares, strict=True), ("leaves", pytest.approx(0.5))]
    assert model.ledger_.total == 1.0


def test_a_feature_with_one_split_has_no_median_to_pay():
    schema = Schema({"x": Numeric(0, 1), "y": Numeric(0, 1)}, Classes([0, 1]))
    recipe = recipe_of(choose=Medians(), propose=Menu((OneChildPerValue(),)), depth=1)
    model = DPForestClassifier(schema, recipe=recipe, random_state=1).fit(np.zeros((9, 2)), [0] * 9)
    assert [entry["label"] for entry in model.ledger_.entries()] == ["splits of level 0: feature", "leaves"]
    assert model.ledger_.total == 1.0


# --- distinct roots -------------------------------------------------------------------------------------------------


GROUPS = np.array([[0, 0, 1, 2], [0, 1, 1, 2], [2, 2, 1, 0]])
SCORES = np.array([[3, 2, 3, 0], [1, 2, 0, 2], [4, 0, 1, 3]])
VALID = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]], dtype=bool)


def sequential_law(one_choice, rate):
    """Chance of each triple, when rows choose one after another and groups taken before are barred."""
    law = Counter()

    def follow(row, chosen, chance):
        if row == len(SCORES):
            law[chosen] += chance
            return
        taken = {GROUPS[r, c] for r, c in enumerate(chosen)}
        valid = [c for c in range(4) if VALID[row, c]]
        free = [c for c in valid if GROUPS[row, c] not in taken] or valid
        for candidate, part in zip(free, one_choice(SCORES[row][free], rate), strict=True):
            follow(row + 1, (*chosen, candidate), chance * part)

    follow(0, (), 1.0)
    return law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delta", "one_choice"), [(0.0, permute_and_flip_law), (1e-6, exponential_law)], ids=["pure", "zCDP"]
)
def test_distinct_choices_have_the_law_of_choices_one_after_another_with_barred_groups(delta, one_choice):
    entropy, accountant = Entropy(12), make_accountant(20.0, delta)
    amount = 1.0 if delta == 0 else accountant.budget / 20
    rate = float(accountant.strength(accountant.choice, amount)) / 2
    seen = Counter()
    for _ in range(N_CHOICES):
        ledger = Ledger(accountant)
        chosen = Gate(ledger, entropy).select(Sealed(SCORES), VALID, Bound(-2, 0), amount, "roots", distinct=GROUPS)
        seen[tuple(chosen.tolist())] += 1
    assert [entry["label"] for entry in ledger.entries()] == ["roots"]
    assert ledger.total == amount
    law = {triple: chance for triple, chance in sequential_law(one_choice, rate).items() if chance > 0}
    assert sum(law.values()) == pytest.approx(1)
    assert set(seen) <= set(law)
    places = {triple: place for place, triple in enumerate(law)}
    drawn = np.array([places[triple] for triple in seen.elements()])
    assert_drawn_from(drawn, dict(enumerate(law.values())))


def test_a_row_without_candidates_takes_no_group_and_a_row_with_taken_groups_only_may_repeat():
    scores = Sealed(np.zeros((4, 2), dtype=np.int64))
    valid = np.array([[1, 0], [0, 0], [1, 0], [1, 1]], dtype=bool)
    groups = np.array([[5, 6]] * 4)
    for seed in range(20):
        ledger = Ledger(Pure(1.0))
        chosen = Gate(ledger, Entropy(seed)).select(scores, valid, Bound(0, 1), 1.0, "roots", distinct=groups)
        assert chosen.tolist() == [0, -1, 0, 1]


@pytest.mark.parametrize("choose", [None, FeatureFirst(), Medians(), Medians(jointly=True)], ids=str)
@pytest.mark.parametrize("n_trees", [1, 3, 4, 6])
def test_roots_are_distinct_while_features_last_and_charged_once_a_tree(n_trees, choose):
    X, y, _ = mixed_table(100, seed=2)
    recipe = recipe_of(choose=choose, distinct_roots=True, depth=1)
    for seed, epsilon in enumerate((1.0, 5.0, math.inf)):
        model = DPForestClassifier(TWO, epsilon, recipe=recipe, n_trees=n_trees, random_state=seed).fit(X, y)
        assert len(set(model.forest_.features[:n_trees].tolist())) == min(n_trees, 4)
        (scope,) = model.ledger_.root.children
        assert (scope.kind, scope.copies) == ("sequential", n_trees)
        assert math.isinf(epsilon) or (1 - 1e-9) * epsilon < model.ledger_.total <= epsilon


# --- whether to keep an earlier model --------------------------------------------------------------------------------


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
