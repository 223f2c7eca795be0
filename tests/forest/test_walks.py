"""Records walk down trees of any depth, in blocks and threads of any size, to the leaves of the slow twin."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from tests.support import naive
from tests.support.crosses import pairwise
from tests.support.strategies import FIXED, MIXED, SEEDS, forests, mixed_table, random_codes, recipe_of

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, predicting
from dpforest.common import work as workers
from dpforest.common.work import Workers
from dpforest.forest.walks import ROWS_AT_ONCE, sum_children
from dpforest.schema.domain import Domain, Grid

BLOCK = ROWS_AT_ONCE
BEYOND = [(1, -1), (1, 0), (1, 1), (2, 3)]


def with_votes(forest, rng):
    """Votes with ties, so that the first of equal values must win."""
    return replace(forest, votes=rng.integers(0, 4, (forest.n_nodes, forest.counts.shape[1])).astype(float))


def twin_choices(forest, codes):
    def choice(index, record):
        votes = forest.votes[naive.path(forest, index, record)[-1]].tolist()
        return votes.index(max(votes))

    return [[choice(index, record) for record in codes.T] for index in range(forest.n_trees)]


def assert_equals_twins(forest, laid, codes):
    """Votes and choices are those of the twins, however codes are laid in memory."""
    assert forest.vote(laid).tolist() == [naive.votes(forest, record) for record in codes.T]
    assert forest.choices(laid).tolist() == twin_choices(forest, codes)


@pytest.mark.parametrize(
    ("n_records", "examples"),
    [*((n, 40) for n in (0, 1, 9)), *(pytest.param(BLOCK * k + more, 4, marks=pytest.mark.slow) for k, more in BEYOND)],
)
def test_any_number_of_records_reach_the_leaves_of_their_twins(n_records, examples):
    @settings(FIXED, max_examples=examples)
    @given(forests(), SEEDS)
    def check(forest, seed):
        rng = np.random.default_rng(seed)
        forest, codes = with_votes(forest, rng), random_codes(forest.domain, n_records, rng)
        assert_equals_twins(forest, codes, codes)

    check()


DOMAIN = Domain.of(Schema({"x": Numeric(0, 4), "z": Numeric(0, 300)}, Classes(["a", "b"])), Grid(4))


def chain(depth, index=0):
    """A tree that is as deep as it has splits: at each level one child is a leaf."""
    if depth == 0:
        return [index, 100 - index]
    return (depth % 2, [0, 1, 0, 1, 1], [[index + 1, 50 + index], chain(depth - 1, index + 2)])


def planted(*depths):
    forest = naive.plant(DOMAIN, Classes(["a", "b"]), *(chain(depth, 9 * index) for index, depth in enumerate(depths)))
    return replace(forest, votes=forest.counts)


@pytest.mark.parametrize("depths", [(0,), (0, 0), (0, 7), (7, 0), (1, 12, 3), (5, 2, 0, 9)], ids=str)
def test_trees_of_any_depth_are_walked_however_codes_lie_in_memory(depths):
    forest, codes = planted(*depths), random_codes(DOMAIN, 60, np.random.default_rng(0))
    for laid in (codes, np.asfortranarray(codes), np.repeat(codes, 2, axis=1)[:, ::2]):
        assert_equals_twins(forest, laid, codes)


def test_a_changed_forest_does_not_walk_the_paths_of_the_old_one():
    forest, codes = planted(6, 2), random_codes(DOMAIN, 60, np.random.default_rng(2))
    votes, released = np.nan_to_num(forest.counts), np.ones(forest.n_nodes, dtype=bool)
    forest = replace(forest, votes=votes, shares=votes, released=released)
    forest.vote(codes)
    for changed in (forest.without_children(np.array([1])), forest.only(np.array([False, True])), forest.join([forest] * 2)):
        assert changed.vote(codes).tolist() == [naive.votes(changed, record) for record in codes.T]
        assert changed.vote(codes).tolist() != forest.vote(codes).tolist()


def fitted(task):
    X, y, z = mixed_table(300, seed=3)
    if task == "classes":
        recipe = recipe_of(n_trees=4, depth=4)
        return DPForestClassifier(Schema(MIXED, Classes([0, 1])), recipe=recipe, random_state=1).fit(X, y)
    return DPForestRegressor(Schema(MIXED, Bounded(0, 1)), recipe="auto", n_trees=3, random_state=1).fit(X, z)


@pytest.mark.slow
@pytest.mark.parametrize(("n_jobs", "chunk", "task"), pairwise([1, 2, 3, 7], [1, 64, 1 << 14], ["classes", "bounded"]))
def test_predictions_do_not_depend_on_threads_or_chunks(monkeypatch, task, chunk, n_jobs):
    model, (X, _, _) = fitted(task), mixed_table(211, seed=4)
    model.feature_names_in_ = np.array(list(MIXED), dtype=object)
    frame = pd.DataFrame(X, columns=list(MIXED)).astype({"x": float, "k": float, "d": int})
    alone = [model.predict(frame), *([model.predict_proba(frame)] if task == "classes" else [])]
    n_parts, parts = set(), Workers.parts
    monkeypatch.setattr(workers, "THREAD_CELLS", 0)
    monkeypatch.setattr(predicting, "effective_n_jobs", lambda asked: n_jobs)
    monkeypatch.setattr(predicting, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(Workers, "parts", lambda *asked: n_parts.add(len(parts(*asked))) or parts(*asked))
    for table in (X.tolist(), frame):
        together = [model.predict(table), *([model.predict_proba(table)] if task == "classes" else [])]
        for before, after in zip(alone, together, strict=True):
            np.testing.assert_array_equal(before, after)
    assert n_jobs in n_parts


@FIXED
@given(forests(), SEEDS)
def test_sums_over_children_are_those_of_their_twin(forest, seed):
    rng = np.random.default_rng(seed)
    values, chosen = rng.normal(size=(forest.n_nodes, 3)), rng.random(forest.n_nodes) < 0.6
    expected = values.tolist()
    for node in reversed(range(forest.n_nodes)):
        if chosen[node]:
            children = np.flatnonzero(forest.parents == node).tolist()
            expected[node] = [sum(expected[child][index] for child in children) + 0.0 for index in range(3)]
    sum_children(forest.parents, forest.first_children, chosen, values)
    assert values.tolist() == expected
