"""A fit says where its guarantee fails, and what fits without a budget cost together; known by identity, never by values."""

import gc
import math
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

from dpforest import Budget, Classes, DPForestClassifier, DPSearchCV, Numeric, Schema
from dpforest.common import other_fits
from dpforest.errors import LeakWarning, RepeatedFitWarning

SCHEMA = Schema({"age": Numeric(0, 100)}, Classes(["no", "yes"]), n_rows=40)
Y = np.array(["no", "yes"] * 20)


def table():
    return np.arange(40.0).reshape(-1, 1)


def forest(schema=SCHEMA, **parameters):
    return DPForestClassifier(schema, **{"recipe": "jagannathan-2009", "n_trees": 1, "max_depth": 1, **parameters})


def told(work, kind):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in caught if warning.category is kind]


SEED, READ = "a random_state was given", "were read off the rows"
ASSUMED = {"schema": "assume-public"}


def test_a_fit_without_a_guarantee_says_why_once():
    for parameters, reasons in [
        ({"random_state": 1}, [SEED]),
        (ASSUMED, [READ]),
        ({**ASSUMED, "random_state": 1}, [SEED, READ]),
        ({**ASSUMED, "random_state": 1, "epsilon": math.inf}, []),  # no privacy was asked for
        ({}, []),
    ]:
        words = told(lambda parameters=parameters: forest(**parameters).fit(table(), Y), LeakWarning)
        assert len(words) == bool(reasons)
        assert all(reason in words[0] for reason in reasons)


def test_the_second_fit_of_a_table_says_once_what_all_fits_cost():
    X = pd.DataFrame({"age": table()[:, 0]})
    assert told(lambda: forest(epsilon=0.3).fit(X, Y), RepeatedFitWarning) == []
    (words,) = told(lambda: forest(epsilon=0.4, delta=1e-6).fit(X, Y), RepeatedFitWarning)
    assert "2 fits were made on this very table" in words
    assert "each record up to epsilon = 0.7 and delta = 1e-06 in all" in words
    assert told(lambda: forest().fit(X, Y), RepeatedFitWarning) == []
    assert told(lambda: [forest().fit(table(), Y) for _ in range(3)], RepeatedFitWarning) == []  # equal, not the same


def test_records_and_persons_are_not_added_up():
    X, persons = table(), {"max_rows_per_person": 1, "schema": Schema(SCHEMA.features, SCHEMA.target)}
    ids = np.arange(40)
    assert told(lambda: forest().fit(X, Y), RepeatedFitWarning) == []
    assert told(lambda: forest(**persons).fit(X, Y, groups=ids), RepeatedFitWarning) == []
    (words,) = told(lambda: forest(**persons).fit(X, Y, groups=ids), RepeatedFitWarning)
    assert "2 fits were made on this very table without a budget, and cost each person up to epsilon = 2 in all" in words


WAYS = {
    "cross_val_score": lambda model: cross_val_score(model, table(), Y, cv=3),
    "GridSearchCV": lambda model: GridSearchCV(Pipeline([("m", model)]), {"m__epsilon": [0.5, 2.0]}).fit(table(), Y),
    "clones": lambda model: [clone(model).fit(table(), Y) for _ in range(3)],
    "again": lambda model: [model.fit(table(), Y) for _ in range(3)],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_search", [False, True], ids=["forest", "search"])
def test_folds_and_candidates_say_once_that_they_add_up(way, is_search):
    model = forest(epsilon=0.5)
    if is_search:
        model = DPSearchCV(model, {"max_depth": [1]}, epsilon=0.5, mean_runs=1)
    (words,) = told(lambda: WAYS[way](model), RepeatedFitWarning)
    assert "2 fits were made of this estimator and its clones" in words
    assert "up to epsilon = 1 in all" in words
    assert "no private choice" in words


def test_fits_that_are_charged_elsewhere_or_promise_nothing_are_not_added_up(tmp_path):
    budget = Budget.open(tmp_path / "budget.db", dataset="ward-7", epsilon=9.0)
    for parameters in ({"epsilon": math.inf}, {"random_state": 1}, ASSUMED, {"budget": budget}):
        X, model = table(), forest(**parameters)
        assert told(lambda X=X, model=model: [model.fit(X, Y) for _ in range(3)], RepeatedFitWarning) == []


def test_runs_of_a_search_are_neither_said_nor_counted():
    X, model = table(), forest()
    search = DPSearchCV(model, {"max_depth": [1, 2]}, mean_runs=5)
    assert told(lambda: search.fit(X, Y), RepeatedFitWarning) == []
    things = X, search, model, search.best_estimator_
    assert [other_fits._total(thing).sums["record"][0] for thing in things] == [1, 1, 0, 0]


def test_a_warning_that_is_an_error_comes_before_the_second_fit_spends():
    X, model = table(), forest()
    forest().fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        with pytest.raises(RepeatedFitWarning):
            model.fit(X, Y)
    assert not hasattr(model, "ledger_")


def test_what_is_remembered_keeps_nothing_alive_and_is_not_pickled():
    gc.collect()
    before, X, model = set(other_fits._TOTALS), table(), forest().fit(table(), Y)
    clone(model).fit(X, Y)
    assert id(X) in set(other_fits._TOTALS) - before
    other = pickle.loads(pickle.dumps(model))
    assert id(other) not in other_fits._TOTALS
    del X, model
    gc.collect()
    assert set(other_fits._TOTALS) <= before


def test_threads_lose_no_fit():
    X, model = table(), forest()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: other_fits.added_up(model, X, 1.0, 0.0, "record"), range(200)))
    assert other_fits._total(X).sums["record"] == other_fits._total(model).sums["record"] == (200, 200.0, 0.0)


def test_epsilon_is_shown_also_at_its_default():
    for given, shown in (({}, "epsilon=1.0"), ({"n_trees": 3}, "epsilon=1.0, n_trees=3"), ({"epsilon": 0.5}, "epsilon=0.5")):
        assert repr(DPForestClassifier(**given)) == f"DPForestClassifier({shown})"
    assert repr(DPSearchCV(None, {})).startswith("DPSearchCV(epsilon=1.0, ")
    assert "epsilon" in DPForestClassifier()._repr_html_()
