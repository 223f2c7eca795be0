"""Trains peers in an environment of their own; run with its Python, so nothing of dpforest is imported.

One line of JSON comes in for each model: which data, which system, its settings and budget. One goes out: how long training
took, or what went wrong; predictions for the test rows are saved as an array. Public bounds are given to every system, and
a warning that privacy may leak is an error.
"""

import time
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.core.serve import serve

Answer = dict[str, Any]


class Data:
    """The table of a file and the forms in which systems take it."""

    def __init__(self, path: str) -> None:
        with np.load(path) as arrays:
            self.features = arrays["features"]  # numbers, and categories by their index
            self.n_categories = arrays["n_categories"]  # of each feature; 0 for a number
            self.lower, self.upper = arrays["lower"], arrays["upper"]
            self.target, self.target_bounds = arrays["target"], arrays["target_bounds"]
            self.n_classes = int(arrays["n_classes"])  # 0 for a number
            self.train, self.test = arrays["train"], arrays["test"]

    def form(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All rows with their lower and upper bounds."""
        return {"ordinal": self._ordinal, "one-hot": self._one_hot, "named": self._named}[name]

    @property
    def _ordinal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.features, self.lower, self.upper

    @property
    def _one_hot(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The features with numbers scaled to 0 .. 1 and a column for each category."""
        if not hasattr(self, "_columns"):
            scaled = (self.features - self.lower) / (self.upper - self.lower)
            columns = [
                np.eye(n)[self.features[:, index].astype(int)] if n else scaled[:, [index]]
                for index, n in enumerate(self.n_categories)
            ]
            self._columns = np.hstack(columns)
        width = self._columns.shape[1]
        return self._columns, np.zeros(width), np.ones(width)

    @property
    def _named(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The features with categories as text."""
        if not hasattr(self, "_objects"):
            self._objects = self.features.astype(object)
            for index in np.flatnonzero(self.n_categories):
                self._objects[:, index] = self.features[:, index].astype(int).astype(str)
        return self._objects, self.lower, self.upper


def forest(data: Data, epsilon: float, delta: float, settings: dict[str, Any]) -> Any:
    kind = import_module("diffprivlib.models").RandomForestClassifier
    bounds = (data.lower, data.upper)
    return kind(epsilon=epsilon, bounds=bounds, classes=list(range(data.n_classes)), **settings)


def naive_bayes(data: Data, epsilon: float, delta: float, settings: dict[str, Any]) -> Any:
    _, lower, upper = data.form(settings.pop("form"))
    return import_module("diffprivlib.models").GaussianNB(epsilon=epsilon, bounds=(lower, upper), **settings)


def logistic_regression(data: Data, epsilon: float, delta: float, settings: dict[str, Any]) -> Any:
    # Every feature is at most 1 long, be it a scaled number or one column of its categories.
    norm = float(np.sqrt(len(data.n_categories)))
    return import_module("diffprivlib.models").LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=300, **settings)


def linear_regression(data: Data, epsilon: float, delta: float, settings: dict[str, Any]) -> Any:
    _, lower, upper = data.form(settings.pop("form"))
    bounds_y = tuple(float(bound) for bound in data.target_bounds)
    kind = import_module("diffprivlib.models").LinearRegression
    return kind(epsilon=epsilon, bounds_X=(lower, upper), bounds_y=bounds_y, **settings)


def boosting(data: Data, epsilon: float, delta: float, settings: dict[str, Any]) -> Any:
    privacy = import_module("interpret.privacy")
    public = {
        "feature_types": ["nominal" if n else "continuous" for n in data.n_categories],
        "privacy_bounds": np.column_stack([data.lower, data.upper]),
    }
    if data.n_classes:
        kind = privacy.DPExplainableBoostingClassifier
    else:
        kind = privacy.DPExplainableBoostingRegressor
        public |= {"privacy_target_min": data.target_bounds[0], "privacy_target_max": data.target_bounds[1]}
    return kind(epsilon=epsilon, delta=delta, n_jobs=1, **public, **settings)


# Each system with the form of features that it takes where its settings do not say.
SYSTEMS = {
    "diffprivlib forest": (forest, "ordinal"),
    "diffprivlib naive Bayes": (naive_bayes, "one-hot"),
    "diffprivlib logistic regression": (logistic_regression, "one-hot"),
    "diffprivlib linear regression": (linear_regression, "one-hot"),
    "interpret DP-EBM": (boosting, "named"),
}
read = lru_cache(maxsize=1)(Data)


def train(request: dict[str, Any]) -> Answer:
    """Train one model and save its predictions ``(n_test,)`` or shares of classes ``(n_test, n_classes)``."""
    data = read(request["data"])
    make, form = SYSTEMS[request["system"]]
    settings = dict(request["settings"])
    features = data.form(settings.get("form", form))[0]
    rows = data.train[: request["max_rows"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="(?i).*(privacy leak|privacy violation)")
        start = time.perf_counter()
        model = make(data, request["epsilon"], request["delta"], settings).fit(features[rows], data.target[rows])
        seconds = time.perf_counter() - start
        np.save(request["out"], _predictions(model, features[data.test], data))
    return {"seconds": round(seconds, 4), "n_train": len(rows)}


def _predictions(model: Any, features: np.ndarray, data: Data) -> np.ndarray:
    if not data.n_classes:
        return np.clip(model.predict(features), *data.target_bounds)
    shares = np.zeros((len(features), data.n_classes))
    shares[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(features)
    shares[~np.isfinite(shares).all(axis=1)] = 1 / data.n_classes
    return shares


if __name__ == "__main__":
    serve(train)
