"""Random splits that are drawn in blocks of nodes, and forests that a cap on nodes holds back."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive, strategies
from tests.support.strategies import FIXED, SEEDS, TWO, domains, mixed_table, recipe_of

from dpforest import DPForestClassifier
from dpforest.growing import growth as growth_module
from dpforest.parts import proposals as proposals_module
from dpforest.parts.allocation import EveryQuery, LeavesOnly, Uniform
from dpforest.parts.proposals import Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.schema.domain import Grid

KINDS = (Thresholds(), OneAgainstRest(), OneChildPerValue(), RandomSubsets(2))


@FIXED
@given(domains(), st.integers(1, 11), SEEDS, st.data())
def test_random_splits_drawn_in_blocks_divide_their_own_node_wherever_any_split_does(domain, n_nodes, seed, data):
    reach = data.draw(strategies.reaches(domain, n_nodes))
    menu = Menu((KINDS[2], *data.draw(st.lists(st.sampled_from(KINDS), max_size=2, unique=True))), random=True)
    fixed, rng = menu.fixed(domain), np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals_module, "BLOCK_NODES", 1 + seed % 4)
        candidates = menu.propose(domain, fixed, reach, rng)
    assert candidates.indices.shape == candidates.valid.shape == (n_nodes, 1)
    for node in range(n_nodes):
        held = [np.flatnonzero(reach[node, a:b]) for a, b in itertools.pairwise(domain.offsets)]
        route, feature = candidates.indices[node, 0], candidates.features[node, 0]
        if candidates.valid[node, 0]:
            assert naive.divides(candidates.routes.children(np.array([route]))[0], held[feature])
        else:
            # One child for each value divides every node that holds two values of a feature.
            assert all(len(codes) < 2 for codes in held)


@FIXED
@given(domains(), st.integers(2, 9), SEEDS, st.data())
def test_blocks_of_random_splits_keep_to_the_features_that_each_node_may_use(domain, n_nodes, seed, data):
    reach, rng = data.draw(strategies.reaches(domain, n_nodes)), np.random.default_rng(seed)
    allowed = rng.random((n_nodes, domain.n_features)) < 0.5
    menu = Menu((OneChildPerValue(),), random=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals_module, "BLOCK_NODES", 2)
        candidates = menu.propose(domain, menu.fixed(domain), reach, rng, allowed)
    nodes = np.flatnonzero(candidates.valid[:, 0])
    assert allowed[nodes, candidates.features[nodes, 0]].all()


def assert_splits_divide(forest):
    """Every split sends codes that its node can hold to each of its children, and all to none."""
    domain = forest.domain
    held = [[set(range(n)) for n in domain.n_codes] for _ in range(forest.n_trees)]
    for node in range(forest.n_trees, forest.n_nodes):
        parent = forest.parents[node]
        feature, index = forest.features[parent], node - forest.first_children[parent]
        route = forest.routes[forest.splits[parent]]
        codes = [set(part) for part in held[parent]]
        codes[feature] = {code for code in codes[feature] if route[code] == index}
        assert codes[feature]
        assert codes[feature] != held[parent][feature]
        held.append(codes)


@pytest.mark.parametrize("most_nodes", [3, 10, 61, 400])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_a_deep_random_forest_stays_below_the_cap_and_all_its_splits_divide(most_nodes, block, monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_NODES", most_nodes)
    monkeypatch.setattr(proposals_module, "BLOCK_NODES", block)
    X, y, _ = mixed_table(90, seed=6)
    recipe = recipe_of(
        propose=Menu((OneChildPerValue(numeric=False), Thresholds(), RandomSubsets(1)), random=True),
        allocate=LeavesOnly(), n_trees=3, depth=9,
    )  # fmt: skip
    model = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y)
    forest = model.forest_
    assert 3 <= forest.n_nodes <= most_nodes
    assert_splits_divide(forest)
    # Every record is in one leaf of each tree.
    leaves = forest.is_leaf
    assert [forest.counts[leaves & (forest.trees == tree)].sum() for tree in range(3)] == [90, 90, 90]


def test_a_random_forest_of_more_nodes_than_a_block_is_whole():
    X, y, _ = mixed_table(300, seed=8)
    recipe = recipe_of(propose=Menu(random=True), allocate=LeavesOnly(), grid=Grid(32), n_trees=4, depth=12)
    forest = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    widest = max(level.stop - level.start for level in forest.level_slices())
    assert widest > proposals_module.BLOCK_NODES
    assert_splits_divide(forest)
    leaves = forest.is_leaf
    assert [forest.counts[leaves & (forest.trees == tree)].sum() for tree in range(4)] == [300] * 4


@pytest.mark.parametrize("allocate", [Uniform(), EveryQuery()], ids=["uniform", "every query"])
def test_a_forest_that_the_cap_holds_back_still_spends_exactly_its_budget(allocate, monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_NODES", 6)
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, 0.7, recipe=recipe_of(allocate=allocate, depth=6), random_state=0).fit(X, y)
    assert model.forest_.n_nodes <= 6
    assert (1 - 1e-9) * 0.7 <= model.ledger_.total <= 0.7
