"""Bad input: a clear error of the right class that shows no value of the table, nothing charged, nothing half-made.

A parameter from elsewhere is refused with what it is called here, or why there is none.
"""

import inspect
import traceback
from collections import deque

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor, VotingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpforest import (
    Bounded,
    Categorical,
    Classes,
    DPForestClassifier,
    DPForestRegressor,
    DPSearchCV,
    Numeric,
    Schema,
    list_recipes,
)
from dpforest.errors import DPForestError, ParameterError, SchemaError, TableError, UnknownParameterError
from dpforest.recipes.parameter_names import INSTEAD, OF_SEARCH, RENAMED

NAN = float("nan")
SCHEMA = Schema({"age": Numeric(0, 100), "sex": Categorical(["m", "f"])}, Classes(["no", "yes"], name="income"))
MEAN = Schema(SCHEMA.features, Bounded(0, 1, name="income"))
N_ROWS = 137
# The last rows have values that nobody may be shown, nor how many rows there are.
X = pd.DataFrame({"age": [*np.linspace(0, 100, 134), *[987654.321] * 3], "sex": ["m", "f"] * 67 + ["zebra-secret"] * 3})
Y = np.array(["no", "yes"] * 67 + ["walrus-secret"] * 3)
SECRETS = ("987654", "zebra-secret", "walrus-secret", str(N_ROWS))


def shown(error):
    """An error as it is shown, with all that stand behind it, but for lines of source code."""
    lines = []
    while error is not None:
        lines += traceback.format_exception_only(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "".join(lines)


def refused(error, words, table=X, target=Y, *, make=DPForestClassifier, schema=SCHEMA, **parameters):
    """The fit raises ``error``, shows nothing of the rows, charges nothing and makes nothing."""
    model = make(schema, **parameters)
    with pytest.raises(error, match=words) as caught:
        model.fit(table, target)
    assert not [secret for secret in SECRETS if secret in shown(caught.value)]
    assert isinstance(caught.value, DPForestError)
    assert isinstance(caught.value, ValueError)
    ledger = getattr(model, "ledger_", None)
    assert ledger is None or ledger.entries() == []
    assert not {"forest_", "privacy_", "schema_", "classes_"} & set(vars(model))
    return str(caught.value)


WRONG_SCHEMAS = [None, "adult.schema.json", "assume_public", {}, 5, SCHEMA.to_dict(), Schema, X, X.to_numpy()]


@pytest.mark.parametrize("schema", WRONG_SCHEMAS, ids=lambda schema: type(schema).__name__)
def test_a_missing_or_wrong_schema_is_refused_with_the_way_on(schema):
    text = refused(SchemaError, "schema must be a Schema", schema=schema)
    assert "from_file" in text
    assert "assume-public" in text


def test_a_schema_for_the_other_task_is_refused():
    refused(SchemaError, r"DPForestClassifier needs a schema whose target is Classes", schema=MEAN)
    refused(SchemaError, r"DPForestRegressor needs a schema whose target is Bounded", make=DPForestRegressor)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pd", "pl", "pa"])
def test_every_library_gets_the_same_errors(library):
    refused(TableError, "'sex' of the schema is missing", library(X[["age"]]))
    refused(TableError, "'age' is declared numeric", library(X.assign(age="old")))
    refused(TableError, "'sex'", library(X.assign(sex=1.0)))


MISSING = "'sex' of the schema is missing from the table; "
TWICE = Schema({"1": Numeric(0, 1)}, SCHEMA.target)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (X[["age"]], f"{MISSING}it has 'age'"),
        (X.rename(columns={"sex": "sxe"}), f"{MISSING}.*Is it 'sxe'\\?$"),
        (X.rename(columns={"sex": "onehot__sex"}), f"{MISSING}.*Is it 'onehot__sex'\\? A ColumnTransformer .*"
         "verbose_feature_names_out=False"),
        (X.rename(columns={"sex": "income"}), f"{MISSING}.*it has 'age', 'income'.$"),
        (X.assign(age=pd.Timestamp("2020-01-01")), "'age' is declared numeric"),
        (X.assign(sex=pd.Timestamp("2020-01-01")), "'sex' is declared categorical"), (X.assign(sex=True), "'sex'"),
        (np.zeros(N_ROWS), "2D"), (np.full((N_ROWS, 2, 1), 987654.321), "2D"), (np.float64(5), "2D"), ([1, 2, 3], "2D"),
        (X["age"], "2D"), ([], "differ in length"), (deque(), "differ in length"), (None, "given as NoneType"),
        ({"age": [1.0], "sex": ["m"]}, "given as dict"), ((row for row in [[1.0, "m"]]), "given as generator"),
        ("table.csv", "has its target in a column"), (pl.from_pandas(X).lazy(), r"Call \.collect\(\) on it"),
        (np.full((N_ROWS, 3), 987654.321), "3 features.* declares 2.* by their names .*set_output"),
        (np.zeros((N_ROWS, 0)), "0 features.* declares 2"), (np.full((N_ROWS, 2), 987654.321 + 1j), "Complex"),
        (sparse.csr_matrix(np.zeros((N_ROWS, 2))), "sparse"), (sparse.coo_array(np.zeros((N_ROWS, 2))), "sparse"),
        ([[1.0, "m"], [2.0]], "."), ([[987654.321, "zebra-secret"]] * 136 + [[1]], "."),
        ([[1.0, "m"], [2.0, "f", 3.0]], "."),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)  # fmt: skip
def test_a_table_that_is_none_or_does_not_fit_is_refused_with_the_column_named(table, words):
    refused(TableError, words, table)


def test_a_column_that_is_there_twice_is_named():
    twice = pd.DataFrame({1: [0.5], "1": [0.5]})
    refused(TableError, "'1' of the schema is more than once in", twice, ["no"], schema=TWICE)


def test_a_target_of_another_shape_is_refused():
    for length in (0, 1, N_ROWS - 1, N_ROWS + 1):
        refused(TableError, "differ in length", target=np.resize(Y, length))
    refused(TableError, "differ in length", X[:-1])
    for target in (np.stack([Y, Y], axis=1), pd.DataFrame({"a": Y, "b": Y}), X, np.float64(1)):
        refused(TableError, "target", target=target)


def test_a_missing_target_is_refused_as_scikit_learn_does():
    model = DPForestClassifier(SCHEMA)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X.to_numpy(), None)
    with pytest.raises(TableError, match="has no column 'income', the target that the schema names"):
        model.fit(X)
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize(
    "target",
    [Y, pd.Series(Y), np.arange(N_ROWS) + 1j, np.arange(N_ROWS).astype("M8[D]"), pl.Series([[1.0]] * N_ROWS)],
    ids=["text", "pandas text", "complex", "dates", "lists"],
)
@pytest.mark.filterwarnings("error")
def test_a_regression_target_of_the_wrong_type_is_refused(target):
    refused(TableError, "'income'|[Cc]omplex", target=target, make=DPForestRegressor, schema=MEAN)


# Values that a parameter may not have, and the words with which they are refused.
BAD = {
    "epsilon": (
        [0, 0.0, -1, -float("inf"), NAN, "1", None, [1], 1j, True, 10**400, X["age"]],
        "epsilon must be a positive number",
    ),
    "delta": ([-0.1, 1, 1.0, 2, NAN, float("inf"), "0", None, [0], X["age"]], r"delta must be a number in \[0, 1\)"),
    "n_trees": ([0, -1, 1.5, 1.0, NAN, True, "5", [1]], "n_trees must be a whole number"),
    "max_depth": ([0, -1, 1.5, 1.0, NAN, True, "5", [1], Y], "max_depth must be a whole number"),
    "recipe": (["atuo", "", None, 5, ["auto"], {}, X["sex"]], "no recipe .*catalogue has .*auto"),
    "recipe_params": (["bins=5", [("bins", 5)], 5, X], "recipe_params must be a dictionary"),
    "variant": (["Private", "publised", "", None, 1], "'private' or 'published'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_value_that_a_parameter_may_not_have_is_refused(name):
    values, words = BAD[name]
    for value in values:
        refused(ParameterError, words, **{name: value})


AGES, LABELS = X["age"][-3:], pd.Series(Y[-3:])
OF_COLUMNS = {
    "a feature": lambda: Schema({"age": AGES}, SCHEMA.target),
    "a target": lambda: Schema(SCHEMA.features, LABELS),
    "bounds": lambda: Numeric(AGES, AGES),
    "a number of rows": lambda: Schema(SCHEMA.features, SCHEMA.target, n_rows=AGES),
    "another label": lambda: Classes(["a", "b"], other=LABELS),
}


@pytest.mark.parametrize("make", OF_COLUMNS.values(), ids=OF_COLUMNS)
def test_a_fact_of_a_schema_that_is_a_column_is_refused_and_not_shown(make):
    with pytest.raises(ValueError) as caught:
        make()
    assert not [secret for secret in SECRETS if secret in shown(caught.value)]


@pytest.mark.parametrize("parameters", [{"bins": 5}, {"": None}, {5: 5}, {"epsilon": 2.0}], ids=repr)
def test_a_parameter_that_the_recipe_does_not_take_is_refused_by_name(parameters):
    refused(ParameterError, f"'auto' takes no parameter {next(iter(parameters))!r}", recipe_params=parameters)


@pytest.mark.parametrize("make", [DPForestClassifier, DPForestRegressor])
@pytest.mark.parametrize(
    "table",
    [np.empty((0, 2)), X[:0], pl.from_pandas(X[:0]), pa.Table.from_pandas(X[:0])],
    ids=["numpy", "pandas", "polars", "pyarrow"],
)
def test_an_empty_table_has_no_schema_to_read(table, make):
    model = make("assume-public")
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(table, [])
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
def test_a_schema_with_too_many_categories_is_refused_before_anything_is_spent(epsilon, monkeypatch):
    monkeypatch.setattr("dpforest.schema.domain.MOST_CODES", 700)
    schema = Schema({"c": Categorical(range(700))}, Classes([0, 1]))
    refused(SchemaError, "'c' has 702 codes", np.zeros((3, 1)), [0, 1, 0], schema=schema, epsilon=epsilon)


def test_a_budget_too_small_for_any_noise_is_refused_before_anything_is_spent():
    for parameters in ({"epsilon": 1e-300}, {"epsilon": 1e-9, "delta": 1e-15}):  # geometric and Gaussian
        refused(ParameterError, "Raise epsilon", **parameters)


def test_a_refused_second_fit_leaves_the_first_model_whole():
    model = DPForestClassifier(SCHEMA).fit(X, Y)
    before, predicted = dict(vars(model)), model.predict(X)
    with pytest.raises(TableError):
        model.fit(X[["age"]], Y)
    assert all(vars(model)[name] is value for name, value in before.items())
    assert (model.predict(X) == predicted).all()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (X[["age"]], "sex"),
        (X.assign(age="old"), "'age' is declared numeric"),
        (np.zeros((3, 5)), "5 features"),
        (np.zeros(3), "2D"),
        (X[:0], "0 sample"),
    ],
    ids=["missing column", "wrong type", "wrong width", "one dimension", "no rows"],
)
def test_a_table_that_does_not_fit_is_refused_when_predicting(table, words):
    model = DPForestClassifier(SCHEMA).fit(X, Y)
    with pytest.raises(ValueError, match=words):
        model.predict(table)


def test_labels_that_an_ensemble_encodes_are_refused_before_anything_is_charged():
    refused(TableError, r"'income' holds numbers \(int64\).*all text", target=(Y == "yes").astype(int))
    voting = VotingClassifier([("forest", DPForestClassifier(SCHEMA))])
    with pytest.raises(TableError, match=r"Ensembles of scikit-learn encode labels as 0, 1, 2, .*: declare these numbers"):
        voting.fit(X, Y)
    numbers = Schema(SCHEMA.features, Classes([0, 1]))
    voting = VotingClassifier([("forest", DPForestClassifier(numbers, epsilon=np.inf))], voting="soft").fit(X, Y)
    assert (voting.predict(X) == Y).mean() > 0.5


# --- names of parameters --------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("make", [DPForestClassifier, DPForestRegressor])
HINTS = {
    "n_estimators": "; it is called n_trees here, and best left out: the default plans it, and each tree gets",
    "eps": "; it is called epsilon here.",
    "max_features": "'max_features'. How trees choose splits is part of the recipe",
    "min_samples_leaf": "'min_samples_leaf'. Exact counts may not decide",
    "bootstrap": "'bootstrap'. Which records a tree sees",
    "n_features": "'n_features'. What is public about the table is declared in its schema",
    "class_prior": "set class_weight.",
    "criterion": "'friedman-schuster-2010' and 'patil-singh-2014' can take it: pass recipe_params={'criterion': ...}.",
    "sample_rows": "Recipes take it: pass recipe_params={'sample_rows': ...}.",
    "max_dept": "'max_dept'. Is it max_depth?",
    "colour": "'colour'; it has ",
}


@BOTH
@pytest.mark.parametrize("name", HINTS)
def test_a_parameter_that_there_is_not_is_refused_with_a_hint(make, name):
    for ask in (make, make().set_params):
        with pytest.raises(UnknownParameterError) as caught:
            ask(**{name: 1})
        assert str(caught.value).startswith(f"{make.__name__} has no parameter {name!r}")
        assert HINTS[name] in str(caught.value)
        # What callers may catch: an argument that a call does not take, and a parameter that cannot be used.
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ParameterError)


def test_a_regressor_has_no_weights_of_classes():
    with pytest.raises(UnknownParameterError, match="It weighs classes"):
        DPForestRegressor(class_weight="balanced")


def test_every_parameter_of_a_forest_of_scikit_learn_is_ours_or_has_a_hint_and_no_other():
    ours, by_recipe = {*DPForestRegressor().get_params()}, {n for recipe in list_recipes() for n in recipe["parameters"]}
    for other in (RandomForestClassifier, RandomForestRegressor):
        known = {*DPForestClassifier().get_params(), *RENAMED, *INSTEAD, *by_recipe}
        assert set(inspect.signature(other).parameters) <= known
    assert not (ours | by_recipe) & {*RENAMED, *INSTEAD}
    assert set(RENAMED.values()) <= ours
    assert "max_iter" in inspect.signature(HistGradientBoostingClassifier).parameters


def test_a_search_refuses_parameters_with_hints_of_its_own():
    for name, words in [
        ("delta", "'delta'. Set it on the estimator"),
        ("cv", "set held_out."),
        ("n_jobs", "Set it on the estimator"),
        ("n_estimators", "Set it on the estimator"),
        ("colour", "; it has estimator, "),
        ("epsilo", "Is it epsilon?"),
    ]:
        with pytest.raises(UnknownParameterError, match=f"DPSearchCV has no parameter {name!r}") as caught:
            DPSearchCV(DPForestClassifier(), {}, **{name: 1})
        assert words in str(caught.value)
    assert not {*OF_SEARCH} & {*inspect.signature(DPSearchCV).parameters}


@BOTH
def test_the_hint_comes_through_a_pipeline_and_leaves_the_estimator_as_it_was(make):
    pipeline = make_pipeline(FunctionTransformer(), make(n_trees=3))
    with pytest.raises(UnknownParameterError, match="it is called n_trees here"):
        pipeline.set_params(**{f"{make.__name__.lower()}__n_estimators": 5})
    assert pipeline[-1].n_trees == 3
    with pytest.raises(UnknownParameterError):
        pipeline[-1].set_params(epsilon=5.0, n_estimators=5)
    assert pipeline[-1].epsilon == 1.0
    assert clone(pipeline)[-1].n_trees == 3


@BOTH
def test_the_constructor_takes_its_parameters_by_position_and_by_name_as_its_signature_says(make):
    assert not [part for part in inspect.signature(make).parameters.values() if part.kind != part.POSITIONAL_OR_KEYWORD]
    model = make(None, 2.0, delta=1e-6)
    assert (model.epsilon, model.delta) == (2.0, 1e-6)
    assert set(model.get_params()) == set(inspect.signature(make).parameters)
