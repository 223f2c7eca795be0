"""Trees that take turns on batches: what a round costs, which records a tree is about, and that all records follow it."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import opened
from tests.support.steps import CONSTANT, GRID, run_steps, spent_on
from tests.support.strategies import MIXED, THREE, TWO, mixed_table, random_codes, recipe_of

from dpforest import DPForestClassifier, Schema
from dpforest.errors import BudgetError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing import sequential
from dpforest.growing.sequential import Phase, SequenceStep, Sequential, rounds
from dpforest.parts.criteria import MaxOperator, ResidualGain
from dpforest.parts.leaves import ResidualSums
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import divide, divide_evenly, exact
from dpforest.records.base import AllTrees
from dpforest.schema.domain import Domain

DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
N_RECORDS = 60


def run_on_rows(steps, batches, epsilon=1.0, delta=0.0, schema=TWO, seed=3):
    domain = Domain.of(schema, GRID)
    codes, n_classes = random_codes(domain, N_RECORDS, np.random.default_rng(5)), schema.target.n_values
    return run_steps(steps, domain, codes, codes[0] % n_classes, epsilon, delta, seed, n_classes, batches)


def scopes_of(fit):
    """The scopes right below the root: their kind, and the labels of the trees in them."""
    return [
        (scope.kind, [child.label for child in scope.children]) if scope.purpose.kind == "batches" else scope.label
        for scope in fit.gate.ledger.root.children
    ]


# --- what a round costs -----------------------------------------------------------------------------------------------


@DELTAS
def test_trees_of_a_round_are_in_a_parallel_scope_and_a_single_tree_in_none(delta):
    fit = run_on_rows((CONSTANT, Phase(0.4, 5), Phase(0.1, 1), Phase(0.4, 2)), 3, 1.0, delta)
    assert scopes_of(fit) == [
        "tree 1", ("parallel", ["tree 2", "tree 3", "tree 4"]), ("parallel", ["tree 5", "tree 6"]), "tree 7",
        ("parallel", ["tree 8", "tree 9"]),
    ]  # fmt: skip
    alone = run_on_rows((CONSTANT, Phase(0.9, 3)), 1, 1.0, delta)
    assert scopes_of(alone) == ["tree 1", "tree 2", "tree 3", "tree 4"]


@DELTAS
@pytest.mark.parametrize(
    ("n_trees", "batches"), [(1, 1), (1, 3), (2, 9), (3, 1), (3, 2), (4, 4), (5, 3), (5, 9), (8, 2), (8, 3)]
)
def test_a_tree_spends_the_amount_over_the_rounds_and_all_rounds_together_the_budget(n_trees, batches, delta):
    fit = run_on_rows((CONSTANT, Phase(0.3, 2), Phase(0.6, n_trees)), batches, 0.7, delta)
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
        run_on_rows((CONSTANT, Phase(0.9, 6)), 3)


# --- which records a tree is about ------------------------------------------------------------------------------------


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
    fit = run_on_rows((Phase(0.3, 2), looking, Phase(0.4, 3), looking), batches, 5.0)
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


# --- all records follow all trees -------------------------------------------------------------------------------------


@DELTAS
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("batches", [1, 4, 100])
def test_scores_of_all_records_are_the_votes_of_all_trees(batches, schema, delta):
    steps = (CONSTANT, Phase(0.4, 5, one_feature_each=True), Phase(0.1, 1), Phase(0.4, 6))
    fit = run_on_rows(steps, batches, 4.0, delta, schema)
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
