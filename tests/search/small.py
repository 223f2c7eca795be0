"""What tests of searches share: two features, rows of them with classes and with numbers, and a search of few candidates."""

from functools import partial

import numpy as np
import pandas as pd

from dpforest import Budget, DPForestClassifier, DPForestRegressor, DPSearchCV
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema

FEATURES = {"x": Numeric(0, 1), "z": Categorical(["u", "v"])}
CLASSES = Schema(FEATURES, Classes(["a", "b"], name="y"), one_row_per_person=True)
NUMBER = Schema(FEATURES, Bounded(0, 1, name="y"), one_row_per_person=True)
N_ROWS = 600
RNG = np.random.default_rng(1)
ROWS = pd.DataFrame({"x": RNG.random(N_ROWS), "z": RNG.choice(["u", "v"], N_ROWS)})
LABELS = np.where(RNG.random(N_ROWS) < 0.05, None, np.where(ROWS["x"] > 0.5, "a", "b"))  # some are missing
VALUES = np.where(RNG.random(N_ROWS) < 0.05, np.nan, ROWS["x"])
# The estimator, the schema and the target of each task.
TASKS = {"classes": (DPForestClassifier, CLASSES, LABELS), "numbers": (DPForestRegressor, NUMBER, VALUES)}
SPACE = {"max_depth": [1, 2]}
search = partial(DPSearchCV, param_distributions=SPACE, epsilon=4.0, mean_runs=4)


def budget_in(folder, epsilon=9.0, delta=0.0):
    return Budget.open(folder / "b.db", dataset="ward", epsilon=epsilon, delta=delta)


def law_of_best(law, run):
    """The chance that each outcome is the best of a random number of runs; outcomes from the best on."""
    gamma, run = float(law.gamma), np.asarray(run, dtype=float)
    better = np.append(0, np.cumsum(run)[:-1])
    return np.log1p((1 - gamma) * run / (gamma + (1 - gamma) * better)) / -np.log(gamma)


def watch(monkeypatch, owner, name, look):
    """Call ``look`` with what is given, each time before something is called."""
    called = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given: (look(*given), called(*given))[1])
