"""Workbooks, JSON lines, Feather and files of statistics programs are read by public rules, one cell like another."""

import datetime as dt
import gzip
import sys
import zipfile
from contextlib import nullcontext

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyreadstat
import pytest
import python_calamine

from dpforest import Bounded, Categorical, Date, Numeric, Schema
from dpforest.errors import MissingExtraError, TableError
from dpforest.records.doors import open_source
from dpforest.records.source import Asked, joined
from dpforest.records.sources import excel as workbook
from dpforest.records.sources import statistics, text_files
from dpforest.records.sources.arrow import ArrowFile
from dpforest.records.sources.cells import cell_text
from dpforest.schema import Format

NO_COLUMN = Bounded(name="no such column")


def read(path, features, format=None, **asked):
    return joined(open_source(path, format).chunks(Asked(Schema(features, NO_COLUMN), **asked)))


def cells(column):
    """The bytes of a column of text, which need not be UTF-8."""
    return column.cast(pa.binary()).to_pylist()


@pytest.fixture
def book(tmp_path):
    made = openpyxl.Workbook()
    made.active.title = "first"
    rows = [
        ["n", "c", "truth", "day", "moment", None, "odd"],
        [1, "a", True, dt.date(2020, 2, 3), dt.datetime(2020, 2, 3, 4, 5, 6), "note", "#N/A"],
        [1.5, "01", False, None, None, "note", None],
        ["1,5", 7, None, "2020-02-03", "x", None, dt.timedelta(hours=30)],
        ["NA", 7.0, "TRUE", 3, None, None, "two\nlines"],
        [None, None, None, None, None, None, 1e300],
    ]
    for row in rows:
        made.active.append(row)
    made.active["G2"].data_type = "e"
    made.create_sheet("second & last").append(["x"])
    made.save(tmp_path / "t.xlsx")
    return tmp_path / "t.xlsx"


def test_cells_of_a_workbook_become_text_by_one_rule(book, monkeypatch):
    monkeypatch.setattr(workbook, "PART_ROWS", 2)
    features = {"n": Numeric(), "c": Categorical(), "truth": Categorical([False, True])}
    features |= {"day": Date(), "moment": Date(time=True)}
    found = read(book, features, besides=["odd"])
    assert found.features.column("n").to_pylist() == [1, 1.5, None, None, None]
    assert found.features.column("c").to_pylist() == ["a", "01", "7", "7", None]
    assert found.features.column("truth").to_pylist() == [1, 0, None, 1, None]
    assert found.features.column("day").to_pylist() == ["2020-02-03", None, "2020-02-03", "3", None]
    assert found.features.column("moment").to_pylist() == ["2020-02-03T04:05:06", None, "x", None, None]
    assert cells(found.besides.column("odd")) == [None, None, b"\xff", b"two\nlines", b"1e+300"]
    # Numbers are numbers, whatever mark texts have.
    assert read(book, {"n": Numeric()}, Format(decimal=",")).features.column("n").to_pylist() == [1, 1.5, 1.5, None, None]


def test_the_first_sheet_is_read_or_the_one_that_is_named(book):
    assert open_source(book).names() == ["n", "c", "truth", "day", "moment", "odd"]  # a column without a name has none
    assert open_source(f"{book}::second & last").names() == ["x"]
    assert len(read(f"{book}::second & last", {"x": Numeric()}).features) == 0
    with pytest.raises(TableError, match="no sheet 'third'; it has 'first', 'second & last'"):
        open_source(f"{book}::third").names()
    with pytest.raises(TableError, match="The sheet 'first' was read"):
        read(book, {"x": Numeric()})


def test_what_is_no_workbook_is_refused(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"x,y\n1,2\n")
    with pytest.raises(TableError, match="damaged, or needs a password"):
        open_source(tmp_path / "t.xlsx").names()
    with pytest.raises(TableError, match="There is no file"):
        open_source(tmp_path / "u.xlsx").names()


RELATED = '<Relationships xmlns="urn:p">{}</Relationships>'
RELATION = (
    '<Relationship Id="{}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{}" Target="{}"/>'
)
# As other programs write workbooks: with prefixes, absolute places, other names of files, and cells that say no place.
WRITTEN = {
    "_rels/.rels": RELATED.format(RELATION.format("a", "officeDocument", "/book/Main.xml")),
    "Book\\main.xml": '<x:workbook xmlns:x="urn:x" xmlns:r="urn:r"><x:workbookPr date1904="1"/><x:sheets>'
    '<x:sheet name="chart" r:id="c"/><x:sheet name="data" r:id="s"/></x:sheets></x:workbook>',
    "book/_rels/main.xml.rels": RELATED.format(
        RELATION.format("c", "chartsheet", "c.xml") + RELATION.format("s", "worksheet", "../s.xml")
        + RELATION.format("t", "sharedStrings", "/texts.xml") + RELATION.format("f", "styles", "f.xml")
    ),
    "s.xml": """<x:worksheet xmlns:x="urn:x"><x:sheetData><x:row><x:c t="s"><x:v>0</x:v></x:c><x:c t="s"><x:v>1</x:v></x:c>
    </x:row><x:row/><x:row r="9"><x:c r="B9" s="1"><x:v>1.5</x:v></x:c><x:c r="AB9"><x:v>7</x:v></x:c></x:row>
    <x:row><x:c t="s"><x:v>2</x:v></x:c><x:c s="2"><x:v>1.5</x:v></x:c></x:row></x:sheetData></x:worksheet>""",
    "texts.xml": "<sst><si><t>w_x0041_</t></si><si><t> d </t></si><si><r><t>one </t></r><rPh><t>wan</t></rPh><r><t>two"
    "</t></r></si></sst>",
    "book/f.xml": """<styleSheet><numFmts><numFmt numFmtId="170" formatCode="&quot;d&quot; 0"/></numFmts><cellStyleXfs><xf/>
    </cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/></cellXfs></styleSheet>""",
}  # fmt: skip


def test_a_workbook_of_another_program_is_read_alike(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.xlsm", "w") as archive:
        for name, content in WRITTEN.items():
            archive.writestr(name, content)
    found = read(tmp_path / "t.xlsm", {"wA": Categorical(), "d": Date(time=True)}).features
    # Blanks around a name, an empty row and a cell beyond the names are left out; the format of the last number is no date.
    assert found.to_pydict() == {"wA": [None, "one two"], "d": ["1904-01-02T12:00:00", "1.5"]}


BOMB = '<!ENTITY e0 "wwwwwwwwww">' + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize("entities", [BOMB, '<!ENTITY e9 SYSTEM "file:///etc/hostname">'], ids=["a bomb", "another file"])
def test_entities_of_a_workbook_are_refused(tmp_path, entities):
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        for name, content in WRITTEN.items():
            changed = content.replace('t="s"><x:v>2<', 't="str"><x:v>&e9;<') if name == "s.xml" else content
            archive.writestr(name, f"<!DOCTYPE x [{entities}]>{changed}" if name == "s.xml" else content)
    with pytest.raises(TableError, match="cannot be read as a workbook"):
        read(tmp_path / "t.xlsx", {"wA": Categorical()})


NUMBERS_SHOWN = ("General", "0.00", '0 "days"', "[Red]0", "@", "[$USD] 0")
DATES_SHOWN = ("yyyy-mm-dd", "d/m/yy;@", "h:mm AM/PM", '"at" h:mm', "mmm\\-yy")
FORMATS_OF_CELLS = {
    **dict.fromkeys(NUMBERS_SHOWN, b"43831.5"), **dict.fromkeys(DATES_SHOWN, b"2020-01-01T12:00:00"), "[h]:mm": b"\xff",
}  # fmt: skip


def test_a_number_of_a_workbook_is_a_date_where_its_format_shows_one(tmp_path):
    made = openpyxl.Workbook()
    made.active.append(["n"])
    for row, shown in enumerate(FORMATS_OF_CELLS, 2):
        made.active.cell(row, 1, 43831.5).number_format = shown
    made.save(tmp_path / "t.xlsx")
    found = cells(read(tmp_path / "t.xlsx", {"n": Categorical()}).features.column("n"))
    assert found == [*FORMATS_OF_CELLS.values()]
    given = python_calamine.load_workbook(tmp_path / "t.xlsx").get_sheet_by_index(0).to_python()[1:]
    assert found == [cell_text(value) for (value,) in given]  # another reader of workbooks agrees


OFFICE = "urn:oasis:names:tc:opendocument:xmlns"
SPACES = " ".join(f'xmlns:{name}="{OFFICE}:{name}:1.0"' for name in ("office", "table", "text"))
HEADS = "".join(f"<table:table-cell office:value-type='string'><text:p>{name}</text:p></table:table-cell>" for name in "ncd")
ODS = f"""<office:document-content {SPACES}><office:body><office:spreadsheet><table:table table:name="one"><table:table-row>
{HEADS}</table:table-row>
<table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="3"/>
</table:table-row><table:table-row><table:table-cell office:value-type="float" office:value="2.5"/><table:table-cell/>
<table:table-cell office:value-type="date" office:date-value="2020-02-03"/></table:table-row></table:table>
</office:spreadsheet></office:body></office:document-content>"""


def test_workbooks_of_other_kinds_are_read_by_the_same_rules(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr("content.xml", ODS.replace("\n", ""))
    found = read(tmp_path / "t.ods", {"n": Numeric(), "c": Categorical(), "d": Date()}).features
    assert found.to_pydict() == {"n": [2.5], "c": [None], "d": ["2020-02-03"]}


JSON = b"""{"x": 1, "c": "a", "t": true, "rest": [1]}

{"x": 2.50, "c": 7.0, "t": false}
{"c": "NA", "x": null, "t": "TRUE", "x": 4}
[1, 2]
no json at all
{"x": "5", "c": {"a": 1}, "t": 1}
{"x": 1e400, "c": "\xff", "t": null}
{"x": NaN, "c": "\\ud800", "t": "x"}
{"x": %s, "c": ["a"]}
%s
{"x": 6, "c": "\\u00e9"}""" % (b"9" * 5000, b"[" * 100_000)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.jsonl.gz"])
def test_a_json_line_is_a_record_whatever_stands_in_it(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text_files, "PART_ROWS", 3)
    (tmp_path / name).write_bytes(gzip.compress(JSON) if name.endswith("gz") else JSON)
    features = {"x": Numeric(), "c": Categorical(), "t": Categorical([False, True]), "late": Categorical()}
    found = read(tmp_path / name, features).features
    assert found.column("x").to_pylist() == [1, 2.5, 4, None, None, 5, np.inf, None, np.inf, None, 6]
    assert cells(found.column("c")) == [
        b"a", b"7", None, None, None, b"\xff", b"\xed\xb3\xbf", b"\xed\xa0\x80", b"\xff", None, "é".encode(),
    ]  # fmt: skip
    assert found.column("t").to_pylist() == [1, 0, 1, None, None, 1, None, None, None, None, None]
    assert found.column("late").null_count == 11  # a key that no record has is missing in each
    assert open_source(tmp_path / name).names() == ["x", "c", "t", "rest"]


def test_json_lines_without_an_object_in_the_first_have_no_names(tmp_path):
    for content in (b"", b"[1]\n", b'[\n{"x": 1}\n]', b'{\n"x": 1\n}'):
        (tmp_path / "t.json").write_bytes(content)
        with pytest.raises(TableError, match="no JSON object in its first line"):
            open_source(tmp_path / "t.json").names()


def test_json_lines_may_be_packed_and_in_another_encoding(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.ndjson", '{"c": "é"}\n{"c": "ü"}\n'.encode("utf-16"))
    found = read(tmp_path / "t.zip", {"c": Categorical()}, Format(encoding="utf-16")).features
    assert found.to_pydict() == {"c": ["é", "ü"]}


def test_a_feather_file_is_read_with_its_types(tmp_path):
    texts, days = pa.array(["a", None, "b"]).dictionary_encode(), [dt.date(2020, 1, 1)] * 3
    table = pa.table({"x": [1, None, 3], "c": texts, "d": days})
    pyarrow.feather.write_feather(table, tmp_path / "t.feather", chunksize=2)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("t.feather", "t.arrow"):
        reader = open_source(tmp_path / name)
        assert reader.kinds() == {"x": "whole", "c": "text", "d": "date"}
        found = read(tmp_path / name, {"c": Categorical(["a"]), "x": Numeric()}, besides=["d"])
        assert found.features.to_pydict() == {"c": ["a", None, "b"], "x": [1, None, 3]}
        assert found.besides.equals(table.select(["d"]))
        with pytest.raises(TableError, match="declared numeric"):
            read(tmp_path / name, {"c": Numeric()})
    (tmp_path / "t.arrow").write_bytes((tmp_path / "t.feather").read_bytes()[:-30])
    with pytest.raises(TableError, match="damaged"):
        open_source(tmp_path / "t.arrow").names()


FRAME = pd.DataFrame({
    "x": [1.0, 2.5, np.nan, 9.0], "g": [1.0, 2.0, 1.0, 3.0], "s": ["a", "bcdefgh", "", "ÄÖ"],
    "d": [dt.date(2020, 1, 2), dt.date(1950, 5, 6), dt.date(9999, 12, 31), None],
    "t": [dt.datetime(2020, 1, 2, 3, 4, 5)] * 4, "é": [1, 2, 3, 4],
})  # fmt: skip
LABELS = {1.0: "männlich", 2.0: "weiblich"}
FEATURES = {"x": Numeric(), "s": Categorical(), "d": Date(), "t": Date(time=True)}


def write_statistics(path, frame=FRAME):
    kind = path.suffix
    if kind in (".sav", ".zsav"):
        pyreadstat.write_sav(
            frame, path, compress=kind == ".zsav", missing_ranges={"x": [9]},
            variable_measure={"g": "nominal", "x": "scale"}, variable_value_labels={"g": LABELS, "x": {9.0: "refused"}},
        )  # fmt: skip
    elif kind == ".dta":
        pyreadstat.write_dta(frame, path, variable_value_labels={"g": {1: "männlich", 2: "weiblich"}})
    elif kind == ".xpt":
        pyreadstat.write_xport(frame.drop(columns="é"), path)
    else:
        pyreadstat.write_por(frame.rename(columns={"é": "e"}).assign(s=["a", "bcdefgh", "", "c"]), path)
    return path


@pytest.mark.parametrize("kind", ["sav", "zsav", "dta", "xpt", "por"])
def test_files_of_statistics_programs_are_read_with_their_types(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(statistics, "PART_ROWS", 3)
    path = write_statistics(tmp_path / f"t.{kind}")
    upper = str.upper if kind == "por" else str
    found = read(path, {upper(name): part for name, part in FEATURES.items()}).features.rename_columns([*FEATURES])
    assert found.column("x").to_pylist() == [1, 2.5, None, None if "sav" in kind else 9]
    assert found.column("s").to_pylist() == ["a", "bcdefgh", "", "c" if kind == "por" else "ÄÖ"]
    assert found.column("d").to_pylist() == FRAME["d"].tolist()
    assert found.column("t").to_pylist() == FRAME["t"].tolist()


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_a_labelled_column_is_its_labels_or_its_codes_as_the_schema_declares(tmp_path, kind):
    path = write_statistics(tmp_path / f"t.{kind}")
    labels = ["männlich", "weiblich", "männlich", "3"]
    assert read(path, {"g": Categorical(["männlich", "weiblich"])}).features.column("g").to_pylist() == labels
    assert read(path, {"g": Categorical()}).features.column("g").to_pylist() == labels
    for part in (Numeric(), Categorical([1, 2, 3])):
        assert read(path, {"g": part}, besides=["é"]).features.column("g").to_pylist() == [1, 2, 1, 3]
    kinds = open_source(path).kinds()
    assert kinds == {"x": "number", "g": "text", "s": "text", "d": "date", "t": "time", "é": kinds["é"]}


@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_bytes_that_are_no_text_concern_their_own_cell(tmp_path, kind):
    path = write_statistics(tmp_path / f"t.{kind}")
    content = path.read_bytes()
    assert content.count("ÄÖ".encode()) == 1
    path.write_bytes(content.replace("ÄÖ".encode(), b"\xff\xfeab"))
    found = read(path, {"s": Categorical(), "x": Numeric()}).features
    assert cells(found.column("s")) == [b"a", b"bcdefgh", b"", b"\xff"]
    assert found.column("x").to_pylist()[:2] == [1, 2.5]


def test_dates_beyond_those_of_python_are_clipped_and_a_damaged_file_is_refused(tmp_path):
    days = pd.DataFrame({"d": [1e300, -1e300, np.nan, 21916.0]})
    pyreadstat.write_dta(days, tmp_path / "t.dta", variable_format={"d": "%td"})
    found = read(tmp_path / "t.dta", {"d": Date()}).features.column("d").to_pylist()
    assert found == [dt.date(9999, 12, 31), dt.date(1, 1, 1), None, dt.date(2020, 1, 2)]
    (tmp_path / "t.sav").write_bytes(b"secret" * 100)
    with pytest.raises(TableError, match=r"cannot be read as a file of the kind \.sav") as raised:
        open_source(tmp_path / "t.sav").names()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("t.xls", "python_calamine", "excel"), ("t.sav", "pyreadstat", "stats")]
)
def test_a_package_that_is_not_there_is_named_by_its_extra(tmp_path, monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(MissingExtraError, match=rf"dpforest\[{extra}\]"):
        open_source(tmp_path / name).names()


def test_an_arrow_file_whose_values_lie_nowhere_is_refused_in_words_and_one_with_odd_text_is_read(tmp_path):
    def texts(offsets, content):
        return pa.StringArray.from_buffers(2, pa.py_buffer(np.array(offsets, np.int32).tobytes()), pa.py_buffer(content))

    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 1000], pa.int32()), pa.array(["u", "v"]), safe=False)
    for number, column in enumerate((beyond, texts([0, 1 << 30, 2], b"uv"), texts([0, 1, 2], b"u\xff"))):
        path, table = tmp_path / f"{number}.arrow", pa.table({"a": column})
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        with nullcontext() if number == 2 else pytest.raises(TableError, match="damaged"):
            assert [batch.num_rows for batch in ArrowFile(path).batches(table.schema, lambda step: None)] == [2]
