"""Trees in sequence: what records count as in each, what steps, rounds of batches and an order of classes cost and leave."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import facts_about, opened, random_table
from tests.support.replay import train
from tests.support.steps import CONSTANT, GRID, gate_of, plain_sums, recipe_with, run_steps, spent_on
from tests.support.strategies import FIXED, MEAN, THREE, TWO, mixed_table, random_codes, recipe_of
from tests.support.targets import classes

from dpforest import Categorical, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model
from dpforest.errors import BudgetError, ParameterError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing import sequential
from dpforest.growing.linear import MOST, STEPS, USUAL, LinearScore, Order, class_weights, linear_maps
from dpforest.growing.sequential import Ensemble, Phase, SequenceStep, Sequential, SequentialMeans, rounds
from dpforest.parts.criteria import MaxOperator, Mixture, ResidualGain, SquaredError
from dpforest.parts.leaves import NoisyCounts, ResidualSums, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import divide, divide_evenly, exact
from dpforest.privacy.bounds import Blocks, Bound, Sensitivity
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
    model = DPForestClassifier(TWO, epsilon=8.0, delta=delta, recipe=recipe, random_state=1).fit(X, y)
    assert model.ledger_.spent <= 8.0
    assert model.score(X, y) > 0.8


# --- the order of several classes ------------------------------------------------------------------------------------

MIXED = {"x": Numeric(0, 1), "free": Numeric(), "flag": Categorical([0, 1]), "city": Categorical(["a", "b", "c"])}
NO_MAP = {"only": Categorical(["a"]), "place": Categorical([f"p{k}" for k in range(100)])}
TREE = Phase(0.5, 1)
ORDER = Order(0.5)


def domain_of(features, n_classes=3):
    return Domain.of(Schema(features, classes(n_classes)), GRID)


def table_of(domain, n_records, n_classes, seed):
    """Random codes, and labels of which the last is the commonest, most of all where the first feature is high."""
    rng = np.random.default_rng(seed)
    codes = random_codes(domain, n_records, rng)
    is_last = rng.random(n_records) < np.where(codes[0] > 2, 0.8, 0.5)
    return codes, np.where(is_last, n_classes - 1, rng.integers(0, n_classes - 1, n_records))


def commonest_of(forest):
    """The class that has most records by the leaves of the first tree, none of which holds less than none; and its odds."""
    sums = [0.0] * forest.target.n_values
    for node in np.flatnonzero((forest.trees == 0) & forest.is_leaf):
        sums = [total + max(float(count), 0.0) for total, count in zip(sums, forest.counts[node], strict=True)]
    best = max(range(len(sums)), key=sums.__getitem__)
    return best, math.log((sums[best] + 1) / (math.fsum(sums) - sums[best] + 1))


def sums_of_order(domain, commonest, odds, codes, labels):
    """The sums of maps over records of the commonest class less those over all others, weighted."""
    return plain_sums(
        linear_maps(domain, GRID, True), class_weights(odds), codes, (labels == commonest).astype(int).tolist()
    )


def trees_of_order(forest, n_before=1):
    """The votes of the leaves of each tree that the order has added."""
    return [forest.votes[(forest.trees == tree) & forest.is_leaf] for tree in range(n_before, forest.n_trees)]


@DELTAS
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("tree", [CONSTANT, TREE], ids=["constant", "tree"])
def test_the_look_is_at_the_commonest_class_against_the_rest_and_states_the_steps_times_the_weight(tree, n_classes, delta):
    domain = domain_of(MIXED, n_classes)
    codes, labels = table_of(domain, 80, n_classes, seed=1)
    fit = run_steps((tree, ORDER), domain, codes, labels, 5.0, delta, n_classes=n_classes)
    commonest, odds = commonest_of(fit.forest)
    assert commonest == n_classes - 1
    ((values, blocks),) = fit.gate.joint
    assert np.issubdtype(values.dtype, np.integer)
    assert values.tolist() == sums_of_order(domain, commonest, odds, codes, labels)
    assert class_weights(odds).max() == MOST_WEIGHT
    assert blocks == Blocks((1, 1, 1, 3), STEPS * MOST_WEIGHT)


def test_which_class_is_the_commonest_is_what_was_released_of_it():
    domain, found = domain_of(MIXED), set()
    codes, labels = table_of(domain, 30, 3, seed=2)
    for seed in range(12):
        fit = run_steps((CONSTANT, ORDER), domain, codes, labels, 0.2, seed=seed, n_classes=3)
        commonest, odds = commonest_of(fit.forest)
        assert fit.gate.joint[0][0].tolist() == sums_of_order(domain, commonest, odds, codes, labels)
        found.add(commonest)
    assert found == {0, 1, 2}


@DELTAS
def test_the_order_costs_its_amount_in_one_release(delta):
    domain = domain_of(MIXED)
    codes, labels = table_of(domain, 60, 3, seed=3)
    for share in (0.15, 0.5):
        fit = run_steps((replace(TREE, share=1 - share), Order(share)), domain, codes, labels, 0.7, delta, n_classes=3)
        budget = fit.gate.ledger.accountant.budget
        entry = fit.gate.ledger.entries()[-1]
        assert (entry["label"], entry["mechanism"]) == ("linear: order", "gaussian" if delta else "k-norm")
        assert spent_on(fit, "order") == [divide(budget, [1 - share, share])[1]]
        assert fit.gate.ledger.spent <= 0.7
        assert fit.gate.ledger.total == pytest.approx(budget, rel=1e-9)


def run_of(domain, n_classes=3, epsilon=1.0):
    """A run whose first tree is there, on a table of some records."""
    codes, labels = table_of(domain, 40, n_classes, seed=4)
    fit = run_steps((CONSTANT,), domain, codes, labels, epsilon, n_classes=n_classes)
    gate, recipe = gate_of(epsilon), recipe_with(CONSTANT, ORDER, leaf=NoisyCounts())
    facts = facts_about(domain, classes(n_classes), n_rows=40.0)
    return Ensemble(fit.counter, recipe, gate, facts, trees=[fit.forest])


def test_where_no_feature_has_a_map_all_of_the_amount_is_left_and_nothing_is_asked():
    run = run_of(domain_of(NO_MAP))
    before = run.counter._scores.copy()
    assert ORDER.train(run, 0.3) == 0.3
    assert run.gate.ledger.entries() == []
    assert len(run.trees) == 1
    np.testing.assert_array_equal(run.counter._scores, before)
    run = run_of(domain_of(MIXED))
    assert ORDER.train(run, 0.3) == 0.0
    assert run.gate.ledger.total == 0.3


@pytest.mark.parametrize("steps", [(ORDER,), (ORDER, TREE), (LinearScore(0.2, (0.3, 0.3), 0.4), ORDER)])
def test_an_order_without_a_tree_before_it_is_refused_before_anything_is_charged(steps):
    with pytest.raises(ParameterError, match="starts with a tree"):
        ORDER.check(recipe_with(*steps))


def test_there_is_a_tree_for_each_feature_that_has_a_map_and_one_leaf():
    features = MIXED | NO_MAP
    domain = domain_of(features)
    codes, labels = table_of(domain, 60, 3, seed=7)
    forest = run_steps((CONSTANT, ORDER), domain, codes, labels, 1.0, n_classes=3).forest
    assert [domain.names[feature] for feature in forest.features[1 : forest.n_trees] if feature >= 0] == list(MIXED)
    *marginal, last = trees_of_order(forest)
    assert [len(votes) for votes in marginal] == domain.n_codes[:4].tolist()
    assert last.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("epsilon", [0.3, 5.0, math.inf])
@pytest.mark.parametrize("n_classes", [3, 6])
@pytest.mark.parametrize("features", [MIXED, {"x": Numeric(0, 1)}, {f"x{k}": Numeric(0, 1) for k in range(30)}], ids=len)
def test_all_votes_for_the_commonest_class_together_are_at_most_the_most_log_odds(features, n_classes, epsilon):
    domain = domain_of(features, n_classes)
    codes, labels = table_of(domain, 200, n_classes, seed=8)
    for seed in range(3):
        fit = run_steps((CONSTANT, ORDER), domain, codes, labels, epsilon, seed=seed, n_classes=n_classes)
        commonest, _ = commonest_of(fit.forest)
        total = 0.0
        for votes in trees_of_order(fit.forest):
            others = np.delete(votes, commonest, axis=1)
            # The others are left as they stand to each other.
            assert np.ptp(others, axis=1).max() == 0
            total += np.abs(votes[:, commonest] - others[:, 0]).max()
        assert 0 < total <= MOST + domain.n_features / SCORE_STEPS


def test_what_is_no_more_than_noise_orders_by_next_to_nothing():
    domain, rng = domain_of({f"x{k}": Numeric(0, 1) for k in range(8)}), np.random.default_rng(9)
    codes, labels = random_codes(domain, 400, rng), rng.integers(0, 3, 400)

    def usual(labels, seed):
        fit = run_steps((CONSTANT, ORDER), domain, codes, labels, 2.0, seed=seed, n_classes=3)
        commonest, _ = commonest_of(fit.forest)
        votes = fit.forest.vote(codes)
        return float((votes[:, commonest] - np.delete(votes, commonest, axis=1)[:, 0]).std())

    clear = np.where(codes.sum(axis=0) > 22, 0, rng.integers(1, 3, 400))
    noise, told = ([usual(each, seed) for seed in range(6)] for each in (labels, clear))
    assert 0.5 * USUAL < min(told) <= max(told) < 1.5 * USUAL
    assert np.median(noise) < 0.2 * np.median(told)


def test_without_noise_records_of_the_commonest_class_come_first_where_a_number_tells_them():
    domain, rng = domain_of({"x": Numeric(0, 1), "only": Categorical(["a"])}), np.random.default_rng(10)
    codes = random_codes(domain, 300, rng)
    for commonest in range(3):
        others = [label for label in range(3) if label != commonest]
        for is_own in (codes[0] >= 3) & (codes[0] < 6), codes[0] <= 3:
            labels = np.where(is_own, commonest, rng.choice(others, 300))
            labels = np.where(rng.random(300) < 0.2, commonest, labels)
            shares = run_steps((CONSTANT, ORDER), domain, codes, labels, math.inf, n_classes=3).forest.predict(codes)
            seen = codes[0] < 6  # a number that is missing is in the middle
            assert shares[seen & is_own, commonest].min() > shares[seen & ~is_own, commonest].max()


def test_few_rows_of_three_classes_have_an_order_and_are_the_same_after_saving_and_loading(tmp_path):
    X, y, _ = mixed_table(150, seed=1, n_classes=3)
    model = DPForestClassifier(THREE, epsilon=1.0, random_state=0).fit(X, y)
    assert [entry["label"] for entry in model.ledger_.entries()][-1] == "linear: order"
    assert model.ledger_.spent == pytest.approx(1.0)
    model.save(tmp_path / "model.json")
    other = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    assert other.ledger_.entries() == model.ledger_.entries()
