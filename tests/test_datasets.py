"""Benchmark tables come from a folder or from OpenML, or are refused with a way on."""

import os

import pytest

from dpforest import DPForestClassifier, Schema
from dpforest.datasets import NoSuchTable, load_dataset

needs_tables = pytest.mark.skipif(
    not os.environ.get("DPFOREST_DATA"), reason="set DPFOREST_DATA to a folder with the benchmark tables"
)


@pytest.mark.slow
@needs_tables
@pytest.mark.parametrize("name", ["adult", "mushroom", "abalone", "kddcup99_10pct"])
def test_tables_load_with_their_schema(name):
    X, y, schema = load_dataset(name)
    assert X.column_names == list(schema.features)
    assert len(X) == len(y)


@needs_tables
def test_the_shipped_schema_of_adult_is_that_of_the_table():
    _, _, schema = load_dataset("adult")
    from importlib.resources import files

    assert Schema.from_file(str(files("dpforest") / "schema" / "adult.schema.json")).to_dict() == schema.to_dict()


def test_openml_is_asked_when_there_is_no_folder(monkeypatch):
    pandas = pytest.importorskip("pandas")
    from sklearn.utils import Bunch

    schema = Schema.from_file("src/dpforest/schema/adult.schema.json")
    row = {name: [part.lower if part.kind == "numeric" else part.categories[0]] for name, part in schema.features.items()}
    asked = []

    def fetch(data_id, as_frame):
        asked.append(data_id)
        return Bunch(data=pandas.DataFrame(row), target=pandas.Series([">50K"], dtype="category"))

    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    X, y, found = load_dataset("adult")
    assert asked == [1590]
    DPForestClassifier(found, max_depth=1).fit(X, y)


def test_an_unknown_table_is_refused_with_a_way_on(monkeypatch):
    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    with pytest.raises(NoSuchTable, match="DPFOREST_DATA"):
        load_dataset("no-such-table")
