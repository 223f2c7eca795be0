"""Forests that are joined, and some trees of a forest, are whole forests that vote as before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive, strategies
from tests.support.planted import voting
from tests.support.strategies import FIXED, SEEDS, classes, domains, forests

from dpforest.forest.tree import Forest


@st.composite
def several_forests(draw):
    """Forests of one domain and target."""
    domain, target = draw(domains()), draw(classes)
    trees = st.lists(strategies.nested_trees(domain, target.n_values), min_size=1, max_size=3)
    return [voting(naive.plant(domain, target, *draw(trees))) for _ in range(draw(st.integers(1, 3)))]


def codes_of(domain, n_rows=40):
    records = naive.all_records(domain)
    return np.array(records[:: max(1, len(records) // n_rows)], dtype=domain.dtype).T


def assert_sound(forest):
    """Numbered level by level, roots first, links agree."""
    assert forest.parents[: forest.n_trees].tolist() == [-1] * forest.n_trees
    assert forest.trees[: forest.n_trees].tolist() == list(range(forest.n_trees))
    assert (np.diff(forest.levels) >= 0).all()
    assert sorted(forest.splits[~forest.is_leaf]) == list(range(len(forest.routes)))
    for node in range(forest.n_trees, forest.n_nodes):
        parent = forest.parents[node]
        siblings = np.flatnonzero(forest.parents == parent)
        assert siblings.tolist() == list(range(siblings[0], siblings[-1] + 1))
        assert forest.first_children[parent] == siblings[0]
        assert forest.trees[node] == forest.trees[parent]
        assert forest.levels[node] == forest.levels[parent] + 1


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
