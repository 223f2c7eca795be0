"""Odd records in a whole fit, with every role at once: whoever does not see the released values sees no difference.

Not on the screen, not in a budget, and not in a model file. An odd value stands in a record that has it everywhere, and in
one that has an ordinary target, so that it is learnt from.
"""

import json
import logging
import warnings
import zipfile
from collections import deque
from itertools import chain

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.neighbours.odd_values import INF, NAN, OBJECTS, SECRET
from tests.neighbours.one_record import noted
from tests.records.holders import objects

from dpforest import Bounded, Budget, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema

pytestmark = pytest.mark.slow

FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"]), "kind": Categorical([1, 2, 3])}
PUBLIC = {"n_rows": 100, "one_row_per_person": True}
CLASSES = Schema(FEATURES, Classes(["no", "yes"]), **PUBLIC)
MEANS = Schema(FEATURES, Bounded(0, 1), **PUBLIC)
TASKS = {
    "classes": lambda: DPForestClassifier(CLASSES, max_depth=2),
    "zCDP": lambda: DPForestClassifier(CLASSES, max_depth=2, delta=1e-6),
    "means": lambda: DPForestRegressor(MEANS, max_depth=2, recipe="consul-2020"),
    "means in a range": lambda: DPForestRegressor(MEANS, max_depth=2),
    "persons": lambda: DPForestClassifier(Schema(FEATURES, CLASSES.target, n_rows=100), max_depth=2, max_rows_per_person=2),
}
N_ROWS = 80
# Records of age, sex, kind, label, number and id.
RECORDS = [(float(row), "mf"[row % 2], row % 3 + 1, ["no", "yes"][row % 2], row / N_ROWS, row) for row in range(N_ROWS)]
VALUES = {name: odd for name, odd in OBJECTS.items() if name not in ("has no class", "class that cannot be hashed")} | {
    "another label": "Yes", "padded": "yes ", "before": " m", "other direction": "\u202eolsO", "longest": "x" * 2_000_000,
    "beyond 53 bits": 2.0**53 + 2, "far below": -1e308, "far": 987654.321, "a kind beyond": 10**12, "tuple of two": (1, 2),
}  # fmt: skip


def odd_records(value):
    return [(value,) * 6, (value, value, value, "yes", 0.5, 99)]


def columns_of(records):
    return [objects([record[place] for record in records]) for place in range(6)]


def as_numpy(records):
    columns = columns_of(records)
    return np.stack(columns[:3], axis=1).reshape(len(records), 3), *columns[3:]


def in_rows(kind):
    return lambda records: (
        kind(kind(record[:3]) for record in records),
        *(kind(column.tolist()) for column in columns_of(records)[3:]),
    )


def as_pandas(records):
    columns = [pd.Series(column, dtype=object) for column in columns_of(records)]
    return pd.DataFrame(dict(zip(FEATURES, columns, strict=False))), *columns[3:]


def as_polars(records):
    columns = [pl.Series(column.tolist(), dtype=pl.Object) for column in columns_of(records)]
    return pl.DataFrame(dict(zip(FEATURES, columns, strict=False))), *columns[3:]


HOLDERS = {"numpy": as_numpy, "lists": in_rows(list), "pandas": as_pandas, "polars": as_polars}
KINDS = {
    "pandas": (pd.DataFrame, pd.Series, ("Float64", "category", "Int64", "str", "float64", "Int64")),
    "polars": (pl.DataFrame, pl.Series, (pl.Float64, pl.Categorical, pl.Int64, pl.String, pl.Float64, pl.Int64)),
    "pyarrow": (pa.table, pa.array, (pa.float64(), pa.string(), pa.int64(), pa.string(), pa.float64(), pa.int64())),
}


def typed(library):
    table, column, kinds = KINDS[library]

    def made(records):
        by = {"type" if library == "pyarrow" else "dtype": None}
        values = [[record[place] for record in records] for place in range(6)]
        columns = [column(own, **dict.fromkeys(by, kind)) for own, kind in zip(values, kinds, strict=True)]
        return table(dict(zip(FEATURES, columns, strict=False))), *columns[3:]

    return made


TYPED = {f"{name} with types": typed(name) for name in KINDS}
# What typed columns can hold.
TYPED_RECORDS = {
    "ordinary": [(50.0, "m", 1, "yes", 0.5, 99)],
    "unknown label": [(50.0, "m", 1, SECRET, NAN, 99)],
    "missing label": [(50.0, "m", 1, None, None, 99)],
    "unknown category": [(50.0, SECRET, 77, "yes", INF, 99)],
    "missing values": [(None, None, None, "yes", -INF, None)],
    "infinite": [(INF, "m", 1, "yes", 1e308, 99)],
    "far outside": [(987654.321, "m", 10**12, "yes", 5e-324, 99)],
}


@pytest.fixture
def observe(caplog, capfd):
    """A function that gives all that someone who does not see the released values can see of a fit."""

    def seen(records, holder, task):
        model, error, steps = TASKS[task](), "", []
        X, labels, numbers, ids = holder(records)
        caplog.clear()
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                y = numbers if task.startswith("means") else labels
                model.fit(X, y, progress=steps.append, **({"groups": ids} if task == "persons" else {}))
                if records and labels is not None:
                    model.predict(X)
            except Exception as caught:
                error = f"{type(caught).__name__}: {caught}"
        forest, ledger = getattr(model, "forest_", None), getattr(model, "ledger_", None)
        # The compiler logs what it compiles on first use, whatever the table.
        logs = [record.getMessage() for record in caplog.records if not record.name.startswith("numba")]
        quiet = (error, [str(warning.message) for warning in warned], logs, *capfd.readouterr())
        assert quiet == ("", [], [], "", "")
        assert ledger.n_entries
        if task == "means in a range":  # which is released, and the charges follow it
            return str(model.privacy_), steps
        return {
            "statement": (str(model.privacy_), steps),
            "attributes": sorted(name for name in dir(model) if not name.startswith("_")),
            "charges": [tuple(entry.items()) for entry in ledger.entries()],
            "shapes": {name: value.shape for name, value in vars(forest).items() if hasattr(value, "shape")},
        }

    return seen


def assert_not_seen(observe, holder, task, odd, n_base=N_ROWS):
    """Odd records, by the name of their value, are not seen together, nor are those of one value alone."""
    base = RECORDS[:n_base]
    before = observe(base, holder, task)
    for name, more in {"all": [*chain(*odd.values())], **odd}.items():
        with noted(name):
            assert observe([*base, *more], holder, task) == before


CASES = [(holder, task) for holder in HOLDERS for task in TASKS]


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.night)], ids=["by turns", "every value"])
@pytest.mark.parametrize(("holder", "task"), CASES)
def test_odd_records_of_any_kind_are_not_seen(observe, holder, task, share):
    odd = {name: odd_records(value) for name, value in VALUES.items()}
    alone = dict([*odd.items()][-CASES.index((holder, task)) % share :: share])
    assert_not_seen(observe, HOLDERS[holder], task, alone | {"all values": [*chain(*odd.values())]})


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("holder", TYPED)
def test_odd_records_in_typed_columns_are_not_seen(observe, holder, task):
    for n_base in (0, N_ROWS):
        assert_not_seen(observe, TYPED[holder], task, TYPED_RECORDS, n_base)


@pytest.mark.parametrize("holder", [*HOLDERS.values(), in_rows(tuple), in_rows(deque)])
def test_an_empty_table_is_not_told_from_a_few_records(observe, holder):
    odd = {name: odd_records(value)[:1] for name, value in VALUES.items()}
    assert_not_seen(observe, holder, "classes", odd, 0)


def test_odd_records_of_a_file_are_not_seen_in_a_fit(observe, tmp_path):
    def in_file(records):
        X, labels, _, _ = TYPED["pyarrow with types"](records)
        pq.write_table(X.append_column("target", labels), tmp_path / "t.parquet")
        return tmp_path / "t.parquet", None, None, None

    for n_base in (0, N_ROWS):
        assert_not_seen(observe, in_file, "classes", TYPED_RECORDS, n_base)


@pytest.mark.parametrize("task", [task for task in TASKS if task != "persons"])
def test_odd_records_leave_no_trace_in_a_budget_or_a_model_file(tmp_path, task):
    """Of a file the header without its digest, and how large each part is: numbers have a fixed width."""
    seen = []
    for more in [(), *TYPED_RECORDS.values(), chain(*TYPED_RECORDS.values())]:
        X, labels, numbers, _ = as_pandas([*RECORDS, *more])
        model = TASKS[task]()
        model.budget = Budget.open(tmp_path / f"{len(seen)}.db", "ward", epsilon=1.0, delta=model.delta)
        model.fit(X, numbers if task.startswith("means") else labels).save(tmp_path / "m.dpf")
        entries = [{**each, "time": None, "hash": None, "previous": None} for each in model.budget.export()["entries"]]
        with zipfile.ZipFile(tmp_path / "m.dpf") as archive:
            header, parts = json.loads(archive.read("model.json")), archive.infolist()
        released = ("digest", "ledger", "target_range") if task == "means in a range" else ("digest",)
        sizes = None if task == "means in a range" else [(part.filename, part.file_size) for part in parts]
        seen.append(
            (entries, model.budget.spent, {name: own for name, own in header.items() if name not in released}, sizes)
        )
    assert all(each == seen[0] for each in seen)
