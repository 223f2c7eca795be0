"""One more record in a file changes nothing about the others, and what streams rows holds and shows none of them."""

import copy
import csv
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records import parquet, tables
from dpforest.records.files import delimited
from dpforest.records.memory.vault import Vault
from dpforest.records.parquet import ParquetVault
from dpforest.records.reader import Asked
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

N_ROWS = 137
SECRET_NUMBER, SECRET_WORD = 987654.321, "zebra-secret-category"
FEATURES = {"age": Numeric(0, 100), "income": Numeric(0, 1), "sex": Categorical(["m", "f"]), "kind": Categorical([1, 2, 3])}
CLASSES = Schema(FEATURES, Classes(["no", "yes"]))
BOUNDED = Schema(FEATURES, Bounded(0, 1))
TYPES = {"age": pa.float64(), "income": pa.float64(), "sex": pa.string(), "kind": pa.int64(), "target": pa.string()}

ODD_RECORDS = {
    "ordinary": ("50", 0.5, "m", 1, "yes"),
    "unknown label": ("50", 0.5, "m", 1, SECRET_WORD),
    "missing label": ("50", 0.5, "m", 1, None),
    "unknown category": ("50", 0.5, SECRET_WORD, 77, "yes"),
    "missing values": (None, None, None, None, "yes"),
    "no number": (SECRET_WORD, np.nan, "m", 1, "yes"),
    "number that only Python reads": ("1_0", 0.5, "m", 1, "yes"),
    "number of 400 digits": ("9" * 400, 1e308, "m", 2**63 - 1, "yes"),
    "infinite": ("inf", np.inf, "m", -(2**63), "yes"),
    "empty": ("", -np.inf, "", 0, ""),
    "not ASCII": ("٣", 0.5, "é", 1, "é"),
}
# Numbers as people write them; whether others in the batch are numbers must not matter.
AGES = ["3", " 4.5 ", "1e1", "+7", "-0", "0x10", "nan", "NaN", "inf", "-Infinity", "1e400", "4.9e-324", "0.1",
        "99.99999999999999", ".5", "5.", "1_0", "", "none", None, "00012", "33.333333333333336", "1E+2", "1d1",
        "33,3", "nan(1)"]  # fmt: skip


def base_records():
    """Half of the ages are plain numbers, so that some batches hold nothing else."""
    rng = np.random.default_rng(0)
    ages = [
        *(f"{age:.3f}" for age in rng.uniform(0, 100, N_ROWS // 2)),
        *(AGES[place % len(AGES)] for place in range(N_ROWS)),
    ]
    return [
        (
            ages[place],
            float(rng.random()),
            str(rng.choice(["m", "f"])),
            int(rng.integers(1, 4)),
            "yes" if place % 3 else "no",
        )
        for place in range(N_ROWS)
    ]


def number(text):
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def written(tmp_path, records, name="t.parquet", types=TYPES):
    """The records in a file: as Parquet ages are numbers, in a CSV they are text."""
    if name.endswith(".csv"):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([TYPES, *records])
        return tmp_path / name
    columns = zip(zip(*records, strict=True), types.values(), strict=True)
    as_typed = [[number(v) if kind == pa.float64() else v for v in column] for column, kind in columns]
    arrays = [pa.array(column, kind) for column, kind in zip(as_typed, types.values(), strict=True)]
    pq.write_table(pa.table(arrays, names=list(types)), tmp_path / name, row_group_size=29)
    return tmp_path / name


def encoded(path, schema=CLASSES):
    domain = Domain.of(schema, Grid(9))
    if path.suffix == ".parquet":
        counters = [ParquetVault.seal(path, schema).encode(domain)]
    else:
        parts = tables.open_reader(path).parts(Asked(schema, with_target=True))
        counters = [Vault.seal(X, y, schema).encode(domain) for X, y, _ in parts]
    return [tuple(record) for own in counters for record in np.vstack([own._codes, own._target_codes]).T.tolist()]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_ROWS", 20)
    monkeypatch.setattr(delimited, "PART_BYTES", 500)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("place", [0, 10, 68, N_ROWS], ids=["first", "in the first batch", "in the middle", "last"])
@pytest.mark.parametrize("odd", ODD_RECORDS.values(), ids=ODD_RECORDS)
def test_one_more_record_does_not_change_the_codes_of_others(tmp_path, odd, place, kind):
    records = base_records()
    before = encoded(written(tmp_path, records, f"t.{kind}"))
    after = encoded(written(tmp_path, [*records[:place], odd, *records[place:]], f"u.{kind}"))
    if len(after) > len(before):  # its label is listed
        del after[place]
    assert after == before


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_one_more_record_does_not_change_the_codes_of_others_by_a_bounded_target(tmp_path, kind):
    types = TYPES | {"target": pa.float64()}
    records = [(*record[:4], AGES[place % len(AGES)]) for place, record in enumerate(base_records())]
    before = encoded(written(tmp_path, records, f"t.{kind}", types), BOUNDED)
    for odd in ("0.5", None, SECRET_WORD, "1_0", "9" * 400, ""):
        after = encoded(written(tmp_path, [("50", 0.5, "m", 1, odd), *records], f"u.{kind}", types), BOUNDED)
        assert after[len(after) - len(before) :] == before


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_codes_of_a_record_do_not_depend_on_the_batch_it_is_read_in(tmp_path, monkeypatch, kind):
    path, found = written(tmp_path, base_records(), f"t.{kind}"), set()
    for n_rows in (1, 7, 1000):
        monkeypatch.setattr(parquet, "BATCH_ROWS", n_rows)
        monkeypatch.setattr(delimited, "PART_BYTES", 40 * n_rows)
        found.add(tuple(encoded(path)))
    assert len(found) == 1


def test_neighbouring_files_are_charged_alike(tmp_path):
    ledgers = set()
    for odd in ODD_RECORDS.values():
        path = written(tmp_path, [*base_records(), odd])
        # Random trees whose leaves alone are released: what is asked does not depend on what was released before.
        model = DPForestClassifier(CLASSES, recipe="fletcher-islam-2017", n_trees=2, max_depth=2, random_state=0).fit(path)
        assert model.ledger_.n_entries
        ledgers.add(model.ledger_.to_json())
    assert len(ledgers) == 1


@pytest.fixture
def vault(tmp_path):
    return ParquetVault.seal(written(tmp_path, base_records()), CLASSES)


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_vault_of_a_file_cannot_be_copied_or_saved(vault, copier):
    with pytest.raises(TypeError, match="cannot be copied"):
        copier(vault)


def test_a_vault_of_a_file_prints_nothing_of_it(vault):
    assert f"{vault}" == repr(vault) == "ParquetVault(...)"
    public = {name for name in vars(vault) if not name.startswith("_")}
    assert public == {"schema", "in_one_book"}


def test_a_model_of_a_file_holds_no_value_of_it(tmp_path):
    rows = [("50", SECRET_NUMBER, SECRET_WORD, 987654321, label) for label in ("no", "yes", SECRET_WORD) for _ in range(20)]
    model = DPForestClassifier(CLASSES).fit(written(tmp_path, rows))
    model.save(tmp_path / "m.dpf")
    contents = [
        pickle.dumps(model),
        (tmp_path / "m.dpf").read_bytes(),
        repr(vars(model)).encode(),
        model.ledger_.to_json().encode(),
    ]
    for secret in (SECRET_WORD.encode(), np.float64(SECRET_NUMBER).tobytes(), b"987654", b"t.parquet"):
        assert not any(secret in content for content in contents)


def test_the_same_mistake_gives_the_same_words_whatever_the_rows(tmp_path):
    words = set()
    for n_rows, value in ((1, "a"), (50, SECRET_WORD), (0, None)):
        columns = {"age": pa.array([1.0] * n_rows), "income": pa.array([value] * n_rows, pa.string()).dictionary_encode()}
        columns |= {"sex": pa.array(["m"] * n_rows, pa.string()), "kind": pa.array([1] * n_rows, pa.int64())}
        pq.write_table(pa.table(columns | {"target": pa.array(["no"] * n_rows, pa.string())}), tmp_path / "t.parquet")
        with pytest.raises(TableError) as caught:
            DPForestClassifier(CLASSES).fit(tmp_path / "t.parquet")
        words.add(str(caught.value))
    assert len(words) == 1
    assert SECRET_WORD not in words.pop()
