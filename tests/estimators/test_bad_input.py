"""Bad input: a clear error of the right class, nothing charged, nothing half-made."""

from collections import deque

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.ensemble import VotingClassifier

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, get_recipe
from dpforest.errors import DPForestError, ParameterError, SchemaError, TableError

NAN = float("nan")
SCHEMA = Schema({"age": Numeric(0, 100), "sex": Categorical(["m", "f"])}, Classes(["no", "yes"], name="income"))
MEAN = Schema(SCHEMA.features, Bounded(0, 1, name="income"))
N_ROWS = 13
X = pd.DataFrame({"age": np.linspace(0, 100, N_ROWS), "sex": ["m", "f", "m"] * 4 + ["f"]})
Y = np.array(["no", "yes"] * 6 + ["no"])


def refused(error, words, table=X, target=Y, *, make=DPForestClassifier, schema=SCHEMA, **parameters):
    """The fit raises ``error``, charges nothing and makes nothing."""
    model = make(schema, **parameters)
    with pytest.raises(error, match=words) as caught:
        model.fit(table, target)
    assert isinstance(caught.value, DPForestError)
    assert isinstance(caught.value, ValueError)
    ledger = getattr(model, "ledger_", None)
    assert ledger is None or ledger.entries() == []
    assert not {"forest_", "privacy_", "schema_", "classes_"} & set(vars(model))
    return str(caught.value)


@pytest.mark.parametrize("schema", [None, "adult.schema.json", "assume_public", {}, 5, SCHEMA.to_dict(), Schema])
def test_a_missing_or_wrong_schema_is_refused_with_the_way_on(schema):
    text = refused(SchemaError, "schema must be a Schema", schema=schema)
    assert "from_file" in text
    assert "assume-public" in text


def test_a_classifier_refuses_a_schema_for_regression():
    refused(SchemaError, r"DPForestClassifier needs a schema whose target is Classes", schema=MEAN)


def test_a_regressor_refuses_a_target_without_bounds():
    refused(SchemaError, r"DPForestRegressor needs a schema whose target is Bounded", make=DPForestRegressor)


def test_a_missing_column_is_named():
    refused(TableError, "'sex' of the schema is missing from the table; it has 'age'", X[["age"]])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sxe", "Is it 'sxe'\\?$"),
        ("onehot__sex", "Is it 'onehot__sex'\\? A ColumnTransformer .* verbose_feature_names_out=False"),
        ("income", "it has 'age', 'income'.$"),
    ],
)
def test_a_missing_column_has_the_one_that_may_be_meant_beside_it(given, words):
    refused(TableError, f"'sex' of the schema is missing from the table; .*{words}", X.rename(columns={"sex": given}))


def test_a_column_that_is_there_twice_is_named():
    schema = Schema({"1": Numeric(0, 1)}, SCHEMA.target)
    refused(
        TableError, "'1' of the schema is more than once in", pd.DataFrame({1: [0.5], "1": [0.5]}), ["no"], schema=schema
    )


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pd", "pl", "pa"])
def test_every_library_gets_the_same_errors(library):
    refused(TableError, "'sex' of the schema is missing", library(X[["age"]]))
    refused(TableError, "'age' is declared numeric", library(X.assign(age="old")))
    refused(TableError, "'sex'", library(X.assign(sex=1.0)))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (X.assign(age=pd.Timestamp("2020-01-01")), "'age' is declared numeric"),
        (X.assign(sex=pd.Timestamp("2020-01-01")), "'sex' is declared categorical"),
        (X.assign(sex=True), "'sex'"),
    ],
    ids=["date as number", "date as category", "boolean as text"],
)
def test_a_column_of_the_wrong_type_is_named(table, words):
    refused(TableError, words, table)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.zeros(N_ROWS), "2D"),
        (np.zeros((N_ROWS, 2, 1)), "2D"),
        (np.float64(5), "2D"),
        ([], "differ in length"),
        (deque(), "differ in length"),
        ({"age": [1.0], "sex": ["m"]}, "given as dict"),
        ((row for row in [[1.0, "m"]]), "given as generator"),
        ([1, 2, 3], "2D"),
        (None, "given as NoneType"),
        ("table.csv", "A file has its target"),
        (X["age"], "2D"),
        (pl.from_pandas(X).lazy(), r"Call \.collect\(\) on it"),
        (np.zeros((N_ROWS, 3)), "3 features.* declares 2.* by their names .*set_output"),
        (np.zeros((N_ROWS, 0)), "0 features.* declares 2"),
        (np.zeros((N_ROWS, 2), dtype=complex), "Complex"),
        (sparse.csr_matrix(np.zeros((N_ROWS, 2))), "sparse"),
        (sparse.coo_array(np.zeros((N_ROWS, 2))), "sparse"),
        ([[1.0, "m"], [2.0]], "."),
        ([[1.0, "m"], [2.0, "f", 3.0]], "."),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)
def test_what_is_no_table_of_the_right_shape_is_refused(table, words):
    refused(TableError, words, table)


@pytest.mark.parametrize("length", [0, 1, N_ROWS - 1, N_ROWS + 1])
def test_a_target_of_another_length_is_refused(length):
    refused(TableError, "differ in length", target=np.resize(Y, length))


def test_a_target_of_several_columns_is_refused():
    refused(TableError, "target", target=np.stack([Y, Y], axis=1))
    refused(TableError, "target", target=pd.DataFrame({"a": Y, "b": Y}))
    refused(TableError, "target", target=np.float64(1))


def test_a_missing_target_is_refused_as_scikit_learn_does():
    model = DPForestClassifier(SCHEMA)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X, None)
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize(
    "target",
    [Y, pd.Series(Y), np.arange(N_ROWS) + 1j, np.arange(N_ROWS).astype("M8[D]"), pl.Series([[1.0]] * N_ROWS)],
    ids=["text", "pandas text", "complex", "dates", "lists"],
)
@pytest.mark.filterwarnings("error")
def test_a_regression_target_of_the_wrong_type_is_refused(target):
    refused(TableError, "'income'|[Cc]omplex", target=target, make=DPForestRegressor, schema=MEAN)


@pytest.mark.parametrize(
    "epsilon", [0, 0.0, -1, -float("inf"), NAN, "1", None, [1], 1j, True, 10**400], ids=lambda e: repr(e)[:9]
)
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon):
    refused(ParameterError, "epsilon must be a positive number", epsilon=epsilon)


@pytest.mark.parametrize("delta", [-0.1, 1, 1.0, 2, NAN, float("inf"), "0", None, [0]], ids=repr)
def test_a_delta_outside_its_range_is_refused(delta):
    refused(ParameterError, r"delta must be a number in \[0, 1\)", delta=delta)


@pytest.mark.parametrize("name", ["n_trees", "max_depth"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 1.0, NAN, True, "5", [1]], ids=repr)
def test_a_shape_that_is_no_whole_number_is_refused(name, value):
    refused(ParameterError, f"{name} must be a whole number", **{name: value})


@pytest.mark.parametrize("recipe", ["atuo", "", None, 5, ["auto"], {}], ids=repr)
def test_an_unknown_recipe_is_refused_with_the_known_ones(recipe):
    refused(ParameterError, "no recipe .*catalogue has .*auto", recipe=recipe)


@pytest.mark.parametrize("parameters", [{"bins": 5}, {"": None}, {5: 5}, {"epsilon": 2.0}], ids=repr)
def test_a_parameter_that_the_recipe_does_not_take_is_refused_by_name(parameters):
    refused(ParameterError, f"'auto' takes no parameter {next(iter(parameters))!r}", recipe_params=parameters)


@pytest.mark.parametrize("parameters", ["bins=5", [("bins", 5)], 5], ids=repr)
def test_recipe_parameters_that_are_no_dictionary_are_refused(parameters):
    refused(ParameterError, "recipe_params must be a dictionary", recipe_params=parameters)


@pytest.mark.parametrize("variant", ["Private", "publised", "", None, 1])
def test_a_misspelt_variant_is_refused(variant):
    refused(ParameterError, "'private' or 'published'", variant=variant)


def test_a_published_variant_that_does_not_exist_is_refused():
    assert not get_recipe("auto").has_published_variant
    refused(ParameterError, "'auto' has no published variant", variant="published")


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


@pytest.mark.parametrize(
    "parameters", [{"epsilon": 1e-300}, {"epsilon": 1e-9, "delta": 1e-15}], ids=["geometric noise", "Gaussian noise"]
)
def test_a_budget_too_small_for_any_noise_is_refused_before_anything_is_spent(parameters):
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
