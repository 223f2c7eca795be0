"""Trees in sequence: what records count as in each of them, and how much of what is left each of them adds."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.encoded import random_table
from tests.support.replay import train
from tests.support.steps import CONSTANT, GRID, run_steps, spent_on
from tests.support.strategies import FIXED, MEAN, THREE, TWO, mixed_table, random_codes, recipe_of

from dpforest import DPForestClassifier, DPForestRegressor
from dpforest.growing.sequential import Phase, SequenceStep, Sequential, SequentialMeans
from dpforest.parts.criteria import MaxOperator, Mixture, ResidualGain, SquaredError
from dpforest.parts.leaves import ResidualSums, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import divide, exact
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain

# --- classes --------------------------------------------------------------------------------------------------------


def by_residuals(criterion, *phases):
    return recipe_of(
        criterion=criterion, leaf=ResidualSums(), stages=Sequential(phases or (Phase(1.0, 3),)), n_trees=3, depth=3,
        refine=(EvenShrinkage(),), vote=LogShares(0.5),
    )  # fmt: skip


GAIN = {"criterion": ResidualGain()}
WHOLE, WEIGHTED, LEANING = Bound(0, 1), Bound(0, MOST_WEIGHT), Bound(-MOST_WEIGHT, MOST_WEIGHT)
WAYS = {
    "target": (by_residuals(MaxOperator()), [WHOLE, WEIGHTED, WEIGHTED]),
    "residuals": (by_residuals(ResidualGain()), [LEANING] * 3),
    "residuals in a mixture": (by_residuals(Mixture(((ResidualGain(), 1),))), [LEANING] * 3),
    "residuals in a later phase": (
        by_residuals(MaxOperator(), Phase(0.5, 2), Phase(0.5, 1, GAIN)), [WHOLE, WEIGHTED, LEANING],
    ),
    "residuals in the first phase": (
        by_residuals(MaxOperator(), Phase(0.5, 1, GAIN), Phase(0.5, 2)), [LEANING, WEIGHTED, WEIGHTED],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("recipe", "expected"), WAYS.values(), ids=WAYS)
def test_records_count_in_each_tree_as_what_its_criterion_sees(recipe, expected):
    _, codes, labels = random_table(THREE, recipe.grid, 60, seed=1)
    queries = train(recipe, THREE, codes, labels).queries
    assert [query.stated for query in queries if query.label == "splits of level 0"] == expected


def test_without_noise_two_classes_have_the_same_trees_by_residuals_as_by_weights():
    X, y, _ = mixed_table(400, seed=2)
    forests = [
        DPForestClassifier(TWO, epsilon=math.inf, recipe=by_residuals(criterion), random_state=1).fit(X, y).forest_
        for criterion in (MaxOperator(), ResidualGain())
    ]
    for name in ("parents", "features", "routes", "counts", "votes"):
        np.testing.assert_array_equal(*(getattr(forest, name) for forest in forests))


# --- what a step leaves ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaving(SequenceStep):
    """Spends a part of its amount on nothing, and leaves the other part."""

    share: float
    left: float
    name: str = "some"
    n_trees: int = field(default=0, init=False)

    def train(self, run, amount):
        own, left = divide(amount, [1 - self.left, self.left])
        if own:
            run.gate.add_noise(Sealed(np.zeros(1, dtype=np.int64)), Sensitivity(1, 1), own, self.name)
        return left


def run_on_rows(steps, epsilon, delta=0.0):
    domain = Domain.of(TWO, GRID)
    codes = random_codes(domain, 40, np.random.default_rng(5))
    return run_steps(steps, domain, codes, codes[0] % 2, epsilon, delta)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
def test_what_a_step_leaves_is_divided_among_later_steps_by_their_shares(delta):
    steps = (CONSTANT, Leaving(0.5, 0.6), Phase(0.3, 2), Leaving(0.1, 0.0, "last"))
    fit = run_on_rows(steps, 1.0, delta)
    budget = fit.gate.ledger.accountant.budget
    # The step spends 0.2 of the budget and leaves 0.3, of which three quarters go to the trees.
    assert spent_on(fit, "some") == pytest.approx([0.2 * budget])
    assert math.fsum(spent_on(fit, "tree 2", "tree 3")) == pytest.approx(0.525 * budget)
    assert spent_on(fit, "last") == pytest.approx([0.175 * budget])
    assert fit.gate.ledger.total == pytest.approx(budget)


def test_what_was_spent_before_a_step_left_something_stays_as_it_was():
    fits = [run_on_rows((CONSTANT, Leaving(0.5, left), Phase(0.4, 1)), 1.0) for left in (0.0, 1.0)]
    assert spent_on(fits[0], "tree 1") == spent_on(fits[1], "tree 1") == pytest.approx([0.1])
    assert [math.fsum(spent_on(fit, "tree 2")) for fit in fits] == pytest.approx([0.4, 0.9])


def test_what_the_last_step_leaves_is_not_spent():
    assert run_on_rows((CONSTANT, Leaving(0.9, 0.5)), 1.0).gate.ledger.total == pytest.approx(0.55)


def test_without_noise_what_a_step_leaves_is_no_less_than_all():
    fit = run_on_rows((CONSTANT, Leaving(0.5, 1.0), Phase(0.4, 1)), math.inf)
    assert set(spent_on(fit, "tree")) == {math.inf}


leaving = st.builds(
    Leaving, share=st.floats(0.001, 1), left=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-6, 1 - 1e-6))
)


@FIXED
@given(st.lists(leaving, max_size=6), st.sampled_from([0.1, 0.7, 1.0, 3.3]), st.sampled_from([0.0, 1e-6]))
def test_steps_that_leave_something_spend_the_budget_and_never_more(steps, epsilon, delta):
    fit = run_on_rows((*steps, CONSTANT), epsilon, delta)
    ledger = fit.gate.ledger
    entries, budget = ledger.entries(), exact(ledger.accountant.budget)
    total = sum((exact(entry[ledger.unit]) for entry in entries), Fraction(0))
    assert budget * (1 - Fraction(1, 10**12)) < total <= budget
    assert ledger.spent <= epsilon


# --- a bounded target -----------------------------------------------------------------------------------------------


def two_means(rate):
    recipe = recipe_of(criterion=SquaredError(), leaf=TwoBinMean(), stages=SequentialMeans(0.5, rate), n_trees=2, depth=1)
    X, _, z = mixed_table(300, seed=3)
    model = DPForestRegressor(MEAN, epsilon=math.inf, recipe=recipe, random_state=4).fit(X, z)
    return model.forest_, model.predict(X)


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_without_noise_the_second_tree_adds_the_share_of_what_it_would_add(rate):
    (whole, of_whole), (part, of_part) = two_means(1.0), two_means(rate)
    for name in ("parents", "features", "routes", "counts"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(part, name))
    second = whole.trees == 1
    np.testing.assert_array_equal(whole.votes[~second], part.votes[~second])
    added = whole.votes[second]
    assert np.abs(added).max() > 0.05
    np.testing.assert_allclose(part.votes[second], rate * added, rtol=0, atol=1 / FINE_STEPS)
    first = two_means(1e-9)[1]
    np.testing.assert_allclose(of_part - first, rate * (of_whole - first), rtol=0, atol=1 / FINE_STEPS)
