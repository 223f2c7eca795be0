"""Trees in sequence: what records count as in each of them, what a step or a round of batches costs and leaves."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import opened, random_table
from tests.support.replay import train
from tests.support.steps import CONSTANT, GRID, run_steps, spent_on
from tests.support.strategies import FIXED, MEAN, MIXED, THREE, TWO, mixed_table, random_codes, recipe_of

from dpforest import DPForestClassifier, DPForestRegressor, Schema
from dpforest.errors import BudgetError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing import sequential
from dpforest.growing.sequential import Phase, SequenceStep, Sequential, SequentialMeans, rounds
from dpforest.parts.criteria import MaxOperator, Mixture, ResidualGain, SquaredError
from dpforest.parts.leaves import ResidualSums, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import divide, divide_evenly, exact
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain

DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
N_RECORDS = 60

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


def run_on_rows(steps, epsilon=1.0, delta=0.0, batches=1, schema=TWO):
    domain = Domain.of(schema, GRID)
    codes, n_classes = random_codes(domain, N_RECORDS, np.random.default_rng(5)), schema.target.n_values
    labels = codes[0] % n_classes
    return run_steps(steps, domain, codes, labels, epsilon, delta, n_classes=n_classes, batches=batches)


@DELTAS
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


# --- rounds of batches -----------------------------------------------------------------------------------------------


def scopes_of(fit):
    """The scopes right below the root: their kind, and the labels of the trees in them."""
    return [
        (scope.kind, [child.label for child in scope.children]) if scope.purpose.kind == "batches" else scope.label
        for scope in fit.gate.ledger.root.children
    ]


@DELTAS
def test_trees_of_a_round_are_in_a_parallel_scope_and_a_single_tree_in_none(delta):
    fit = run_on_rows((CONSTANT, Phase(0.4, 5), Phase(0.1, 1), Phase(0.4, 2)), 1.0, delta, 3)
    assert scopes_of(fit) == [
        "tree 1", ("parallel", ["tree 2", "tree 3", "tree 4"]), ("parallel", ["tree 5", "tree 6"]), "tree 7",
        ("parallel", ["tree 8", "tree 9"]),
    ]  # fmt: skip
    alone = run_on_rows((CONSTANT, Phase(0.9, 3)), 1.0, delta)
    assert scopes_of(alone) == ["tree 1", "tree 2", "tree 3", "tree 4"]


@DELTAS
@pytest.mark.parametrize(
    ("n_trees", "batches"), [(1, 1), (1, 3), (2, 9), (3, 1), (3, 2), (4, 4), (5, 3), (5, 9), (8, 2), (8, 3)]
)
def test_a_tree_spends_the_amount_over_the_rounds_and_all_rounds_together_the_budget(n_trees, batches, delta):
    fit = run_on_rows((CONSTANT, Phase(0.3, 2), Phase(0.6, n_trees)), 0.7, delta, batches)
    ledger = fit.gate.ledger
    amount = divide(ledger.accountant.budget, [CONSTANT.share, 0.3, 0.6])[2]
    n_rounds = math.ceil(n_trees / min(batches, n_trees))
    assert rounds(n_trees, batches) == n_rounds
    for tree in range(4, n_trees + 4):
        own = sum(map(exact, spent_on(fit, f"tree {tree}")), Fraction(0))
        assert own <= exact(divide_evenly(amount, n_rounds))
        assert float(own) == pytest.approx(amount / n_rounds, rel=1e-9)
    assert exact(ledger.total) <= exact(ledger.accountant.budget)
    assert ledger.spent <= 0.7
    # The first tree of each round is charged whatever the others are, so nothing is left when trees do not divide evenly.
    assert ledger.total == pytest.approx(ledger.accountant.budget, rel=1e-9)


def test_trees_that_spend_more_than_their_rounds_allow_are_refused(monkeypatch):
    monkeypatch.setattr(sequential, "rounds", lambda n_trees, n_batches: max(rounds(n_trees, n_batches) - 1, 1))
    with pytest.raises(BudgetError):
        run_on_rows((CONSTANT, Phase(0.9, 6)), batches=3)


@dataclass(frozen=True)
class Looking(SequenceStep):
    """Counts the records that a step of another kind sees, and those that have all votes; charges nothing."""

    seen: list
    share: float = 0.1
    n_trees: int = 0

    def train(self, run, amount):
        run.counter.deal(AllTrees(1), run.gate.entropy)
        self.seen.append((int(opened(run.counter.count_nodes(0, 1)).sum()), run.counter._scores.any(axis=0).sum()))
        return 0.0


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_step_after_a_phase_is_about_all_records_with_the_votes_of_all_trees(batches):
    looking = Looking([])
    fit = run_on_rows((Phase(0.3, 2), looking, Phase(0.4, 3), looking), 5.0, batches=batches)
    assert looking.seen == [(N_RECORDS, N_RECORDS)] * 2
    assert fit.gate.ledger.spent <= 5.0


@pytest.mark.parametrize("criterion", [MaxOperator(), ResidualGain()], ids=lambda part: type(part).__name__)
def test_without_noise_a_tree_of_a_round_is_the_one_that_its_batch_alone_would_have(criterion):
    """In the first round, and while votes are none, records of a batch count as if there were no others."""
    domain = Domain.of(TWO, GRID)
    codes = random_codes(domain, N_RECORDS, np.random.default_rng(6))
    labels = codes[0] % 2
    parts = {"criterion": criterion, "leaf": ResidualSums(), "vote": LogShares(1e-9)}
    whole = run_steps((Phase(1.0, 3, parts),), domain, codes, labels, math.inf, batches=3)
    places = whole.counter._batches
    assert sum(end - first for first, end in places) == N_RECORDS
    assert all(end > first for first, end in places)
    records, own = whole.counter._codes, whole.counter._target_codes
    for tree, (first, end) in enumerate(places):
        alone = run_steps((Phase(1.0, 1, parts),), domain, records[:, first:end].copy(), own[first:end], math.inf)
        here = whole.forest.trees == tree
        for name in ("features", "counts"):
            np.testing.assert_array_equal(getattr(whole.forest, name)[here], getattr(alone.forest, name))


@DELTAS
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("batches", [1, 4, 100])
def test_scores_of_all_records_are_the_votes_of_all_trees(batches, schema, delta):
    steps = (CONSTANT, Phase(0.4, 5, one_feature_each=True), Phase(0.1, 1), Phase(0.4, 6))
    fit = run_on_rows(steps, 4.0, delta, batches, schema)
    votes = np.rint(SCORE_STEPS * fit.forest.votes).astype(int)
    names = sorted(map(tuple, fit.counter._codes.T.tolist()))
    assert names == sorted(map(tuple, np.asarray(fit.codes).T.tolist()))
    for record, scores in zip(fit.counter._codes.T, fit.counter._scores.T, strict=True):
        leaves = [naive.path(fit.forest, tree, record)[-1] for tree in range(fit.forest.n_trees)]
        assert scores.tolist() == votes[leaves].sum(axis=0).tolist()


@DELTAS
def test_a_fit_with_batches_learns_and_its_ledger_says_what_was_spent(delta):
    X, y, _ = mixed_table(3_000, seed=7, n_classes=2)
    recipe = recipe_of(
        stages=Sequential((Phase(1.0, 8),), batches=4), criterion=MaxOperator(), leaf=ResidualSums(), n_trees=8, depth=3,
        refine=(EvenShrinkage(),), vote=LogShares(0.5),
    )  # fmt: skip
    model = DPForestClassifier(Schema(MIXED, TWO.target), epsilon=8.0, delta=delta, recipe=recipe, random_state=1).fit(X, y)
    assert model.ledger_.spent <= 8.0
    assert model.score(X, y) > 0.8
