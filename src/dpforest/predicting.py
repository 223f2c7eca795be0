"""Predictions of a released forest for the rows of a table. Hands tables on to ``records``; the rest is released."""

from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.validation import validate_data

from dpforest.common.work import Workers
from dpforest.errors import TableError
from dpforest.forest.tree import Forest
from dpforest.records.columns import near_names, read_columns
from dpforest.records.doors import header_of, in_order, names_of
from dpforest.records.encoding import encode

# Rows that are encoded and walked down the trees at once.
CHUNK_ROWS = 1 << 14


def predict_shares(model: Any, forest: Forest, X: Any) -> np.ndarray:
    """Shares ``(n_records, n_values)`` that the forest of a fitted estimator gives records, each row summing to 1."""
    X = read_in_order(model, X)
    check_names(model, X)
    columns = read_columns(X, model.schema_)
    n_records = len(columns[0])
    if n_records == 0:
        raise TableError("Found array with 0 sample(s) while a minimum of 1 is required.")
    shares = np.empty((n_records, forest.votes.shape[1]))
    workers = Workers(effective_n_jobs(model.n_jobs))

    def predict(part: int, start: int, stop: int) -> None:
        for begin in range(start, stop, CHUNK_ROWS):
            chunk = slice(begin, min(stop, begin + CHUNK_ROWS))
            shares[chunk] = forest.predict(encode([column[chunk] for column in columns], forest.domain))

    workers.run(predict, workers.parts(n_records, forest.n_trees))
    return shares


def decide_labels(model: Any, forest: Forest, X: Any) -> np.ndarray:
    """The label of each record ``(n_records,)``: the likeliest, or one drawn by the shares if the forest draws labels."""
    X = read_in_order(model, X)
    shares = predict_shares(model, forest, X)
    codes = encode(read_columns(X, model.schema_), forest.domain) if forest.draws else np.empty((0, len(shares)))
    return forest.decide(shares, codes)


def read_in_order(model: Any, X: Any) -> Any:
    """A table in memory as it is; a file or a stream of Arrow batches read in row order."""
    table = in_order(X, model.schema_)
    return table if table is X else table.select([*getattr(model, "feature_names_in_", model.schema_.features)])


def check_names(model: Any, X: Any) -> None:
    """Raise unless a table has the columns that a model was fitted with, in their order, as scikit-learn checks it.

    A missing column for which the table has one of much the same name is an error that asks whether that is meant.
    """
    if len(getattr(X, "shape", ())) != 2:  # a list, which has no names
        return
    try:
        validate_data(model, header_of(X, model.schema_), reset=False, skip_check_array=True)
    except ValueError as error:
        hints = near_names(names_of(X) or [], model.schema_.features)
        raise TableError(f"{error}{hints}") if hints else error from None
