"""What each export predicts, as a stranger would ask it who has nothing else of the library."""

import hashlib
import math
import re
from bisect import bisect_right
from pathlib import Path

import duckdb
import narwhals as nw
import numpy as np
import onnx
import onnxruntime
from tests.show.reading import read
from tests.support import naive
from tests.support.planted import voting

from dpforest import Categorical, Classes, Date, Numeric, Schema
from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.schema.domain import Domain, Grid
from dpforest.show.export.json import texts_of
from dpforest.show.export.onnx import onnx_model
from dpforest.show.export.sql import added_names, column_names


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def clearest(model, shares):
    """Which rows have one likeliest class, and its place."""
    return np.ptp(np.sort(shares, axis=1)[:, -2:], axis=1) > 1e-9, shares.argmax(axis=1)


def as_text(part, value):
    """A category of text, or of several types, as databases and runtimes are given it; None stays."""
    if value is None or value != value:
        return None
    listed = part.categories or ()
    return dict(zip(listed, texts_of(listed), strict=True)).get(value, str(value))


def is_of_texts(part):
    return isinstance(part, Categorical) and any(isinstance(value, str) for value in part.categories or ())


def scored(query, table, name='"people"'):
    """The rows that the query gives in DuckDB, in the order of the table."""
    with duckdb.connect() as connection:
        connection.register("rows_to_copy", table.assign(place=range(len(table))))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_to_copy")
        return connection.execute(query).df().sort_values("place").reset_index(drop=True)


def checked(model, found):
    """The shares or means among the columns that a query gave, whose labels have to be the likeliest."""
    label, *shares = added_names(model.forest_)
    if not shares:
        return found[label].to_numpy(float)
    shares = found[shares].to_numpy(float)
    clear, places = clearest(model, shares)
    texts = np.array(texts_of(model.schema_.target.labels), dtype=object)
    assert [texts_of([each])[0] for each in found[label].to_numpy()[clear].tolist()] == [*texts[places][clear]]
    return shares


def by_sql(model, rows):
    features = model.schema_.features
    texts = {name: [as_text(part, value) for value in rows[name]] for name, part in features.items() if is_of_texts(part)}
    names = dict(zip(features, column_names(tuple(features)), strict=True))
    return checked(model, scored(model.to_sql("people"), rows.assign(**texts).rename(columns=names)))


def session(model_bytes):
    onnx.checker.check_model(model_bytes, full_check=True)
    return onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])


def outputs(forest, columns):
    """Outputs of the graph of a forest by name, for lists of values that the inputs take as they are."""
    graph = session(onnx_model(forest))
    feeds = {}
    for node, values in zip(graph.get_inputs(), columns, strict=True):
        dtype = object if node.type == "tensor(string)" else np.float64
        feeds[node.name] = np.array(values, dtype=dtype).reshape(-1, 1)
    return dict(zip([node.name for node in graph.get_outputs()], graph.run(None, feeds), strict=True))


def input_of(part, values):
    """A column as the documentation says: missing text is empty, dates are seconds."""
    if isinstance(part, Date):
        seconds = to_seconds(nw.from_native(values, series_only=True))
        return np.where(seconds == NO_DATE, np.nan, seconds)
    if is_of_texts(part) or getattr(part, "learn", False):
        return [as_text(part, value) or "" for value in values]
    return [np.nan if value is None else float(value) for value in values]


def by_onnx(model, rows):
    found = outputs(model.forest_, [input_of(part, rows[name]) for name, part in model.schema_.features.items()])
    if "prediction" in found:
        assert found["prediction"].shape == (len(rows), 1)
        return found["prediction"][:, 0]
    assert found["label"].tolist() == model.classes_[found["probabilities"].argmax(axis=1)].tolist()
    return found["probabilities"]


def code(feature, value):
    """The code of a value of JSON as the text in the export says."""
    if "buckets" in feature:
        if value is None:
            return feature["buckets"] + 1
        text = value if isinstance(value, str) else str(int(value))
        return int(hashlib.md5(text.encode()).hexdigest()[:2], 16) % feature["buckets"]
    return guides_code(feature, value)


# The reader that the guide shows, for values in buckets too.
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "export.md"
READER: dict = {"math": math, "bisect_right": bisect_right}
exec(re.search(r"^def code.*?(?=^shares)", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)[0], READER)
guides_code, READER["code"], predict = READER["code"], code, READER["predict"]


def by_json(model, rows):
    forest = read(model.to_json())["forest"]
    target, rows = forest["target"], rows.astype(object).where(rows.notna(), None)
    shares = np.array([predict(forest, record) for record in rows.to_dict("records")])
    return shares if "labels" in target else target["lower"] + (target["upper"] - target["lower"]) * shares[:, 1]


EXPORTS = {"SQL": by_sql, "ONNX": by_onnx, "JSON": by_json}


def check(model, rows, export):
    """Whether an export predicts what the model predicts."""
    expected = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    agree(EXPORTS[export](model, rows), expected)


def chain_forest(depth):
    """One tree that goes deeper at each cut, and values that end at each of its leaves."""
    target = Classes(["no", "yes"])
    domain = Domain.of(Schema({"x": Numeric(0, 17)}, target), Grid(17))
    tree = [depth + 2.0, 3.0]
    for level in reversed(range(depth)):  # below its cut a record is in a leaf, else the next cut is asked for
        tree = (0, [int(code > level) for code in range(domain.n_codes[0])], [[level + 1.0, 3.0], tree])
    return voting(naive.plant(domain, target, tree)), np.arange(0.5, 17.0)
