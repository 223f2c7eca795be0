"""Fits that protect persons, or rows of which nobody said whose they are: what is trained on, stated, told and refused."""

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
from sklearn.utils.validation import has_fit_parameter
from tests.cli.command import done, refused, run

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, DPSearchCV, Numeric, Schema, load_model
from dpforest.errors import DPForestError, ParameterError, TableError, UnitWarning

SCHEMA = Schema({"dose": Numeric(0, 1), "age": Numeric(0, 100)}, Classes([0, 1], name="well"))


def visits(n_rows=3000, n_persons=400, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"person": rng.integers(0, n_persons, n_rows), "dose": rng.random(n_rows), "age": 50.0})
    return table.assign(well=(table["dose"] + rng.normal(0, 0.2, n_rows) > 0.5).astype(int))


def fitted(table, most=3, **settings):
    model = DPForestClassifier(SCHEMA, **{"epsilon": 3.0, **settings}, max_rows_per_person=most)
    return model.fit(table[["dose", "age"]], table["well"], groups=table["person"])


def written(table, path):
    pa.parquet.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=250)
    return path


def on_a_cluster(model, table, folder, ids):
    from distributed import Client

    with Client(processes=False, dashboard_address=None) as client:
        return model.fit_dask(written(table, folder / "t.parquet"), client, groups=ids)


# Ways to hand over a table of visits and which column of it has ids.
DOORS = {
    "memory": lambda model, table, folder, ids: model.fit(table, table["well"], groups=table[ids]),
    "parquet": lambda model, table, folder, ids: model.fit(written(table, folder / "t.parquet"), groups=ids),
    "duckdb": lambda model, table, folder, ids: model.fit_table(
        ibis.duckdb.connect().create_table("visits", table), groups=ids
    ),
    "frame": lambda model, table, folder, ids: model.fit(table, table["well"], groups=table[[ids]]),
    "arrow": lambda model, table, folder, ids: model.fit(table, table["well"], groups=pa.table({ids: table[ids]})),
    "cluster": on_a_cluster,
}
each_door = pytest.mark.parametrize("door", ["memory", "parquet", "duckdb"])
EXACT = {"epsilon": float("inf"), "recipe": "jagannathan-2009", "n_trees": 1, "max_depth": 1}


@each_door
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_no_more_than_k_rows_of_a_person_reach_the_model_and_none_without_an_id(door, most, tmp_path):
    table = visits(900, 120).astype({"person": "Int64"})
    table.loc[::7, "person"] = pd.NA
    exact = DOORS[door](DPForestClassifier(SCHEMA, **EXACT, max_rows_per_person=most), table, tmp_path, "person")
    # Records of the only tree of an exact forest.
    assert exact.forest_.counts[0].sum() == table["person"].value_counts().clip(upper=most).sum()
    model = DPForestClassifier(SCHEMA, epsilon=3.0, n_trees=1, max_rows_per_person=most)
    model = DOORS[door](model, table, tmp_path, "person")
    assert (model.privacy_.unit, model.privacy_.rows, model.privacy_.holds) == ("person", most, True)
    assert most * model.ledger_.total == pytest.approx(3.0)
    assert "person" not in model.schema_.features


def test_a_table_without_any_id_trains_on_nothing():
    assert fitted(visits().assign(person=None), 1000, **EXACT).forest_.counts[0].sum() == 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("recipe", ["auto", "fletcher-islam-2017", "jagannathan-2009", "suihkonen-2023"])
def test_the_stated_loss_is_that_of_a_person_and_charges_those_of_a_record(recipe, delta):
    model = fitted(visits(600, 90), 3, recipe=recipe, delta=delta)
    ledger, statement = model.ledger_, model.privacy_
    assert (statement.unit, statement.rows, statement.holds) == ("person", 3, True)
    assert 2.9 < statement.epsilon <= 3.0
    assert ledger.rows == 3
    if delta == 0:
        assert 3 * ledger.total == pytest.approx(ledger.spent)
        assert ledger.total <= 1.0
    assert "rows without an id" in statement.notes[-1]


def test_one_row_a_person_is_another_unit_at_the_same_price(tmp_path):
    table = visits().drop_duplicates("person")
    model = fitted(table, 1, epsilon=1.0)
    assert (model.privacy_.unit, model.privacy_.rows) == ("person", 1)
    assert model.ledger_.total == pytest.approx(model.ledger_.spent)  # which is rounded up
    assert 1 - 1e-9 < model.ledger_.spent <= 1.0
    model.save(tmp_path / "m.dpf")
    assert load_model(tmp_path / "m.dpf").privacy_ == model.privacy_


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_plan_is_made_for_the_noise_that_a_record_meets(delta):
    """Three rows a person at epsilon = 3 get the plan of about epsilon = 1 for records, not that of 3."""
    table = visits(20_000, 20_000)
    public = Schema(SCHEMA.features, SCHEMA.target, n_rows=20_000)
    features, target = table[["dose", "age"]], table["well"]
    seen = DPForestClassifier(public, epsilon=3.0, delta=delta, max_rows_per_person=3).fit(
        features, target, groups=table["person"]
    )
    epsilon = seen.ledger_.accountant.record_epsilon
    alike = DPForestClassifier(public, epsilon=epsilon, delta=delta).fit(features, target)
    assert epsilon == pytest.approx(1.0, abs=0.1)
    assert (seen.forest_.n_trees, seen.forest_.depth) == (alike.forest_.n_trees, alike.forest_.depth)
    assert len(seen.ledger_.entries()) == len(alike.ledger_.entries())
    assert seen.ledger_.total == pytest.approx(alike.ledger_.total, rel=1e-4)


def test_a_regressor_protects_persons_too():
    table = visits()
    schema = Schema({"age": Numeric(0, 100)}, Bounded(0, 1, name="dose"))
    model = DPForestRegressor(schema, epsilon=2.0, max_rows_per_person=2).fit(
        table[["age"]], table["dose"], groups=table["person"]
    )
    assert model.privacy_.unit == "person"
    assert 2 * model.ledger_.total <= 2.0 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("settings", "given", "match"),
    [
        ({}, {"groups": [0] * 50}, "max_rows_per_person"),
        ({"max_rows_per_person": 2}, {}, "groups"),
        ({"max_rows_per_person": 0}, {"groups": [0] * 50}, "whole number"),
        ({"max_rows_per_person": 2.5}, {"groups": [0] * 50}, "whole number"),
        ({"max_rows_per_person": True}, {"groups": [0] * 50}, "whole number"),
        ({"max_rows_per_person": 10**12}, {"groups": [0] * 50}, "whole number from 1 to"),
        ({"max_rows_per_person": 2}, {"groups": [0] * 49}, "differ in length"),
        ({"max_rows_per_person": 2}, {"groups": np.zeros((50, 2))}, "one dimension"),
        ({}, {"sample_weight": np.ones(50)}, "sample_weight is not supported"),
        ({}, {"sample_weight": 0}, "sample_weight is not supported"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_anything_is_charged(settings, given, match):
    table = visits(50)
    model = DPForestClassifier(SCHEMA, **settings)
    with pytest.raises(DPForestError, match=match):
        model.fit(table[["dose", "age"]], table["well"], **given)
    assert not hasattr(model, "ledger_")


def test_other_words_are_refused_as_python_does_and_no_weight_is_no_weight():
    table = visits(50)
    with pytest.raises(TypeError, match="'weights'"):
        DPForestClassifier(SCHEMA).fit(table[["dose", "age"]], table["well"], weights=1)
    assert DPForestClassifier(SCHEMA).fit(table[["dose", "age"]], table["well"], sample_weight=None).privacy_.holds
    assert not has_fit_parameter(DPForestClassifier(), "sample_weight")


def test_elsewhere_too_ids_and_a_number_of_rows_go_together():
    for settings, given in (({"max_rows_per_person": 2}, {}), ({}, {"groups": "person"})):
        model = DPForestClassifier(SCHEMA, **settings)
        for fit in (model.fit, model.fit_table):
            with pytest.raises(ParameterError, match="max_rows_per_person"):
                fit(None, **given)
        assert not hasattr(model, "ledger_")


@pytest.mark.parametrize("groups", ["nobody", "dose", "well", 3, ["person"], "since"])
@pytest.mark.parametrize("door", ["parquet", "duckdb"])
def test_a_column_that_cannot_hold_ids_is_refused_before_any_charge(door, groups, tmp_path):
    table = visits(50).assign(since=pd.Timestamp("2024-01-01"))
    model = DPForestClassifier(SCHEMA, max_rows_per_person=2)
    with pytest.raises(TableError, match="groups"):
        DOORS[door](model, table, tmp_path, groups)
    assert not hasattr(model, "ledger_")


@pytest.mark.slow
def test_model_file_json_and_report_say_the_unit(tmp_path):
    model = fitted(visits(600), 3, delta=1e-6)
    model.save(tmp_path / "m.dpf")
    loaded = load_model(tmp_path / "m.dpf")
    assert (loaded.privacy_, loaded.ledger_) == (model.privacy_, model.ledger_)
    assert loaded.max_rows_per_person == 3
    exported = json.loads(model.to_json())
    assert (exported["privacy"]["unit"], exported["privacy"]["rows"], exported["ledger"]["rows_of_unit"]) == ("person", 3, 3)
    loaded.save_report(tmp_path / "r.html")
    page = re.sub(r"\s+", " ", (tmp_path / "r.html").read_text())
    assert "one person" in page
    assert "at most 3 are used" in page
    assert "3² = 9 times in" in page
    assert "The promise is about one row" not in page
    twin = (tmp_path / "r.json").read_text()
    assert "person" in twin
    assert "people with several rows" not in twin


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_plan_for_persons_is_that_for_the_epsilon_of_a_record(tmp_path, delta):
    SCHEMA.to_file(tmp_path / "s.json")

    def planned(epsilon, *more):
        given = ["--schema", tmp_path / "s.json", "--epsilon", epsilon, "--delta", delta, "--rows", 9000]
        return json.loads(done("plan", *given, *more, "--json"))

    person = planned(3.0, "--max-rows-per-person", 3)
    first, *choices = person["choices"]
    assert (first["what"], first["value"]) == ("rows of a person", "at most 3")
    of_record = float(first["why"].split()[-1])
    assert of_record == pytest.approx(1.0, abs=0.1)
    record = planned(of_record)
    assert [line["value"] for line in choices if line["what"] != "rows x epsilon"] == [
        line["value"] for line in record["choices"] if line["what"] != "rows x epsilon"
    ]
    refused("plan", "--schema", tmp_path / "s.json", "--epsilon", 3, "--rows", 9000, "--max-rows-per-person", 0)


@each_door
def test_a_text_of_blanks_is_no_id(tmp_path, door):
    """Programs of statistics write a missing text so; as one person they would be one more."""
    table = visits(40).assign(who=[*map(str, range(10)), *["", " ", "\t "] * 10])
    model = DPForestClassifier(SCHEMA, epsilon=1e6, max_rows_per_person=1)
    assert DOORS[door](model, table, tmp_path, "who").forest_.n_records.value == 10


def test_ids_of_another_column_than_the_schema_names_are_refused():
    rows = pd.DataFrame({"x": [0.5] * 4, "who": [1, 1, 2, 2], "visit": range(4)})
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]), one_row_per_person="who")
    model = DPForestClassifier(schema, max_rows_per_person=1)
    for ids in (rows["visit"], rows[["visit"]], pa.record_batch({"visit": [0, 1, 2, 3]})):
        with pytest.raises(TableError, match="Make them agree"):
            model.fit(rows[["x"]], [0, 1, 0, 1], groups=ids)
    model.fit(rows[["x"]], [0, 1, 0, 1], groups=rows["who"])


# --- what is told where nobody stated whose rows they are ---------------------------------------------------------------

N_ROWS = 400
TABLE = visits(N_ROWS, 90)
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_told_where_the_unit_is_stated_or_nothing_is_promised(name):
    assert told(SILENT[name]) == []


@pytest.mark.slow
def test_features_that_are_named_like_ids_are_told_whatever_their_values_are():
    ever = [told(fits(schema(True, BY_ID), TABLE.assign(person=ids))) for ids in (range(N_ROWS), 0, TABLE["person"])]
    ((words,),) = {tuple(words) for words in ever}
    assert "may be ids of rows or persons: person. If they are, delete them" in words


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A column-vector")
@pytest.mark.parametrize("door", DOORS)
def test_a_column_of_ids_is_no_feature_whichever_way_it_is_given(tmp_path, door):
    model = DPForestClassifier(schema(None, BY_ID), 2.0, max_rows_per_person=2)
    with pytest.raises(TableError, match="'person', named by groups, is in the schema"):
        DOORS[door](model, TABLE, tmp_path, "person")
    assert not hasattr(model, "ledger_")
    found = DOORS[door](model.set_params(schema=schema(None, {"*": Numeric(0, 1)})), TABLE, tmp_path, "person")
    assert [*found.schema_.features] == ["dose", "age"]


@pytest.mark.slow
@pytest.mark.parametrize("door", ["parquet", "duckdb"])
def test_ids_that_the_schema_names_need_no_groups_where_rows_are_not_in_memory(tmp_path, door):
    model = DPForestClassifier(schema("person"), 2.0, max_rows_per_person=2)
    DOORS[door](model, TABLE, tmp_path, None)
    assert (model.privacy_.unit, model.privacy_.rows) == ("person", 2)


@pytest.mark.slow
def test_groups_that_contradict_the_schema_are_refused_before_any_charge(tmp_path):
    model = DPForestClassifier(schema("patient"), 2.0, max_rows_per_person=2)
    with pytest.raises(TableError, match="one_row_per_person in the schema the column 'patient'"):
        model.fit(written(TABLE, tmp_path / "t.parquet"), groups="person")
    assert not hasattr(model, "ledger_")


@pytest.mark.slow
def test_a_fit_goes_on_from_a_model_of_a_schema_that_stated_nothing():
    earlier = fits(schema())()
    model = fits(schema(True), earlier_model=earlier)()
    assert model.schema_.one_row_per_person is True


@pytest.mark.slow
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
    page = (tmp_path / "r.html").read_text("utf-8")
    assert words in unescape(re.sub(r"<[^>]*>", "", page))
    assert stated or all(each in page for each in ("The promise is about one row", "people with several rows"))
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["inputs"]["one_row_per_person"] == stated
    assert json.loads(model.to_json())["schema"].get("one_row_per_person") == stated


@pytest.mark.slow
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


@pytest.mark.slow
def test_commands_take_the_column_of_ids_from_the_schema(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    schema("person").to_file("s.json")
    checked = json.loads(run("schema", "check", "s.json", "--table", "t.csv", "--json").stdout)
    assert (checked["missing_columns"], checked["unused_columns"]) == ([], ["age"])
    done = run("fit", "t.csv", "--schema", "s.json", "--epsilon", 2, "--max-rows-per-person", 2, "--out", "m.dpf")
    assert done.exit_code == 0, done.output
    assert "Warning." not in done.stderr
    assert load_model("m.dpf").privacy_.unit == "person"
    schema("patient").to_file("s.json")
    assert "The table has no column 'patient'" in run("schema", "check", "s.json", "--table", "t.csv").stderr
