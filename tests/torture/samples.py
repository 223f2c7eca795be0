"""Sound files to start mutations from, and what a reader does with them."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.budget import Budget, Loss, store

FEATURES = {"age": Numeric(0, 100, integer=True), "pay": Numeric(-1.5, 9e4), "sex": Categorical(["m", "f"])}


def rows(n_rows=50):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"age": rng.uniform(0, 100, n_rows), "pay": rng.uniform(0, 9e4, n_rows), "sex": rng.choice(["m", "f"], n_rows)}
    )


def classifier(**parameters):
    X = rows()
    return DPForestClassifier(Schema(FEATURES, Classes(["no", "yes"])), **parameters).fit(
        X, np.where(X["age"] > 50, "yes", "no")
    )


def regressor(**parameters):
    X = rows()
    return DPForestRegressor(Schema(FEATURES, Bounded(0, 100)), **parameters).fit(X, X["age"])


def model_files():
    """Small models of several kinds: made by hand of single trees, of many, for classes and for means."""
    models = [
        classifier(max_depth=2, n_trees=2),
        classifier(max_depth=2, n_trees=2, recipe="jagannathan-2009", delta=0.0),
        classifier(max_depth=1, n_trees=2, delta=1e-6),
        regressor(max_depth=2, n_trees=2),
    ]
    return [*written({f"{place}.dpf": model.save for place, model in enumerate(models)}).values()]


def written(files):
    """The bytes of files, by their names, each written by a function that is given its path."""
    with tempfile.TemporaryDirectory() as folder:
        for name, write in files.items():
            write(Path(folder, name))
        return {name: Path(folder, name).read_bytes() for name in files}


def schema_files():
    schemas = {
        "classes": Schema(FEATURES, Classes(["no", "yes", 3, True, 2.5], other="no", name="ill"), n_rows=100),
        "means": Schema(FEATURES, Bounded(-1, 1), vouched_by="the office"),
    }
    return written({f"{name}.{end}": schema.to_file for name, schema in schemas.items() for end in ("json", "toml")})


def with_log():
    """Stores that are opened inside are as earlier versions made them: with a log beside the file."""
    return mock.patch.object(store, "PRAGMAS", (*store.PRAGMAS[:-1], "journal_mode = WAL"))


def budget_files():
    """Stores, each with the log beside it, if there is one: of earlier versions, copied while open, and of this."""
    contents = []
    for n_releases in (0, 3, 60):
        with tempfile.TemporaryDirectory() as folder:
            for name, versions, make in (
                ("log.db", with_log(), ward),
                ("plain.db", nullcontext(), part),
            ):
                path, log = Path(folder, name), Path(folder, f"{name}-wal")
                with versions:
                    spend_some(make(path), n_releases)
                    contents.append((path.read_bytes(), log.read_bytes() if log.exists() else b""))
                    store._close(store._kept.pop(str(path)))
    return contents


def ward(path, **named):
    return Budget.open(path, dataset="ward-7", epsilon=50.0, delta=1e-6, **named)


def part(path):
    """A budget with entries of every kind."""
    Budget.open(path, dataset="house", epsilon=60.0, delta=1e-6)
    budget = ward(path, belongs_to="house")
    budget.reserve("never settled", outcomes=[Loss.pure(0.1)])
    return budget


def spend_some(budget, n_releases):
    for place in range(n_releases):
        reservation = budget.reserve(f"fit {place}", outcomes=[Loss.pure(0.1)])
        if place % 5:
            budget.settle(reservation, Loss.pure(0.05))


def use_budget(path):
    """All that a reader may ask of a store, and one release on it."""
    budget = Budget.open(path, dataset="ward-7")
    repr((budget, budget.cap, budget.unit, budget.position(), budget.verify(), budget.export()))
    reservation = budget.reserve("one more", outcomes=[Loss.pure(0.01)])
    budget.settle(reservation, Loss.pure(0.01))
    budget.verify()
