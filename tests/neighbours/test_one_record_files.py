"""Records of a file, whatever stands in them, decide neither whether a fit succeeds nor how others are read.

An odd record has one value in every column at once: each column still sees that value alone. All odd values stand together
in one table, each alone in another, and a few at drawn places and columns in the rest.
"""

import datetime as dt
import gzip
import json
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.command import run
from tests.neighbours.one_record import (
    FEW,
    FINE,
    ODD,
    ORDINARY,
    SCHEMAS,
    assert_like,
    noted,
    placed,
    read,
    readings,
    root_counts,
    seal,
    some_of,
)

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPSearchCV, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records import doors
from dpforest.records.source import Asked, joined
from dpforest.records.sources import excel as workbook
from dpforest.records.sources import statistics, text_files
from dpforest.schema import Format

pytestmark = pytest.mark.slow

NAMES = ["x", "c", "k", "day", "id", "note", "target", "mark"]
# Numbers as people write them; whether others in a part of the file are numbers must not matter.
WRITTEN = ["3", " 4.5 ", "1e1", "+7", "-0", "0x10", "nan", "NaN", "inf", "-Infinity", "1e400", "4.9e-324", "0.1",
           "99.99999999999999", ".5", "5.", "1_0", "", "none", None, "00012", "33.333333333333336", "1E+2", "1d1",
           "33,3", "nan(1)"]  # fmt: skip
N_ROWS = 2 * len(WRITTEN)


def records(numbers, words, targets, day):
    """Ordinary records; numbers are first plain ones, so that some parts hold nothing else."""
    return [
        [([*[1, 2] * 13, *numbers] * 2)[row], words[row % 4], row % 3, day, f"p{row}", "note", targets[row % 4], ORDINARY]
        for row in range(N_ROWS)
    ]


@dataclass(frozen=True)
class Way:
    """A format of files: how it is written, its ordinary records and odd values, and where these may stand."""

    write: Callable[[Path, list[Any]], None]
    ending: str
    rows: list[list[Any]]
    values: dict[str, Any]
    format: Format | None = None
    schemas: tuple[str, ...] = tuple(SCHEMAS)
    fits: Callable[[str, Any], bool] = field(default=lambda name, value: True)

    def odd(self, value, columns=NAMES):
        """A record that is marked and has a value in some columns; what is a whole line stays one."""
        if isinstance(value, Line):
            return value
        fitting = {name for name in columns if name != "mark" and self.fits(name, value)}
        plain = {**dict(zip(NAMES, self.rows[0], strict=True)), "id": "other", "mark": ODD}
        return [value if name in fitting else plain[name] for name in NAMES]

    def read(self, folder, rows):
        path = folder / f"t{self.ending}"
        self.write(path, rows)
        return readings(partial(seal, path, format=self.format), self.schemas)


class Line(bytes):
    """A line of a file that is no record as others are."""


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(text_files, "PART_BYTES", 200)
    for reader in (text_files, statistics, workbook):
        monkeypatch.setattr(reader, "PART_ROWS", 5)


# --- text -------------------------------------------------------------------------------------------------------------

NO_TEXT = b"\xff\xfe secret"  # in UTF-8
HALF, OTHER_HALF = ("\ud800".encode("utf-8", "surrogatepass"), "\udc00".encode("utf-8", "surrogatepass"))
CELLS = {
    "nothing": b"", "blank": b" ", "no text": NO_TEXT, "half a letter": b"1\xc3", "zero byte": b"\0", "a number": b"0.5",
    "a comma for a point": b'"3,14"', "thousands": b'"1,234"', "no number": b"secret", "digits": b"9" * 400,
    "tiny": b"1e-400", "infinite": b"-inf", "NaN": b"NaN", "underscore": b"1_0", "other digits": "٣".encode(),
    "line breaks": b'"1\n2\r\n3"', "a quote": b'1"', "quotes": b'"1""2"', "long": b"1" + b"0" * 3000,
    "long in quotes": b'"' + b"a,\n" * 2000 + b'"', "byte order mark": "\ufeff1".encode(), "end of file": b"\x1a",
    "a word for missing": b"NA", "another one": b"-", "a sign": b"?", "a number for missing": b"999", "as a float": b"999.0",
    "thousands and decimals": b"1.234,56", "marks in disorder": b"1,2.3,4'5 6", "marks alone": b".,.'",
    "unassigned": b"\x81\x8d", "half a pair": HALF, "the other half": OTHER_HALF,
    "no-break": "1\u00a0234".encode(), "mark of another order": "\ufffe".encode(), "last day": b"31.12.2020",
    "no day": b"12.31.2020", "no date": b"0.0.0000", "no time": b"1.2.2020 99:99", "other day": "\u0661.2.2020".encode(),
    "not ASCII": "é".encode(), "huge": b"1e308", "empty": b'""', "a code": b"77",
}  # fmt: skip
FORMATS = {
    "plain": None,
    "decimal commas": Format(";", decimal=",", thousands=".", missing=["-"], missing_in={"x": ["999"], "c": ["?"]}),
    "UTF-16": Format("\t", "utf-16", ",", " "),
    "big-endian": Format("|", "utf-16-be", missing=["1"]),
    "of Windows": Format(";", "windows-1252", thousands="'", dates="dmy"),
}


def write_text(path, rows, format=None, end="\n"):
    format = format or Format()
    encoding = format.encoding.replace("utf-16", "utf-16-le") if format.encoding == "utf-16" else format.encoding

    def coded(text):
        """Bytes of UTF-8, or of no text, in the encoding of a file; halves of characters stay what they are."""
        if not encoding.startswith("utf-16"):
            return text
        errors = "surrogatepass" if text in (HALF, OTHER_HALF) else "surrogateescape"
        return text.decode("utf-8", errors).encode(encoding, "surrogatepass")

    def cell(value):
        given = value if isinstance(value, bytes) else b"" if value is None else str(value).encode()
        # A cell with a separator in it is in quotes, as programs write it.
        return coded(b'"' + given + b'"' if separator in given and not given.startswith(b'"') else given)

    separator = format.separator.encode()
    content = coded(end.encode()).join(coded(separator).join(map(cell, row)) for row in [NAMES, *rows])
    content = ("\ufeff".encode(encoding) if format.encoding == "utf-16" else b"") + content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def text(format):
    day = "29.2.2020" if format is not None and format.dates == "dmy" else "2020-02-29"
    rows = records(WRITTEN, ["a", "b", "z", ""], ["yes", "no", "1", "0.5"], day)
    return Way(partial(write_text, format=format), ".csv", rows, CELLS, format)


# --- workbooks, JSON lines, files of statistics programs --------------------------------------------------------------

VALUES = {
    "nothing": None, "empty": "", "blank": " ", "a word for missing": "NA", "truth": True, "whole": 10**17, "huge": 1e300,
    "tiny": 5e-324, "minus zero": -0.0, "a fraction": 0.1, "digits": "1", "other digits": "٣", "no number": "secret",
    "line breaks": "1\n2", "long": "w" * 30_000, "not a character": "\ufffe",
}  # fmt: skip
IN_WORKBOOKS = VALUES | {
    "a day": dt.date(2020, 1, 2), "a moment": dt.datetime(1900, 1, 1, 3, 4, 5), "a time": dt.time(3, 4), "#N/A": "#N/A",
    "hours": dt.timedelta(hours=30), "a formula": "=1/0", "an error of another program": "#ERROR!", "a new error": "#SPILL!",
}  # fmt: skip
# Numbers that are shown as dates, and how.
IN_WORKBOOKS |= {
    f"{number} as {shown}": (number, shown)
    for number in (-1e300, -1e10, -1, 0, 0.5, 60, 2958466, 1e10, 1e300)
    for shown in ("yyyy-mm-dd", "hh:mm:ss", "[hh]:mm:ss")
}


def write_workbook(path, rows):
    made = openpyxl.Workbook()
    for row in [NAMES, *rows]:
        made.active.append([cell[0] if isinstance(cell, tuple) else cell for cell in row])
    for cells, row in zip(made.active.iter_rows(), [NAMES, *rows], strict=True):
        for cell, value in zip(cells, row, strict=True):
            cell.data_type = "e" if str(cell.value).startswith("#") else cell.data_type
            if isinstance(value, tuple):
                cell.number_format = value[1]
    made.save(path)


IN_JSON = {name: json.dumps(value).encode() for name, value in VALUES.items()} | {
    "not a number": b"NaN", "infinite": b"-Infinity", "beyond": b"1e999", "many digits": b"9" * 6000, "a list": b"[1]",
    "an object": b'{"x": 1}', "deep": b"[" * 900 + b"]" * 900, "half a pair": b'"\\ud800"', "no text": b'"\xff\xfe"',
    "again": b'2, "x": 3, "c": "b", "x": 1',
}  # fmt: skip
JSON_LINES = {
    "no JSON": b"secret", "a line that is a list": b"[1]", "half an object": b'{"x": 1', "deep lists": b"[" * 100_000,
    "an empty object": b"{}", "other keys": b'{"X": 1, "": 2}', "no UTF-8": b"\xff\xfe", "a mark": "\ufeff{}".encode(),
    "null": b"null",
}  # fmt: skip
JSON_LINES = {name: Line(line) for name, line in JSON_LINES.items()}


def json_line(row):
    if isinstance(row, Line):
        return row
    cells = [cell if isinstance(cell, bytes) else json.dumps(cell).encode() for cell in row]
    return b"{" + b", ".join(b'"%s": %s' % (name.encode(), cell) for name, cell in zip(NAMES, cells, strict=True)) + b"}"


def write_json(path, rows):
    path.write_bytes(b"\n".join([json_line(row) for row in rows]) + b"\n")


def zipped(rows, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", rows.to_csv(index=False))


def in_stream(rows, path):
    table = pa.Table.from_pandas(rows, preserve_index=False)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


STORES = {
    ".csv": partial(pd.DataFrame.to_csv, index=False), ".csv.gz": partial(pd.DataFrame.to_csv, index=False),
    ".jsonl": partial(pd.DataFrame.to_json, orient="records", lines=True), ".csv.zip": zipped, ".arrows": in_stream,
    ".jsonl.gz": partial(pd.DataFrame.to_json, orient="records", lines=True), ".feather": pd.DataFrame.to_feather,
    ".xlsx": partial(pd.DataFrame.to_excel, index=False), ".parquet": pd.DataFrame.to_parquet,
    ".sav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta,
}  # fmt: skip
IN_STATISTICS = {
    "nothing": np.nan, "huge": 1e300, "least": -1e300, "tiny": 5e-324, "a fraction": 0.1, "a code without a label": 77.0,
    "a far day": 1e12, "empty": "", "long": "w" * 200, "no text": "ÄÖ", "zero byte": "a\0b",
}  # fmt: skip
NUMBERED = ("x", "k", "day")


def write_statistics(path, rows):
    frame = pd.DataFrame(rows, columns=NAMES).astype(dict.fromkeys(NUMBERED, float))
    if path.suffix == ".dta":
        pyreadstat.write_dta(frame, path, variable_format={"day": "%td"}, variable_value_labels={"k": {1: "one"}})
    else:
        pyreadstat.write_sav(frame, path, variable_format={"day": "DATE11"}, variable_value_labels={"k": {1.0: "one"}})
    path.write_bytes(path.read_bytes().replace("ÄÖ".encode(), b"\xff\xfeab"))


def of_statistics(ending):
    rows = records([0.5, None], ["a", "b", "z", ""], ["yes", "no", "", "maybe"], 20000.0)
    schemas = tuple(name for name in SCHEMAS if name not in ("numbered classes", "bounded"))
    return Way(
        write_statistics, ending, rows, IN_STATISTICS, None, schemas,
        lambda name, value: (name in NUMBERED) == isinstance(value, float),
    )  # fmt: skip


MIXED = records([0.5, "2", None, "secret", True], ["a", "b", "z", None], ["yes", "no", 1, 0.5], "2020-02-29")
DATED = [[*row[:3], dt.date(2020, 2, 29), *row[4:]] for row in MIXED[::3]]
WAYS = {name: text(format) for name, format in FORMATS.items()} | {
    "workbook": Way(write_workbook, ".xlsx", DATED, IN_WORKBOOKS),
    "JSON lines": Way(write_json, ".jsonl", MIXED, IN_JSON | JSON_LINES),
    "SPSS": of_statistics(".sav"),
    "Stata": of_statistics(".dta"),
}


@cache
def before(way):
    """The readings of the ordinary records, in parts as small as those that they are compared with."""
    with tempfile.TemporaryDirectory() as folder:
        return WAYS[way].read(Path(folder), WAYS[way].rows)


def assert_not_seen(folder, way, odd):
    """Odd records, given as their places, their values and the columns that hold these, are not seen."""
    rows = [(place, WAYS[way].odd(WAYS[way].values[name], *columns)) for place, name, *columns in odd]
    after = WAYS[way].read(folder, placed(WAYS[way].rows, rows))
    assert_like(after, before(way), len(odd))
    if "numbered classes" in after:  # none is lost, and none is taken for two
        assert after["numbered classes"].counted == [[len(WAYS[way].rows) + len(odd)]]


@pytest.mark.parametrize("way", WAYS)
def test_odd_records_of_a_file_are_not_seen_together_or_alone(tmp_path, small_parts, way):
    assert_not_seen(tmp_path, way, [(place % N_ROWS, name) for place, name in enumerate(WAYS[way].values)])
    # By turns among the formats of text, of which the plain one has all.
    first, step = ([*FORMATS].index(way) % 3, 3) if way in FORMATS and way != "plain" else (0, 1)
    for name in [*WAYS[way].values][first::step]:
        with noted(name):
            assert_not_seen(tmp_path, way, [(0, name), (N_ROWS // 2, name)])


SOME = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)


@FEW
@given(data=st.data(), way=st.sampled_from(sorted(WAYS)))
def test_odd_records_of_a_file_are_not_seen_wherever_they_stand(tmp_path, small_parts, data, way):
    assert_not_seen(tmp_path, way, data.draw(some_of([*WAYS[way].values], N_ROWS, SOME)))


# --- what no program writes -------------------------------------------------------------------------------------------

ODD_XML = {
    "no number": '<c r="A3"><v>secret</v></c>', "no such text": '<c r="A3" t="s"><v>99999</v></c>',
    "a place without end": f'<c r="A3" t="s"><v>{"9" * 9000}</v></c>', "no such format": '<c r="A3" s="77"><v>1</v></c>',
    "no such kind": '<c r="A3" t="secret"><v>1</v></c>', "far to the right": '<c r="XFD3"><v>1</v></c>',
    "in no column": '<c r="ZZZZZZ3"><v>1</v></c>', "twice": '<c r="A3"><v>1</v></c><c r="A3"><v>2</v></c>',
    "nothing": '<c r="A3"/>', "half a character": '<c r="A3" t="str"><v>_xD800_</v></c>',
    "no date": '<c r="A3" t="d"><v>2</v></c>',
    "no character": '<c r="A3" t="str"><v>&#0;&#xFFFE;&#xD800;&#x999999;\0</v></c>',
}  # fmt: skip
ODD_STYLES = {
    "a control character": (b'formatCode="0"', b'formatCode="0&quot;\x01&quot;"'),
    "not a character": (b'formatCode="0"', 'formatCode="0\ufffe"'.encode()),
    "a reference to none": (b'formatCode="0"', b'formatCode="0&#1;"'),
    "no text": (b'formatCode="0"', b'formatCode="0\xff"'),
    "a style without a number": (b'numFmtId="165" fontId', b'numFmtId="abc" fontId'),
    "an endless number": (b'numFmtId="165" fontId', b'numFmtId="' + b"9" * 9000 + b'" fontId'),
}
ODD_PARTS = ODD_STYLES | {
    name: (b"</sheetData>", f'<row r="3">{cells}</row></sheetData>'.encode().replace(b"\0", b"\0\x0b\xff\xef\xbf\xbf"))
    for name, cells in ODD_XML.items()
}


def write_tampered(path, rows, usual, odd):
    """A workbook in whose parts some bytes stand for others."""
    write_workbook(path, rows)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).replace(b'="0000"', b'="0"') for name in archive.namelist()}
    assert any(usual in content for content in parts.values())
    with zipfile.ZipFile(path, "w") as changed:
        for name, content in parts.items():
            changed.writestr(name, content.replace(usual, odd))


def test_a_cell_of_a_workbook_as_no_program_writes_it_is_its_records_own_matter(tmp_path, small_parts):
    rows = WAYS["workbook"].rows
    for name, (usual, odd) in ODD_PARTS.items():
        way = replace(WAYS["workbook"], write=partial(write_tampered, usual=usual, odd=odd))
        own = [[(1, "0000"), *rows[0][1:-1], ODD]] if name in ODD_STYLES else []  # its format is the one that is changed
        with noted(name):
            assert_like(way.read(tmp_path, [*rows, *own]), before("workbook"), 1)


def test_a_record_far_below_the_others_is_one_record(tmp_path, small_parts):
    def write(path, rows):
        write_workbook(path, rows)
        made = openpyxl.load_workbook(path)
        made.active.cell(50_000, 1, 1)
        made.save(path)

    # Where a label that is not listed counts as another one, rows in between would count, too.
    way = replace(WAYS["workbook"], write=write)
    assert_like(way.read(tmp_path, way.rows), before("workbook"), 1)


@pytest.mark.parametrize(("release", "order"), [(117, "<"), (118, "<"), (118, ">"), (119, "<")])
def test_a_long_text_of_stata_is_its_records_own_matter(tmp_path, small_parts, release, order):
    word, path = "é" if release > 117 else "e", tmp_path / "t.dta"
    rows = [[word * (place % 3), 1.0, ORDINARY] for place in range(24)]

    def written(own, odd=b""):
        frame = pd.DataFrame(own, columns=["c", "k", "mark"])
        frame.to_stata(path, version=release, byteorder=order, convert_strl=["c", "mark"], write_index=False)
        path.write_bytes(path.read_bytes().replace(b"zzzz", odd))
        return read(partial(seal, path, "buckets"))

    ordinary = written(rows)
    read_back = joined(doors.open_source(path).chunks(Asked(SCHEMAS["buckets"])))
    assert (ordinary.outcome, read_back.features.column("c").to_pylist()) == (FINE, [row[0] for row in rows])
    for odd in (b"\x81\xff\xfe\xc3", b"\0\xff\xfe\xc3"):
        written([*rows[:7], ["zzzz", 1.0, ODD], *rows[7:]], odd).assert_like(ordinary)


JSON_LINES["longer than is looked at"] = Line(b'{"x": "' + b"w" * (70 << 20) + b'"}')


def fit_json(folder, feature, rows):
    """A fit on lines of JSON on the command line."""
    Schema({feature: Numeric(0, 3)}, Classes(["yes", "no"]), n_rows=300).to_file(folder / "s.json")
    write_json(folder / "t.jsonl", rows)
    (folder / "m.dpf").unlink(missing_ok=True)
    given = ["fit", folder / "t.jsonl", "--schema", folder / "s.json", "--epsilon", 1, "--out", folder / "m.dpf"]
    return run(*given, "--max-depth", 1)


def test_the_first_of_json_lines_decides_nothing_about_a_fit(tmp_path):
    """Neither whether it succeeds, nor what it says about columns that are not read."""
    said = set()
    for first in ([], *([line] for line in JSON_LINES.values())):
        done = fit_json(tmp_path, "x", [*first, *MIXED])
        assert done.exit_code == 0, done.output
        said.add("\n".join(text for text in done.stdout.splitlines() if "measured" not in text))
    assert len(said) == 1
    long = WAYS["JSON lines"].read(tmp_path, [JSON_LINES["longer than is looked at"], *MIXED])
    assert_like(long, WAYS["JSON lines"].read(tmp_path, MIXED), 1)


def test_a_pattern_has_no_columns_in_json_lines(tmp_path):
    for first in ([], [Line(b'{"x_secret": 1}')], [Line(b"5")]):
        done = fit_json(tmp_path, "x*", [*first, *MIXED])
        assert (done.exit_code, str(done.exception).split(",")[0]) == (1, "The schema has the pattern 'x*'")
        asked = DPForestClassifier(Schema({"x*": Numeric(0, 3)}, Classes(["yes", "no"])), epsilon=1)
        for fit in (asked.fit, DPSearchCV(asked, {"n_trees": [1]}, epsilon=1).fit):
            with pytest.raises(
                TableError, match="pattern 'x\\*', which stands for columns by their names, but the table has none"
            ):
                fit(tmp_path / "t.jsonl")


def test_an_earlier_model_in_another_order_takes_json_lines_by_name(tmp_path):
    ab, ba = (Schema(dict.fromkeys(names, Numeric(0, 3)), Classes([0, 1], name="y")) for names in ("ab", "ba"))
    earlier = DPForestClassifier(ab, epsilon=1).fit([[1, 2]] * 9, [0] * 9)
    for first in (b"", b"5\n", b"{}\n"):
        (tmp_path / "t.jsonl").write_bytes(first + b'{"a": 1, "b": 2, "y": 1}\n' * 9)
        DPForestClassifier(ba, epsilon=1, earlier_model=earlier).fit(tmp_path / "t.jsonl")


STEPS = ["reading the table", *(f"reading the table: {5 * part} %" for part in range(1, 21))]


@pytest.mark.parametrize("ending", STORES)
def test_steps_of_progress_are_the_same_whatever_the_file_holds(tmp_path, monkeypatch, small_parts, ending):
    path, schema = tmp_path / f"t{ending}", Schema({"x": Numeric(0, 1)}, Classes(["yes"], name="y"))
    for n_rows in (0, 1, 4, 90):
        rows = pd.DataFrame({"x": np.linspace(0, 1, n_rows), "y": ["yes" * (1 + row % 60) for row in range(n_rows)]})
        STORES[ending](rows.astype({"y": str}), path)
        told = []
        with closing(doors.open_source(path)) as source:
            for _ in source.chunks(Asked(schema, with_target=True), told.append):
                pass
        assert told == STEPS, n_rows


# --- where lines and blocks of text end -------------------------------------------------------------------------------

LINES = [[1, "a", 1, "2020-02-29", f"p{place}", "note", "yes", ORDINARY] for place in range(12)]


def column_of(path, name):
    """A column of a text file, as it is written."""
    schema = Schema({name: Categorical(["\0"])}, Bounded(0, 1, name="no column"))
    return joined(doors.open_source(path).chunks(Asked(schema))).features.column(name).to_pylist()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_a_text_file_may_be_as_short_as_its_names_and_need_not_end_its_last_line(tmp_path, n_rows, end, name):
    path = tmp_path / name
    write_text(path, LINES[:n_rows], end=end)
    assert doors.open_source(path).names() == NAMES
    assert len(column_of(path, "id")) == n_rows
    assert root_counts(seal(path, "classes"))[0].sum() == n_rows


@pytest.mark.parametrize("n_bytes", [5 << 19, 40 << 20], ids=["2.5 MiB", "40 MiB"])
@pytest.mark.parametrize("place", [0, N_ROWS], ids=["first", "last"])
def test_a_long_cell_that_nobody_asks_for_is_not_seen(tmp_path, place, n_bytes):
    way = replace(WAYS["plain"], schemas=("features", "numbered classes"))
    odd = placed(way.rows, [(place, way.odd(b"w" * n_bytes, ["note"]))])
    assert_like(way.read(tmp_path, odd), way.read(tmp_path, way.rows), 1)


def test_rows_that_were_handed_over_are_not_handed_over_again_where_blocks_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PART_BYTES", 100)
    write_text(tmp_path / "t.csv", [[*LINES[0][:4], place, "w" * 40 * (place % 90), "yes", ODD] for place in range(400)])
    assert column_of(tmp_path / "t.csv", "id") == [str(place) for place in range(400)]


def test_where_a_block_ends_does_not_change_a_cell(tmp_path, monkeypatch):
    write_text(tmp_path / "t.csv", [[1, b'"a\r\nb"', 1, "", "p", "note", "yes", ODD]] * 40, end="\r\n")
    for n_bytes in range(64, 96):
        monkeypatch.setattr(text_files, "PART_BYTES", n_bytes)
        assert column_of(tmp_path / "t.csv", "c") == ["a\r\nb"] * 40


def test_codes_of_a_record_do_not_depend_on_the_part_it_is_read_in(tmp_path, monkeypatch):
    found = []
    for n_bytes in (40, 280, 40_000):
        monkeypatch.setattr(text_files, "PART_BYTES", n_bytes)
        found.append(WAYS["plain"].read(tmp_path, WAYS["plain"].rows))
    assert found[0] == found[1] == found[2]


def test_names_may_have_a_mark_before_them_and_line_breaks_in_quotes(tmp_path):
    (tmp_path / "t.csv").write_bytes("\ufeff".encode() + b'"a\nb","c""d",e"f\n1,2,\xff\n')
    assert doors.open_source(tmp_path / "t.csv").names() == ["a\nb", 'c"d', 'e"f']
    assert column_of(tmp_path / "t.csv", "a\nb") == ["1"]
