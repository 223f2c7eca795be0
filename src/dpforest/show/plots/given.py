"""The check of what a plot is asked to draw. Released values only."""

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dpforest.errors import ParameterError


def check_forest(model: Any) -> None:
    """Raise unless it is a fitted forest; if it only holds one, the error says where."""
    if isinstance(model, Pipeline):
        raise ParameterError("A Pipeline was given. Pass the forest in it: pipeline[-1].")
    if hasattr(model, "best_estimator_"):
        raise ParameterError(f"A {type(model).__name__} was given. Pass the forest that it found: search.best_estimator_.")
    check_is_fitted(model, "forest_")
