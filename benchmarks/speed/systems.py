"""The systems that are timed, each set to the same trees, depth, bins and threads, and the tables that they get."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import interactions
from benchmarks.speed import cases
from benchmarks.speed.floor import N_BINS
from dpforest.estimators import DPForestClassifier
from dpforest.schema import Classes, Numeric, Schema

BOUND = 4.0  # public: normal values beyond it are rare
EPSILON = 1.0
BAG = 0.632  # distinct records of a bootstrap


@dataclass(frozen=True)
class Shape:
    """The shape of a table and of the forest that is trained on it."""

    n_rows: int
    n_features: int
    n_trees: int
    depth: int

    @property
    def schema(self) -> Schema:
        features = {f"x{index}": Numeric(-BOUND, BOUND) for index in range(self.n_features)}
        return Schema(features, Classes([0, 1], name="y"), n_rows=self.n_rows)


@dataclass(frozen=True)
class Trained:
    """A model, and the moment at which its table was encoded, if it says so."""

    model: Any
    encoded: float | None = None


Train = Callable[[], Trained]


def draw_table(n_rows: int, n_features: int, seed: Any = cases.SEED) -> tuple[np.ndarray, np.ndarray]:
    """Normal features ``(n_rows, n_features)`` in 32 bits, and a class whose logit is linear in them."""
    slopes = np.random.default_rng(cases.SEED).standard_normal(n_features, dtype=np.float32)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    y = (rng.logistic(size=n_rows) < X @ slopes).astype(np.int64)
    return X, y


def table_of(system: str, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """The table that a system is trained on: of interacting features for what people run, else with a linear logit."""
    return draw_interactions(shape.n_rows) if system in cases.BY_DEFAULT else draw_table(shape.n_rows, shape.n_features)


def draw_interactions(n_rows: int, seed: int = cases.SEED) -> tuple[np.ndarray, np.ndarray]:
    """Interacting features ``(n_rows, n_features)`` in 32 bits, and classes."""
    X, y = interactions.draw(n_rows, seed)
    return X.astype(np.float32), y


def our_trainer(recipe: str, shape: Shape, threads: int, *table: Any) -> Train:
    """A fit through the estimator, on features and target or on what stands for both; notes when it was encoded."""
    schema = shape.schema
    settings: dict[str, Any] = {"n_trees": shape.n_trees, "max_depth": shape.depth, "n_jobs": threads}

    def train() -> Trained:
        moments: dict[str, float] = {}

        def note(step: str) -> None:
            moments.setdefault(step, time.perf_counter())

        model = DPForestClassifier(schema, epsilon=EPSILON, recipe=recipe, **settings)
        model.fit(*table, progress=note)
        return Trained(model, moments.get("encoded"))

    return train


def trainer(system: str, X: np.ndarray, y: np.ndarray, shape: Shape, threads: int) -> Train:
    """A function that trains the system once; all that is not timed is done before it is returned."""
    if system in cases.OURS:
        return our_trainer(system, shape, threads, X, y)
    if system in (cases.LIGHTGBM, cases.LIGHTGBM_BY_TREE):
        return _lightgbm(system, X, y, shape, threads)
    if system in cases.BY_DEFAULT:
        return _by_default(system, X, y, threads)
    kind, settings = _scikit_learn(system, shape, threads)
    return lambda: Trained(kind(**settings).fit(X, y))


def _scikit_learn(system: str, shape: Shape, threads: int) -> tuple[Any, dict[str, Any]]:
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

    shared = {"max_depth": shape.depth, "random_state": cases.SEED}
    if system == cases.BOOSTING:
        # Its threads are those of OpenMP, which the worker is started with.
        own = {"max_iter": shape.n_trees, "max_leaf_nodes": 2**shape.depth, "max_bins": N_BINS, "early_stopping": False}
        return HistGradientBoostingClassifier, shared | own
    kind = {cases.FOREST: RandomForestClassifier, cases.EXTRA_TREES: ExtraTreesClassifier}[system]
    return kind, shared | {"n_estimators": shape.n_trees, "n_jobs": threads}


def lightgbm_settings(system: str, shape: Shape, threads: int) -> dict[str, Any]:
    """Settings that make LightGBM a random forest: bags of records, and all features or, for each tree, the root of them."""
    share = round(shape.n_features**-0.5, 4) if system == cases.LIGHTGBM_BY_TREE else 1.0
    return {
        "objective": "binary",
        "boosting": "rf",
        "max_depth": shape.depth,
        "num_leaves": 2**shape.depth,
        "max_bin": N_BINS,
        "bagging_freq": 1,
        "bagging_fraction": BAG,
        "feature_fraction": share,
        "num_threads": threads,
        "seed": cases.SEED,
        "verbosity": -1,
    }


def _lightgbm(system: str, X: np.ndarray, y: np.ndarray, shape: Shape, threads: int) -> Train:
    # Loaded by name: it is an optional library.
    lightgbm = import_module("lightgbm")
    settings = lightgbm_settings(system, shape, threads)
    data = lightgbm.Dataset(X, y, params=settings).construct()
    return lambda: Trained(lightgbm.train(settings, data, num_boost_round=shape.n_trees))


def _by_default(system: str, X: np.ndarray, y: np.ndarray, threads: int) -> Train:
    if system == cases.LIGHTGBM_DEFAULTS:
        lightgbm = import_module("lightgbm")
        return lambda: Trained(lightgbm.LGBMClassifier(n_jobs=threads, verbose=-1).fit(X, y))
    features = {f"x{index}": Numeric(0, 1) for index in range(X.shape[1])}
    schema = Schema(features, Classes([0, 1], name="y"), n_rows=len(X))
    delta = cases.OWN_PLANS[system]
    return lambda: Trained(DPForestClassifier(schema, epsilon=EPSILON, delta=delta, n_jobs=threads).fit(X, y))


def predictor(system: str, model: Any, X: np.ndarray, threads: int) -> Callable[[], np.ndarray]:
    """A function that predicts the class shares of all rows once."""
    if system == cases.LIGHTGBM:
        return lambda: model.predict(X, num_threads=threads)
    return lambda: model.predict_proba(X)
