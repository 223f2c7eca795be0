"""Attributes and files of a fitted model hold public facts only, and what holds rows shows and copies none of them."""

import copy
import pickle
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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


def secret_table():
    """A table of objects and its labels; three rows hold what may be shown nowhere."""
    rng, n_plain = np.random.default_rng(0), N_ROWS - 3
    ages = rng.uniform(0, 100, n_plain)
    columns = {
        "age": [*ages.tolist(), *[SECRET_NUMBER] * 3],
        "sex": [*rng.choice(["m", "f"], n_plain).tolist(), *[SECRET_WORD] * 3],
        "kind": [*rng.integers(1, 4, n_plain).tolist(), *[77] * 3],
    }
    return pd.DataFrame(columns, dtype=object), pd.Series(
        [*np.where(ages > 50, "yes", "no"), *[SECRET_LABEL] * 3], dtype=object
    )


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
