"""A draft recognises how a file is written from header and first rows together, and says nothing where nothing is sure."""

import json
import random
from dataclasses import replace

import openpyxl
import pytest

from dpforest.errors import TableError
from dpforest.records.doors import open_source
from dpforest.records.drafts import SAMPLE_BYTES, recognise
from dpforest.schema import Format


def found(path, rows, separator=",", encoding="utf-8", header="a,b,c"):
    """The format that is recognised in a file of these rows of cells."""
    lines = [header.replace(",", separator), *(separator.join(row) for row in rows)]
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode(encoding))
    return recognise(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.csv"


def test_a_plain_file_is_plain(path):
    assert found(path, [["1.5", "x", "-3"], ["2", "y, z".replace(",", ""), "4"]] * 20) == Format()
    assert found(path, []) == Format()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_the_one_by_which_rows_have_as_many_cells_as_the_header(path, separator):
    others = "".join(each for each in ",;\t|" if each != separator)
    assert found(path, [["1", f'"{separator}{others}"', "x y"]] * 20, separator).separator == separator
    assert found(path, [["1", f"x{others}y", "z"]] * 20, separator).separator == separator
    assert found(path, [["1", '"two\nlines"', "z"]] * 20, separator).separator == separator


def test_a_single_column_is_no_reason_for_a_separator(path):
    path.write_text("x\n1\n2\n")
    assert recognise(path) == Format()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "windows-1252"])
def test_the_encoding_is_recognised(path, encoding):
    known = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    assert found(path, [["Zürich", "x", "y"]], ";", encoding).encoding == known


def test_big_endian_text_has_its_mark(path):
    path.write_bytes("\ufeffa;b\nä;1\n".encode("utf-16-be"))
    assert recognise(path) == Format(";", "utf-16")


@pytest.mark.slow
def test_a_letter_far_behind_decides_on_the_encoding_and_one_that_is_cut_does_not(path):
    content = b"a,b\n" + b"x,1\n" * 50_000
    path.write_bytes(content + "ü,1\n".encode("windows-1252"))
    assert recognise(path).encoding == "windows-1252"
    path.write_bytes(b"a,b\nx," + b"y" * (SAMPLE_BYTES - 7) + "ü\n".encode())
    assert recognise(path).encoding == "utf-8"


@pytest.mark.parametrize(
    ("cells", "marks"),
    [
        (["1.5", "22.75", "-3"], (".", "")),
        (["1,5", "22,75", "-3"], (",", "")),
        (["1.234,56", "7,5", "12"], (",", ".")),
        (["1,234.56", "7.5", "12"], (".", ",")),
        (["1 234,56", "7,5", "12"], (",", " ")),
        (["1\u202f234,56", "7,5", "12"], (",", " ")),
        (["1'234.56", "7.5", "12"], (".", "'")),
        (["1.234", "5.678", "9"], (".", "")),  # no sign of thousands, so the plainest reading
        (["1,234", "5,678", "9"], (",", "")),  # between semicolons a comma is a decimal mark
        (["1,5", "-", "-"], (",", "")),
        (["x,y", "1,z", "é"], (".", "")),
        (["2020-01-02", "2020-05-06"], (".", "")),
    ],
)
def test_the_marks_of_numbers_are_those_by_which_most_cells_are_numbers(path, cells, marks):
    format = found(path, [[cell, "a, b and c", "."] for cell in cells * 10], ";")
    assert (format.decimal, format.thousands) == marks


def test_quoted_thousands_between_commas_are_thousands(path):
    assert found(path, [['"1,234"', "x", "1"], ['"5,678"', "y", "2"]] * 10).thousands == ","


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1", "2", "-"], ("-",)),
        (["1.5", "?", "--", "n.a."], ("n.a.", "--", "?")),
        (["1", "unknown", "3"], ("unknown",)),
        (["red", "unknown", "blue"], ()),  # it may well be an answer
        (["red", "?", "blue"], ("?",)),
        (["+", "-", "-"], ()),  # a result
        (["2020-01-01", ".", "2021-01-01"], (".",)),
        (["-", "-", "-"], ()),
        (["NA", "1", "2"], ()),  # missing anyway
    ],
)
def test_words_for_missing_are_recognised_beside_what_they_stand_for(path, cells, words):
    assert found(path, [[cell, "x", "1"] for cell in cells * 10]).missing == words


def codes(path, cells):
    return dict(found(path, [[str(cell), "x", "1"] for cell in cells]).missing_in)


def test_numbers_stand_for_missing_only_on_strong_evidence(path):
    draw = random.Random(0)
    ages = [draw.randint(18, 90) for _ in range(200)]
    assert codes(path, [*ages, *[999] * 20]) == {"a": ("999",)}
    assert codes(path, [*ages, *[-9] * 20, *[-99] * 20]) == {"a": ("-9", "-99")}
    assert codes(path, [*ages, *[99] * 20]) == {}  # an age
    assert codes(path, [*ages, 999, 999]) == {}  # not often
    assert codes(path, [*ages, *[500] * 20]) == {}  # no code that is known
    assert codes(path, [*(age * 20 for age in ages), *[999] * 20]) == {}  # among others
    assert codes(path, [1, 2, 3, 999] * 50) == {}  # too few others to be apart from


def test_what_is_known_is_not_recognised(path):
    path.write_text("a;b\n1,5;-\n2,5;3\n" * 5)
    assert recognise(path, lambda format: replace(format, separator="|")).separator == "|"
    with pytest.raises(TableError, match=r"line 2 has 2 cells, and there are 1 names\. By ';' its first line has 2 names"):
        recognise(path, lambda format: replace(format, separator=","))
    assert recognise(path, lambda format: replace(format, decimal=".")).decimal == "."


def test_workbooks_and_json_lines_have_words_for_missing_too(tmp_path):
    made = openpyxl.Workbook()
    for row in [["x", "c"], *[[1, "a"], ["-", "b"], [2, "?"]] * 10]:
        made.active.append(row)
    made.save(tmp_path / "t.xlsx")
    assert recognise(tmp_path / "t.xlsx") == Format(missing=("-", "?"))
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"x": x}) for x in ["1,5", "-", "2"] * 10))
    assert recognise(tmp_path / "t.jsonl") == Format(decimal=",", missing=("-",))


KINDS = {
    "number": (["1,5", "-", "-", "2"], ["0", "0,5", "10"]),
    "truth": (["TRUE", "false", "True", ""],),
    "date": (["2020-01-01", "-", "2020-01-02"], ["31.12.2020", "-", "1.2.2020"], ["2020-01-01T00:00Z", ""]),
    "time": (["31.12.2020 12:30", "1.2.2020 01:05"],),
    "text": (
        ["01", "02", "17"], ["31.12.2020 12:30", "1.2.2020 1:05"], ["1.2.20", "3.4.20"], ["a", "1", "2"], ["", "", "NA"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_guessed_after_the_format(path, kind):
    for cells in KINDS[kind]:
        format = found(path, [[cell, "x", "1,5"] for cell in cells * 10], ";")
        assert open_source(path, format).kinds()["a"] == kind


ORDERS = {
    "dmy": (["31.12.2020", "1.2.2020"], ["31/12/2020", "1/2/2020"], ["1.2.2020", "3.4.2020"]),
    "mdy": (["12/31/2020", "1/2/2020"], ["1/2/2020", "3/4/2020"]),
    "ymd": (["2020-12-31", "2020-01-02"], ["31.12.2020", "soon", "later"]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_dates_is_the_one_by_which_most_cells_are_dates(path, order):
    for cells in ORDERS[order]:
        assert found(path, [[cell, "x", "1"] for cell in cells * 10]).dates == order


def test_bytes_that_are_no_text_are_no_reason_to_fail(path):
    path.write_bytes(b"a,b\n1,x\n" * 10 + b"2,\xff\n" + "é,1\n".encode())
    recognise(path)  # as windows-1252, in which these are characters
    path.write_bytes("\ufeffa,b\n1,x\n".encode("utf-16-le") + b"\x00\xd8,\x001\x00\n\x00")
    assert recognise(path).encoding == "utf-16"
