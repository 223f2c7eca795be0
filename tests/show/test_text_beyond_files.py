"""Text that files, databases and runtimes cannot hold does not break any export."""

import json

import duckdb
import numpy as np
import onnxruntime

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.show.export.sql import column_names


def test_text_that_no_file_can_hold_is_exported_all_the_same():
    """Half of a surrogate pair, which UTF-8 lacks, and NUL, which ends names in C."""
    features = {"a\ud800": Numeric(0, 1), "a\0": Numeric(0, 1), "c": Categorical(["\udfff", "n\0l", None])}
    schema = Schema(features, Classes(["\ud800", "\0", "plain"]))
    rows = [[0.5, 0.2, "n\0l"], [0.1, 0.9, None], [0.3, 0.3, "other"]] * 4
    model = DPForestClassifier(schema, epsilon=9, recipe="jagannathan-2009").fit(rows, ["\ud800", "\0", "plain"] * 4)
    assert json.loads(model.to_json())["forest"]["target"]["labels"] == ["\ud800", "\0", "plain"]
    session = onnxruntime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    columns = [
        np.array([[0.5], [0.1], [0.3]]),
        np.array([[0.2], [0.9], [0.3]]),
        np.array([["n\0l"], [""], ["other"]], dtype=object),
    ]
    names = [node.name for node in session.get_inputs()]
    probabilities = session.run(["probabilities"], dict(zip(names, columns, strict=True)))[0]
    np.testing.assert_allclose(probabilities, model.predict_proba(rows[:3]), rtol=0, atol=1e-12)
    with duckdb.connect() as database:
        columns = ", ".join(
            '"' + name + '" ' + kind
            for name, kind in zip(column_names(tuple(features)), ("DOUBLE", "DOUBLE", "VARCHAR"), strict=True)
        )
        database.execute(f"CREATE TABLE people ({columns})")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", rows[:3])
        found = [row[-3:] for row in database.execute(model.to_sql("people")).fetchall()]
    np.testing.assert_allclose(sorted(found), sorted(map(tuple, probabilities.tolist())), rtol=0, atol=1e-12)
    assert model.to_sklearn().predict(rows).tolist() == model.predict(rows).tolist()
