"""How good are predictions at a given budget: the default recipe, recipes of the catalogue, and other people's systems.

All systems get the same rows, splits and budgets. Splits come from a stream of seeds that nothing was tuned on. Each
measured row names its table, system, budget and settings; the page is made from rows.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import roc_auc_score

from benchmarks.core.results import Case, NotMeasured, Row, attempted, check_known, run_all
from benchmarks.core.trials import HeldOut, Loaded, as_numbers
from benchmarks.papers.views import load_view
from benchmarks.peers import environment
from benchmarks.peers.settings import MOST_ROWS, PEERS, settings_of
from benchmarks.utility.ablations import ABLATIONS
from benchmarks.utility.generated import FAMILIES, generate
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.recipes import get_recipe
from dpforest.schema import Categorical, Classes, Schema

QUESTION = "utility"
EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-5
N_SEEDS = 5
STREAM = 2026
RECIPES = ("fletcher-islam-2017", "consul-2020", "dong-2022")
ABLATED = "ablation: "
ABLATION_EPSILONS = (0.1, 1.0)
# Shares of classes are kept this far from 0 and 1 before their logarithm is taken.
LEAST_SHARE = 1e-6
N_BINS = 10  # of a reliability diagram
# Without privacy: a guess, the default recipe at epsilon = inf, and what is usual, a forest and boosting. Large tables are
# sampled for each tree of the forest.
WITHOUT_NOISE = "auto at epsilon = inf"
REFERENCES = ("guess", WITHOUT_NOISE, "random-forest", "boosting")
FOREST = {"n_estimators": 100, "min_samples_leaf": 5}
MOST_FOREST_ROWS = 50_000
BOOSTING = {"max_iter": 100, "l2_regularization": 1.0, "early_stopping": False}

QUICK_EPSILONS = (1.0,)
N_QUICK = 2


@dataclass(frozen=True)
class Table:
    """A benchmark table and its task: "binary", "classes" or "regression"."""

    name: str
    task: str
    in_ablations: bool = False
    quick: bool = False

    @property
    def split(self) -> HeldOut:
        return HeldOut(0.1 if self.task == "regression" else 0.25, stream=STREAM)


TABLES = (
    Table("adult", "binary", in_ablations=True),
    Table("bank_additional", "binary", in_ablations=True),
    Table("credit_default", "binary", in_ablations=True),
    Table("mushroom_complete", "binary", in_ablations=True, quick=True),
    Table("nursery", "classes", in_ablations=True),
    Table("wall_following", "classes", in_ablations=True),
    Table("abalone", "regression", in_ablations=True, quick=True),
    Table("appliances_energy", "regression", in_ablations=True),
    Table("parkinsons_total", "regression"),
    Table("parkinsons_motor", "regression"),
    Table("nycflights13", "regression"),
    Table("mushroom", "binary"),
    Table("banknote", "binary", quick=True),
    Table("car", "classes"),
    Table("tic_tac_toe", "binary"),
    Table("congressional_voting", "binary"),
    Table("mammographic", "binary"),
    Table("breast_cancer_wisconsin", "binary"),
    Table("pima", "binary"),
    Table("heart_cleveland", "classes"),
    Table("heart_hungarian", "binary"),
    Table("credit_approval", "binary"),
    Table("german_credit", "binary"),
    *(
        Table(
            name,
            "binary" if family.n_classes == 2 else "classes",
            in_ablations=name == "weak_features",
            quick=name == "exclusive_or",
        )
        for name, family in FAMILIES.items()
    ),
    Table("connect4", "classes"),
    Table("krk_chess", "classes"),
    Table("covertype_93k", "classes"),
    Table("kddcup99_10pct", "classes"),
)
# Tables that are a part of another.
VIEWS = {"mushroom_complete": "mushroom:complete"}
GROUPS = ("auto", "recipes", "peers", "references", "ablations")


def group_of(system: str) -> str:
    """Which of the groups a system belongs to."""
    if system in REFERENCES:
        return "references"
    if system.startswith(ABLATED):
        return "ablations"
    if system in RECIPES:
        return "recipes"
    return "auto" if system == "auto" else "peers"


def all_cases(quick: bool) -> list[Case]:
    """Every case, table by table; those of the quick run are among those of the full one."""
    return [
        case
        for table in TABLES
        if table.quick or not quick
        for seed in range(N_QUICK if quick else N_SEEDS)
        for case in _cases(table, seed, quick)
    ]


def _cases(table: Table, seed: int, quick: bool) -> Iterator[Case]:
    for system in REFERENCES:
        yield Case.of(QUESTION, table.name, system, "no privacy", seed)

    def case(system: str, epsilon: float, delta: float, **settings: Any) -> Case:
        return Case.of(QUESTION, table.name, system, "private", seed, epsilon=epsilon, delta=delta, **settings)

    task = "regression" if table.task == "regression" else "classification"
    for epsilon in QUICK_EPSILONS if quick else EPSILONS:
        for peer in PEERS:
            if table.task in peer.tasks:
                for settings in settings_of(peer, table.name)[: 1 if quick else None]:
                    yield case(peer.system, epsilon, peer.delta, **settings)
        for delta in (0.0, DELTA):
            yield case("auto", epsilon, delta)
        for recipe in RECIPES:
            if task in get_recipe(recipe).tasks:
                yield case(recipe, epsilon, 0.0)
        if table.in_ablations and epsilon in ABLATION_EPSILONS and not quick:
            for delta in (0.0, DELTA):
                for name, without in ABLATIONS.items():
                    if task in without.tasks:
                        yield case(ABLATED + name, epsilon, delta)


def wanted(quick: bool, systems: tuple[str, ...] = (), tables: tuple[str, ...] = ()) -> list[Case]:
    """The cases of these systems, by name or group, on these tables; nothing named means all."""
    cases = all_cases(quick)
    check_known("system", systems, sorted({*GROUPS, *(case.system for case in cases)}))
    check_known("table", tables, sorted({case.dataset for case in cases}))
    return [
        case
        for case in cases
        if (not systems or case.system in systems or group_of(case.system) in systems)
        and (not tables or case.dataset in tables)
    ]


def load_table(name: str, seed: int) -> Loaded:
    """Features, target as class indices or numbers, and schema. The number of rows is not public."""
    if name in FAMILIES:
        return _drawn(name, seed)
    return _stored(name)


@lru_cache(maxsize=2)
def _stored(name: str) -> Loaded:
    return _indexed(*load_view(VIEWS.get(name, name)))


@lru_cache(maxsize=2)
def _drawn(name: str, seed: int) -> Loaded:
    return _indexed(*generate(name, seed))


def _indexed(X: Any, y: Any, schema: Schema) -> Loaded:
    """Labels by their index in the schema, so that all systems speak of the same columns."""
    schema = replace(schema, n_rows=None)
    if not isinstance(schema.target, Classes):
        return X, np.asarray(y, dtype=float), schema
    indices = {label: index for index, label in enumerate(schema.target.labels)}
    target = Classes(range(len(indices)), name=schema.target.name)
    return X, np.array([indices[label] for label in y.to_pylist()]), replace(schema, target=target)


@dataclass(frozen=True)
class Outcome:
    """Predictions for the test rows: numbers, or shares of classes ``(n_test, n_classes)``."""

    predictions: np.ndarray
    test: np.ndarray
    n_train: int
    seconds: float
    more: Row


def measure(case: Case, python: Path | None, load: Callable[[str, int], Loaded] = load_table) -> Row:
    """Train and test one case, with fresh noise. ``python`` is that of the peers' environment."""

    def trial() -> Row:
        X, y, schema = load(case.dataset, case.seed)
        train, test = _table(case.dataset).split.rows(y, case.seed)
        outcome = _trainer(case.system, python)(case, X, y, schema, train, test)
        measured = {
            "metrics": metrics(outcome.predictions, y[outcome.test], schema),
            "n_train": outcome.n_train,
            "n_test": len(outcome.test),
            "seconds": round(outcome.seconds, 3),
        }
        if group_of(case.system) == "auto" and _is_binary(schema):
            measured["reliability"] = reliability(outcome.predictions[:, 1], y[outcome.test])
        return measured | outcome.more

    return case.to_dict() | attempted(trial)


def _table(name: str) -> Table:
    return next(table for table in TABLES if table.name == name)


def _trainer(system: str, python: Path | None) -> Callable[..., Outcome]:
    if group_of(system) == "peers":
        return partial(_peer, python=python)
    references: dict[str, Callable[..., Outcome]] = {
        "guess": _guess, "random-forest": _usual_forest, "boosting": _usual_boosting,
    }  # fmt: skip
    return references.get(system, _ours)


def _ours(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray) -> Outcome:
    kind = DPForestClassifier if isinstance(schema.target, Classes) else DPForestRegressor
    is_ablation = case.system.startswith(ABLATED)
    recipe = ABLATIONS[case.system.removeprefix(ABLATED)] if is_ablation else case.system
    parameters = dict(case.parameters)
    if case.system == WITHOUT_NOISE:
        recipe, parameters = "auto", {"epsilon": math.inf}
    model = kind(schema, recipe=recipe, **parameters)
    rows, labels = X.take(train), y[train]
    start = time.perf_counter()
    model.fit(rows, labels)
    seconds = time.perf_counter() - start
    predict = model.predict_proba if isinstance(model, DPForestClassifier) else model.predict
    more = {"epsilon_spent": model.privacy_.epsilon, "holds": model.privacy_.holds}
    return Outcome(predict(X.take(test)), test, len(train), seconds, more)


def _peer(
    case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray, *, python: Path | None
) -> Outcome:
    if python is None:
        raise NotMeasured("There is no environment for the peers.")
    trainer = environment.trainer(python)
    name = (case.dataset, case.seed)
    path, train, test = trainer.data(name, lambda: environment.arrays_of(case.dataset, X, y, schema), train, test)
    settings = dict(case.parameters)
    request = {
        "data": str(path),
        "system": case.system,
        "epsilon": settings.pop("epsilon"),
        "delta": settings.pop("delta"),
        "settings": settings,
        "max_rows": MOST_ROWS.get((case.dataset, case.system)),
    }
    predictions, answer = trainer.train(request)
    more = {"n_left_out": len(y) - len(train) - len(test), "max_rows": request["max_rows"]}
    return Outcome(predictions, test, answer["n_train"], answer["seconds"], more)


def _guess(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray) -> Outcome:
    """The same answer for all: the classes' shares, or the mean."""
    if isinstance(schema.target, Classes):
        shares = np.bincount(y[train], minlength=schema.target.width) / len(train)
        predictions = np.tile(shares, (len(test), 1))
    else:
        predictions = np.full(len(test), y[train].mean())
    return Outcome(predictions, test, len(train), 0.0, {})


def _usual_forest(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray) -> Outcome:
    kind = RandomForestClassifier if isinstance(schema.target, Classes) else RandomForestRegressor
    numbers = as_numbers(X, schema)
    n_drawn = MOST_FOREST_ROWS if len(train) > MOST_FOREST_ROWS else None
    start = time.perf_counter()
    model = kind(**FOREST, max_samples=n_drawn, random_state=case.seed).fit(numbers[train], y[train])
    return _predicted(model, numbers[test], schema, train, test, time.perf_counter() - start)


def _usual_boosting(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray) -> Outcome:
    kind = HistGradientBoostingClassifier if isinstance(schema.target, Classes) else HistGradientBoostingRegressor
    numbers = as_numbers(X, schema)
    named = [isinstance(feature, Categorical) for feature in schema.features.values()]
    start = time.perf_counter()
    model = kind(**BOOSTING, categorical_features=named, random_state=case.seed).fit(numbers[train], y[train])
    return _predicted(model, numbers[test], schema, train, test, time.perf_counter() - start)


def _predicted(
    model: Any, asked: np.ndarray, schema: Schema, train: np.ndarray, test: np.ndarray, seconds: float
) -> Outcome:
    if isinstance(schema.target, Classes):
        predictions = np.zeros((len(test), schema.target.width))
        predictions[:, model.classes_] = model.predict_proba(asked)
    else:
        predictions = model.predict(asked)
    return Outcome(predictions, test, len(train), seconds, {})


def _is_binary(schema: Schema) -> bool:
    return isinstance(schema.target, Classes) and schema.target.width == 2


def metrics(predictions: np.ndarray, actual: np.ndarray, schema: Schema) -> dict[str, float]:
    """R²; or accuracy, log-loss and area under the curve, which is the mean of each class against the rest."""
    if not isinstance(schema.target, Classes):
        return {"r2": float(1 - np.square(actual - predictions).mean() / actual.var())}
    shares = np.clip(predictions, LEAST_SHARE, 1 - LEAST_SHARE)
    shares /= shares.sum(axis=1, keepdims=True)
    found = {
        "accuracy": float((predictions.argmax(axis=1) == actual).mean()),
        "log_loss": float(-np.log(shares[np.arange(len(actual)), actual]).mean()),
    }
    indices = [1] if schema.target.width == 2 else range(schema.target.width)
    present = [index for index in indices if 0 < (actual == index).sum() < len(actual)]
    areas = [roc_auc_score(actual == index, predictions[:, index]) for index in present]
    return found | ({"auc": float(np.mean(areas))} if areas else {})


def reliability(shares: np.ndarray, actual: np.ndarray) -> Row:
    """Test rows in bins of the share that the second class was given: how many, the mean share, and how many were of it."""
    bins = np.minimum((shares * N_BINS).astype(int), N_BINS - 1)
    counts, given, of_class = (np.bincount(bins, weights, N_BINS) for weights in (None, shares, actual == 1))
    means = [[round(float(value), 5) for value in sums / np.maximum(counts, 1)] for sums in (given, of_class)]
    return {"counts": counts.astype(int).tolist(), "predicted": means[0], "actual": means[1]}


def run(
    progress: Callable[[str], None],
    results: Path,
    cases: Iterable[Case],
    *,
    python: Path | None = None,
    n_jobs: int = 2,
    load: Callable[[str, int], Loaded] = load_table,
) -> Iterator[Row]:
    """Run what ``results`` does not have yet and yield the new rows; without a ``python`` for them, no peers."""
    todo = [case for case in cases if python is not None or group_of(case.system) != "peers"]
    yield from run_all(todo, partial(measure, python=python, load=load), Path(results), progress, n_jobs)
