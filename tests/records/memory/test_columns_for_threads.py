"""Threads that count some columns of all records give what one thread gives."""

import numpy as np
import pytest
from tests.records.forests import assert_same_forest

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.common.threads import COLUMNS_FOR_THREADS, THREAD_CELLS

N_COLUMNS = 3 * COLUMNS_FOR_THREADS + 5
N_ROWS = THREAD_CELLS // COLUMNS_FOR_THREADS


# Two classes count drawn features with delta and all without; three classes sum residuals; numbers count sides.
@pytest.mark.parametrize(
    ("kind", "target", "delta"),
    [
        (DPForestClassifier, Classes([0, 1]), 0.0),
        (DPForestClassifier, Classes([0, 1]), 1e-6),
        (DPForestClassifier, Classes([0, 1, 2]), 0.0),
        (DPForestRegressor, Bounded(0, 2), 0.0),
    ],
)
def test_a_forest_does_not_depend_on_how_many_threads_share_its_columns(kind, target, delta):
    X = np.random.default_rng(0).random((N_ROWS, N_COLUMNS))
    y = np.digitize(X[:, 0] + X[:, 1], [0.8, 1.2] if target != Classes([0, 1]) else [1.0])
    schema = Schema({f"x{index}": Numeric(0, 1) for index in range(N_COLUMNS)}, target)
    parameters = {"epsilon": 4.0, "delta": delta, "n_trees": 3, "max_depth": 3, "random_state": 0}
    one, three = (kind(schema, n_jobs=n_jobs, **parameters).fit(X, y).forest_ for n_jobs in (1, 3))
    assert one.n_nodes > one.n_trees
    assert_same_forest(three, one)
