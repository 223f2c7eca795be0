"""Dates in files: text of a CSV and types of Parquet are read by the same rule, drafted, checked and predicted."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.cli.command import run

from dpforest import Classes, Date, Schema
from dpforest.records import doors
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.schema.domain import Domain, Grid

SCHEMA = Schema({"seen": Date("2020-01-01", "2024-12-31", time=True), "born": Date()}, Classes(["no", "yes"], name="ill"))
SEEN = ["2024-02-29T10:20:30Z", "2024-02-29 10:20", "2020-01-01T00:00:00+01:00", "yesterday", None, "1990-01-01", "\u0664"]
BORN = ["1950-06-01", "1899-12-31", "2150-01-01", "2000-02-30", None, "2001-01-01T12:00", "01.02.2003"]
ILL = ["no", "yes"] * 3 + ["no"]


def checked(schema, table):
    """What ``schema check`` finds in the columns of a table."""
    schema.to_file(table.parent / "s.json")
    return json.loads(run("schema", "check", table.parent / "s.json", "--table", table, "--json").output)["table"]["columns"]


@pytest.fixture
def text_file(tmp_path):
    pyarrow.csv.write_csv(pa.table({"seen": SEEN, "born": BORN, "ill": ILL}), tmp_path / "t.csv")
    return tmp_path / "t.csv"


def write_typed(path):
    moments = np.array(["2024-02-29T10:20:30.5", "2020-06-01", "NaT", "1990-01-01"] * 50, "M8[us]")
    days = pa.array(moments.astype("M8[D]"))
    seen = pa.array(moments).cast(pa.timestamp("us", "Asia/Kathmandu"), safe=False)
    pq.write_table(pa.table({"seen": seen, "born": days, "ill": ["no", "yes"] * 100}), path)


def test_cells_of_a_text_file_are_read_as_text_is_everywhere(text_file):
    table, target = doors.read_table(text_file, SCHEMA, with_target=True)
    domain = Domain.of(SCHEMA, Grid())
    own = encode(read_columns(table, SCHEMA), domain)
    np.testing.assert_array_equal(own, encode(read_columns(pd.DataFrame({"seen": SEEN, "born": BORN}), SCHEMA), domain))
    assert target.to_pylist() == ILL


def test_kinds_for_a_draft_know_dates_and_points_in_time(tmp_path, text_file):
    write_typed(tmp_path / "t.parquet")
    assert doors.open_source(tmp_path / "t.parquet").kinds() == {"seen": "time", "born": "date", "ill": "text"}
    assert doors.open_source(text_file).kinds() == {"seen": "text", "born": "text", "ill": "text"}  # too few are dates
    lines = ["day,moment,midnight,mostly,year,none", *["2024-01-05,2024-01-05T10:20,2024-01-05T00:00Z,2024-01-05,2024,"] * 9]
    (tmp_path / "d.csv").write_text("\n".join([*lines, "2024-01-05,2024-01-05T00:00,2024-01-05T00:00Z,?,2023,"]))
    kinds = ("date", "time", "date", "date", "number", "text")
    assert tuple(doors.open_source(tmp_path / "d.csv").kinds().values()) == kinds


def test_a_check_counts_dates_that_fit_and_text_that_is_none(tmp_path, text_file):
    seen, born, _ = checked(SCHEMA, text_file)
    assert [seen[name] for name in ("kind", "within", "outside", "missing", "unreadable")] == ["date", 2, 2, 1, 2]
    assert [born[name] for name in ("within", "outside", "missing", "unreadable")] == [2, 2, 1, 2]
    shown = run("schema", "check", tmp_path / "s.json", "--table", text_file)
    assert "a date: day, weekday, month" in shown.output
    assert "a point in time" in shown.output
