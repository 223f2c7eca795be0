"""Errors, warnings, logs, attributes and files hold public facts only, and do not tell neighbouring tables apart."""

import copy
import pickle
import struct
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.records.holders import objects

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees
from dpforest.records.doors import seal_elsewhere
from dpforest.records.vault import Vault
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

N_ROWS = 137
SECRET_NUMBER = 987654.321
SECRET_WORD = "zebra-secret-category"
SECRET_LABEL = "walrus-secret-label"
FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"]), "kind": Categorical([1, 2, 3])}
CLASSES = Schema(FEATURES, Classes(["no", "yes"]), n_rows=100, one_row_per_person=True)
BOUNDED = Schema(FEATURES, Bounded(0, 1), n_rows=100, one_row_per_person=True)


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


def secret_table():
    rows = [*base_records(N_ROWS - 3)] + [(SECRET_NUMBER, SECRET_WORD, 77, SECRET_LABEL)] * 3
    return as_pandas(rows)


def secret_file(folder):
    X, y = secret_table()
    pq.write_table(pa.Table.from_pandas(X.assign(target=y), preserve_index=False), folder / "t.parquet")
    return folder / "t.parquet"


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
@pytest.mark.parametrize("task", ["classes", "bounded", "file"])
def test_a_fitted_model_holds_no_value_of_the_table(task, delta, tmp_path):
    X, y = secret_table()
    if task == "bounded":
        model = DPForestRegressor(Schema(FEATURES, Bounded(0, 1)), delta=delta).fit(X, X["age"])
    else:
        given = (secret_file(tmp_path),) if task == "file" else (X, y)
        model = DPForestClassifier(Schema(FEATURES, Classes(["no", "yes"])), delta=delta).fit(*given)
    # Noisy counts may by chance read 137, so texts with counts are searched for values alone.
    shown = [model, model.ledger_, model.forest_, model.schema_, model.privacy_, model.privacy_.to_dict(), vars(model)]
    shown += [model.forest_.rules(), vars(model.forest_), model.forest_.domain]
    texts = [*map(repr, shown), *map(str, shown), model._repr_html_(), model.ledger_.to_json()]
    model.save(tmp_path / "m.dpf")
    for content in (*(text.encode() for text in texts), pickle.dumps(model), (tmp_path / "m.dpf").read_bytes()):
        assert hides_secret_bytes(content)
        assert b"t.parquet" not in content


@pytest.fixture
def inside(tmp_path):
    """The vaults, their counter and sealed counts, as the engine holds them."""
    vault = Vault.seal(*secret_table(), CLASSES)
    counter = vault.encode(Domain.of(CLASSES, Grid()))
    counter.deal(AllTrees(1), Entropy())
    of_a_file = seal_elsewhere(secret_file(tmp_path), CLASSES, 1)
    return [vault, of_a_file, counter, vault.count(), of_a_file.count(), counter.count_nodes(0, 1)]


def test_what_holds_rows_prints_none_of_them(inside):
    for thing in inside:
        public = {key: value for key, value in getattr(thing, "__dict__", {}).items() if not key.startswith("_")}
        for text in (repr(thing), str(thing), f"{thing}", repr([thing]), repr(public)):
            assert hides_secrets(text)


def test_what_holds_rows_cannot_be_copied_or_saved(inside):
    for thing in inside:
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"cannot be copied|has not been released"):
                copier(thing)


def frame_with(**columns):
    X, _ = secret_table()
    return X.assign(**columns)


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


def chain(error):
    """An error and all errors that are shown with it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
