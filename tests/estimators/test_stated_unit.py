"""A fit says what nobody stated about rows and persons, by public facts alone; a column of ids is never a feature."""

import json
import re
import warnings
from html import unescape

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.cli.command import run

from dpforest import Classes, DPForestClassifier, DPSearchCV, Numeric, Schema, load_model
from dpforest.errors import TableError, UnitWarning

pytestmark = pytest.mark.slow

N_ROWS = 400
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"person": np.arange(N_ROWS) % 90, "dose": RNG.random(N_ROWS)})
TABLE["well"] = (TABLE["dose"] > 0.5).astype(int)
BY_ID = {"dose": Numeric(0, 1), "person": Numeric()}


def schema(stated=None, features=None, **facts):
    target = Classes([0, 1], name="well")
    return Schema(features or {"dose": Numeric(0, 1)}, target, one_row_per_person=stated, **facts)


def told(fit):
    """What a fit warns of rows and persons."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(each.message) for each in caught if issubclass(each.category, UnitWarning)]


def fits(schema, table=TABLE, groups=None, epsilon=2.0, **settings):
    columns = table if isinstance(schema, Schema) else table[["dose"]]
    return lambda: DPForestClassifier(schema, epsilon, **settings).fit(columns, table["well"], groups=groups)


@pytest.mark.parametrize(
    ("stated", "parts"),
    [
        (None, ["Nobody has stated", "epsilon is for one row", "one_row_per_person = true", "max_rows_per_person"]),
        ("person", ["The column 'person' says whose row it is", "give groups and max_rows_per_person", "--groups"]),
    ],
)
def test_a_unit_that_nobody_stated_or_kept_is_told_once_with_what_to_do(stated, parts):
    search = DPSearchCV(DPForestClassifier(schema(stated)), {"max_depth": [1, 2]}, epsilon=2.0, mean_runs=1)
    (words,), (of_search,) = told(fits(schema(stated))), told(lambda: search.fit(TABLE, TABLE["well"]))
    assert all(part in words for part in parts)
    assert parts[0] in of_search


SILENT = {
    "one row": fits(schema(True)),
    "persons": fits(schema(), groups=TABLE["person"], max_rows_per_person=2),
    "persons by the schema": fits(schema("person"), groups=TABLE["person"], max_rows_per_person=2),
    "no noise": fits(schema(), epsilon=float("inf")),
    "seed": fits(schema(), random_state=0),
    "assumed": fits("assume-public"),
    "printed": fits(schema(), recipe="friedman-schuster-2010", variant="published"),
}


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_told_where_the_unit_is_stated_or_nothing_is_promised(name):
    assert told(SILENT[name]) == []


def test_features_that_are_named_like_ids_are_told_whatever_their_values_are():
    ever = [told(fits(schema(True, BY_ID), TABLE.assign(person=ids))) for ids in (range(N_ROWS), 0, TABLE["person"])]
    ((words,),) = {tuple(words) for words in ever}
    assert "may be ids of rows or persons: person. If they are, delete them" in words


def written(folder):
    path = folder / "t.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pandas(TABLE), path)
    return path


def doors(folder):
    """Ways to fit persons whose ids are the column of that name."""
    table, cells = ibis.duckdb.connect().create_table("t", TABLE), folder / "t.csv"
    TABLE.to_csv(cells, index=False)

    def command(model):
        model.schema.to_file(folder / "s.json")
        words = ["fit", cells, "--schema", folder / "s.json", "--epsilon", 2, "--out", folder / "m.dpf"]
        ended = run(*words, "--groups", "person", "--max-rows-per-person", 2)
        if ended.exception:
            raise ended.exception
        return load_model(folder / "m.dpf")

    def dask(model):
        from distributed import Client

        with Client(processes=False, dashboard_address=None) as client:
            return model.fit_dask(written(folder), client, groups="person")

    return {
        "series": lambda model: model.fit(TABLE, TABLE["well"], groups=TABLE["person"]),
        "frame": lambda model: model.fit(TABLE, TABLE["well"], groups=TABLE[["person"]]),
        "arrow": lambda model: model.fit(TABLE, TABLE["well"], groups=pa.table({"person": TABLE["person"]})),
        "file": lambda model: model.fit(written(folder), groups="person"),
        "database": lambda model: model.fit_table(table, groups="person"),
        "cluster": dask,
        "command": command,
    }


DOORS = ["series", "frame", "arrow", "file", "database", "cluster", "command"]


@pytest.mark.filterwarnings("ignore:A column-vector")
@pytest.mark.parametrize("door", DOORS)
def test_a_column_of_ids_is_no_feature_whichever_way_it_is_given(tmp_path, door):
    fit = doors(tmp_path)[door]
    model = DPForestClassifier(schema(None, BY_ID), 2.0, max_rows_per_person=2)
    with pytest.raises(TableError, match="'person', named by groups, is in the schema"):
        fit(model)
    assert not hasattr(model, "ledger_")
    found = fit(model.set_params(schema=schema(None, {"*": Numeric(0, 1)})))
    assert [*found.schema_.features] == ["dose"]


@pytest.mark.parametrize("door", ["file", "database"])
def test_ids_that_the_schema_names_need_no_groups_where_rows_are_not_in_memory(tmp_path, door):
    model = DPForestClassifier(schema("person"), 2.0, max_rows_per_person=2)
    if door == "file":
        model.fit(written(tmp_path))
    else:
        model.fit_table(ibis.duckdb.connect().create_table("t", TABLE))
    assert (model.privacy_.unit, model.privacy_.rows) == ("person", 2)


def test_groups_that_contradict_the_schema_are_refused_before_any_charge(tmp_path):
    model = DPForestClassifier(schema("patient"), 2.0, max_rows_per_person=2)
    with pytest.raises(TableError, match="one_row_per_person in the schema the column 'patient'"):
        model.fit(written(tmp_path), groups="person")
    assert not hasattr(model, "ledger_")


def test_a_fit_goes_on_from_a_model_of_a_schema_that_stated_nothing():
    earlier = fits(schema())()
    model = fits(schema(True), earlier_model=earlier)()
    assert model.schema_.one_row_per_person is True


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (None, "Nobody has stated whether a person may have several rows."),
        (True, "One row is one person: stated in the schema, vouched for by J. Doe."),
        ("person", "The column 'person' says whose row it is: stated in the schema, vouched for by J. Doe."),
    ],
)
def test_report_and_json_say_who_stated_the_unit(tmp_path, stated, words):
    model = fits(schema(stated, vouched_by="J. Doe"))()
    model.save_report(tmp_path / "r.html")
    assert words in unescape(re.sub(r"<[^>]*>", "", (tmp_path / "r.html").read_text("utf-8")))
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["inputs"]["one_row_per_person"] == stated
    assert json.loads(model.to_json())["schema"].get("one_row_per_person") == stated


def test_commands_notice_ids_that_repeat_and_say_what_to_add(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.assign(note=[f"n{row}" for row in range(N_ROWS)]).to_csv("t.csv", index=False)
    assert "these may be ids: person, note. " in run("schema", "draft", "t.csv", "--target", "well").output
    schema(None, BY_ID).to_file("s.json")
    for words in ([], ["--table", "t.csv"]):
        assert json.loads(run("schema", "check", "s.json", "--json", *words).stdout)["like_ids"] == ["person"]
    assert "these may be ids: person. " in run("schema", "check", "s.json").output
    said = run("fit", "t.csv", "--schema", "s.json", "--epsilon", 2, "--out", "m.dpf").stderr
    assert [line.partition(":")[0] for line in said.splitlines() if line.startswith("Warning.")] == [
        "Warning. By their names these features may be ids of rows or persons",
        "Warning. Nobody has stated whether a person may have several rows",
    ]


def test_commands_take_the_column_of_ids_from_the_schema(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    schema("person").to_file("s.json")
    checked = json.loads(run("schema", "check", "s.json", "--table", "t.csv", "--json").stdout)
    assert (checked["missing_columns"], checked["unused_columns"]) == ([], [])
    done = run("fit", "t.csv", "--schema", "s.json", "--epsilon", 2, "--max-rows-per-person", 2, "--out", "m.dpf")
    assert done.exit_code == 0, done.output
    assert "Warning." not in done.stderr
    assert load_model("m.dpf").privacy_.unit == "person"
    schema("patient").to_file("s.json")
    assert "The table has no column 'patient'" in run("schema", "check", "s.json", "--table", "t.csv").stderr
