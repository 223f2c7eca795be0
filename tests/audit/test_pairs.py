"""The fixed neighbours of the audit: small, one record apart, and accepted by every recipe that should accept them."""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dpforest import get_recipe, list_recipes
from dpforest.audit.pairs import PAIRS, pairs_for
from dpforest.audit.subject import Subject
from dpforest.errors import LeakWarning
from dpforest.parts.leaves import NoisyMargin
from dpforest.parts.recipe import Recipe

SUBJECTS = [
    Subject(row["name"], variant)
    for row in list_recipes()
    for variant in ("private", "published")
    if variant == "private" or row["published"]
]
IDS = [f"{Recipe.task(pair.schema)}:{pair.name}" for pair in PAIRS]


def named(pairs, name):
    return next(pair for pair in pairs if pair.name == name)


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_tables_differ_by_one_record(pair):
    without, with_record = pair.tables()
    for (X, y), n_rows in ((without, len(pair.rows)), (with_record, len(pair.rows) + 1)):
        assert X.dtype == object
        assert X.shape == (n_rows, pair.schema.n_features)
        assert y.shape == (n_rows,)
    records = [Counter((*map(repr, x), repr(label)) for x, label in zip(*table, strict=True)) for table in pair.tables()]
    assert records[1] - records[0] == Counter([tuple(map(repr, pair.extra))])
    assert not records[0] - records[1]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_pairs_are_few_small_and_have_a_reason(task):
    pairs = [pair for pair in PAIRS if Recipe.task(pair.schema) == task]
    assert 6 <= len(pairs) <= 11
    assert len({pair.name for pair in pairs}) == len(pairs)
    assert all(pair.why and len(pair.rows) <= 25 and pair.n_trees <= 2 for pair in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject.name}:{subject.variant}")
def test_every_recipe_runs_on_its_pairs(subject):
    pairs = pairs_for(subject)
    assert len(pairs) >= 6
    for pair in pairs:
        for table in pair.tables():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LeakWarning)
                model = subject.estimator(pair.schema, pair.n_trees, pair.max_depth).fit(*table)
            assert np.isfinite(model.forest_.counts).all()


def test_pairs_follow_the_tasks_and_parts_of_a_recipe_and_where_its_claim_fails():
    two = replace(get_recipe("jagannathan-2009"), leaf=NoisyMargin())  # which takes two classes
    assert {len(pair.schema.target.labels) for pair in pairs_for(Subject(two))} == {2}
    for subject, tasks in [
        (Subject("mu-2016"), {"classification"}),
        (Subject("auto"), {"classification", "regression"}),
        (Subject("consul-2020-ert"), {"classification", "regression"}),
        (Subject("consul-2020-ert", "published"), {"regression"}),
    ]:
        assert {Recipe.task(pair.schema) for pair in pairs_for(subject)} == tasks


def test_a_pair_in_words():
    pairs = pairs_for(Subject("auto"))
    words = "20 x (a=0, b=0, class 0), and the same with (a=1, b=0, class 1)"
    assert named(pairs, "pure node").describe() == words
    assert named(pairs, "empty table").describe() == "no record, and only (a=1, b=0, class 1)"
    assert named(pairs[::-1], "small gap").describe() == (
        "(x=0.2, target 0.0), (x=0.8, target 1.0), and the same with (x=0.20000001, target 1.0)"
    )
