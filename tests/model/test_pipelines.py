"""What is fitted on the same rows before the forest is not covered, and where it can be seen this is said."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from dpforest import Classes, DPForestClassifier, DPSearchCV, Numeric, Schema, load_model
from dpforest.common import other_fits
from dpforest.errors import UncoveredWarning

SCHEMA = Schema({"a": Numeric(-7, 7), "b": Numeric(-7, 7)}, Classes([0, 1]))
X = np.random.default_rng(0).integers(0, 8, (200, 2)).astype(float)
Y = (X[:, 0] > 3).astype(int)


def forest(**named):
    return DPForestClassifier(SCHEMA, epsilon=1.0, **{"recipe": "jagannathan-2009"} | named)


class Foreign:
    """A step that is not in scikit-learn's manner."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def told(pipeline, X=X, Y=Y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline.fit(X, Y)
    return [str(warning.message) for warning in caught if warning.category is UncoveredWarning]


STANDARD, FILL = "'standardscaler' (StandardScaler)", "'fill' (SimpleImputer)"
IN_TWO_STEPS = [("fill", SimpleImputer()), ("norm", Normalizer()), ("scale", StandardScaler())]
COLUMNS = ColumnTransformer([("s", StandardScaler(), [0])], remainder="passthrough")
UNION = FeatureUnion([("s", make_pipeline(StandardScaler()))])
LEARN = {
    "scaler": (lambda f: make_pipeline(StandardScaler(), f), STANDARD),
    "two": (lambda f: Pipeline([*IN_TWO_STEPS, ("f", f)]), f"{FILL}, 'scale' (StandardScaler)"),
    "columns": (lambda f: make_pipeline(COLUMNS, f), "'columntransformer' (ColumnTransformer)"),
    "union": (lambda f: Pipeline([("u", UNION), ("f", f)]), "'u' (FeatureUnion)"),
    "pipeline in a pipeline": (
        lambda f: make_pipeline(StandardScaler(), Pipeline([("fill", SimpleImputer()), ("f", f)])), f"{STANDARD}, {FILL}"
    ),
    "vote": (lambda f: Pipeline([("s", StandardScaler()), ("v", VotingClassifier([("f", f)]))]), "'s' (StandardScaler)"),
    "of another manner": (lambda f: Pipeline([("own", Foreign()), ("f", f)]), "'own' (Foreign)"),
}  # fmt: skip


@pytest.mark.parametrize("title", LEARN)
def test_steps_that_learn_from_the_rows_are_named(title):
    make, names = LEARN[title]
    (words,) = told(make(forest()))
    assert f"without noise: {names}. " in words


NOTHING = {
    "no pipeline": lambda: forest(),
    "alone": lambda: make_pipeline(forest()),
    "stateless": lambda: make_pipeline(Normalizer(), FunctionTransformer(), "passthrough", None, forest()),
    "columns": lambda: make_pipeline(ColumnTransformer([("n", Normalizer(), [0]), ("p", "passthrough", [1])]), forest()),
    "frozen": lambda: make_pipeline(FrozenEstimator(StandardScaler().fit([[0.0, 1.0], [1.0, 0.0]])), forest()),
}  # fmt: skip


@pytest.mark.parametrize("title", NOTHING)
def test_where_nothing_was_learnt_nothing_is_said(title):
    assert told(NOTHING[title]()) == []


def test_the_statement_keeps_the_note_and_a_file_does(tmp_path):
    model = make_pipeline(StandardScaler(), forest())
    assert told(model)
    (note,) = [note for note in model[-1].privacy_.notes if "StandardScaler" in note]
    model[-1].save(tmp_path / "m.dpf")
    assert note in load_model(tmp_path / "m.dpf").privacy_.notes
    alone = forest().fit(X, Y).privacy_
    assert not any("Pipeline" in note for note in alone.notes)
    assert any("scaler" in line for line in alone.not_covered)


def test_searches_are_told_too():
    search = DPSearchCV(forest(), {"max_depth": [1, 2]}, epsilon=1.0, mean_runs=1.5)
    assert len(told(make_pipeline(StandardScaler(), search))) == 1
    assert any("StandardScaler" in note for note in search.privacy_.notes)
    grid = GridSearchCV(make_pipeline(StandardScaler(), forest()), {"standardscaler__with_mean": [True]}, cv=2)
    assert len(told(grid)) == 3  # two folds, and all rows


def test_a_warning_that_is_an_error_comes_before_anything_is_spent():
    last = forest()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncoveredWarning)
        with pytest.raises(UncoveredWarning):
            make_pipeline(StandardScaler(), last).fit(X, Y)
    assert not hasattr(last, "ledger_")


def test_other_tables_are_told_the_same():
    pipeline = make_pipeline(StandardScaler(), forest())
    assert told(pipeline, np.full((3, 2), 5.0), [5, 5, 5]) == told(pipeline) != []


class Odd(Pipeline):
    """A pipeline whose steps cannot be looked at while it is fitted."""

    def fit(self, X, y):
        last = self.steps[-1][1]
        self.steps = 3
        return last.fit(X, y)


def test_what_cannot_be_looked_at_is_never_the_reason_why_a_fit_fails(monkeypatch):
    assert told(Odd([("s", StandardScaler()), ("f", forest())])) == []
    monkeypatch.setattr(other_fits.inspect, "currentframe", lambda: None)
    assert told(make_pipeline(StandardScaler(), forest())) == []


def delta_notes(schema=SCHEMA, **named):
    privacy = DPForestClassifier(schema, epsilon=1.0, **named).fit(X, Y).privacy_
    return [note for note in privacy.notes if "larger than 1 / (number of rows)" in note]


def test_a_delta_above_one_in_the_number_of_rows_gets_a_note():
    declared = Schema(SCHEMA.features, SCHEMA.target, n_rows=200)
    (note,) = delta_notes(declared, delta=1e-2)
    assert note.startswith("delta = 0.01 is larger than 1 / (number of rows), 1 / 200: ")
    assert note.endswith("choose delta well below 1 / rows")
    assert delta_notes(declared, delta=1e-3) == []
    assert delta_notes(declared) == []


@pytest.mark.slow
def test_the_number_of_rows_is_the_public_or_the_released_one_never_the_true_one():
    # Declared as a million, so a delta of 1e-5 is too large, whatever is in the table.
    assert delta_notes(Schema(SCHEMA.features, SCHEMA.target, n_rows=10**6), delta=1e-5)
    # Not declared and not measured: nothing is known.
    assert delta_notes(delta=0.1, recipe="jagannathan-2009") == []
    model = DPForestClassifier(SCHEMA, epsilon=1.0, delta=0.5).fit(X, Y)
    measured = model.forest_.n_records.value
    assert any(f"about 1 / {measured:,.0f}" in note for note in model.privacy_.notes) == (measured > 2)
