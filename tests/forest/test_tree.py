"""A released forest sums, prunes, ranks features, words its rules and chooses among them from released counts alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive, strategies
from tests.support.planted import assert_sound, voting
from tests.support.strategies import FIXED, SEEDS, classes, domains, forests

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.parts.postprocess import plain_shares
from dpforest.schema.domain import Domain, Grid

TARGET = Classes(["no", "yes"])
DOMAIN = Domain.of(Schema({"x": Numeric(0, 2), "c": Categorical(["a", "b"]), "z": Numeric(0, 1)}, TARGET), Grid(2))
# Codes of x: below 1, from 1 on, missing. Codes of c: a, b, other, missing.
TREE = (0, [0, 1, 1], [(1, [1, 0, 0, 0], [[6, 0], [1, 3]]), [0, 10]])


def small(*trees, **options):
    return plain_shares(naive.plant(DOMAIN, TARGET, *(trees or [TREE]), **options).summed())


def leaves_below(forest, node):
    children = np.flatnonzero(forest.parents == node)
    return [leaf for child in children for leaf in leaves_below(forest, child)] or [node]


def test_the_shape_of_a_forest_is_read_off_its_arrays():
    forest = small(TREE, [4, 4])
    assert (forest.n_nodes, forest.n_trees, forest.depth) == (6, 2, 2)
    assert forest.is_leaf.tolist() == [False, True, False, True, True, True]
    assert forest.level_slices() == [slice(0, 2), slice(2, 4), slice(4, 6)]
    assert repr(forest) == "Forest(n_trees=2, depth=2, n_nodes=6)"


@FIXED
@given(forests())
def test_counts_and_variances_that_were_not_released_are_sums_over_the_leaves_below(forest):
    summed = forest.summed()
    for node in range(forest.n_nodes):
        leaves = leaves_below(forest, node)
        np.testing.assert_allclose(summed.counts[node], forest.counts[leaves].sum(axis=0))
        np.testing.assert_allclose(summed.variances[node], forest.variances[leaves].sum())


def test_counts_that_were_released_are_kept_and_stand_for_what_is_below_them():
    tree = (0, [0, 1, 1], [(1, [1, 0, 0, 0], [[6, 0], [1, 3]], [5, 5]), [0, 10]])
    summed = naive.plant(DOMAIN, TARGET, tree, variance=2.0).summed()
    assert summed.counts.tolist() == [[5, 15], [5, 5], [0, 10], [6, 0], [1, 3]]
    assert summed.variances.tolist() == [4, 2, 2, 2, 2]


def test_counts_are_set_and_children_cut_off_in_a_copy():
    forest = naive.plant(DOMAIN, TARGET, TREE)
    changed = forest.with_counts(np.array([0, 4]), np.array([[9, 9], [8, 8]]), 3.0)
    assert changed.counts[[0, 4]].tolist() == [[9, 9], [8, 8]]
    assert changed.variances[[0, 4]].tolist() == [3, 3]
    np.testing.assert_array_equal(changed.counts[2:4], forest.counts[2:4])
    assert np.isnan(forest.counts[0]).all()
    # Neither shares nor votes are known yet.
    cut = forest.without_children(np.array([0]))
    assert (cut.n_nodes, cut.depth, cut.features.tolist(), cut.routes.shape) == (1, 0, [-1], (0, 4))


@FIXED
@given(forests(), SEEDS)
def test_without_children_ends_every_path_at_the_first_closed_node(forest, seed):
    rng = np.random.default_rng(seed)
    forest = plain_shares(forest.summed())
    forest = replace(forest, votes=rng.random(forest.counts.shape))
    closed = np.flatnonzero(~forest.is_leaf & (rng.random(forest.n_nodes) < 0.4))
    cut = forest.without_children(closed)
    assert cut.n_trees == forest.n_trees
    assert (np.diff(cut.levels) >= 0).all()
    assert len(cut.routes) == (~cut.is_leaf).sum()
    for record in naive.all_records(forest.domain)[::7]:
        for tree in range(forest.n_trees):
            way = naive.path(forest, tree, record)
            ends = [index for index, node in enumerate(way) if node in closed]
            way = way[: ends[0] + 1] if ends else way
            cut_way = naive.path(cut, tree, record)
            for name in ("trees", "levels", "counts", "variances", "shares", "votes"):
                np.testing.assert_array_equal(getattr(cut, name)[cut_way], getattr(forest, name)[way])
            assert cut.parents[cut_way].tolist() == [-1, *cut_way[:-1]]


def with_votes(forest, seed, scale, link):
    votes = np.random.default_rng(seed).normal(size=forest.counts.shape) * scale
    return replace(forest, votes=np.abs(votes) if link == "shares" else votes, link=link)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["shares", "softmax"])
def test_predictions_are_summed_votes_through_the_link(link):
    @FIXED
    @given(forests(), SEEDS)
    def check(forest, seed):
        forest = with_votes(forest, seed, 3.0, link)
        records = naive.all_records(forest.domain)[::5]
        predicted = forest.predict(np.array(records, dtype=forest.domain.dtype).T)
        for record, shares in zip(records, predicted, strict=True):
            totals = naive.votes(forest, record)
            parts = totals if link == "shares" else [math.exp(total) for total in totals]
            np.testing.assert_allclose(shares, np.array(parts) / math.fsum(parts), rtol=1e-9)

    check()


def test_votes_that_sum_to_a_mean_are_cut_to_the_range():
    forest = replace(small([1, 1], [1, 1]), link="sum")
    codes = np.zeros((3, 1), dtype=np.uint8)
    for first, second, expected in [(0.4, 0.3, 0.7), (0.9, 0.4, 1.0), (0.2, -0.5, 0.0), (0.0, 0.0, 0.0), (1.0, 0.0, 1.0)]:
        forest = replace(forest, votes=np.array([[1 - first, first], [-second, second]]))
        np.testing.assert_allclose(forest.predict(codes), [[1 - expected, expected]], atol=1e-12)


def test_a_softmax_of_votes_of_any_size_is_finite():
    for scale in (1e3, 1e6):
        predicted = with_votes(small(), 1, scale, "softmax").predict(np.array(naive.all_records(DOMAIN), dtype=np.uint8).T)
        assert np.isfinite(predicted).all()
        np.testing.assert_allclose(predicted.sum(axis=1), 1)


def decreases(forest):
    return np.array([each.value for each in forest.decreases()])


def test_importances_are_shares_of_the_decrease_of_impurity_over_all_trees():
    # n times Gini impurity: root 20 * 2 * 0.35 * 0.65; inner 10 * 2 * 0.7 * 0.3; leaf [1, 3] 4 * 2 * 0.25 * 0.75.
    # A split of n records in two at random lowers it by that of one record, 1/(n - 1) of it.
    root, inner, leaf = 9.1, 4.2, 1.5
    gains = np.array([root - inner - root / 19, inner - leaf - inner / 9, 0])
    forest = small(variance=0.0)
    np.testing.assert_allclose(forest.bands.gains(forest.parents, forest.level_slices(), np.ones(5))[0][[0, 1]], gains[:2])
    np.testing.assert_allclose(decreases(forest), gains / gains.sum(), atol=1e-8)
    one, two = (0, [0, 1, 1], [[60, 0], [0, 60]]), (1, [0, 1, 1, 1], [[40, 20], [20, 40]])
    gains = [120 * 0.5, 120 * 0.5 - 2 * 60 * 2 * (2 / 3) * (1 / 3)] - 60 / 119 * np.ones(2)
    np.testing.assert_allclose(decreases(small(one, two, variance=0.0)), [*gains / sum(gains), 0], atol=1e-8)


@FIXED
@given(forests())
def test_importances_sum_to_one_or_are_all_zero_and_unused_features_have_none(forest):
    importances = decreases(plain_shares(forest.summed()))
    assert importances.shape == (forest.domain.n_features,)
    assert (importances >= 0).all()
    assert importances.sum() == pytest.approx(1) or (importances == 0).all()
    unused = set(range(forest.domain.n_features)) - set(forest.features[~forest.is_leaf])
    assert (importances[list(unused)] == 0).all()
    assert decreases(small([3, 4])).tolist() == [0, 0, 0]  # without splits


def test_rules_word_every_way_from_the_root_with_released_support_and_confidence():
    rules = small().rules()
    assert [(rule["tree"], rule["node"], rule["leaf"]) for rule in rules] == [
        (0, 0, False), (0, 1, False), (0, 2, True), (0, 3, True), (0, 4, True),
    ]  # fmt: skip
    words = ["always", "x < 1", "(1 <= x or missing)", "x < 1 and c != a", "x < 1 and c = a"]
    assert [rule["rule"] for rule in rules] == words
    assert rules[3]["conditions"] == ["x < 1", "c != a"]
    assert [rule["support"] for rule in rules] == [20, 10, 10, 6, 4]
    assert [rule["class"] for rule in rules] == ["yes", "no", "yes", "no", "yes"]
    assert [rule["confidence"] for rule in rules] == pytest.approx([0.65, 0.7, 1, 1, 0.75])


def test_rules_of_a_bounded_target_give_the_mean_in_its_own_units():
    tree = (0, [0, 1, 1], [[3, 1], [0, 4]])
    rules = plain_shares(naive.plant(DOMAIN, Bounded(-10, 30), tree).summed()).rules()
    assert [rule["mean"] for rule in rules] == pytest.approx([-10 + 40 * 5 / 8, 0, 30], abs=1e-6)
    assert "class" not in rules[0]


@pytest.mark.slow
@FIXED
@given(forests())
def test_a_record_meets_the_words_of_a_rule_iff_it_reaches_the_node(forest):
    forest = plain_shares(forest.summed())
    domain, rules = forest.domain, forest.rules()
    assert [rule["node"] for rule in rules] == list(range(forest.n_nodes))
    for record in naive.all_records(domain)[::3][:150]:
        values = {
            name: naive.value_of(code, part, cuts)
            for name, code, part, cuts in zip(domain.names, record, domain.features, domain.cuts, strict=True)
        }
        reached = {node for tree in range(forest.n_trees) for node in naive.path(forest, tree, record)}
        met = {rule["node"] for rule in rules if all(naive.meets(text, values) for text in rule["conditions"])}
        assert met == reached


def fitted(kind, target, low, high):
    """Two trees of one split, of a target that is low below 0.5 and high above."""
    X = np.linspace(0, 1, 400)[:, None]
    model = kind(schema=Schema({"x": Numeric(0, 1)}, target), epsilon=np.inf, n_trees=2, max_depth=1)
    return model.fit(X, np.where(X[:, 0] > 0.5, high, low)).forest_


def test_rules_of_additive_trees_say_what_they_add():
    forest = fitted(DPForestClassifier, Classes(["no", "yes"]), "no", "yes")
    leaf = next(rule for rule in forest.rules() if rule["leaf"] and rule["class"] == "yes" and rule["tree"] == 0)
    assert leaf["adds"] > 1
    lines = forest.rules_text(leaves=True).split("\n")
    assert any(f"then yes {leaf['adds']:+.3g}, about" in line for line in lines)
    assert all("by weight" in line for line in lines if line.startswith("tree 2"))


def test_rules_of_added_means_say_what_they_correct():
    forest = fitted(DPForestRegressor, Bounded(-10, 30), -5.0, 25.0)
    first, later = ([rule for rule in forest.rules() if rule["tree"] == tree and rule["leaf"]] for tree in (0, 1))
    assert {round(rule["mean"]) for rule in first} == {-5, 25}
    assert all("adds" not in rule for rule in first)
    assert all(rule["mean"] is None and abs(rule["adds"]) < 1 for rule in later)
    assert forest.rules_text(leaves=True).count("\n") == len(first) + len(later) - 1


# Counts of leaves: x below 1 and above.
FEW = (0, [0, 1, 1], [[6, 2], [-1, 12]])


def planted(target=TARGET, tree=FEW):
    return plain_shares(naive.plant(DOMAIN, target, tree).summed())


def test_a_rule_has_the_released_count_and_the_share_of_each_class_noise_and_all():
    distributions = [rule["distribution"] for rule in planted().rules()]
    assert [[part["class"] for part in parts] for parts in distributions] == [["no", "yes"]] * 3
    assert [[part["count"] for part in parts] for parts in distributions] == [[5, 14], [6, 2], [-1, 12]]
    shares = [[part["share"] for part in parts] for parts in distributions]
    assert np.array(shares) == pytest.approx(np.array([[5 / 19, 14 / 19], [0.75, 0.25], [0, 1]]), abs=1e-9)


@pytest.mark.parametrize(
    ("chosen", "nodes"),  # at least so much, so 0.75 itself too
    [({"min_confidence": 0.75}, [1, 2]), ({"min_support": 8.5}, [0, 2]), ({"min_confidence": 1, "min_support": 1e9}, [])],
    ids=str,
)
def test_rules_are_chosen_by_confidence_and_support(chosen, nodes):
    forest = planted()
    assert forest.rules(**chosen) == [rule for rule in forest.rules() if rule["node"] in nodes]
    lines = dict(zip(range(3), forest.rules_text().split("\n"), strict=True))
    assert forest.rules_text(**chosen) == "\n".join(lines[node] for node in nodes)
    assert forest.rules_text(leaves=True, **chosen) == "\n".join(lines[node] for node in nodes if node)


@FIXED
@given(forests(classes))
def test_any_choice_keeps_what_the_rules_themselves_say(forest):
    forest = plain_shares(forest.summed())
    every = forest.rules()
    for rule in every[:5]:
        least = {"min_confidence": rule["confidence"], "min_support": rule["support"]}
        sure = [other for other in every if other["confidence"] >= rule["confidence"] - 1e-9]
        kept = [other for other in sure if other["support"] >= rule["support"]]
        assert forest.rules(**least) == kept


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("min_confidence", [-0.1, 1.01, np.nan, np.inf, "0.9", True, [0.9], 90], "number from 0 to 1"),
        ("min_support", [-1, np.nan, np.inf, "many", True, [5]], "number of records of at least 0"),
    ],
)
def test_what_is_no_share_or_number_of_records_is_refused(name, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=f"{name} must be a {words}, not "):
            planted().rules_text(**{name: value})


def test_rules_about_a_number_have_no_distribution_and_are_chosen_by_support_alone():
    forest = planted(Bounded(0, 1), (0, [0, 1, 1], [[3, 1], [0, 9]]))
    assert all("distribution" not in rule for rule in forest.rules())
    assert [rule["node"] for rule in forest.rules(min_support=np.float32(9))] == [0, 2]
    with pytest.raises(ParameterError, match="have no confidence; choose them by min_support"):
        forest.rules(min_confidence=0.5)


# --- forests that are joined -----------------------------------------------------------------------------------------


@st.composite
def several_forests(draw):
    """Forests of one domain and target."""
    domain, target = draw(domains()), draw(classes)
    trees = st.lists(strategies.nested_trees(domain, target.n_values), min_size=1, max_size=3)
    return [voting(naive.plant(domain, target, *draw(trees))) for _ in range(draw(st.integers(1, 3)))]


def codes_of(domain, n_rows=40):
    records = naive.all_records(domain)
    return np.array(records[:: max(1, len(records) // n_rows)], dtype=domain.dtype).T


@FIXED
@given(several_forests())
def test_the_votes_of_a_joined_forest_are_the_sums_of_the_votes(parts):
    joined, codes = Forest.join(parts), codes_of(parts[0].domain)
    assert_sound(joined)
    assert joined.n_trees == sum(part.n_trees for part in parts)
    np.testing.assert_allclose(joined.vote(codes), sum(part.vote(codes) for part in parts))
    np.testing.assert_array_equal(joined.choices(codes), np.concatenate([part.choices(codes) for part in parts]))


@FIXED
@given(several_forests(), SEEDS)
def test_some_trees_of_a_forest_vote_as_they_did_in_it(parts, seed):
    joined = Forest.join(parts)
    mask = np.random.default_rng(seed).random(joined.n_trees) < 0.6
    mask[seed % joined.n_trees] = True
    some, codes = joined.only(mask), codes_of(joined.domain)
    assert_sound(some)
    assert some.n_trees == mask.sum()
    for record, votes in zip(codes.T, some.vote(codes), strict=True):
        leaves = [naive.path(joined, tree, record)[-1] for tree in np.flatnonzero(mask)]
        np.testing.assert_allclose(votes, joined.votes[leaves].sum(axis=0))


@FIXED
@given(forests(classes))
def test_a_forest_taken_apart_and_joined_is_the_same_forest(forest):
    forest = voting(forest)
    back = Forest.join([forest.only(mask) for mask in np.eye(forest.n_trees, dtype=bool)])
    for name in ("trees", "parents", "levels", "first_children", "features", "counts", "variances", "shares", "votes"):
        np.testing.assert_array_equal(getattr(back, name), getattr(forest, name), err_msg=name)
    inner = ~forest.is_leaf
    np.testing.assert_array_equal(back.routes[back.splits[inner]], forest.routes[forest.splits[inner]])
    assert back.released.tolist() == forest.released.tolist()
