"""Neighbours of the audit: generated ones have all that goes wrong, fixed ones are small and accepted by every recipe."""

import inspect
import math
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.audit.broken import GREEDY

from dpforest import Categorical, Classes, Date, Numeric, get_recipe, list_recipes
from dpforest.audit.cases import ODD_DATES, PAIRS, generate, pairs_for
from dpforest.audit.replay import run_fit
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Tape
from dpforest.errors import LeakWarning
from dpforest.parts import leaves as leaves_module
from dpforest.parts.leaves import NoisyMargin
from dpforest.parts.recipe import Recipe

# --- generated cases ----------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.slow

N_CASES = 300


@cache
def cases(*tasks):
    return [generate(seed, tasks) for seed in range(N_CASES)]


def is_missing(value):
    return value is None or value != value


def oddities(case, record):
    """What is odd about a record."""
    target = case.schema.target
    for feature, value in zip(case.schema.features.values(), record, strict=False):
        if is_missing(value):
            yield "missing value"
        elif isinstance(feature, Date):
            if any(value is odd for odd in ODD_DATES):
                yield "odd date"
        elif isinstance(feature, Categorical):
            if value not in feature.categories:
                yield "unknown category"
        elif isinstance(value, str):
            yield "text for a number"
        elif math.isinf(value):
            yield "infinite value"
        elif not feature.lower <= value <= feature.upper:
            yield "clipped value"
        elif value in (feature.lower, feature.upper):
            yield "value at its bound"
    if is_missing(record[-1]):
        yield "missing target"
    elif isinstance(target, Classes):
        if record[-1] not in target.labels:
            yield "unknown label"
    elif not target.range[0] <= record[-1] <= target.range[1]:
        yield "clipped target"


def traits(case):
    """What is special about the tables of a case."""
    rows, labels = case.rows, Counter(str(row[-1]) for row in case.rows)
    odd_rows = {oddity for row in rows for oddity in oddities(case, row)}
    listed = getattr(case.schema.target, "labels", ())
    yield from {f"{oddity} in the extra record" for oddity in oddities(case, case.extra)}
    yield from {f"{oddity} in the rows" for oddity in odd_rows}
    yield from {f"{oddity} in the extra record alone" for oddity in oddities(case, case.extra) if oddity not in odd_rows}
    yield "extra record " + ("first" if case.extra_first else "last")
    yield "one record " + ("less" if case.larger_first else "more")
    yield f"delta {'above' if case.delta else 'is'} 0"
    yield f"number of rows {'un' * (case.schema.n_rows is None)}declared"
    for name, holds in {
        "empty table": not rows,
        "one row": len(rows) == 1,
        "one class only": len(rows) > 1 and len(labels) == 1 and rows[0][-1] in listed and len(listed) > 1,
        "a single class declared": len(listed) == 1,
        "tied classes": len(labels) > 1 and len(set(labels.values())) == 1,
        "duplicates": len(set(map(str, rows))) < len(rows),
        "duplicate of the extra record": str(case.extra) in map(str, rows),
        "same features, other target": any(
            str(row[:-1]) == str(case.extra[:-1]) and row[-1] != case.extra[-1] for row in rows
        ),
        "default number of trees": case.n_trees is None,
        "default depth": case.max_depth is None,
        "only numeric features": all(isinstance(part, Numeric) for part in case.schema.features.values()),
        "only categorical features": all(isinstance(part, Categorical) for part in case.schema.features.values()),
    }.items():
        if holds:
            yield name


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_generated_cases_have_everything_that_goes_wrong(task):
    seen = Counter(trait for case in cases(task) for trait in traits(case))
    odd = ["missing value", "unknown category", "infinite value", "clipped value", "value at its bound", "missing target"]
    odd += ["odd date"]
    odd += ["unknown label"] if task == "classification" else ["clipped target"]
    places = ("the rows", "the extra record", "the extra record alone")
    wanted = [f"{oddity} in {place}" for oddity in odd for place in places] + [
        "extra record first", "extra record last", "one record less", "one record more", "delta is 0", "delta above 0",
        "number of rows declared", "number of rows undeclared", "empty table", "one row", "tied classes", "duplicates",
        "duplicate of the extra record", "same features, other target", "default number of trees", "default depth",
        "only numeric features", "only categorical features",
    ]  # fmt: skip
    wanted.append("text for a number in the rows")
    wanted += ["one class only", "a single class declared"] if task == "classification" else []
    assert {trait: seen[trait] for trait in wanted if seen[trait] < 3} == {}


def test_fits_on_generated_cases_have_empty_nodes_and_ties_between_candidates():
    seen = Counter()
    for case in cases("classification")[:80]:
        tape = Tape(case.seed, case.extra_first)
        run_fit(Subject(GREEDY), case, *case.tables()[1], tape)
        choices, leaves = [query.values for query in tape.queries[:-1]], tape.queries[-1].values
        seen["empty leaves"] += not leaves.any(axis=1).all()
        seen["full leaves"] += leaves.any(axis=1).all()
        best = [np.sort(scores, axis=1)[:, -2:] for scores in choices]
        seen["tied best candidates"] += any((np.ptp(pair, axis=1) == 0).any() for pair in best)
    assert min(seen.values()) >= 3
    assert len(seen) == 3


def leaf_at(where):
    """The name of the class of leaves that a query was asked in, or "" for another place."""
    file, _, line = where.partition(":")
    for leaf in vars(leaves_module).values() if file == "dpforest/parts/leaves.py" else ():
        if isinstance(leaf, type) and leaf.__module__ == leaves_module.__name__:
            lines, first = inspect.getsourcelines(leaf)
            if first <= int(line.split()[0]) < first + len(lines):
                return leaf.__name__
    return ""


def test_generated_cases_make_the_planner_show_its_plans():
    asked = Counter()
    for case in cases("classification", "regression")[:50]:
        tape = Tape(case.seed, case.extra_first)
        run_fit(Subject("auto"), case, *case.tables()[0], tape)
        asked.update(
            {query.label for query in tape.queries} | {scope.label for query in tape.queries for scope in query.scopes}
        )
        asked.update({query.unit for query in tape.queries} | {leaf_at(query.where) for query in tape.queries})
    leaves = ["NoisyCounts", "Rotated", "ResidualSums", "TwoBinMean"]
    wanted = ["number of rows", "range of the target", "splits of level 0: centres", "splits of level 1", "tree 2", *leaves]
    assert {label: asked[label] for label in [*wanted, "epsilon", "rho"] if asked[label] < 3} == {}


def test_the_case_of_a_number_is_always_the_same():
    assert [str(generate(seed, ("classification",))) for seed in range(50)] == [
        str(case) for case in cases("classification")[:50]
    ]
    assert len({str(case) for case in cases("classification")}) == N_CASES


def test_no_case_has_a_delta_if_none_is_wanted():
    assert {generate(seed, ("regression",), with_delta=False).delta for seed in range(50)} == {0.0}


def test_the_two_tables_of_a_case_differ_by_the_extra_record_at_one_end():
    for case in cases("classification", "regression")[:60]:
        one, two = ([str((*x, t)) for x, t in zip(X, y, strict=True)] for X, y in case.tables())
        smaller, larger = (two, one) if case.larger_first else (one, two)
        assert larger == ([str(case.extra), *smaller] if case.extra_first else [*smaller, str(case.extra)])
        assert case.sign == len(two) - len(one)


def test_a_case_without_some_rows_keeps_the_others_in_order():
    case = next(case for case in cases("classification") if len(case.rows) == 8)
    smaller = case.without([0, 3, 7])
    assert smaller.rows == tuple(case.rows[place] for place in (1, 2, 4, 5, 6))
    assert replace(smaller, rows=case.rows) == case


# --- fixed pairs --------------------------------------------------------------------------------------------------------

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
