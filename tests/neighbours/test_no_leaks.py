"""Errors, warnings, logs, attributes and files hold public facts only, and do not tell neighbouring tables apart."""

import copy
import logging
import pickle
import struct
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.support.columns import objects

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees
from dpforest.records.memory.vault import Vault
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

N_ROWS = 137
SECRET_NUMBER = 987654.321
SECRET_WORD = "zebra-secret-category"
SECRET_LABEL = "walrus-secret-label"
FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"]), "kind": Categorical([1, 2, 3])}
CLASSES = Schema(FEATURES, Classes(["no", "yes"]), n_rows=100, one_row_per_person=True)
BOUNDED = Schema(FEATURES, Bounded(0, 1), n_rows=100, one_row_per_person=True)
NAN, INF = float("nan"), float("inf")

# What one more person may bring: age, sex, kind, label (or target).
ODD_RECORDS = {
    "ordinary": (50.0, "m", 1, "yes"),
    "unknown label": (50.0, "m", 1, SECRET_LABEL),
    "missing label": (50.0, "m", 1, None),
    "label of another type": (50.0, "m", 1, 5),
    "unknown category": (50.0, SECRET_WORD, 77, "yes"),
    "missing values": (None, None, None, "yes"),
    "not a number": (NAN, NAN, NAN, "yes"),
    "infinite": (INF, "m", 1, "yes"),
    "infinite below": (-INF, "m", 1, "yes"),
    "far outside": (SECRET_NUMBER, "m", 10**12, "yes"),
    "number of 400 digits": (10**400, "m", 10**400, "yes"),
    "number as text": ("51", "m", "1", "yes"),
    "no number": (SECRET_WORD, "m", 1, "yes"),
    "text of one surrogate": (50.0, "\ud800", 1, "\ud800"),
    "category of another type": (50.0, 5, "m", "yes"),
    "bytes": (b"50", b"m", b"1", b"yes"),
    "complex": (np.complex128(1 + 1j), 1j, 1j, 1j),
    "list": ([50.0], ["m"], [1], ["yes"]),
    "tuple": ((50.0,), ("m",), (1,), ("yes",)),
    "tuple that cannot be hashed": ((50.0, []), ("m", []), (1, []), ("yes", [])),
    "dictionary": ({"a": 1}, {"a": 1}, {"a": 1}, {"a": 1}),
    "array": (np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2)),
    "date": (pd.Timestamp("2020-01-01"),) * 4,
}


def base_records(n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    ages, sexes, kinds = rng.uniform(0, 100, n_rows), rng.choice(["m", "f"], n_rows), rng.integers(1, 4, n_rows)
    return [
        (float(age), str(sex), int(kind), "yes" if age > 50 else "no")
        for age, sex, kind in zip(ages, sexes, kinds, strict=True)
    ]


def columns_of(records):
    return [objects([record[place] for record in records]) for place in range(4)]


def as_pandas(records):
    *columns, labels = [pd.Series(column, dtype=object) for column in columns_of(records)]
    return pd.DataFrame(dict(zip(FEATURES, columns, strict=True))), labels


def as_pandas_categories(records):
    frame, labels = as_pandas(records)
    return frame.assign(sex=frame["sex"].astype("category")), labels.astype("category")


def as_numpy(records):
    *columns, labels = columns_of(records)
    return np.stack(columns, axis=1), labels


def as_lists(records):
    return [list(record[:3]) for record in records], [record[3] for record in records]


def as_polars(records):
    *columns, labels = columns_of(records)
    frame = {name: pl.Series(column.tolist(), dtype=pl.Object) for name, column in zip(FEATURES, columns, strict=True)}
    return pl.DataFrame(frame), labels


OBJECT_TABLES = {"pandas": as_pandas, "numpy": as_numpy, "lists": as_lists, "polars": as_polars}


def typed_polars(records):
    return pl.DataFrame(
        {
            "age": pl.Series([record[0] for record in records], dtype=pl.Float64),
            "sex": pl.Series([record[1] for record in records], dtype=pl.Categorical),
            "kind": pl.Series([record[2] for record in records], dtype=pl.Int64),
        }
    ), pl.Series([record[3] for record in records], dtype=pl.String)


def typed_arrow(records):
    return pa.table(
        {
            "age": pa.array([record[0] for record in records], pa.float64()),
            "sex": pa.array([record[1] for record in records], pa.string()).dictionary_encode(),
            "kind": pa.array([record[2] for record in records], pa.int64()),
        }
    ), pa.array([record[3] for record in records], pa.string())


def typed_pandas(records):
    return pd.DataFrame(
        {
            "age": pd.Series([record[0] for record in records], dtype="Float64"),
            "sex": pd.Series([record[1] for record in records], dtype="category"),
            "kind": pd.Series([record[2] for record in records], dtype="Int64"),
        }
    ), pd.Series([record[3] for record in records], dtype="str")


TYPED_TABLES = {"pandas": typed_pandas, "polars": typed_polars, "pyarrow": typed_arrow}
TYPED_RECORDS = {
    name: ODD_RECORDS[name]
    for name in (
        "ordinary",
        "unknown label",
        "missing label",
        "unknown category",
        "missing values",
        "infinite",
        "far outside",
    )
}


def observe(records, holder, caplog, capfd, *, schema=CLASSES, make=DPForestClassifier, targets=None, **parameters):
    """All that someone who does not see the released values can see of a fit."""
    X, y = holder(records)
    model = make(schema, max_depth=2, **parameters)
    caplog.clear()
    error = ""
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            model.fit(X, y if targets is None else targets)
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
    forest, ledger = getattr(model, "forest_", None), getattr(model, "ledger_", None)
    return {
        "error": error,
        "warnings": [str(warning.message) for warning in warned],
        # The compiler logs what it compiles on first use, whatever the table.
        "logs": [record.getMessage() for record in caplog.records if not record.name.startswith("numba")],
        "printed": capfd.readouterr(),
        "attributes": sorted(name for name in dir(model) if not name.startswith("_")),
        "charges": ledger and [tuple(entry.items()) for entry in ledger.entries()],
        "shapes": forest and {name: value.shape for name, value in vars(forest).items() if hasattr(value, "shape")},
        "statement": str(getattr(model, "privacy_", None)),
    }


def assert_quiet(seen):
    assert seen["error"] == ""
    assert seen["warnings"] == []
    assert seen["logs"] == []
    assert seen["printed"] == ("", "")
    assert seen["charges"]


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("odd", ODD_RECORDS.values(), ids=ODD_RECORDS.keys())
@pytest.mark.parametrize("holder", OBJECT_TABLES.values(), ids=OBJECT_TABLES.keys())
def test_one_more_record_of_any_kind_is_not_seen(holder, odd, delta, caplog, capfd):
    records = base_records()
    without = observe(records, holder, caplog, capfd, delta=delta)
    assert_quiet(without)
    assert observe([*records, odd], holder, caplog, capfd, delta=delta) == without


@pytest.mark.parametrize("odd", TYPED_RECORDS.values(), ids=TYPED_RECORDS.keys())
@pytest.mark.parametrize("holder", TYPED_TABLES.values(), ids=TYPED_TABLES.keys())
def test_one_more_record_in_typed_columns_is_not_seen(holder, odd, caplog, capfd):
    records = base_records()
    without = observe(records, holder, caplog, capfd)
    assert_quiet(without)
    assert observe([*records, odd], holder, caplog, capfd) == without


@pytest.mark.parametrize("odd", ["zebra", 5, 2.5, b"q", (1, 2)], ids=repr)
def test_one_more_category_of_pandas_is_not_seen(odd, caplog, capfd):
    records = base_records()
    without = observe(records, as_pandas_categories, caplog, capfd)
    assert_quiet(without)
    assert observe([*records, (50.0, odd, 1, odd)], as_pandas_categories, caplog, capfd) == without


@pytest.mark.parametrize("odd", ODD_RECORDS.values(), ids=ODD_RECORDS.keys())
@pytest.mark.parametrize("holder", [as_pandas, as_numpy, as_polars], ids=["pandas", "numpy", "polars"])
def test_an_empty_table_is_not_told_from_one_record(holder, odd, caplog, capfd):
    none = observe([], holder, caplog, capfd)
    assert_quiet(none)
    assert observe([odd], holder, caplog, capfd) == none


@pytest.mark.parametrize("odd", TYPED_RECORDS.values(), ids=TYPED_RECORDS.keys())
@pytest.mark.parametrize("holder", TYPED_TABLES.values(), ids=TYPED_TABLES.keys())
def test_an_empty_typed_table_is_not_told_from_one_record(holder, odd, caplog, capfd):
    none = observe([], holder, caplog, capfd)
    assert_quiet(none)
    assert observe([odd], holder, caplog, capfd) == none


TARGETS = [
    0.5, NAN, INF, -INF, SECRET_NUMBER, None, SECRET_WORD, "0.5", 10**400, [0.5], (0.5,), 1j, np.complex128(1j), b"x",
]  # fmt: skip


@pytest.mark.parametrize("odd", TARGETS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize(
    "holder", [objects, list, lambda values: pd.Series(objects(values))], ids=["numpy", "list", "pandas"]
)
def test_one_more_target_of_any_kind_is_not_seen(holder, odd, caplog, capfd):
    records, common = base_records(), {"schema": BOUNDED, "make": DPForestRegressor}
    values = np.linspace(0, 1, N_ROWS).tolist()
    without = observe(records, as_numpy, caplog, capfd, targets=holder(values), **common)
    assert_quiet(without)
    more = [*records, ODD_RECORDS["ordinary"]]
    assert observe(more, as_numpy, caplog, capfd, targets=holder([*values, odd]), **common) == without


def secret_table():
    rows = [*base_records(N_ROWS - 3)] + [(SECRET_NUMBER, SECRET_WORD, 77, SECRET_LABEL)] * 3
    return as_pandas(rows)


def hides_secrets(text):
    return not any(secret in text for secret in ("987654", "zebra-secret", "walrus-secret", str(N_ROWS)))


def hides_secret_bytes(content):
    forms = [struct.pack("<d", SECRET_NUMBER), struct.pack(">d", SECRET_NUMBER), struct.pack("<f", SECRET_NUMBER)]
    forms += [SECRET_WORD.encode(), SECRET_LABEL.encode(), SECRET_WORD.encode("utf-32-le"), b"987654"]
    return not any(form in content for form in forms)


def test_the_search_for_secrets_finds_them():
    # Else the searches below would say nothing.
    X, y = secret_table()
    assert not hides_secrets(repr(X))
    assert not hides_secrets(repr(y.iloc[-1]))
    assert not hides_secrets(f"{N_ROWS} rows")
    assert not hides_secret_bytes(pickle.dumps(X))
    assert not hides_secret_bytes(np.array([SECRET_NUMBER]).tobytes())
    assert not hides_secret_bytes(np.array([SECRET_WORD]).tobytes())


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("task", ["classes", "bounded"])
def test_a_fitted_model_holds_no_value_of_the_table(task, delta, tmp_path):
    X, y = secret_table()
    if task == "classes":
        model = DPForestClassifier(Schema(FEATURES, Classes(["no", "yes"])), delta=delta).fit(X, y)
    else:
        model = DPForestRegressor(Schema(FEATURES, Bounded(0, 1)), delta=delta).fit(X, X["age"])
    # Noisy counts may by chance read 137, so texts with counts are searched for values alone.
    shown = [repr(model), str(model), model._repr_html_(), repr(model.ledger_), model.ledger_.to_json()]
    shown += [str(model.privacy_), repr(model.privacy_.to_dict()), repr(model.forest_), repr(model.schema_)]
    shown += [repr(vars(model))]
    shown += [repr(model.forest_.rules()), repr(vars(model.forest_)), repr(model.forest_.domain)]
    for text in shown:
        assert hides_secret_bytes(text.encode())
    assert hides_secret_bytes(pickle.dumps(model))
    model.save(tmp_path / "m.dpf")
    assert hides_secret_bytes((tmp_path / "m.dpf").read_bytes())


@pytest.fixture
def inside():
    """The vault, its counter and a sealed count, as the engine holds them."""
    vault = Vault.seal(*secret_table(), CLASSES)
    counter = vault.encode(Domain.of(CLASSES, Grid()))
    counter.deal(AllTrees(1), Entropy())
    return {"vault": vault, "counter": counter, "count": vault.count(), "nodes": counter.count_nodes(0, 1)}


@pytest.mark.parametrize("name", ["vault", "counter", "count", "nodes"])
def test_what_holds_rows_prints_none_of_them(inside, name):
    thing = inside[name]
    public = {key: value for key, value in getattr(thing, "__dict__", {}).items() if not key.startswith("_")}
    for text in (repr(thing), str(thing), f"{thing}", repr([thing]), repr(public)):
        assert hides_secrets(text)


@pytest.mark.parametrize("name", ["vault", "counter", "count", "nodes"])
@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_holds_rows_cannot_be_copied_or_saved(inside, name, copier):
    with pytest.raises(TypeError, match=r"cannot be copied|has not been released"):
        copier(inside[name])


def frame_with(**columns):
    X, _ = secret_table()
    return X.assign(**columns)


def ordered(values):
    return pd.Categorical(values, ordered=True)


X_SECRET, Y_SECRET = secret_table()
WORDS = pd.Series([SECRET_WORD] * N_ROWS)
RAGGED = [[SECRET_NUMBER, SECRET_WORD, 1]] * (N_ROWS - 1) + [[1]]
ERRORS = {
    "missing column": lambda: DPForestClassifier(CLASSES).fit(X_SECRET[["age"]], Y_SECRET),
    "text for a number": lambda: DPForestClassifier(CLASSES).fit(frame_with(age=WORDS), Y_SECRET),
    "number for text": lambda: DPForestClassifier(CLASSES).fit(frame_with(sex=SECRET_NUMBER), Y_SECRET),
    "X longer than y": lambda: DPForestClassifier(CLASSES).fit(X_SECRET, Y_SECRET[:-1]),
    "y longer than X": lambda: DPForestClassifier(CLASSES).fit(X_SECRET[:-1], Y_SECRET),
    "y of two columns": lambda: DPForestClassifier(CLASSES).fit(X_SECRET, np.stack([Y_SECRET, Y_SECRET], axis=1)),
    "y that is X": lambda: DPForestClassifier(CLASSES).fit(X_SECRET, X_SECRET),
    "X of one dimension": lambda: DPForestClassifier(CLASSES).fit(X_SECRET["age"], Y_SECRET),
    "X of three dimensions": lambda: DPForestClassifier(CLASSES).fit(np.full((N_ROWS, 3, 1), SECRET_NUMBER), Y_SECRET),
    "X too wide": lambda: DPForestClassifier(CLASSES).fit(np.full((N_ROWS, 5), SECRET_NUMBER), Y_SECRET),
    "X complex": lambda: DPForestClassifier(CLASSES).fit(np.full((N_ROWS, 3), SECRET_NUMBER + 1j), Y_SECRET),
    "rows of different lengths": lambda: DPForestClassifier(CLASSES).fit(RAGGED, Y_SECRET),
    "text as a target": lambda: DPForestRegressor(BOUNDED).fit(X_SECRET, Y_SECRET.astype("str")),
    "schema that is a table": lambda: DPForestClassifier(X_SECRET).fit(X_SECRET, Y_SECRET),
    "schema that is an array": lambda: DPForestClassifier(X_SECRET.to_numpy()).fit(X_SECRET, Y_SECRET),
    "epsilon that is a column": lambda: DPForestClassifier(CLASSES, epsilon=X_SECRET["age"]).fit(X_SECRET, Y_SECRET),
    "delta that is a column": lambda: DPForestClassifier(CLASSES, delta=X_SECRET["age"]).fit(X_SECRET, Y_SECRET),
    "depth that is a column": lambda: DPForestClassifier(CLASSES, max_depth=Y_SECRET).fit(X_SECRET, Y_SECRET),
    "recipe that is a column": lambda: DPForestClassifier(CLASSES, recipe=Y_SECRET).fit(X_SECRET, Y_SECRET),
    "parameters that are a table": lambda: DPForestClassifier(CLASSES, recipe_params=X_SECRET).fit(X_SECRET, Y_SECRET),
    "feature that is a column": lambda: Schema({"age": X_SECRET["age"][-3:]}, CLASSES.target),
    "target that is a column": lambda: Schema(FEATURES, Y_SECRET[-3:]),
    "bounds that are columns": lambda: Numeric(X_SECRET["age"][-3:], X_SECRET["age"][-3:]),
    "number of rows that is a column": lambda: Schema(FEATURES, CLASSES.target, n_rows=X_SECRET["age"][-3:]),
    "other that is a column": lambda: Classes(["a", "b"], other=Y_SECRET[-3:]),
}


@pytest.mark.parametrize("provoke", ERRORS.values(), ids=ERRORS.keys())
def test_an_error_shows_no_value_and_no_number_of_rows(provoke):
    with pytest.raises(Exception) as caught:
        provoke()
    # Without the lines of source code, which are public but may hold any number.
    lines = [line for part in chain(caught.value) for line in traceback.format_exception_only(part)]
    assert hides_secrets("".join(lines))


@pytest.mark.parametrize(
    "column",
    [pd.Series(pd.Categorical(WORDS)), pd.Series(ordered(WORDS)), pl.Series(WORDS, dtype=pl.Categorical),
     pl.Series(WORDS, dtype=pl.Enum([SECRET_WORD])), pa.array(WORDS).dictionary_encode()],
    ids=["category", "ordered category", "polars Categorical", "polars Enum", "pyarrow dictionary"],
)  # fmt: skip
def test_a_column_of_categories_where_a_number_is_declared_shows_no_category(column):
    library = {"pandas": pd.DataFrame, "polars": pl.DataFrame}.get(type(column).__module__.split(".")[0], pa.table)
    schema = Schema({"age": Numeric(0, 1)}, CLASSES.target)
    words = ""
    try:
        DPForestClassifier(schema).fit(library({"age": column}), Y_SECRET)
    except TableError as error:
        words = str(error)
    assert hides_secrets(words)


def chain(error):
    """An error and all errors that are shown with it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


MISTAKES = {
    "text in place of a table": lambda rows: DPForestClassifier(CLASSES).fit(rows, ["no"] * len(rows)),
    "text in place of a target": lambda rows: DPForestRegressor(BOUNDED).fit(as_numpy([])[0], rows[:, 0]),
    "target of two columns": lambda rows: DPForestClassifier(CLASSES).fit(as_numpy([])[0], np.repeat(rows, 2, axis=1)),
    "target too long": lambda rows: DPForestClassifier(CLASSES).fit(*as_numpy(base_records(len(rows)))[:1], [0] * 500),
    "dates": lambda rows: DPForestClassifier(CLASSES).fit(np.zeros((len(rows), 3), dtype="M8[s]"), [0] * len(rows)),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_the_same_mistake_gives_the_same_words_whatever_the_rows(mistake):
    words = set()
    for rows in (np.array([["a"]]), np.array([["b" * 50]]), np.array([["a"]] * N_ROWS)):
        with pytest.raises(ValueError) as caught:
            mistake(rows)
        words.add(f"{type(caught.value).__name__}: {caught.value}")
    assert len(words) == 1


def test_progress_says_the_same_for_neighbouring_tables():
    told = set()
    for records in (base_records(), [*base_records(), ODD_RECORDS["unknown category"]], base_records(1), []):
        steps = []
        DPForestClassifier(CLASSES, max_depth=2).fit(*as_numpy(records), progress=steps.append)
        told.add(tuple(steps))
    assert told == {("encoded", "level 1 of 2", "level 2 of 2", "leaves")}
