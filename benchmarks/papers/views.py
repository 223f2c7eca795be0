"""The benchmark tables as the papers use them."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.datasets import load_iris

from benchmarks.core.trials import Loaded
from dpforest.datasets import load_dataset
from dpforest.schema import Bounded, Classes, Numeric, Schema

# The first rows of adult are those of the file adult.data, which is what the papers call Adult.
ADULT_DATA_ROWS = 32561
# In centimetres; what a ruler holds, not what the data show.
IRIS_BOUNDS = (0, 10)


@lru_cache(maxsize=3)
def load_view(name: str) -> Loaded:
    """A benchmark table, or after a colon a part of it that a paper uses."""
    table, _, part = name.partition(":")
    X, y, schema = _iris() if table == "iris" else _arrow(*load_dataset(table))
    return VIEWS[part](X, y, schema)


def _arrow(X: Any, y: Any, schema: Schema) -> Loaded:
    if isinstance(X, pa.Table):
        return X, y, schema
    text = {name: X[name].astype(object) for name, part in schema.features.items() if part.kind == "categorical"}
    return (
        pa.Table.from_pandas(X.assign(**text), preserve_index=False),
        pa.chunked_array([pa.array(y.astype(object))]),
        schema,
    )


def _iris() -> Loaded:
    bunch = load_iris()
    X = pa.table({name: bunch.data[:, index] for index, name in enumerate(bunch.feature_names)})
    labels = [str(label) for label in bunch.target_names]
    schema = Schema({name: Numeric(*IRIS_BOUNDS) for name in bunch.feature_names}, Classes(labels))
    return X, pa.chunked_array([[labels[index] for index in bunch.target]]), schema


def _adult_data(X: Any, y: Any, schema: Schema) -> Loaded:
    return X.slice(0, ADULT_DATA_ROWS), y.slice(0, ADULT_DATA_ROWS), schema


def _united_states(X: Any, y: Any, schema: Schema) -> Loaded:
    X, y, schema = _adult_data(X, y, schema)
    kept = pc.fill_null(pc.equal(X["native-country"], "United-States"), False)
    features = {name: part for name, part in schema.features.items() if name != "native-country"}
    return X.filter(kept).drop_columns(["native-country"]), y.filter(kept), replace(schema, features=features)


def _complete(X: Any, y: Any, schema: Schema) -> Loaded:
    """Rows without missing values; of adult those of adult.data."""
    if "native-country" in schema.features:
        X, y, schema = _adult_data(X, y, schema)
    kept = np.ones(len(X), dtype=bool)
    for column in X.columns:
        kept &= ~np.asarray(column.is_null())
    return X.filter(pa.array(kept)), y.filter(pa.array(kept)), schema


def _range(X: Any, y: Any, schema: Schema) -> Loaded:
    """The range of the data taken as the bounds of the target, as if it were public."""
    low, high = (float(bound) for bound in pc.min_max(y).as_py().values())
    return X, y, replace(schema, target=Bounded(low, high, schema.target.name))


def _disease(X: Any, y: Any, schema: Schema) -> Loaded:
    """Whether there is any heart disease; the table has four degrees of it."""
    is_healthy = pc.equal(y, "0")
    labels = pc.if_else(is_healthy, "no", "yes")
    return X, labels, replace(schema, target=Classes(["no", "yes"], name=schema.target.name))


def _whole(X: Any, y: Any, schema: Schema) -> Loaded:
    return X, y, schema


VIEWS: dict[str, Callable[[Any, Any, Schema], Loaded]] = {
    "": _whole,
    "data": _adult_data,
    "us": _united_states,
    "complete": _complete,
    "range": _range,
    "disease": _disease,
}
