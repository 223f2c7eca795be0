"""Parameter names of other libraries, each with what to use here. Public values only."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import ParamSpec

from dpforest.errors import UnknownParameterError
from dpforest.recipes.catalogue import list_recipes

P = ParamSpec("P")
# The same thing, under the name that it has here.
RENAMED = {
    "n_estimators": "n_trees",
    "num_trees": "n_trees",
    "max_iter": "n_trees",
    "depth": "max_depth",
    "eps": "epsilon",
    "seed": "random_state",
    "n_threads": "n_jobs",
    "init_model": "earlier_model",
    "xgb_model": "earlier_model",
}
# What to know about a parameter before it is given a number from elsewhere.
BEST = {"n_trees": ", and best left out: the default plans it, and each tree gets a part of the budget"}
# Something else that does what the name promises elsewhere, or the reason why nothing does.
BY_RECIPE = (
    "How trees choose splits is part of the recipe, whose cost is proved: set recipe, and recipe_params where it has any."
)
BY_DEPTH = "Exact counts may not decide where a tree ends: set max_depth, or leave it to the recipe."
BY_SAMPLING = "Which records a tree sees is part of the recipe, whose cost is proved: set recipe."
BY_SCHEMA = "What is public about the table is declared in its schema, and nothing is inferred from rows: see Schema."
BY_WEIGHT = "DPForestClassifier weighs classes when it predicts: set class_weight."
INSTEAD = {
    **dict.fromkeys(("splitter", "max_features", "max_bins", "monotonic_cst", "learning_rate"), BY_RECIPE),
    **dict.fromkeys(("min_samples_split", "min_samples_leaf", "min_weight_fraction_leaf", "max_leaf_nodes"), BY_DEPTH),
    **dict.fromkeys(("min_impurity_decrease", "ccp_alpha", "early_stopping"), BY_DEPTH),
    **dict.fromkeys(("bootstrap", "max_samples", "subsample"), BY_SAMPLING),
    **dict.fromkeys(("n_features", "feature_names", "feature_types", "categorical_features", "bounds"), BY_SCHEMA),
    **dict.fromkeys(("feature_domains", "classes", "n_classes", "labels", "y_lower", "y_upper"), BY_SCHEMA),
    **dict.fromkeys(("class_prior", "priors", "scale_pos_weight"), BY_WEIGHT),
    "class_weight": "It weighs classes, and here a number is predicted.",
    "sample_weight": "A weight would change what a record can add to a count; all records count 1.",
    "oob_score": "A score on the rows of the fit is a release of its own: see dpforest evaluate.",
    "warm_start": "Each fit is a release of its own. To start from a model that was released before, set earlier_model.",
    "verbose": "fit(..., progress=print) shows each step.",
    "accountant": "What all fits on a data set may cost together is a Budget: set budget.",
    "groups": "Pass it to fit, and set max_rows_per_person.",
}
# The same for a search, which has few parameters of its own.
OF_ESTIMATOR = "Set it on the estimator that is given to the search."
OF_SEARCH = {
    "cv": "Runs are scored on one part of the records: set held_out.",
    "scoring": "Runs are compared by their noisy accuracy, or mean absolute error; the proof is for these.",
    "n_iter": "The number of runs is drawn by lot, which the proof needs: set mean_runs.",
    "param_grid": "It is called param_distributions here.",
    "random_state": "Whoever knows a seed can undo the noise, so a search takes none.",
    "refit": "The model of the best run is kept as it is, in best_estimator_.",
    **dict.fromkeys(
        ("delta", "schema", "recipe", "n_trees", "n_estimators", "max_depth", "recipe_params", "n_jobs"), OF_ESTIMATOR
    ),
}


def named_here(init: Callable[P, None], instead: Mapping[str, str] | None = None) -> Callable[P, None]:
    """The constructor of an estimator, which answers unknown arguments with their counterparts here.

    Its signature stays what scikit-learn reads parameters from. ``instead`` has the hints of what is no forest.
    """
    known = list(signature(init).parameters)[1:]

    @wraps(init)
    def checked(*given: P.args, **named: P.kwargs) -> None:
        refuse_unknown(given[0], named, known, instead)
        init(*given, **named)

    return checked


def refuse_unknown(
    owner: object, names: Iterable[str], known: Collection[str], instead: Mapping[str, str] | None = None
) -> None:
    """Raise ``UnknownParameterError`` for the first unknown name, with its counterpart here."""
    for name in names:
        if name not in known:
            raise UnknownParameterError(f"{type(owner).__name__} has no parameter {name!r}{_hint(name, known, instead)}")


def _hint(name: str, known: Collection[str], instead: Mapping[str, str] | None) -> str:
    """The end of the sentence on an unknown parameter, and what follows it."""
    from difflib import get_close_matches

    if instead is None and name in RENAMED:
        return f"; it is called {RENAMED[name]} here{BEST.get(RENAMED[name], '')}."
    takers = [recipe["name"] for recipe in list_recipes() if name in recipe["parameters"]]
    if instead is None and takers:
        some = "Recipes take" if len(takers) > 3 else f"Of the recipes, {' and '.join(map(repr, takers))} can take"
        return f". {some} it: pass recipe_params={{{name!r}: ...}}."
    if name in (hints := INSTEAD if instead is None else instead):
        return f". {hints[name]}"
    near = get_close_matches(name, known, n=1)
    return f". Is it {near[0]}?" if near else f"; it has {', '.join(known)}."
