"""A parameter from elsewhere is refused with what it is called here, or why there is none."""

import inspect

import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpforest import DPForestClassifier, DPForestRegressor, DPSearchCV, list_recipes
from dpforest.errors import ParameterError, UnknownParameterError
from dpforest.recipes.parameter_names import INSTEAD, OF_SEARCH, RENAMED

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
