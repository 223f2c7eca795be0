"""Trains and tests models on public tables: splits of the rows, metrics of predictions, and the best constant guess."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.core.results import Case, Row, attempted
from dpforest.errors import LeakWarning
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.records.categories import category_codes
from dpforest.records.columns import read_columns, to_numbers
from dpforest.schema import Categorical, Classes, Schema

# Systems that are not recipes: scikit-learn's, without privacy.
FORESTS = {
    ("random-forest", True): RandomForestClassifier,
    ("random-forest", False): RandomForestRegressor,
    ("extra-trees", True): ExtraTreesClassifier,
    ("extra-trees", False): ExtraTreesRegressor,
}
Loaded = tuple[Any, Any, Schema]  # features, target, schema
# From a case, features, target, schema, rows for training and rows for testing.
Measured = Callable[[Case, Any, Any, Schema, np.ndarray, np.ndarray], Row]


class Split(Protocol):
    """Divides rows for training and testing, the same way for the same seed."""

    def rows(self, target: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class Folds:
    """Stratified folds; seeds 0 .. n-1 are the folds of one shuffle, the next n those of another."""

    n: int = 10

    def rows(self, target: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        shuffle, fold = divmod(seed, self.n)
        folds = StratifiedKFold(self.n, shuffle=True, random_state=shuffle)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class may have fewer records than there are folds
            return list(folds.split(target, target))[fold]


@dataclass(frozen=True)
class HeldOut:
    """A share of the rows, drawn at random, is for testing. Another ``stream`` has other splits for the same seeds."""

    share: float
    stream: int | None = None

    def rows(self, target: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        source = seed if self.stream is None else [self.stream, seed]
        order = np.random.default_rng(source).permutation(len(target))
        n_test = round(self.share * len(target))
        return order[n_test:], order[:n_test]


def run(case: Case, load: Callable[[str], Loaded], split: Split, measure: Measured | None = None) -> Row:
    """The row of one case that is trained and tested with fresh noise; ``measure`` measures, by default ``predictions``."""

    def trial() -> Row:
        X, y, schema = load(case.dataset)
        train, test = split.rows(np.asarray(y), case.seed)
        start = time.perf_counter()
        measured = (measure or predictions)(case, X, y, schema, train, test)
        return measured | {"n_train": len(train), "seconds": round(time.perf_counter() - start, 3)}

    return case.to_dict() | attempted(trial)


def predictions(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray) -> Row:
    """The metrics of a model's predictions and of the best constant guess, and what the model spent."""
    target = np.asarray(y)
    if (case.system, isinstance(schema.target, Classes)) in FORESTS:
        numbers = as_numbers(X, schema)
        model, asked, spent = _usual_forest(case, numbers[train], target[train], schema), numbers[test], {"holds": False}
    else:
        model, asked = fit(case, X, y, schema, train), X.take(test)
        spent = spent_by(model)
    metrics = _metrics(model.predict(asked), target[test], target, schema)
    if isinstance(schema.target, Classes) and len(model.classes_) == len(set(target[test])) == 2:
        is_second = target[test] == model.classes_[1]
        metrics["auc"] = float(roc_auc_score(is_second, model.predict_proba(asked)[:, 1]))
    guess = _metrics(_guess(target[train], schema), target[test], target, schema)
    return {"metrics": metrics, "guess": guess | ({"auc": 0.5} if "auc" in metrics else {})} | spent


def fit(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray) -> DPForestClassifier | DPForestRegressor:
    """A fitted forest for a case whose system is a recipe."""
    kind = DPForestClassifier if isinstance(schema.target, Classes) else DPForestRegressor
    parameters = dict(case.parameters)
    model = kind(
        schema,
        epsilon=parameters.pop("epsilon", math.inf),
        recipe=case.system,
        variant="published" if case.variant == "published" else "private",
        n_trees=parameters.pop("n_trees", None),
        max_depth=parameters.pop("depth", None),
        recipe_params=parameters or None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)
        return model.fit(X.take(train), y.take(train))


def spent_by(model: DPForestClassifier | DPForestRegressor) -> Row:
    """Whether a forest is private, and if so what it spent in all and by its smallest charge."""
    if not model.privacy_.holds:
        return {"holds": False}
    least = min(entry["epsilon"] for entry in model.ledger_.entries())
    return {"holds": True, "epsilon_spent": model.privacy_.epsilon, "epsilon_least_charge": least}


def _usual_forest(case: Case, numbers: np.ndarray, target: np.ndarray, schema: Schema) -> Any:
    parameters = dict(case.parameters)
    kind = FORESTS[case.system, isinstance(schema.target, Classes)]
    model = kind(parameters["n_trees"], max_depth=parameters.get("depth"), random_state=case.seed)
    return model.fit(numbers, target)


def as_numbers(X: Any, schema: Schema) -> np.ndarray:
    """A table as scikit-learn's forests take it: categories by their index in the list, NaN for missing numbers."""
    columns = []
    for column, feature in zip(read_columns(X, schema), schema.features.values(), strict=True):
        if isinstance(feature, Categorical):
            columns.append(category_codes(column, feature))
        else:
            columns.append(to_numbers(column))
    return np.column_stack(columns).astype(np.float32)


def _guess(target: np.ndarray, schema: Schema) -> Any:
    """The best constant guess: the most common label, or the mean."""
    if not isinstance(schema.target, Classes):
        return target.mean()
    labels, counts = np.unique(target, return_counts=True)
    return labels[counts.argmax()]


def _metrics(predicted: Any, actual: np.ndarray, target: np.ndarray, schema: Schema) -> dict[str, float]:
    """Accuracy and error; or squared error by the public bounds, and by the range of the data as papers scale it."""
    if isinstance(schema.target, Classes):
        accuracy = float((actual == predicted).mean())
        return {"accuracy": accuracy, "error": 1 - accuracy}
    squared = float(np.square(actual - predicted).mean())
    width, spread = schema.target.span, np.ptp(target)
    return {"mse": squared / width**2, "mse_range": squared / float(spread) ** 2}
