"""A rule with labels gets as many records right as a plain count says, and the best one wins where there is no noise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import opened
from tests.support.strategies import FIXED, SEEDS, domains, random_codes, scored_counter
from tests.support.targets import classes

from dpforest import Categorical, Numeric, Schema
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing.grower import Growth
from dpforest.growing.labelled import LEAST_LEAD, MOST_LEAD, additive, choose_rule, cut_scores, labelled_scores
from dpforest.mechanisms import Entropy
from dpforest.parts.proposals import Menu
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import AllTrees
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

TWO = classes(2)
FOUR = {"a": Numeric(0, 1), "b": Numeric(0, 1), "flag": Categorical([0, 1]), "city": Categorical(["x", "y", "z"])}
# Features that one split uses up, the first of which is the one whose codes give the totals of nodes.
FLAGS = {"a": Categorical([0, 1]), "b": Categorical([0, 1]), "c": Categorical([0, 1])}


def counter_of(domain, codes, labels):
    counter = MemoryCounter(np.asarray(codes).astype(domain.dtype), np.asarray(labels, dtype=np.int64), domain, TWO)
    counter.deal(AllTrees(1), Entropy(0))
    return counter


def gate_of(epsilon=math.inf, delta=0.0, seed=1):
    return Gate(Ledger(make_accountant(epsilon, delta)), Entropy(seed))


def choose(domain, codes, labels, cuts, depth, gate=None):
    """The rule that is chosen with all of the amount of a gate; ``cuts`` are the records that each cut gets right."""
    gate = gate or gate_of()
    amount, cuts = gate.ledger.accountant.budget, np.asarray(cuts, dtype=np.int64)
    shares = (amount, amount) if math.isinf(amount) else (0.75 * amount, 0.25 * amount)
    return choose_rule(counter_of(domain, codes, labels), gate, Sealed(cuts), len(cuts), depth, len(labels), *shares)


def proposed(domain, reach=None):
    """The candidates of the menu of rules, for one node that can hold some codes."""
    reach = Growth(domain, 1).reach if reach is None else reach
    menu = Menu()
    return menu.propose(domain, menu.fixed(domain), reach, np.random.default_rng(0))


def sides(candidates, codes):
    """The children ``(n_routes, n_records)`` to which the routes send records, of those that may be chosen."""
    routes = candidates.routes
    chosen = candidates.indices[0][candidates.valid[0]]
    return np.array([routes.children(np.array([k]))[0][codes[routes.features[k]]] for k in chosen]).reshape(
        len(chosen), codes.shape[1]
    )


def most_right(domain, codes, labels, reach=None):
    """The most records that one split with labels gets right, or one class for all; and the same by the max operator."""
    right, majorities = [(labels == 0).sum(), (labels == 1).sum()], []
    for child in sides(proposed(domain, reach), codes):
        right += [((child == 0) == (labels == 1)).sum(), ((child == 0) == (labels == 0)).sum()]
        majorities.append(sum(max(((child == c) & (labels == k)).sum() for k in (0, 1)) for c in (0, 1)))
    return int(max(right)), int(max(majorities, default=0))


def leaves_of(tree, codes):
    return [naive.path(tree, 0, record)[-1] for record in codes.T]


def chosen_right(tree, codes, labels):
    """The number of records that the label of their leaf gets right; all leaves have one."""
    leads = tree.votes[:, 1] - tree.votes[:, 0]
    assert (leads[tree.is_leaf] != 0).all()
    return int(((leads[leaves_of(tree, codes)] > 0) == (labels == 1)).sum())


# --- what is scored -------------------------------------------------------------------------------------------------


@FIXED
@given(domains(), st.sampled_from([0, 1, 2, 9, 30]), SEEDS)
def test_the_score_of_a_split_with_labels_is_the_number_of_records_that_it_gets_right(domain, n_records, seed):
    rng = np.random.default_rng(seed)
    codes, labels = random_codes(domain, n_records, rng), rng.integers(0, 2, n_records)
    if Menu().fixed(domain) is None:
        return
    candidates = proposed(domain)
    counter = counter_of(domain, codes, labels)
    counts = opened(counter.count_codes(0, np.ones((1, domain.n_features), dtype=bool)))
    scores = labelled_scores(candidates, domain.offsets, True, counts)
    n, valid = candidates.n_candidates, candidates.valid[0]
    assert scores.shape == (1, 2 * n + 2)
    child = sides(candidates, codes)
    # Child 0 of the second class, then child 0 of the first, then the second class for all and the first.
    assert scores[0, :n][valid].tolist() == ((child == 0) == (labels == 1)).sum(axis=1).tolist()
    assert scores[0, n : 2 * n][valid].tolist() == ((child == 0) == (labels == 0)).sum(axis=1).tolist()
    assert scores[0, 2 * n :].tolist() == [(labels == 1).sum(), (labels == 0).sum()]


def right_by_cuts(labels, scores, width, n_bins, step):
    """Records that each cut gets right, of which those with a score from that of the cut on are of the second class.

    Where the score of a record is that of the cut itself, it is counted as right whatever its class is: leads are of the
    own class and bins are closed below, so the bin of a first-class record on a border is one too low when it is mirrored.
    """
    counts = []
    for k in range(0, n_bins, step):
        border = (k - n_bins // 2) * width if k else -math.inf
        right = [score >= border if label else score <= border for label, score in zip(labels, scores, strict=True)]
        counts.append(sum(right))
    return counts


@FIXED
@given(st.integers(0, 12), st.sampled_from([(1, 8), (4, 8), (64, 16), (3, 2)]), st.sampled_from([1, 2]), SEEDS)
def test_the_score_of_a_cut_is_the_number_of_records_on_their_side_of_it_and_both_classes_are_right_on_it(
    n_records, bins, step, seed
):
    (width, n_bins), rng = bins, np.random.default_rng(seed)
    # Beyond the bins on both sides, and often on a border.
    halves = rng.integers(-width * n_bins, width * n_bins + 1, n_records)
    halves = np.where(rng.random(n_records) < 0.5, halves, width * rng.integers(-n_bins, n_bins + 1, n_records))
    labels = rng.integers(0, 2, n_records)
    counter = scored_counter(TWO, labels, np.stack([0 * halves, halves], axis=1))
    found = cut_scores(step, opened(counter.count_leads(width, n_bins)))
    assert found.shape == (n_bins // step,)
    assert found.tolist() == right_by_cuts(labels.tolist(), halves.tolist(), width, n_bins, step)


# --- what is chosen -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [FOUR, FLAGS], ids=["mixed", "flags"])
@pytest.mark.parametrize("n_records", [1, 2, 5, 40, 300])
def test_without_noise_the_rule_of_one_level_that_gets_most_records_right_is_chosen(features, n_records):
    domain = Domain.of(Schema(features, TWO), Grid(4))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        codes = random_codes(domain, n_records, rng)
        labels = ((codes[seed % domain.n_features] > 1) ^ (rng.random(n_records) < 0.3)).astype(int)
        rule = choose(domain, codes, labels, [0, 0], depth=1)
        best, _ = most_right(domain, codes, labels)
        assert rule.cut is None
        assert chosen_right(rule.tree, codes, labels) == best
        share = min(max((2 * best - n_records) / n_records, LEAST_LEAD), MOST_LEAD)
        assert rule.odds == pytest.approx(math.log((1 + share) / (1 - share)))


@pytest.mark.parametrize("features", [FOUR, FLAGS], ids=["mixed", "flags"])
@pytest.mark.parametrize("n_records", [2, 5, 40, 300])
def test_without_noise_a_rule_of_two_levels_takes_the_best_split_and_the_best_rule_on_each_side(features, n_records):
    domain = Domain.of(Schema(features, TWO), Grid(4))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        codes = random_codes(domain, n_records, rng)
        labels = ((codes[0] > 1) ^ (codes[1] > 1) ^ (rng.random(n_records) < 0.2)).astype(int)
        tree = choose(domain, codes, labels, [0, 0], depth=2).tree
        feature, first = int(tree.features[0]), int(tree.first_children[0])
        child = tree.routes[tree.splits[0], codes[feature]]
        majorities = sum(max(((child == c) & (labels == k)).sum() for k in (0, 1)) for c in (0, 1))
        assert majorities == most_right(domain, codes, labels)[1]
        leads = tree.votes[:, 1] - tree.votes[:, 0]
        right = (leads[leaves_of(tree, codes)] > 0) == (labels == 1)
        for side in (0, 1):
            reach = np.ones((1, domain.total_codes), dtype=bool)
            route = tree.routes[tree.splits[0], : domain.n_codes[feature]]
            reach[0, domain.offsets[feature] : domain.offsets[feature + 1]] = route == side
            inside = child == side
            assert right[inside].sum() == most_right(domain, codes[:, inside], labels[inside], reach)[0]
        assert first == 1
        assert tree.depth <= 2


def test_a_side_of_one_class_is_labelled_so_even_if_the_split_above_has_used_up_the_first_feature():
    for features in ({"a": FLAGS["a"]}, FLAGS):
        domain = Domain.of(Schema(features, TWO), Grid(4))
        # The first code of the first feature has a class of its own.
        codes = np.array(list(itertools.product(range(4), repeat=domain.n_features)) * 3).T
        for label in (0, 1):
            labels = np.where(codes[0] == 0, label, 1 - label)
            rule = choose(domain, codes, labels, [0], depth=2)
            assert rule.tree.features[0] == 0
            assert chosen_right(rule.tree, codes, labels) == len(labels)
            assert rule.odds == pytest.approx(2 * math.atanh(MOST_LEAD))


@pytest.mark.parametrize("depth", [1, 2])
def test_a_cut_that_gets_more_records_right_than_any_tree_wins(depth):
    domain = Domain.of(Schema(FOUR, TWO), Grid(4))
    rng = np.random.default_rng(3)
    codes, labels = random_codes(domain, 60, rng), rng.integers(0, 2, 60)
    best = most_right(domain, codes, labels)
    rule = choose(domain, codes, labels, [3, 55, 0, 54], depth)
    assert max(best) < 54
    assert (rule.tree, rule.cut) == (None, 1)
    assert rule.odds == pytest.approx(2 * math.atanh(50 / 60))


def test_the_votes_of_a_rule_are_its_odds_for_the_label_of_each_leaf():
    domain = Domain.of(Schema(FOUR, TWO), Grid(4))
    rng = np.random.default_rng(4)
    codes = random_codes(domain, 200, rng)
    labels = ((codes[0] > 1) ^ (rng.random(200) < 0.2)).astype(int)
    rule = choose(domain, codes, labels, [0], depth=1)
    tree = rule.tree
    leads = SCORE_STEPS * (tree.votes[:, 1] - tree.votes[:, 0])
    np.testing.assert_allclose(np.abs(leads[tree.is_leaf]), SCORE_STEPS * rule.odds, atol=1)
    assert (tree.votes.sum(axis=1) == 0).all()
    assert (SCORE_STEPS * tree.votes == np.rint(SCORE_STEPS * tree.votes)).all()
    assert tree.link == "softmax"
    # As labels they are counted as one record of their class.
    assert tree.counts[tree.is_leaf].tolist() == np.stack([leads < 0, leads > 0], axis=1)[tree.is_leaf].astype(int).tolist()
    predicted = tree.predict(codes)
    assert (predicted.argmax(axis=1) == (leads[leaves_of(tree, codes)] > 0)).all()
    assert np.abs(predicted.max(axis=1) - 1 / (1 + math.exp(-rule.odds))).max() < 1e-3


def test_additive_votes_are_the_leads_that_are_asked_for_to_the_nearest_step():
    domain = Domain.of(Schema(FOUR, TWO), Grid(4))
    codes, labels = np.zeros((4, 3), dtype=int), np.array([0, 1, 1])
    tree = choose(domain, codes, labels, [0], depth=2).tree
    leads = np.linspace(-250, 250, tree.n_nodes)
    asked = np.stack([-leads, leads], axis=1) / 2
    votes = additive(tree, asked + leads[:, None]).votes
    assert np.isfinite(votes).all()
    assert np.abs(votes - asked).max() <= 0.5 / SCORE_STEPS + 1e-9


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize(("cuts", "wins"), [([0], "tree"), ([10**6], "cut")])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_rule_costs_what_it_was_given_whatever_wins(depth, cuts, wins, delta):
    domain = Domain.of(Schema(FOUR, TWO), Grid(4))
    rng = np.random.default_rng(6)
    codes = random_codes(domain, 400, rng)
    gate = gate_of(20.0, delta)
    rule = choose(domain, codes, (codes[0] > 1).astype(int), cuts, depth, gate)
    assert (rule.cut is None) == (wins == "tree")
    assert 19.99 < gate.ledger.spent <= 20.0
    entries = gate.ledger.entries()
    # A cut leaves no levels to grow.
    assert len(entries) == (2 if wins == "cut" else depth + 1)
