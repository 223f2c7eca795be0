"""Folders such as ``year=2024`` are columns, read by the schema, and their names are values that no error repeats."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.command import run

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model
from dpforest.errors import TableError
from dpforest.records.doors import seal_elsewhere
from dpforest.records.vault import Vault
from dpforest.schema.domain import Domain, Grid

N_ROWS = 60
SECRET = "zebra-secret"
FEATURES = {
    "age": Numeric(0, 100), "year": Numeric(2020, 2030), "ward": Categorical(["a", "b c/d", "é"]),
    "day": Date("2024-01-01", "2024-12-31"), "code": Categorical([1, 2]), "town": Categorical(),
}  # fmt: skip
SCHEMA = Schema(FEATURES, Classes(["no", "yes"], name="ill"))
# Folders as they are written, with the values of each column that they stand for.
FOLDERS = {
    "year=2024/ward=a/day=2024-03-01/code=1/town=Rome": (2024.0, "a", "2024-03-01", 1.0, "Rome"),
    "year=2025.5/ward=b%20c%2Fd/day=2024-04-31/code=2/town=%C3%89vora": (2025.5, "b c/d", "2024-04-31", 2.0, "Évora"),
    "year=soon/ward=%C3%A9/day=yesterday/code=x/town=17": (None, "é", "yesterday", None, "17"),
    "year=__HIVE_DEFAULT_PARTITION__/ward=/day=__HIVE_DEFAULT_PARTITION__/code=9/town=": (None, None, None, 9.0, None),
}
NAMES = ["year", "ward", "day", "code", "town"]


def rows(seed):
    rng = np.random.default_rng(seed)
    return pa.table({"age": rng.uniform(0, 100, N_ROWS), "ill": rng.choice(["no", "yes"], N_ROWS)})


def write(folder, place, table):
    (folder / place).mkdir(parents=True)
    pq.write_table(table, folder / place / "part-0.parquet", row_group_size=25)
    return folder


@pytest.fixture
def folder(tmp_path):
    for seed, place in enumerate(FOLDERS):
        write(tmp_path / "t", place, rows(seed))
    return tmp_path / "t"


def in_memory():
    """What the folder means, in the order of its paths."""
    parts = []
    for place, values in sorted(FOLDERS.items()):
        table = rows(list(FOLDERS).index(place))
        types = [pa.float64(), *[pa.string()] * 2, pa.float64(), pa.string()]
        for name, value, kind in zip(NAMES, values, types, strict=True):
            table = table.append_column(name, pa.array([value] * N_ROWS, kind))
        parts.append(table)
    return pa.concat_tables(parts)


def codes_of(vault, schema=SCHEMA):
    counter = vault.encode(Domain.of(schema, Grid(9)))
    return np.vstack([counter._codes, counter._target_codes]).tolist()


def test_folders_are_read_as_columns_by_the_schema(folder):
    table = in_memory()
    expected = codes_of(Vault.seal(table.select([*FEATURES]), table.column("ill"), SCHEMA))
    assert [codes_of(seal_elsewhere(folder, SCHEMA, n_jobs)) for n_jobs in (1, 3)] == [expected] * 2
    assert len({*expected[1]}) == 3  # two years and none


def test_the_target_and_the_ids_of_persons_may_be_folders(tmp_path):
    for person in range(3):
        write(tmp_path / "t", f"person=p{person}/cost=0.{person}", pa.table({"age": [10.0, 20.0]}))
    schema = Schema({"age": Numeric(0, 100)}, Bounded(0, 1, name="cost"))
    model = DPForestRegressor(schema, epsilon=np.inf, max_rows_per_person=1, recipe="consul-2020")
    model.fit(tmp_path / "t", groups="person")
    assert model.privacy_.unit == "person"


def test_a_file_in_the_place_of_a_folder_has_its_own_columns_only(folder):
    (path,) = (folder / "year=2024").rglob("*.parquet")
    with pytest.raises(TableError, match="'year' of the schema is missing"):
        seal_elsewhere(path, SCHEMA, 1)


REFUSED = {
    "a column that folders and files both have": (
        f"age={SECRET}/year=2024/ward=a/day=2024-01-01/code=1/town=x", "'age' is in the Parquet files .* of their folders",
    ),
    "folders of a path with one name": (f"year=1/year={SECRET}", "Two folders of one path are named after column 'year'"),
    "a file outside of some folders": (f"year=2024/ward={SECRET}", "'day' of the schema is missing from .*ward=…"),
}  # fmt: skip


@pytest.mark.parametrize(("place", "words"), REFUSED.values(), ids=REFUSED)
def test_folders_that_will_not_do_are_refused_without_their_values(folder, place, words):
    write(folder, place, rows(9))
    model = DPForestClassifier(SCHEMA, epsilon=1.0)
    with pytest.raises(TableError, match=words) as caught:
        model.fit(folder)
    assert not hasattr(model, "ledger_")
    assert SECRET not in str(caught.value)


# --- commands, and other ways to read a folder ------------------------------------------------------------------------


def test_a_draft_of_folders_says_what_it_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for year in (2023, 2024):
        write(tmp_path / "t", f"year={year}/day={year}-03-01/town=Rome", rows(year))
    done = run("schema", "draft", "t", "--target", "ill", "--out", "t.toml")
    assert done.exit_code == 0, done.exception
    assert "Names of folders do not say types: whether year, day, town are" in done.output
    assert "Text files" not in done.output
    draft = tomllib.loads((tmp_path / "t.toml").read_text())
    assert [draft["features"][name]["kind"] for name in ("year", "day", "town")] == ["numeric", "date", "categorical"]


@pytest.mark.slow
def test_every_command_takes_folders_as_columns(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_file("s.json")
    done = run("schema", "check", "s.json", "--table", "t", "--json")
    assert done.exit_code == 0, done.exception
    counts = {column["name"]: column for column in json.loads(done.output)["table"]["columns"]}
    for name, expected in (("year", (120, 60, 60)), ("day", (60, 120, 60))):
        assert tuple(counts[name][part] for part in ("within", "unreadable", "missing")) == expected
    assert run("fit", "t", "--schema", "s.json", "--epsilon", 4, "--out", "m.dpf", "--n-trees", 2).exit_code == 0
    done = run("predict", "m.dpf", "t", "--out", "p.parquet", "--id", "ward", "--id", "year")
    assert done.exit_code == 0, done.exception
    found, table = pq.read_table("p.parquet"), in_memory()
    assert found.column("ward").to_pylist() == table.column("ward").to_pylist()
    shares = np.column_stack([found.column(f"probability_{label}") for label in ("no", "yes")])
    np.testing.assert_array_equal(shares, load_model("m.dpf").predict_proba(table.select([*FEATURES])))
    assert run("evaluate", "m.dpf", "t", "--public").exit_code == 0
