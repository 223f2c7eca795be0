"""What was released says when schema and table do not fit, and nothing else does."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.support import naive

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import LeakWarning, NothingLearntWarning
from dpforest.model.signal import released_doubts, uncertain_range
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.ledger import Ledger
from dpforest.schema.domain import Domain, Grid
from dpforest.show.report.content import report_content

FEATURES = {"age": Numeric(0, 100), "city": Categorical(["Oslo", "Rome"])}


def table(n_rows=3000):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(0, 100, n_rows), "city": rng.choice(["Oslo", "Rome"], n_rows)})
    return X, np.where(X["age"] > 50, "yes", "no")


def fitted(X, y, epsilon=1.0, n_rows=None, make=DPForestClassifier, target=None, **settings):
    """A model, and the warnings of its fit. Fits are seeded, so no test here can fail by chance."""
    schema = Schema(FEATURES, target or Classes(["no", "yes"]), n_rows=n_rows)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", LeakWarning)
        model = make(schema, epsilon, **{"random_state": 1, **settings}).fit(X, y)
    assert all(warning.category is NothingLearntWarning for warning in told)
    return model, [str(warning.message) for warning in told]


@pytest.mark.parametrize("spoil", [str.upper, lambda word: f"{word} "], ids=["case", "blanks"])
def test_labels_that_do_not_match_are_told_from_the_measured_number_of_records(spoil):
    X, y = table()
    model, told = fitted(X, [spoil(label) for label in y], random_state=3)
    assert len(told) == 1
    assert "may be 0" in told[0]
    assert "schema check --table" in told[0]
    assert report_content(model)["forest"]["odd"] == released_doubts(model.forest_, model.schema_, model.ledger_) == told


@pytest.mark.parametrize("recipe", ["auto", "consul-2020", "jagannathan-2009"])
def test_labels_that_do_not_match_are_told_from_the_trees_where_rows_are_declared(recipe):
    X, y = table()
    _, told = fitted(X, [f"{label}?" for label in y], n_rows=200_000, recipe=recipe)
    assert len(told) == 1
    assert "declares 200,000 rows" in told[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "n_rows"), [("auto", None), ("auto", 3000), ("consul-2020", 3000), ("fletcher-islam-2017", None)]
)
def test_a_table_that_fits_its_schema_raises_no_doubt(recipe, n_rows):
    X, y = table()
    model, told = fitted(X, y, n_rows=n_rows, recipe=recipe)
    assert told == report_content(model)["forest"]["odd"] == []
    assert fitted(X, X["age"], n_rows=n_rows, make=DPForestRegressor, target=Bounded(0, 100))[1] == []


@pytest.mark.parametrize(("value", "words"), [(None, "missing"), ("oslo", "none of the categories of the schema")])
def test_a_column_of_which_nothing_could_be_read_is_told(value, words):
    X, y = table(20_000)
    y = np.where(np.random.default_rng(1).random(len(y)) < 0.3, "no", y)
    X["city"] = pd.Series([value] * len(X), dtype=object)
    _, told = fitted(X, y, epsilon=4.0, random_state=3)
    assert len(told) == 1
    assert told[0].startswith(f"Column 'city': nearly all values are {words}.")


DOMAIN = Domain.of(Schema(FEATURES, Classes(["no", "yes"])), Grid(2))
# Codes of age: two bins, missing. Codes of city: two, other, missing.
PLANTED = {
    "nothing but missing numbers": ((0, [0, 0, 1], [[3, 3], [900, 800]]), ["'age': nearly all values are missing, or no"]),
    "missing and unknown": (
        (1, [0, 0, 1, 2], [[1, 1], [900, 0], [0, 800]]),
        ["'city': nearly all values are missing or unk"],
    ),
    "some known": ((0, [0, 0, 1], [[100, 100], [900, 800]]), []),
    "missing ones with others": ((0, [0, 1, 1], [[3, 3], [900, 800]]), []),
    "next to no records": ((0, [0, 0, 1], [[0, 0], [3, 3]]), []),
    "missing in a part of the table": ((1, [0, 1, 1, 1], [(0, [0, 0, 1], [[0, 0], [900, 0]]), [500, 500]]), []),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_column_is_doubted_where_the_root_shows_that_nearly_all_of_it_is_missing(name):
    tree, expected = PLANTED[name]
    forest = naive.plant(DOMAIN, Classes(["no", "yes"]), tree, variance=4.0).summed()
    found = released_doubts(forest, Schema(FEATURES, Classes(["no", "yes"])), Ledger(make_accountant(1.0, 0.0)))
    assert len(found) == len(expected)
    assert all(words in sentence for words, sentence in zip(expected, found, strict=True))


def test_a_budget_too_small_to_tell_is_said_in_the_report_and_is_no_warning():
    X, y = table()
    model, told = fitted(X, y, epsilon=0.01)
    content = report_content(model)["forest"]
    assert told == content["odd"] == []
    assert content["too_small_to_tell"]
    assert content["records"]["band"] > 5000


@pytest.mark.parametrize(("recipe", "delta"), [("auto", 0.0), ("consul-2020", 1e-6)])
def test_a_budget_too_small_to_find_the_range_of_the_target_is_told(recipe, delta):
    X, _ = table()
    for epsilon, n_rows, is_told in [(0.02, 3000, True), (2.0, 3000, False), (20.0, None, False)]:
        parts = {"make": DPForestRegressor, "target": Bounded(), "n_rows": n_rows, "recipe": recipe, "delta": delta}
        model, told = fitted(X, X["age"].to_numpy(), epsilon, **parts)
        found = uncertain_range(model.forest_, model.schema_, model.ledger_)
        assert bool(found) == is_told
        assert [text for text in told if "where the target" in text] == found
        assert [note for note in model.privacy_.notes if "where the target" in note] == found
        assert np.isfinite(model.predict(X)).all()
    model, told = fitted(X, X["age"].to_numpy(), 0.02, make=DPForestRegressor, target=Bounded(0, 100), n_rows=3000)
    assert uncertain_range(model.forest_, model.schema_, model.ledger_) == []
