"""Persons are scored as persons: at most k rows of each, drawn over all parts, with noise for so many."""

import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.support.chances import at_least, at_most, seed_coins
from tests.support.encoded import opened
from tests.support.scored import two

from dpforest import Budget
from dpforest.errors import ParameterError, TableError
from dpforest.evaluation import evaluate_privately, scoring
from dpforest.evaluation.cells import Cells
from dpforest.privacy.gate import Gate
from dpforest.records.people import People, ids_beside


class Given:
    """Coins that were given beforehand, as many as are asked for; keeps what each of them is below."""

    def __init__(self, drawn=()):
        self.drawn, self.limits = list(drawn), []

    def run(self, _kernel, n_items, limits, values):
        self.limits = limits.tolist()
        values[...] = self.drawn or [0] * n_items


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_every_set_of_rows_of_a_person_is_as_likely_whatever_part_they_come_in(kind, most, request):
    """By all outcomes of the coins; rows without an id, and those whose target is missing, take no place."""
    model, X, y = request.getfixturevalue(kind)
    known = np.flatnonzero(pd.notna(y))[:8]
    X, y = X.iloc[known].reset_index(drop=True), y[known]
    y[1] = None if kind == "classifier" else math.nan
    ids, cells = ["p", "p", "q", None, "p", "q", "p", "r"], Cells.of(model, "z", None, 0.5)
    parts = [(X[part], y[part], np.array(ids, dtype=object)[part]) for part in (slice(0, 3), slice(3, 5), slice(5, 8))]
    own = [opened(cells.count([(X[row : row + 1], y[row : row + 1], None)])) for row in range(8)]
    coins = Given()
    cells.count(parts, People(most, coins))
    outcomes = [*itertools.product(*map(range, coins.limits))]
    found = Counter(opened(cells.count(parts, People(most, Given(drawn)))).tobytes() for drawn in outcomes)
    sets = itertools.product(*(itertools.combinations(rows, min(most, len(rows))) for rows in ([0, 4, 6], [2, 5], [7])))
    wanted = Counter(sum(own[row] for row in sum(chosen, ())).tobytes() for chosen in sets)
    laws = [{key: Fraction(n, law.total()) for key, n in law.items()} for law in (found, wanted)]
    assert laws[0] == laws[1]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("kind", ["classifier", "classifier_of_two", "regressor"])
def test_a_person_with_many_equal_rows_loses_the_stated_epsilon_and_nearly_all_of_it(kind, most, request, monkeypatch):
    """So noise for 0.9 of the rows would be too little, and rows that are drawn part by part, or not at all, too many."""
    model, X, y = request.getfixturevalue(kind)
    seen = []

    class Watching(Gate):
        def _add_noise(self, values, spread):
            seen.append((values, Fraction(spread.numerator, spread.denominator)))
            return values

    monkeypatch.setattr(scoring, "Gate", Watching)
    y = np.where(pd.notna(y), y, y[2])
    more, labels = pd.concat([X[:20], X[20:21].loc[[20] * 7]]), np.append(y[:20], [y[20]] * 7)
    ids = [*range(20), *[99] * 7]
    tables = [(more[:n], labels[:n], ids[:n]) for n in (20, 27)]
    found = [evaluate_privately(model, X, y, 1.2, groups=who, max_rows_per_person=most) for X, y, who in tables]
    (before, rate), (after, _) = seen
    loss = int(np.abs(after - before).sum()) * rate
    assert Fraction(12, 10) * 999 / 1000 < loss <= Fraction(12, 10)
    assert {(each.epsilon, each.unit, each.rows, each.ledger.rows) for each in found} == {(1.2, "person", most, most)}


def test_ids_and_rows_of_a_person_are_given_together_and_checked(classifier):
    model, X, y = classifier
    dates = pd.Series(pd.Timestamp(0)).repeat(3000)
    for error, asked, words in (
        (ParameterError, {"groups": [0] * 3000}, "set max_rows_per_person"),
        (ParameterError, {"max_rows_per_person": 2}, "protects persons, so groups is needed"),
        (ParameterError, {"groups": [0] * 3000, "max_rows_per_person": 0}, "whole number"),
        (TableError, {"groups": [0] * 2999, "max_rows_per_person": 2}, "X and groups differ in length"),
        (TableError, {"groups": dates, "max_rows_per_person": 2}, "numbers or text"),
    ):
        with pytest.raises(error, match=words):
            evaluate_privately(model, X, y, 1.0, **asked)
    with pytest.raises(TableError, match="X and y differ in length"):
        evaluate_privately(model, X, y[:-1], 1.0)


def test_scores_of_persons_are_charged_to_budgets_of_persons_and_others_name_what_there_is(classifier, tmp_path):
    model, X, y = classifier
    persons = Budget.open(tmp_path / "b.db", dataset="persons", epsilon=1.0, unit="person")
    records = Budget.open(tmp_path / "b.db", dataset="records", epsilon=1.0)
    people = {"groups": np.arange(3000) // 3, "max_rows_per_person": 2}
    evaluate_privately(model, X, y, 0.3, budget=persons, **people)
    assert persons.spent == 0.3
    with pytest.raises(ParameterError, match="To protect persons, set groups and max_rows_per_person, or charge it to a"):
        evaluate_privately(model, X, y, 0.3, budget=persons)
    with pytest.raises(ParameterError, match="Leave out groups and max_rows_per_person, or charge it to a"):
        evaluate_privately(model, X, y, 0.3, budget=records, **people)
    assert (persons.spent, records.spent) == (0.3, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier_of_two", "regressor"])
def test_bands_of_other_rows_hold_also_if_all_rows_of_a_person_are_alike(kind, request, monkeypatch):
    """100 persons with five equal rows each, of a table of many: bands that took rows as independent had far too few."""
    seed_coins(monkeypatch)
    monkeypatch.setattr(scoring, "model_digest", lambda model: None)
    model, X, y = two(n_rows=20_000) if kind == "classifier_of_two" else request.getfixturevalue(kind)
    X, y = X[pd.notna(y)], y[pd.notna(y)]
    whole = {score.name: score.value for score in evaluate_privately(model, X, y, math.inf).scores}
    rng, n_runs, inside, before = np.random.default_rng(0), 200, Counter(), Counter()
    for _ in range(n_runs):
        rows = np.repeat(rng.integers(0, len(y), 100), 5)
        table = X.iloc[rows], y[rows]
        people = {"groups": np.repeat(np.arange(100), 5), "max_rows_per_person": 5}
        for counts, asked in ((inside, people), (before, {})):
            for score in evaluate_privately(model, *table, math.inf, **asked).scores:
                counts[score.name] += abs(score.value - whole[score.name]) <= score.sampling
    names = {name for name in inside if inside[name]}
    assert names >= ({"mean absolute error"} if kind == "regressor" else {"accuracy", "area under the curve"})
    for name in names:
        assert inside[name] >= at_least(n_runs, 0.93), name
        assert before[name] <= at_most(n_runs, 0.7), name  # 62 in 100 is what 1.96 / sqrt(5) deviations hold


def test_decimals_of_a_database_are_one_id_if_they_are_one_number():
    ids = pa.array(["1.0", "1.00", "NaN", None, "9" * 5000])
    for engine, kind in (("postgres", "numeric"), ("duckdb", "HUGEINT")):
        columns = pa.Table.from_arrays([ids], schema=pa.schema([pa.field("who", ids.type, metadata={engine: kind})]))
        first, second, *_ = read = ids_beside(columns, "who")
        assert first == second == Decimal(1)
        assert len(read) == 5
    dates = pa.schema([pa.field("who", ids.type, metadata={"postgres": "timestamp with time zone"})])
    with pytest.raises(TableError, match="numbers or text"):
        ids_beside(pa.Table.from_arrays([ids], schema=dates), "who")
