"""What a fit gains from an earlier model, and what a stale one costs it.

``python -m benchmarks.earlier``, with ``DPFOREST_DATA`` set, prints a line for each table, budget and case: mean accuracy
over splits ± its standard error and, of two classes, the area under the ROC curve. A quarter of the rows is for testing; one
half of the others is the table of the earlier fit and one half that of the new one. Cases:

    fresh       a fit to the new half alone
    fresh, 2x   the same with twice epsilon, which is what a record in both tables loses by both fits
    earlier     a fit to the new half from a model of the earlier half, at the same epsilon each
    moved       the same, with labels of the earlier half that are random for one record in three
    stale       the same, with labels of the earlier half moved on by one class (of two: exchanged)
"""

import sys
from collections.abc import Iterator
from itertools import product
from math import isnan
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.metrics import roc_auc_score

from benchmarks.core.trials import HeldOut
from dpforest.datasets import load_dataset
from dpforest.estimators import DPForestClassifier
from dpforest.schema import Schema

TABLES = ("adult", "credit_default", "connect4")
BUDGETS = tuple(product((0.1, 1.0), (0.0, 1e-5)))
CASES = ("fresh", "fresh, 2x", "earlier", "moved", "stale")
N_SEEDS = 5
SPLIT = HeldOut(0.25)


def changed(y: np.ndarray, labels: np.ndarray, case: str, rng: np.random.Generator) -> pa.Array:
    """The labels of the earlier table, as the case has them."""
    codes = np.searchsorted(np.sort(labels), y)
    if case == "stale":
        codes = (codes + 1) % len(labels)
    if case == "moved":
        codes = np.where(rng.random(len(codes)) < 1 / 3, rng.integers(len(labels), size=len(codes)), codes)
    return pa.array(np.sort(labels)[codes])


def model_of(X: Any, y: Any, schema: Schema, case: str, epsilon: float, delta: float, seed: int) -> DPForestClassifier:
    """The model of a case on the training rows of a split."""
    rng, labels = np.random.default_rng(seed), np.asarray(y)
    is_new = rng.random(len(labels)) < 0.5
    new, old = np.flatnonzero(is_new), np.flatnonzero(~is_new)
    budget: dict[str, Any] = {"epsilon": epsilon * (2 if case == "fresh, 2x" else 1), "delta": delta}
    earlier = None
    if not case.startswith("fresh"):
        y_old = changed(labels[old], np.unique(labels), case, rng)
        earlier = DPForestClassifier(schema, **budget, n_jobs=1).fit(X.take(old), y_old)
    return DPForestClassifier(schema, **budget, n_jobs=1, earlier_model=earlier).fit(X.take(new), y.take(new))


def scores(X: Any, y: Any, schema: Schema, case: str, epsilon: float, delta: float) -> Iterator[tuple[float, float, bool]]:
    """Accuracy, area under the curve (NaN for more than two classes) and whether an earlier model was kept, by split."""
    labels = np.asarray(y)
    for seed in range(N_SEEDS):
        train, test = SPLIT.rows(labels, seed)
        model = model_of(X.take(train), y.take(train), schema, case, epsilon, delta, seed)
        shares = model.predict_proba(X.take(test))
        accuracy = float((model.classes_[shares.argmax(axis=1)] == labels[test]).mean())
        is_pair = shares.shape[1] == 2
        area = float(roc_auc_score(labels[test] == model.classes_[1], shares[:, 1])) if is_pair else float("nan")
        yield accuracy, area, model.forest_.n_earlier > 0


def lines(tables: list[str]) -> Iterator[str]:
    """The lines to print, for all tables or those that are named."""
    yield "table, epsilon, delta | case | accuracy | area | kept"
    for name, (epsilon, delta), case in product(tables or TABLES, BUDGETS, CASES):
        X, y, schema = load_dataset(name)
        found = list(zip(*scores(X, y, schema, case, epsilon, delta), strict=True))
        kept = f"{sum(found[2])} of {N_SEEDS}"
        yield f"{name}, {epsilon:g}, {delta:g} | {case} | {_cell(found[0])} | {_cell(found[1])} | {kept}"


def _cell(found: tuple[float, ...]) -> str:
    return "-" if isnan(found[0]) else f"{mean(found):.3f} ± {stdev(found) / len(found) ** 0.5:.3f}"


if __name__ == "__main__":
    for line in lines(sys.argv[1:]):
        print(line, flush=True)
