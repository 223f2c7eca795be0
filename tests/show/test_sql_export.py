"""The query gives in a database what the model predicts."""

import re

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.conformance.postgres_server import as_root, write_table
from tests.show.exporting import agree, chain_forest, checked, scored
from tests.support.fitted import NAMES, fitted, with_names

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.show.export.sql import added_names, column_names, sql_query


def test_all_columns_and_rows_of_the_table_stay_also_those_that_are_alike():
    model, table = fitted()
    twice = pd.concat([table[:5], table[:5]], ignore_index=True).assign(note="kept")
    found = scored(model.to_sql("people"), twice)
    assert [*found.columns] == [*table.columns, "note", "place", "prediction", "probability_no", "probability_yes"]
    assert (found["note"] == "kept").all()
    agree(checked(model, found), model.predict_proba(twice[[*table.columns]]))


def test_numbers_at_cuts_beyond_bounds_and_missing_are_scored_alike():
    schema = Schema({"x": Numeric(0.1, 7.3)}, Classes([True, False]))
    model = DPForestClassifier(schema, recipe="jagannathan-2009", epsilon=9)
    model.fit(pd.DataFrame({"x": np.ones(6)}), [True, False] * 3)
    cuts = model.forest_.domain.cuts[0]
    values = [*cuts, *np.nextafter(cuts, -9), *np.nextafter(cuts, 9), np.inf, -np.inf, np.nan, 1e308, -1e308]
    table = pd.DataFrame({"x": values})
    found = scored(model.to_sql("people"), table)
    assert found["prediction"].dtype == bool
    agree(found["probability_true"], model.predict_proba(table)[:, 0])


def test_deep_and_many_trees_are_parsed():
    forest, values = chain_forest(depth=14)
    expected = forest.predict(np.searchsorted(forest.domain.cuts[0], values, side="right")[None].astype(np.uint8))
    found = scored(sql_query(forest, "people"), pd.DataFrame({"x": values}))
    agree(found[["probability_no", "probability_yes"]], expected)
    model, table = fitted("fletcher-islam-2017", n_trees=300)
    small = model.forest_.without_children(np.flatnonzero(model.forest_.levels == 1))
    assert small.n_trees == 300
    found = scored(sql_query(small, "people"), table[:20])[["probability_no", "probability_yes"]]
    agree(found, small.predict(encode(read_columns(table[:20], model.schema_), small.domain)))


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
