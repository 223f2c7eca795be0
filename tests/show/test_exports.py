"""Every export predicts what the model predicts, of all that a schema may hold, or is refused by name."""

import datetime
import hashlib
import json
import math
import re
import sys
from itertools import product

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest
from tests.conformance.postgres_server import as_root, write_table
from tests.show.exporting import EXPORTS, agree, by_onnx, chain_forest, check, checked, outputs, scored, session
from tests.show.reading import read
from tests.support.fitted import (
    NAMES,
    fitted,
    with_buckets,
    with_dates,
    with_learnt_lists,
    with_mixed_categories,
    with_names,
)

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.errors import DPForestError, ParameterError
from dpforest.model.importances import importance_rows
from dpforest.model.signal import released_doubts
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.show.export.json import forest_to_dict, texts_of
from dpforest.show.export.onnx import input_names
from dpforest.show.export.sql import added_names, column_names, sql_query
from dpforest.show.plots.trees import Boxes
from dpforest.show.report.content import inputs

SHARES = ["probability_no", "probability_yes"]
MODELS = {
    "mean": lambda: fitted("auto", Bounded(-3, 12.5)),
    "mean of a forest": lambda: fitted("consul-2020", Bounded(-3, 12.5)),
    "buckets": with_buckets,
    "dates": with_dates,
    "learnt lists": with_learnt_lists,
    "categories of all types": with_mixed_categories,
    "hostile names": with_names,
}
# What JSON calls tuples and dates is in its rules; a graph has no word for a missing text if the empty one is listed.
OTHERS = {("buckets", "ONNX"), ("categories of all types", "JSON"), ("dates", "JSON"), ("dates", "SQL")}
OTHERS |= {("hostile names", "ONNX"), ("learnt lists", "JSON")}


@pytest.mark.parametrize(("name", "export"), sorted({*product(MODELS, EXPORTS)} - OTHERS))
def test_an_export_predicts_what_the_model_predicts(name, export):
    model, rows = MODELS[name]()
    check(model, rows[:60], export)


def test_text_that_no_file_can_hold_is_exported_all_the_same():
    """Half of a surrogate pair, which UTF-8 lacks, and NUL, which ends names in C."""
    features = {"a\ud800": Numeric(0, 1), "a\0": Numeric(0, 1), "c": Categorical(["\udfff", "n\0l", None])}
    schema = Schema(features, Classes(["\ud800", "\0", "plain"]))
    rows = [[0.5, 0.2, "n\0l"], [0.1, 0.9, None], [0.3, 0.3, "other"]] * 4
    model = DPForestClassifier(schema, epsilon=9, recipe="jagannathan-2009").fit(rows, ["\ud800", "\0", "plain"] * 4)
    assert json.loads(model.to_json())["forest"]["target"]["labels"] == ["\ud800", "\0", "plain"]
    columns = [[row[place] or "" for row in rows[:3]] for place in range(3)]
    probabilities = outputs(model.forest_, columns)["probabilities"]
    agree(probabilities, model.predict_proba(rows[:3]))
    with duckdb.connect() as database:
        first, second, third = column_names(tuple(features))
        database.execute(f'CREATE TABLE people ("{first}" DOUBLE, "{second}" DOUBLE, "{third}" VARCHAR)')
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", rows[:3])
        found = [row[-3:] for row in database.execute(model.to_sql("people")).fetchall()]
    agree(sorted(found), sorted(map(tuple, probabilities.tolist())))


def values_at_cuts(cuts):
    """Values at cuts and on both sides of them, beyond all bounds, and missing."""
    beyond = [np.inf, -np.inf, np.nan, 1e300, -1e300, 0.0, -0.0]
    return np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), beyond])


@pytest.mark.parametrize("export", EXPORTS)
def test_numbers_at_cuts_beyond_bounds_and_missing_are_encoded_alike(export):
    features = {"x": Numeric(0.1, 7.3), "small": Numeric(-5, -4), "k": Numeric(3.5, 1003.5, integer=True)}
    model = DPForestClassifier(Schema(features, Classes([True, False])), 9.0, recipe="jagannathan-2009")
    model.fit(pd.DataFrame([[1.0, -4.5, 20.0]] * 6, columns=[*features]), [True, False] * 3)
    columns = [values_at_cuts(cuts) for cuts in model.forest_.domain.cuts]
    table = pd.DataFrame({name: np.resize(column, 200) for name, column in zip(features, columns, strict=True)})
    check(model, table, export)


def test_few_rows_and_many_or_deep_trees_or_none_are_walked_to_their_end():
    model, table = fitted("fletcher-islam-2017", n_trees=500)
    assert model.forest_.n_trees == 500
    agree(by_onnx(model, table), model.predict_proba(table))
    for n_rows in (0, 1):
        assert by_onnx(fitted()[0], table[:n_rows]).shape == (n_rows, 2)
    for depth in (14, 0):
        forest, values = chain_forest(depth)
        expected = forest.predict(np.searchsorted(forest.domain.cuts[0], values, side="right")[None].astype(np.uint8))
        agree(outputs(forest, [values])["probabilities"], expected)
        found = scored(sql_query(forest, "people"), pd.DataFrame({"x": values}))
        agree(found[["probability_no", "probability_yes"]], expected)
    small = model.forest_.without_children(np.flatnonzero(model.forest_.levels == 1))
    found = scored(sql_query(small, "people"), table[:20])[["probability_no", "probability_yes"]]
    agree(found, small.predict(encode(read_columns(table[:20], model.schema_), small.domain)))


# Buckets


@pytest.mark.server
def test_a_query_about_buckets_gives_the_same_in_postgresql(server):
    model, rows = with_buckets()
    table = pa.Table.from_pandas(rows.assign(place=range(len(rows))), preserve_index=False)
    table = table.cast(pa.schema([(f.name, pa.string() if f.name == "town" else f.type) for f in table.schema]))
    with as_root(server) as root:
        name = write_table(root, "bucket people", table)
        found = root.execute(model.to_sql(name) + " ORDER BY place").fetchall()
    agree(np.array([row[-2:] for row in found], dtype=float), model.predict_proba(rows))


@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(9, 2)", "HUGEINT", "DATE"])
def test_a_column_that_databases_write_each_in_their_own_way_is_refused_by_name(type_):
    value = "DATE '2020-01-01'" if type_ == "DATE" else "17"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people AS SELECT 1 AS age, CAST({value} AS {type_}) AS town, true AS member")
        connection.execute('ALTER TABLE people ADD COLUMN "post code" INTEGER')
        with pytest.raises(duckdb.Error, match="Column town must be text or whole numbers: cast it"):
            connection.execute(with_buckets()[0].to_sql("people"))


def test_buckets_are_named_wherever_they_are_shown_and_onnx_refuses_them():
    model, _ = with_buckets()
    with pytest.raises(ParameterError, match=r"Feature 'town' is put into buckets .* Export to SQL or JSON"):
        model.to_onnx()
    features = json.loads(model.to_json())["forest"]["features"]
    assert [feature.get("buckets") for feature in features] == [None, 64, 32, 64]
    assert all("MD5" in feature["codes"] for feature in features[1:])
    bucket = int(hashlib.md5(b"Oslo").hexdigest()[:2], 16) % 64
    assert f"bucket {bucket}" in model.forest_.rules_text(leaves=True)
    known = {feature["name"]: feature for feature in inputs(model.schema_)["features"]}
    assert (known["town"]["categories"], known["town"]["buckets"], known["age"]["buckets"]) == (None, 64, None)


def test_json_has_the_lists_that_were_learnt():
    model, _ = with_learnt_lists()
    assert json.dumps(model.forest_.domain.lists["town"])[1:-1] in json.dumps(json.loads(model.to_json()))


# Dates

ENDS = np.array(["9999-12-31T23:59:59", "0001-01-01T00:00:00"], "M8[s]")
ASKED = {"seen", "seen (weekday)", "seen (month)", "seen (hour)", "born", "born (weekday)", "born (month)"}


def at_the_ends(model):
    """What the model predicts of a moment after and before all others, which databases call infinite."""
    return model.predict_proba(pd.DataFrame({"seen": ENDS, "x": 0.5, "born": ENDS}))


@pytest.mark.parametrize(
    ("zone", "type_"), [("UTC", "TIMESTAMP"), ("Asia/Kathmandu", "TIMESTAMPTZ"), ("America/St_Johns", "TIMESTAMP")]
)
def test_a_query_about_dates_gives_the_same_in_any_time_zone(zone, type_):
    model, table = with_dates()
    assert {model.forest_.domain.names[feature] for feature in model.forest_.features[~model.forest_.is_leaf]} >= ASKED
    with duckdb.connect() as connection:
        connection.register("given", table.assign(place=range(len(table))))
        connection.execute("SET TimeZone = 'UTC'")
        columns = f"CAST(seen AS {type_}) AS seen, x, CAST(born AS DATE) AS born, place"
        connection.execute(f"CREATE TABLE people AS SELECT {columns} FROM given")
        endless = "INSERT INTO people VALUES ('infinity', 0.5, 'infinity', 1000), ('-infinity', 0.5, '-infinity', 1001)"
        connection.execute(endless)
        connection.execute(f"SET TimeZone = '{zone}'")
        found = connection.execute(f"SELECT {', '.join(SHARES)} FROM ({model.to_sql('people')}) ORDER BY place").df()
    agree(found.to_numpy(), np.vstack([model.predict_proba(table), at_the_ends(model)]))


@pytest.mark.server
@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
def test_a_query_about_dates_gives_the_same_in_postgresql(server, type_):
    model, table = with_dates()
    with as_root(server) as root:
        root.execute("SET TimeZone = 'UTC'")
        root.execute(f"CREATE TEMPORARY TABLE people (seen {type_}, x double precision, born date, place integer)")
        with root.cursor().copy("COPY people FROM STDIN") as rows:
            for place, (seen, x, born) in enumerate(table.itertuples(index=False)):
                rows.write_row([None if pd.isna(seen) else str(seen), x, None if pd.isna(born) else str(born), place])
            rows.write_row(["infinity", 0.5, "infinity", 1000])
            rows.write_row(["-infinity", 0.5, "-infinity", 1001])
        root.execute("SET TimeZone = 'Asia/Kathmandu'")
        query = f"SELECT {', '.join(SHARES)} FROM ({model.to_sql('people')}) AS scored ORDER BY place"
        found = np.array(root.execute(query).fetchall())
    agree(found, np.vstack([model.predict_proba(table), at_the_ends(model)]))


def test_onnx_takes_seconds_since_1970_and_any_beyond():
    model, _ = with_dates()
    graph = onnxruntime.InferenceSession(model.to_onnx())
    assert [each.name for each in graph.get_inputs()] == ["seen", "x", "born"]
    assert json.loads(graph.get_modelmeta().custom_metadata_map["seconds_since_1970_utc"]) == ["seen", "born"]
    beyond = {"seen": np.array([[np.inf], [-1e300]]), "x": np.full((2, 1), 0.5), "born": np.array([[1e300], [-np.inf]])}
    agree(graph.run(["probabilities"], beyond)[0], at_the_ends(model))


def test_importances_of_dates_are_those_of_columns_everywhere():
    model, table = with_dates()
    forest = model.forest_
    assert model.feature_importances_.shape == (model.n_features_in_,) == (3,)
    found = {row["feature"]: row["share"] for row in importance_rows(forest, model.ledger_)}
    assert found == dict(zip(["seen", "x", "born"], model.feature_importances_, strict=True))
    gains = forest.bands.gains(forest.parents, forest.level_slices(), np.ones(forest.n_nodes))[0]
    inner = ~forest.is_leaf
    whole = [gains[inner & np.isin(forest.features, features)].sum() for features in ([0, 1, 2, 3], [5, 6, 7])]
    assert model.feature_importances_[0] / model.feature_importances_[2] == pytest.approx(whole[0] / whole[1])
    turned = DPForestClassifier(model.schema_, recipe="jagannathan-2009", epsilon=5)
    assert turned.fit(table[["born", "x", "seen"]], ["no"] * len(table)).feature_importances_.shape == (3,)


def test_json_describes_how_each_feature_follows_from_its_column():
    model, _ = with_dates()
    features = json.loads(model.to_json())["forest"]["features"]
    assert [(each["name"], each.get("column"), each.get("of")) for each in features] == [
        ("seen", "seen", "second"), ("seen (weekday)", "seen", "weekday"), ("seen (month)", "seen", "month"),
        ("seen (hour)", "seen", "hour"), ("x", None, None),
        ("born", "born", "day"), ("born (weekday)", "born", "weekday"), ("born (month)", "born", "month"),
    ]  # fmt: skip
    assert all("1970-01-01T00:00:00Z" in each["rule"] for each in features if each.get("of"))
    assert features[5]["range"] == [-25567.0, 47482.0]
    assert features[5]["cuts"] == model.forest_.domain.cuts[5].tolist()


def test_report_and_tree_show_dates_as_words(tmp_path):
    model, _ = with_dates()
    shown = {each["name"]: each for each in inputs(model.schema_)["features"]}
    seen, born = shown["seen"], shown["born"]
    assert (seen["kind"], seen["lower"], seen["upper"]) == ("point in time", "1970-01-01T00:00:00Z", "2024-12-31T00:00:00Z")
    assert (born["kind"], born["lower"], born["upper"], born["words"]) == ("date", None, None, "a date: day, weekday, month")
    model.save_report(tmp_path / "r.html")
    assert "from 1970-01-01T00:00:00Z to 2024-12-31T00:00:00Z" in (tmp_path / "r.html").read_text("utf-8")
    tree = Boxes(model, 0, 3)
    dated = np.flatnonzero(np.isin(tree.whole.features, [0, 5]) & ~tree.whole.is_leaf)
    conditions = [tree.condition(int(node), child, 60) for node in dated for child in (0, 1)]
    assert conditions
    assert all(" <= " not in condition for condition in conditions)


def test_a_column_of_no_dates_is_told_once_by_its_name():
    schema = Schema({"seen": Date(time=True)}, Classes(["no", "yes"]), n_rows=5000)
    model = DPForestClassifier(schema, epsilon=5, recipe="jagannathan-2009", n_trees=8, random_state=1)
    with pytest.warns(match="Column 'seen': nearly all values are missing, or no dates"):
        model.fit(pd.DataFrame({"seen": ["01.02.2024"] * 5000}), ["no"] * 5000)
    assert sum("'seen'" in doubt for doubt in released_doubts(model.forest_, schema, model.ledger_)) == 1


# What else the JSON says


def test_json_says_what_was_promised_and_spent():
    model, _ = fitted()
    content = read(model.to_json())
    assert (content["format"], content["version"]) == ("dpforest-release", 1)
    assert content["schema"] == model.schema_.to_dict()
    assert content["privacy"] == model.privacy_.to_dict()
    assert content["ledger"] == model.ledger_.to_dict()
    assert content["made_with"] == model.made_with_
    assert content["estimator"] == "DPForestClassifier"


@pytest.mark.parametrize("recipe", ["auto", "jagannathan-2009", "fletcher-islam-2017"])
def test_nodes_of_the_json_show_what_was_released(recipe):
    forest = fitted(recipe)[0].forest_
    nodes = forest_to_dict(forest)["nodes"]
    assert [node["counts"] for node in nodes] == forest.counts.tolist()
    assert [node["noise_standard_deviation"] for node in nodes] == np.sqrt(forest.variances).tolist()
    assert [node["shares"] for node in nodes] == forest.shares.tolist()
    for rule in forest.rules():
        node = nodes[rule["node"]]
        assert node["condition"] == (rule["conditions"][-1] if rule["conditions"] else "always")
        assert all(nodes[child]["parent"] == rule["node"] for child in node["children"])


def test_what_json_lacks_has_another_form():
    labels = [("a", (1, True)), datetime.date(2024, 1, 2), math.inf, None, "plain"]
    schema = Schema({"x": Numeric(0, 1)}, Classes(labels))
    model = DPForestClassifier(schema, epsilon=math.inf, recipe="consul-2020").fit(np.zeros((9, 1)), ["plain"] * 9)
    assert read(model.to_json())["privacy"]["epsilon"] == "inf"
    assert read(model.to_json())["schema"]["target"]["labels"] == [
        {"tuple": ["a", {"tuple": [1, True]}]},
        {"type": "date", "text": "2024-01-02"},
        {"type": "float", "text": "inf"},
        None,
        "plain",
    ]


# SQL


def test_all_columns_and_rows_of_the_table_stay_also_those_that_are_alike():
    model, table = fitted()
    twice = pd.concat([table[:5], table[:5]], ignore_index=True).assign(note="kept")
    found = scored(model.to_sql("people"), twice)
    assert [*found.columns] == [*table.columns, "note", "place", "prediction", "probability_no", "probability_yes"]
    assert (found["note"] == "kept").all()
    agree(checked(model, found), model.predict_proba(twice[[*table.columns]]))


def test_names_of_columns_differ_whatever_their_case_and_fit():
    added = added_names(with_names()[0].forest_)
    lowered = [name.lower() for name in [*column_names(tuple(NAMES)), *added]]
    assert len(set(lowered)) == len(lowered)
    assert all(len(name.encode()) <= 63 for name in added)


# In a text as MySQL and some settings of PostgreSQL read it, the quote is the backslash's, and what follows a statement.
HOOK = "\\'); DROP TABLE victim; --"
UNSURE = [HOOK, "\\", "a\\\\b'", "line\r\nbreak\t\x7f", "plain"]


def model_of_hooks():
    """A model whose column, categories and labels hold backslashes, and rows with all of them."""
    table = pd.DataFrame({HOOK: pd.Series(UNSURE * 8, dtype="str"), 'x\\"; DROP TABLE victim; --': np.arange(40.0)})
    schema = Schema(dict(zip(table, (Categorical(UNSURE), Numeric(0, 40)), strict=True)), Classes(UNSURE))
    model = DPForestClassifier(schema, recipe="jagannathan-2009", epsilon=50, random_state=0).fit(table, UNSURE * 8)
    return model, table


def test_a_backslash_in_a_category_label_or_name_is_one_in_duckdb():
    model, table = model_of_hooks()
    agree(checked(model, scored(model.to_sql("people"), table)), model.predict_proba(table))
    assert "\\" not in re.sub('"(?:[^"]|"")*"', "", model.to_sql("people"))  # outside of the names of columns


@pytest.mark.server
@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_backslash_is_one_in_postgresql_whatever_its_setting_takes_it_for(server, setting):
    model, table = model_of_hooks()
    with as_root(server) as root:
        root.execute("DROP TABLE IF EXISTS people; DROP TABLE IF EXISTS victim; CREATE TABLE victim (x int)")
        write_table(root, "people", pa.table(table.assign(place=range(len(table))).to_dict("list")))
        root.execute(f"SET standard_conforming_strings = {setting}")
        rows = root.execute(model.to_sql("people") + " ORDER BY place")
        found = pd.DataFrame(rows.fetchall(), columns=[column.name for column in rows.description])
        root.execute("TABLE victim")
    agree(checked(model, found), model.predict_proba(table))


def test_a_query_with_ids_gives_these_columns_and_orders_by_them():
    model, rows = fitted()
    rng = np.random.default_rng(1)
    with_ids = rows.assign(**{"Prediction": rng.permutation(len(rows)), 'no\'te "x"': "same"})
    with duckdb.connect() as connection:
        connection.register("people", with_ids)
        found = connection.execute(model.to_sql("people", ids=['no\'te "x"', "Prediction"])).df()
    assert [*found.columns[:2]] == ['no\'te "x"', "Prediction"]
    assert found["Prediction"].tolist() == list(range(len(rows)))
    assert found.columns[2] == "prediction_2"  # databases ignore case
    in_order = rows.iloc[np.argsort(with_ids["Prediction"].to_numpy())]
    agree(found.iloc[:, 3:].to_numpy(float), model.predict_proba(in_order))


def test_a_table_may_be_named_with_its_schema_and_in_quotes_hold_anything():
    model, rows = fitted()
    for name in ("main.people", "people", '"people"', 'main."people"'):
        assert len(scored(model.to_sql(name), rows)) == len(rows)
    name = '"my.table; DROP TABLE ""x"" --"'
    assert len(scored(model.to_sql(name), rows, name)) == len(rows)
    assert 'FROM "people; DROP TABLE x --" AS' in model.to_sql("people; DROP TABLE x --")


def test_what_is_no_table_name_or_list_of_ids_is_refused():
    model, _ = fitted()
    for table in ("", "a..b", 'peo"ple', '"people', '"a"b', ".", None, 3, "a\0b"):
        with pytest.raises(ParameterError, match=r"main\.people"):
            model.to_sql(table)
    for ids in ("id", ["id", "id"], [""], [3]):
        with pytest.raises(ParameterError, match="each once"):
            model.to_sql("people", ids=ids)


# ONNX


@pytest.mark.parametrize(
    ("labels", "type_"),
    [
        (["b", "a"], "tensor(string)"),
        ([3, 1], "tensor(int64)"),
        ([True, False], "tensor(bool)"),
        ([0.5, 2], "tensor(double)"),
        ([("a", 1), datetime.date(2024, 1, 2)], "tensor(string)"),
        ([2**70, 1], "tensor(double)"),
        ([2**70 + 1, 1], "tensor(string)"),
    ],
)
def test_labels_have_their_own_type_or_text(labels, type_):
    schema = Schema({"x": Numeric(0, 1)}, Classes(labels))
    model = DPForestClassifier(schema, epsilon=50).fit(np.array([[0.1], [0.9]] * 50), labels * 50)
    types = {node.name: node.type for node in session(model.to_onnx()).get_outputs()}
    assert types == {"label": type_, "probabilities": "tensor(double)"}
    found = outputs(model.forest_, [[0.1, 0.9]])["label"].tolist()
    expected = model.predict_proba([[0.1], [0.9]]).argmax(axis=1)
    assert found == [(texts_of(labels) if type_ == "tensor(string)" else labels)[index] for index in expected]


def test_texts_of_values_are_unique():
    texts = texts_of([1, "1", "1 (int)", True and 2, (1,), "(1,)"])
    assert texts == ["1 (int) (int)", "1", "1 (int)", "2", "(1,) (tuple)", "(1,)"]
    assert texts_of(["\ud800", "\\ud800"]) == ["\\ud800 (str)", "\\ud800"]


def test_hostile_names_become_inputs_and_metadata_is_public():
    model, table = with_names()
    table = table[table["\N{GRINNING FACE}"].notna()]  # the empty text is one of its categories, so it cannot say "missing"
    agree(by_onnx(model, table), model.predict_proba(table))
    names = [node.name for node in session(model.to_onnx()).get_inputs()]
    assert len(set(names)) == len(NAMES)
    assert not {"label", ""} & {*names}
    assert input_names(("age", "", "label", "_1", "input_1")) == ["age", "input_1_", "input_2", "_1", "input_1"]
    content = session(fitted()[0].to_onnx()).get_modelmeta().custom_metadata_map
    assert set(content) == {"produced_by", "features", "inputs", "classes"}
    assert json.loads(content["classes"]) == ["no", "yes"]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(DPForestError, match=r"dpforest\[onnx\]"):
        fitted()[0].to_onnx()
