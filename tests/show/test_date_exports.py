"""Every export knows what trees ask of a date, and importances are those of columns."""

import json
from functools import lru_cache

import duckdb
import matplotlib.pyplot as plt
import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from tests.conformance.postgres_server import as_root

from dpforest import Classes, Date, DPForestClassifier, Numeric, Schema, load_model, plots
from dpforest.model.doubts import released_doubts
from dpforest.model.importances import importance_rows
from dpforest.records.dates import to_seconds
from dpforest.records.iso_text import NO_DATE
from dpforest.show.plots.flow import _Boxes
from dpforest.show.report.content import inputs

SHARES = ["probability_no", "probability_yes"]
# Turns of the calendar, and dates beyond the bounds.
TURNS = (
    "0001-01-01T00:00:00", "1582-10-10", "1899-12-31T23:59:59.9", "1969-12-31T23:59:59.999999", "1970-01-01",
    "2000-02-29T12:00", "2000-03-01", "2023-12-31T23:59:59.5", "2024-02-29T00:00", "2024-12-31T05:59:59", "2100-02-28",
    "9999-12-31T23:59:59",
)  # fmt: skip


@lru_cache
def fitted():
    """A model that asks for day, weekday, month and hour, and rows to score: ordinary ones, turns and missing ones."""
    rng = np.random.default_rng(0)
    moments = rng.integers(0, 1_735_689_600, 6000).astype("M8[s]").astype("M8[us]")
    days = moments.astype("M8[D]")
    weekend = (days.astype(int) + 3) % 7 >= 5
    night = moments.astype("M8[h]").astype(int) % 24 < 6
    summer = np.isin(days.astype("M8[M]").astype(int) % 12, [5, 6, 7])
    late = days > np.datetime64("2010-01-01")
    table = pd.DataFrame({"seen": moments, "x": rng.random(6000), "born": days.astype("M8[s]")})
    schema = Schema(
        {"seen": Date("1970-01-01", "2024-12-31", time=True), "x": Numeric(0, 1), "born": Date()},
        Classes(["no", "yes"], name="ill"), n_rows=6000,
    )  # fmt: skip
    y = np.where(np.stack([weekend, night, summer, late]).sum(axis=0) >= 2, "yes", "no")
    model = DPForestClassifier(schema, epsilon=50, recipe="consul-2020", recipe_params={"k": 6}, max_depth=7).fit(table, y)
    odd = pd.DataFrame({"seen": np.array([*TURNS, "NaT"], "M8[us]"), "x": 0.5, "born": np.array([*TURNS, "NaT"], "M8[s]")})
    return model, pd.concat([table[:200], odd], ignore_index=True)


def test_the_model_asks_for_all_that_a_date_has():
    model, _ = fitted()
    asked = {model.forest_.domain.names[feature] for feature in model.forest_.features[~model.forest_.is_leaf]}
    assert {"seen", "seen (weekday)", "seen (month)", "seen (hour)", "born", "born (weekday)", "born (month)"} <= asked


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_the_query_gives_in_duckdb_what_the_model_predicts_in_any_time_zone(zone, type_):
    model, table = fitted()
    with duckdb.connect() as connection:
        connection.register("given", table.assign(place=range(len(table))))
        connection.execute("SET TimeZone = 'UTC'")
        columns = f"CAST(seen AS {type_}) AS seen, x, CAST(born AS DATE) AS born, place"
        connection.execute(f"CREATE TABLE people AS SELECT {columns} FROM given")
        connection.execute(f"SET TimeZone = '{zone}'")
        found = connection.execute(f"SELECT {', '.join(SHARES)} FROM ({model.to_sql('people')}) ORDER BY place").df()
        np.testing.assert_allclose(found.to_numpy(), model.predict_proba(table), rtol=0, atol=1e-12)
        endless = "INSERT INTO people VALUES ('infinity', 0.5, 'infinity', 1000), ('-infinity', 0.5, '-infinity', 1001)"
        connection.execute(endless)
        query = f"SELECT {', '.join(SHARES)} FROM ({model.to_sql('people')}) WHERE place >= 1000 ORDER BY place"
        ends = np.array(["9999-12-31T23:59:59", "0001-01-01T00:00:00"], "M8[s]")
        expected = model.predict_proba(pd.DataFrame({"seen": ends, "x": 0.5, "born": ends}))
        np.testing.assert_allclose(connection.execute(query).df().to_numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
def test_the_query_gives_in_postgresql_what_the_model_predicts(server, type_):
    model, table = fitted()
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
    ends = np.array(["9999-12-31T23:59:59", "0001-01-01T00:00:00"], "M8[s]")
    expected = np.vstack(
        [model.predict_proba(table), model.predict_proba(pd.DataFrame({"seen": ends, "x": 0.5, "born": ends}))]
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_onnx_takes_seconds_since_1970_and_finds_the_rest():
    import onnxruntime

    model, table = fitted()
    session = onnxruntime.InferenceSession(model.to_onnx())
    assert [each.name for each in session.get_inputs()] == ["seen", "x", "born"]
    assert json.loads(session.get_modelmeta().custom_metadata_map["seconds_since_1970_utc"]) == ["seen", "born"]
    given = {"x": table[["x"]].to_numpy()}
    for name in ("seen", "born"):
        seconds = to_seconds(nw.from_native(table[name], series_only=True))
        given[name] = np.where(seconds == NO_DATE, np.nan, seconds)[:, None]
    (shares,) = session.run(["probabilities"], given)
    np.testing.assert_allclose(shares, model.predict_proba(table), rtol=0, atol=1e-12)
    beyond = {"seen": np.array([[np.inf], [-1e300]]), "x": np.full((2, 1), 0.5), "born": np.array([[1e300], [-np.inf]])}
    ends = np.array(["9999-12-31T23:59:59", "0001-01-01T00:00:00"], "M8[s]")
    expected = model.predict_proba(pd.DataFrame({"seen": ends, "x": 0.5, "born": ends}))
    np.testing.assert_allclose(session.run(["probabilities"], beyond)[0], expected, rtol=0, atol=1e-12)


def test_importances_are_those_of_columns_everywhere():
    model, table = fitted()
    forest = model.forest_
    assert model.feature_importances_.shape == (model.n_features_in_,) == (3,)
    assert model.to_sklearn().feature_importances_.tolist() == model.feature_importances_.tolist()
    assert {row["feature"]: row["share"] for row in importance_rows(forest, model.ledger_)} == dict(
        zip(["seen", "x", "born"], model.feature_importances_, strict=True)
    )
    gains = forest.bands.gains(forest.parents, forest.level_slices(), np.ones(forest.n_nodes))[0]
    inner = ~forest.is_leaf
    whole = [gains[inner & np.isin(forest.features, features)].sum() for features in ([0, 1, 2, 3], [5, 6, 7])]
    assert model.feature_importances_[0] / model.feature_importances_[2] == pytest.approx(whole[0] / whole[1])
    other = DPForestClassifier(model.schema_, recipe="jagannathan-2009", epsilon=5).fit(
        table[["born", "x", "seen"]], ["no"] * len(table)
    )
    assert other.feature_importances_.shape == (3,)


def test_json_describes_how_each_feature_follows_from_its_column():
    model, _ = fitted()
    features = json.loads(model.to_json())["forest"]["features"]
    assert [(each["name"], each.get("column"), each.get("of")) for each in features] == [
        ("seen", "seen", "second"), ("seen (weekday)", "seen", "weekday"), ("seen (month)", "seen", "month"),
        ("seen (hour)", "seen", "hour"), ("x", None, None),
        ("born", "born", "day"), ("born (weekday)", "born", "weekday"), ("born (month)", "born", "month"),
    ]  # fmt: skip
    assert all("1970-01-01T00:00:00Z" in each["rule"] for each in features if each.get("of"))
    assert features[5]["range"] == [-25567.0, 47482.0]
    assert features[5]["cuts"] == model.forest_.domain.cuts[5].tolist()


def test_a_saved_model_and_a_forest_for_scikit_learn_predict_the_same(tmp_path):
    model, table = fitted()
    model.save(tmp_path / "m.dpf")
    expected = model.predict_proba(table)
    assert (load_model(tmp_path / "m.dpf").predict_proba(table) == expected).all()
    assert (model.to_sklearn().predict_proba(table) == expected).all()


def test_report_and_tree_show_dates(tmp_path):
    model, _ = fitted()
    shown = {each["name"]: each for each in inputs(model.schema_)["features"]}
    seen, born = shown["seen"], shown["born"]
    assert (seen["kind"], seen["lower"], seen["upper"]) == ("point in time", "1970-01-01T00:00:00Z", "2024-12-31T00:00:00Z")
    assert (born["kind"], born["lower"], born["upper"], born["words"]) == ("date", None, None, "a date: day, weekday, month")
    model.save_report(tmp_path / "r.html")
    assert "from 1970-01-01T00:00:00Z to 2024-12-31T00:00:00Z" in (tmp_path / "r.html").read_text("utf-8")
    for draw in (plots.importances, plots.tree):
        plt.close(draw(model).figure)


def test_a_tree_is_drawn_with_dates_as_words():
    model, _ = fitted()
    tree = _Boxes(model, 0, 3)
    dated = np.flatnonzero(np.isin(tree.whole.features, [0, 5]) & ~tree.whole.is_leaf)
    conditions = [tree._condition(int(node), child, 60) for node in dated for child in (0, 1)]
    assert conditions
    assert all(" <= " not in condition for condition in conditions)


def test_a_column_of_no_dates_is_told_once_by_its_name():
    schema = Schema({"seen": Date(time=True)}, Classes(["no", "yes"]), n_rows=5000)
    table = pd.DataFrame({"seen": ["01.02.2024"] * 5000})
    with pytest.warns(match="Column 'seen': nearly all values are missing, or no dates"):
        model = DPForestClassifier(schema, epsilon=5, recipe="jagannathan-2009", n_trees=8, random_state=1).fit(
            table, ["no"] * 5000
        )
    assert sum("'seen'" in doubt for doubt in released_doubts(model.forest_, schema, model.ledger_)) == 1
