"""What is written to disk does not tell neighbouring tables apart: entries of a budget, headers and sizes of model files."""

import io
import json
import logging
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from dpforest import Bounded, Budget, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema

FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"])}
CLASSES = Schema(FEATURES, Classes(["no", "yes", "never seen"]), n_rows=60)
BOUNDED = Schema(FEATURES, Bounded(0, 1), n_rows=60)
ROWS = [(float(age), sex, label) for age in range(0, 100, 5) for sex, label in (("m", "yes"), ("f", "no"))]
TABLES = {
    "all": ROWS,
    "one fewer": ROWS[1:],
    "none": [],
    "one": ROWS[:1],
    "one class is absent": [row for row in ROWS if row[2] == "no"],
    "an unlisted category": [*ROWS, (50.0, "unlisted", "yes")],
    "missing values": [*ROWS, (np.nan, None, "yes")],
    "an infinite value": [*ROWS, (np.inf, "m", "yes")],
    "an unlisted class": [*ROWS, (50.0, "m", "unlisted")],
    "a missing class": [*ROWS, (50.0, "m", None)],
}
TASKS = {"classes": (DPForestClassifier, CLASSES), "means": (DPForestRegressor, BOUNDED)}
RECIPES = ("auto", "jagannathan-2009", "consul-2020")


def fitted(rows, task, recipe, steps, **parameters):
    make, schema = TASKS[task]
    X = pd.DataFrame({"age": [row[0] for row in rows], "sex": pd.Series([row[1] for row in rows], dtype=object)})
    y = [row[2] if task == "classes" else (np.nan if row[2] is None else float(row[2] == "yes")) for row in rows]
    y = np.array(y, dtype=object if task == "classes" else float)
    return make(schema, recipe=recipe, max_depth=2, n_trees=2, **parameters).fit(X, y, progress=steps.append)


def cases():
    return [(task, recipe) for task in TASKS for recipe in RECIPES if (task, recipe) != ("means", "jagannathan-2009")]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize(("task", "recipe"), cases())
def test_neighbours_are_told_and_entered_alike(task, recipe, delta, tmp_path, caplog, capfd):
    seen = set()
    for place, rows in enumerate(TABLES.values()):
        budget = Budget.open(tmp_path / f"{place}.db", dataset="ward-7", epsilon=1.0, delta=delta)
        steps: list[str] = []
        caplog.clear()
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            fitted(rows, task, recipe, steps, epsilon=1.0, delta=delta, budget=budget)
        logs = [record.getMessage() for record in caplog.records if not record.name.startswith("numba")]
        entries = [
            {name: value for name, value in entry.items() if name not in ("time", "hash", "previous")}
            for entry in budget.export()["entries"]
        ]
        told = [str(warning.message) for warning in warned]
        seen.add(json.dumps([steps, logs, told, capfd.readouterr(), entries, budget.spent]))
    assert len(seen) == 1


def refused_alike(rows, tmp_path, place):
    budget = Budget.open(tmp_path / f"{place}.db", dataset="ward-7", epsilon=0.5)
    with pytest.raises(Exception) as caught:
        fitted(rows, "classes", "auto", [], epsilon=1.0, budget=budget)
    return f"{type(caught.value).__name__}: {caught.value}", len(budget.history())


def test_a_refusal_by_the_budget_is_the_same_for_neighbours(tmp_path):
    assert len({refused_alike(rows, tmp_path, place) for place, rows in enumerate(TABLES.values())}) == 1


def parts_of(model, path):
    """The header without its digest, and the size of every entry."""
    model.save(path)
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = json.loads(archive.read("model.json"))
        sizes = {facts.filename: facts.file_size for facts in archive.infolist()}
    del header["digest"]
    header.pop("target_range", None)
    if "location of the target" in json.dumps(header["ledger"]):
        # Released (also that it is the whole range), as is how often it was looked for, by which the charges differ.
        del header["ledger"]
    return json.dumps(header), sizes, len(content)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "recipe"), cases())
def test_the_header_is_the_same_for_neighbours_and_the_size_follows_from_the_released_shape(task, recipe, tmp_path):
    headers, sizes_by_shape = set(), {}
    for rows in TABLES.values():
        model = fitted(rows, task, recipe, [], epsilon=1.0)
        header, sizes, size = parts_of(model, tmp_path / "m.dpf")
        forest = model.forest_
        shape = (json.dumps(model.ledger_.to_dict()), forest.target, forest.n_nodes, len(forest.routes))
        headers.add(header)
        assert sizes_by_shape.setdefault(shape, (sizes, size)) == (sizes, size)
        # Numbers have a fixed width, whatever they are: no digit more or less for another count.
        assert sizes["counts.npy"] == 128 + 8 * forest.n_nodes * forest.target.n_values
        assert sizes["variances.npy"] == 128 + 8 * forest.n_nodes
    assert len(headers) == 1
