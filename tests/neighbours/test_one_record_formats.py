"""One record of a file, in whatever format, decides neither whether a fit succeeds nor how others are read."""

import datetime as dt
import json
import zipfile
from dataclasses import replace
from functools import partial

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyreadstat
import pytest
from tests.neighbours.one_record import outcome
from tests.neighbours.test_one_record_files import CELLS, CSV_ROLES, LINES, N_ROWS, SCHEMAS, check, every_case, tables_of
from typer.testing import CliRunner

from dpforest import Classes, Date, Numeric, Schema
from dpforest.cli.main import commands
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records import tables
from dpforest.records.files import delimited, json_lines, statistics, workbook
from dpforest.records.memory.vault import Vault
from dpforest.records.people import People
from dpforest.records.reader import Asked, joined
from dpforest.schema import Format

pytestmark = pytest.mark.slow

NAMES = ["x", "c", "k", "id", "note", "target"]
FORMATS = {
    "decimal commas": Format(";", decimal=",", thousands=".", missing=["-"], missing_in={"x": ["999"], "c": ["?"]}),
    "UTF-16": Format("\t", "utf-16", ",", " "),
    "big-endian": Format("|", "utf-16-be", missing=["1"]),
    "of Windows": Format(";", "windows-1252", thousands="'"),
}  # fmt: skip
HALF, OTHER_HALF = ("\ud800".encode("utf-8", "surrogatepass"), "\udc00".encode("utf-8", "surrogatepass"))
MORE_CELLS = {
    "a word for missing": b"NA", "another one": b"-", "a sign": b"?", "a number for missing": b"999", "as a float": b"999.0",
    "thousands and decimals": b"1.234,56", "marks in disorder": b"1,2.3,4'5 6", "marks alone": b".,.'",
    "unassigned": b"\x81\x8d", "half a pair": HALF, "the other half": OTHER_HALF,
    "no-break": "1\u00a0234".encode(), "mark of another order": "\ufffe".encode(),
}  # fmt: skip


def seal(path, schema, with_ids=False, format=None):
    rows = joined(
        tables.open_reader(path, format).parts(Asked(schema, with_target=True, besides=["id"] if with_ids else []))
    )
    groups = (rows.besides.column("id"), People(1, Entropy(0))) if with_ids else (None, None)
    return Vault.seal(rows.features, rows.target, schema, 1, *groups)


def text_of(path, lines, format):
    rows = [[name.encode() for name in NAMES], *lines]
    content = b"\n".join(format.separator.encode().join(row) for row in rows)
    if format.encoding.startswith("utf-16"):  # halves of characters stay what they are
        errors = "surrogatepass" if HALF in content or OTHER_HALF in content else "surrogateescape"
        content = content.decode("utf-8", errors).encode(format.encoding, "surrogatepass")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("cell", (CELLS | MORE_CELLS).values(), ids=CELLS | MORE_CELLS)
@pytest.mark.parametrize(("schema", "column"), CSV_ROLES.values(), ids=CSV_ROLES)
def test_a_text_file_of_any_format(tmp_path, monkeypatch, schema, column, cell, format):
    monkeypatch.setattr(delimited, "PART_BYTES", 200)
    odd = [b"1", b"a", b"1", b"other", b"note", b"yes"]
    # A cell with a separator in it is in quotes, as programs write it.
    odd[column] = b'"' + cell + b'"' if format.separator.encode() in cell and not cell.startswith(b'"') else cell
    more = text_of(tmp_path / "more.csv", [*LINES[:7], odd, *LINES[7:]], format)
    less = text_of(tmp_path / "less.csv", LINES, format)
    check(*(partial(seal, path, SCHEMAS[schema], column == 3, format) for path in (more, less)))


@pytest.mark.parametrize(
    "cell",
    [*(CELLS | MORE_CELLS).values(), b"31.12.2020", b"12.31.2020", b"0.0.0000", b"1.2.2020 99:99", "\u0661.2.2020".encode()],
)
def test_dates_of_another_order(tmp_path, cell):
    schema, format = Schema({"x": Date()}, Classes(["yes", "no"], name="target")), Format("|", dates="dmy")
    lines = [[b"x", b"target"], *([b"%d.%d.2020" % (day, day % 12 + 1), b"yes"] for day in range(1, 29))]
    paths = [tmp_path / "more.csv", tmp_path / "less.csv"]
    for path, own in zip(paths, ([*lines[:9], [cell, b"no"], *lines[9:]], lines), strict=True):
        path.write_bytes(b"\n".join(b"|".join(line) for line in own))
    check(*(partial(seal, path, schema, False, format) for path in paths))


ROWS = [[1, "a", 1, f"p{place}", "note", "yes"] for place in range(N_ROWS)]
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
SHOWN = {
    f"{number} as {shown}": (number, shown)
    for number in (-1e300, -1e10, -1, 0, 0.5, 60, 2958466, 1e10, 1e300)
    for shown in ("yyyy-mm-dd", "hh:mm:ss", "[hh]:mm:ss")
}


def workbook_of(path, rows):
    made = openpyxl.Workbook()
    for row in [NAMES, *rows]:
        made.active.append([cell[0] if isinstance(cell, tuple) else cell for cell in row])
    for cells, row in zip(made.active.iter_rows(), [NAMES, *rows], strict=True):
        for cell, given in zip(cells, row, strict=True):
            cell.data_type = "e" if str(cell.value).startswith("#") else cell.data_type
            if isinstance(given, tuple):
                cell.number_format = given[1]
    made.save(path)
    return path


@pytest.mark.parametrize("value", (IN_WORKBOOKS | SHOWN).values(), ids=IN_WORKBOOKS | SHOWN)
@pytest.mark.parametrize(("schema", "column"), CSV_ROLES.values(), ids=CSV_ROLES)
def test_a_workbook(tmp_path, monkeypatch, schema, column, value):
    monkeypatch.setattr(workbook, "PART_ROWS", 5)
    odd = [1, "a", 1, "other", "note", "yes"]
    odd[column] = value
    more = workbook_of(tmp_path / "more.xlsx", [*ROWS[:7], odd, *ROWS[7:]])
    less = workbook_of(tmp_path / "less.xlsx", ROWS)
    check(*(partial(seal, path, SCHEMAS[schema], column == 3) for path in (more, less)))


ODD_XML = {
    "no number": '<c r="A3"><v>secret</v></c>', "no such text": '<c r="A3" t="s"><v>99999</v></c>',
    "a place without end": f'<c r="A3" t="s"><v>{"9" * 9000}</v></c>', "no such format": '<c r="A3" s="77"><v>1</v></c>',
    "no such kind": '<c r="A3" t="secret"><v>1</v></c>', "far to the right": '<c r="XFD3"><v>1</v></c>',
    "in no column": '<c r="ZZZZZZ3"><v>1</v></c>', "twice": '<c r="A3"><v>1</v></c><c r="A3"><v>2</v></c>',
    "nothing": '<c r="A3"/>', "half a character": '<c r="A3" t="str"><v>_xD800_</v></c>',
    "no date": '<c r="A3" t="d"><v>2</v></c>',
    "no character": '<c r="A3" t="str"><v>&#0;&#xFFFE;&#xD800;&#x999999;\0</v></c>',
}  # fmt: skip


@pytest.mark.parametrize("cells", ODD_XML.values(), ids=ODD_XML)
def test_a_cell_of_a_workbook_as_no_program_writes_it(tmp_path, cells):
    less, more = workbook_of(tmp_path / "less.xlsx", ROWS), tmp_path / "more.xlsx"
    with zipfile.ZipFile(less) as made, zipfile.ZipFile(more, "w") as changed:
        for name in made.namelist():
            added = f'<row r="3">{cells}</row></sheetData>'.encode().replace(b"\0", b"\0\x0b\xff\xef\xbf\xbf")
            changed.writestr(name, made.read(name).replace(b"</sheetData>", added))
    check(*(partial(seal, path, SCHEMAS["numbered classes"]) for path in (more, less)))


ODD_STYLES = {
    "a control character": (b'formatCode="0"', b'formatCode="0&quot;\x01&quot;"'),
    "not a character": (b'formatCode="0"', 'formatCode="0\ufffe"'.encode()),
    "a reference to none": (b'formatCode="0"', b'formatCode="0&#1;"'),
    "no text": (b'formatCode="0"', b'formatCode="0\xff"'),
    "no number": (b'numFmtId="164" fontId', b'numFmtId="abc" fontId'),
    "an endless number": (b'numFmtId="164" fontId', b'numFmtId="' + b"9" * 9000 + b'" fontId'),
}


@pytest.mark.parametrize(("given", "odd"), ODD_STYLES.values(), ids=ODD_STYLES)
def test_how_a_number_of_a_workbook_is_shown_as_no_program_says_it(tmp_path, given, odd):
    less = workbook_of(tmp_path / "less.xlsx", ROWS)
    made, more = workbook_of(tmp_path / "made.xlsx", [*ROWS, [(1, "0000"), *ROWS[0][1:]]]), tmp_path / "more.xlsx"
    with zipfile.ZipFile(made) as archive, zipfile.ZipFile(more, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name).replace(b'formatCode="0000"', b'formatCode="0"')
            assert given in content or name != "xl/styles.xml"
            changed.writestr(name, content.replace(given, odd))
    check(*(partial(seal, path, SCHEMAS["numbered classes"]) for path in (more, less)))


def test_a_record_far_below_the_others_is_one_record(tmp_path):
    less, more = workbook_of(tmp_path / "less.xlsx", ROWS), workbook_of(tmp_path / "more.xlsx", ROWS)
    made = openpyxl.load_workbook(more)
    made.active.cell(50_000, 1, 1)
    made.save(more)
    # Where a label that is not listed counts as another one, rows in between would count, too.
    check(*(partial(seal, path, SCHEMAS["numbered classes"]) for path in (more, less)))


IN_JSON = {name: json.dumps(value).encode() for name, value in VALUES.items()} | {
    "not a number": b"NaN", "infinite": b"-Infinity", "beyond": b"1e999", "many digits": b"9" * 6000, "a list": b"[1]",
    "an object": b'{"x": 1}', "deep": b"[" * 900 + b"]" * 900, "half a pair": b'"\\ud800"', "no text": b'"\xff\xfe"',
    "again": b'2, "x": 3, "c": "b", "x": 1',
}  # fmt: skip
JSON_LINES = {
    "no JSON": b"secret", "a list": b"[1]", "half an object": b'{"x": 1', "deep": b"[" * 100_000, "an empty object": b"{}",
    "other keys": b'{"X": 1, "": 2}', "no text": b"\xff\xfe", "a mark": "\ufeff{}".encode(), "null": b"null",
}  # fmt: skip


JSON_LINES["longer than is looked at"] = b'{"x": "' + b"w" * (70 << 20) + b'"}'


def json_of(path, lines):
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def json_line(row):
    return json.dumps(dict(zip(NAMES, row, strict=True))).encode()


@pytest.mark.parametrize("line", JSON_LINES.values(), ids=JSON_LINES)
def test_the_first_of_json_lines_decides_nothing_about_a_fit(tmp_path, monkeypatch, line):
    """Neither whether it succeeds, nor what it says about columns that are not read."""
    monkeypatch.chdir(tmp_path)
    Schema({"x": Numeric(0, 3)}, Classes(["yes", "no"], name="target"), n_rows=300).to_file("s.json")
    lines, said = [json_line(row) for row in ROWS], []
    for name, first in (("less", []), ("more", [line])):
        json_of(tmp_path / "t.jsonl", [*first, *lines])
        arguments = ["fit", "t.jsonl", "--schema", "s.json", "--epsilon", "1", "--max-depth", "1", "--out", f"{name}.dpf"]
        done = CliRunner().invoke(commands, arguments)
        assert done.exit_code == 0, done.output
        said.append([text.replace(f"{name}.dpf", "") for text in done.stdout.splitlines() if "measured" not in text])
    assert said[0] == said[1]


def test_a_pattern_has_no_columns_in_json_lines(tmp_path):
    Schema({"x*": Numeric(0, 3)}, Classes(["yes", "no"], name="target")).to_file(tmp_path / "s.json")
    json_of(tmp_path / "t.jsonl", [json_line(row) for row in ROWS])
    given = ["fit", tmp_path / "t.jsonl", "--schema", tmp_path / "s.json", "--epsilon", 1, "--out", tmp_path / "m.dpf"]
    done = CliRunner().invoke(commands, [*map(str, given)])
    assert (done.exit_code, str(done.exception).split(",")[0]) == (1, "The schema has the pattern 'x*'")


@pytest.mark.parametrize("value", IN_JSON.values(), ids=IN_JSON)
@pytest.mark.parametrize(("schema", "column"), CSV_ROLES.values(), ids=CSV_ROLES)
def test_a_value_of_json_lines(tmp_path, monkeypatch, schema, column, value):
    monkeypatch.setattr(json_lines, "PART_ROWS", 5)
    odd = [1, "a", 1, "other", "note", "yes"]
    odd[column] = "\0"
    lines = [json_line(row) for row in ROWS]
    more = json_of(tmp_path / "more.jsonl", [*lines[:7], json_line(odd).replace(b'"\\u0000"', value), *lines[7:]])
    check(*(partial(seal, path, SCHEMAS[schema], column == 3) for path in (more, json_of(tmp_path / "less.jsonl", lines))))


@pytest.mark.parametrize("line", JSON_LINES.values(), ids=JSON_LINES)
@pytest.mark.parametrize("place", [0, 7])
def test_a_line_of_json_lines_that_is_no_record_as_others_are(tmp_path, line, place):
    lines = [json_line(row) for row in ROWS]
    more = json_of(tmp_path / "more.jsonl", [*lines[:place], line, *lines[place:]])
    check(*(partial(seal, path, SCHEMAS["numbered classes"]) for path in (more, json_of(tmp_path / "less.jsonl", lines))))
    assert sum(len(part.features) for part in tables.open_reader(more).parts(Asked(SCHEMAS["classes"]))) == N_ROWS + 1


@every_case
def test_a_feather_file(tmp_path, schema, column, kind, value):
    without, more = tables_of(schema, column, kind, value)
    for name, table in (("less", without), ("more", more)):
        with pa.OSFile(str(tmp_path / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
    check(*(partial(seal, tmp_path / f"{name}.arrow", SCHEMAS[schema], column == "id") for name in ("more", "less")))


IN_STATISTICS = {
    "nothing": (0, np.nan), "huge": (0, 1e300), "least": (0, -1e300), "tiny": (0, 5e-324), "a fraction": (2, 0.1),
    "a code without a label": (2, 77.0), "a missing code": (2, np.nan), "empty": (1, ""), "long": (1, "w" * 200),
    "no text": (1, "ÄÖ"), "zero byte": (1, "a\0b"), "no label": (5, ""), "a far day": (6, 1e12), "no day": (6, np.nan),
}  # fmt: skip


def statistics_of(path, rows, odd_bytes):
    frame = pd.DataFrame(rows, columns=[*NAMES, "day"]).astype({"x": float, "k": float, "day": float})
    if path.suffix == ".dta":
        pyreadstat.write_dta(frame, path, variable_format={"day": "%td"}, variable_value_labels={"k": {1: "one"}})
    else:
        pyreadstat.write_sav(frame, path, variable_format={"day": "DATE11"}, variable_value_labels={"k": {1.0: "one"}})
    path.write_bytes(path.read_bytes().replace("ÄÖ".encode(), odd_bytes))
    return path


@pytest.mark.parametrize("kind", [".sav", ".dta"])
@pytest.mark.parametrize(("column", "value"), IN_STATISTICS.values(), ids=IN_STATISTICS)
@pytest.mark.parametrize("schema", ["classes", "buckets"])
def test_a_file_of_a_statistics_program(tmp_path, monkeypatch, kind, schema, column, value):
    monkeypatch.setattr(statistics, "PART_ROWS", 5)
    with_day = replace(SCHEMAS[schema], features={**SCHEMAS[schema].features, "day": Date()})
    rows = [[*row, 20000.0] for row in ROWS]
    odd = [1, "a", 1, "other", "note", "yes", 20000.0]
    odd[column] = value
    more = statistics_of(tmp_path / f"more{kind}", [*rows[:7], odd, *rows[7:]], b"\xff\xfeab")
    less = statistics_of(tmp_path / f"less{kind}", rows, b"")
    check(*(partial(seal, path, with_day) for path in (more, less)))


@pytest.mark.parametrize(("release", "order"), [(117, "<"), (118, "<"), (118, ">"), (119, "<")])
def test_a_long_text_of_stata(tmp_path, monkeypatch, release, order):
    monkeypatch.setattr(statistics, "PART_ROWS", 5)
    word = "é" if release > 117 else "e"
    rows = [[1.0, word * (place % 3), 1.0, "yes"] for place in range(2 * N_ROWS)]
    paths = [tmp_path / f"{name}.dta" for name in ("more", "less")]
    for path, own in zip(paths, ([*rows[:7], [1.0, "zzzz", 1.0, "yes"], *rows[7:]], rows), strict=True):
        frame = pd.DataFrame(own, columns=["x", "c", "k", "target"])
        frame.to_stata(path, version=release, byteorder=order, convert_strl=["c", "target"], write_index=False)
    made = paths[0].read_bytes()
    for odd in (b"\x81\xff\xfe\xc3", b"\0\xff\xfe\xc3"):
        paths[0].write_bytes(made.replace(b"zzzz", odd))
        check(*(partial(seal, path, SCHEMAS["buckets"]) for path in paths))
    read = joined(tables.open_reader(paths[1]).parts(Asked(SCHEMAS["buckets"])))
    assert read.features.column("c").to_pylist() == [row[1] for row in rows]


def test_a_line_that_is_to_blame_is_not_named_by_a_fit(tmp_path):
    """Whichever row has a cell too many, the words are the same."""
    said = []
    for place in (2, 9):
        lines = [*LINES[:place], [*LINES[0], b"too many"], *LINES[place:]]
        path = text_of(tmp_path / "t.csv", lines, Format())
        with pytest.raises(TableError) as raised:
            seal(path, SCHEMAS["classes"])
        said.append(str(raised.value))
        assert outcome(lambda path=path: seal(path, SCHEMAS["classes"])).error is not None
    assert said[0] == said[1]
