"""Text files are read as their format declares, in blocks of any size, packed or not."""

import bz2
import gzip
import zipfile

import pyarrow as pa
import pytest
from tests.support.crosses import pairwise

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.doors import open_source
from dpforest.records.source import Asked, joined
from dpforest.records.sources import text_files
from dpforest.schema import Format

INF = float("inf")


def read(path, features, format=None, **asked):
    """The columns of a file by a schema whose target is none of them."""
    schema = Schema(features, Bounded(name="no such column"))
    return joined(open_source(path, format).chunks(Asked(schema, **asked)))


def numbers(folder, cells, **format):
    (folder / "t.csv").write_text("x;y\n" + "".join(f"{cell};1\n" for cell in cells), "utf-8")
    return read(folder / "t.csv", {"x": Numeric()}, Format(separator=";", **format)).features.column("x").to_pylist()


@pytest.mark.parametrize(
    ("marks", "cells"),
    [
        (("." , ""), {"1.5": 1.5, "1,5": None, " 2 ": 2, "1e3": 1000, "-0.5": -0.5, "inf": INF, "1 000": None}),
        ((",", ""), {"1,5": 1.5, "1.5": None, "-2,25": -2.25, "1,5e1": 15, ",5": 0.5, "1,2,3": None, "nan": None}),
        ((",", "."), {"1.234,56": 1234.56, "1.234": 1234, "-1.234.567,8": -1234567.8, "7": 7, "x.y": None}),
        ((".", ","), {"1,234.56": 1234.56, "12,34,567": 1234567, "1.5": 1.5}),
        ((",", " "), {"1 234,56": 1234.56, "1\u00a0234": 1234, "1\u202f234,5": 1234.5, "1.5": None}),
        ((".", "'"), {"1'234.56": 1234.56, "1\u2019234": 1234, "1'234'567": 1234567}),
    ],
)  # fmt: skip
def test_numbers_are_read_by_the_marks_of_the_format(tmp_path, marks, cells):
    """All cells together, where one that is no number makes the fast way fail, and each alone."""
    decimal, thousands = marks
    assert numbers(tmp_path, cells, decimal=decimal, thousands=thousands) == [*cells.values()]
    for cell, number in cells.items():
        assert numbers(tmp_path, [cell], decimal=decimal, thousands=thousands) == [number]


ENCODINGS = ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "windows-1252", "latin-1", "cp037"]


@pytest.mark.parametrize(("separator", "encoding", "block"), pairwise([",", ";", "\t", "|"], ENCODINGS, [37, 1 << 20]))
def test_cells_are_the_same_in_every_encoding_and_with_every_separator(tmp_path, monkeypatch, separator, encoding, block):
    monkeypatch.setattr(text_files, "PART_BYTES", block)
    words = ["é", "Straße", 'say "yes"', "two\nlines", "two\r\nlines", f"a{separator}b", " ", "1,5"] * 9
    quoted = ['"' + word.replace('"', '""') + '"' for word in words]
    text = f"größe{separator}n\r\n" + "".join(f"{word}{separator}{n}\r\n" for n, word in enumerate(quoted))
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    found = read(tmp_path / "t.csv", {"größe": Categorical(["x"])}, Format(separator, encoding), besides=["n"])
    assert found.features.column(0).to_pylist() == words
    assert found.besides.column("n").to_pylist() == [str(n) for n in range(len(words))]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    for encoding in ("utf-16", "utf-16-be", "utf-8"):
        (tmp_path / "t.csv").write_bytes("\ufeffa,b\n1,2\n".encode(encoding))
        assert open_source(tmp_path / "t.csv", Format(encoding=encoding)).names() == ["a", "b"]


def packed(path, content):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/t.csv", content)
            archive.writestr("__MACOSX/._t.csv", b"not asked for")
    elif path.suffix == ".zst":
        path.write_bytes(pa.compress(content, "zstd", asbytes=True))
    else:
        path.write_bytes({".gz": gzip, ".bz2": bz2}[path.suffix].compress(content))
    return path


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.zst", "t.csv.zip", "T.CSV.GZ", "t.zip"])
def test_a_packed_file_is_read_as_the_file(tmp_path, name):
    for encoding in ("utf-8", "utf-16"):
        path = packed(tmp_path / name.lower(), "x;y\n1;ä\n2;b\n".encode(encoding)).rename(tmp_path / name)
        found = read(path, {"x": Numeric(), "y": Categorical()}, Format(";", encoding)).features
        assert found.to_pydict() == {"x": [1, 2], "y": ["ä", "b"]}


@pytest.mark.parametrize(
    ("names", "words"), [(["a.csv", "b.csv"], r"holds 2: a\.csv, b\.csv"), (["a.xlsx"], r"kind \.xlsx is not read so")]
)
def test_an_archive_of_several_files_or_of_a_workbook_is_refused(tmp_path, names, words):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "x\n1\n")
    with pytest.raises(TableError, match=words):
        open_source(tmp_path / "t.zip")


def test_a_packed_file_that_is_damaged_is_refused_however_it_was_packed(tmp_path):
    for content in (b"no archive", b""):
        (tmp_path / "t.csv.zip").write_bytes(content)
        with pytest.raises(TableError, match="cannot be unpacked"):
            open_source(tmp_path / "t.csv.zip")
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "t.zip", "w", method) as archive:
            archive.writestr("t.csv", "x,y\n" + "1,2\n" * 500)
        content = bytearray((tmp_path / "t.zip").read_bytes())
        content[45:60] = bytes(byte ^ 0xFF for byte in content[45:60])
        (tmp_path / "t.zip").write_bytes(content)
        with pytest.raises(TableError, match="damaged"):
            read(tmp_path / "t.zip", {"x": Numeric()})


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_utf_16_without_its_mark_is_refused_with_what_to_pass(tmp_path, name):
    (tmp_path / name).write_bytes('{"x": 1}\n'.encode("utf-16-le"))
    with pytest.raises(TableError, match="Pass --encoding utf-16-le"):
        read(tmp_path / name, {"x": Numeric()}, Format(encoding="utf-16"))


MISSING = ["", "NA", "N/A", "NULL", "null", "None", "nan", "NaN", "<NA>", "#N/A", "n/a"]


def test_the_words_of_pandas_are_missing_in_every_column(tmp_path):
    (tmp_path / "t.csv").write_text("x,c\n" + "".join(f'"{word}","{word}"\n' for word in MISSING) + "1,na\n")
    found = read(tmp_path / "t.csv", {"x": Numeric(), "c": Categorical()}).features
    assert found.column("x").to_pylist() == [None] * len(MISSING) + [1]
    assert found.column("c").to_pylist() == [None] * len(MISSING) + ["na"]


def test_further_words_are_missing_where_they_are_declared(tmp_path):
    (tmp_path / "t.csv").write_text("x,c,d\n-,-,-\n999,999,999\n999.0,?,?\n5,a,b\n")
    format = Format(missing=["-"], missing_in={"x": [999], "c": ["?"]})
    found = read(tmp_path / "t.csv", {"x": Numeric(), "c": Categorical(), "d": Categorical()}, format).features
    assert found.to_pydict() == {"x": [None, None, None, 5], "c": [None, "999", None, "a"], "d": [None, "999", "?", "b"]}


def test_a_listed_category_or_label_is_not_missing_in_its_column(tmp_path):
    (tmp_path / "t.csv").write_text("country,other,y\nNA,NA,None\nDE,-,-\n-,DE,yes\n")
    features = {"country": Categorical(["NA", "DE"]), "other": Categorical(["DE", "-"])}
    schema = Schema(features, Classes(["None", "yes"], name="y"), format=Format(missing=["-"]))
    found = joined(open_source(tmp_path / "t.csv", schema.format).chunks(Asked(schema, with_target=True)))
    assert found.features.to_pydict() == {"country": ["NA", "DE", None], "other": [None, "-", "DE"]}
    assert found.target.to_pylist() == ["None", None, "yes"]


LINES = b'x,y\n1,2\n\n"3\n4",5\n6\n7,8\n'


def test_a_line_is_named_to_whoever_holds_the_table_only(tmp_path):
    (tmp_path / "t.csv").write_bytes(LINES)
    schema = Schema({"x": Numeric()}, Bounded(name="y"))
    for names_lines, words in ((True, "begins in line 6 has 1 cells, and there are 2 names"), (False, "names the line")):
        reader = open_source(tmp_path / "t.csv", names_lines=names_lines)
        with pytest.raises(TableError, match=words) as raised:
            list(reader.chunks(Asked(schema)))
        assert "separator ',', encoding utf-8" in str(raised.value)
        assert ("line 6" in str(raised.value)) == names_lines
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(TableError, match="There is no line with names"):
        open_source(tmp_path / "t.csv", names_lines=True).names()


@pytest.mark.parametrize(
    ("content", "format", "words"),
    [
        (b"a;b;c\n1;2;3\n", Format(), "By ';' its first line has 3 names: pass --sep ';'"),
        (b"a\tb\n1\t2\n", Format(";"), "By 'tab' its first line has 2 names: pass --sep 'tab'"),
        (b"a,b\n1,2\n", Format(), r"read by separator ',', encoding utf-8\.$"),
        ("a,b\n1,2\n".encode("utf-16"), Format(encoding="latin-1"), "mark of UTF-16: pass --encoding utf-16"),
        ("a,b\n1,2\n".encode("utf-16"), Format(), "are no text.*mark of UTF-16: pass --encoding utf-16"),
        ("ä,b\n1,2\n".encode("latin-1"), Format(), "are no text.*--encoding windows-1252"),
    ],
)
def test_a_missing_column_comes_with_what_to_pass(tmp_path, content, format, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(TableError, match=words):
        read(tmp_path / "t.csv", {"x": Numeric()}, format)


def test_a_listed_number_or_missing_value_is_what_its_word_stands_for_in_its_column(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n999,999\n1,1\n999.0,x\n")
    features = {"a": Categorical([1, 999]), "b": Categorical([1])}
    found = read(tmp_path / "t.csv", features, Format(missing=["999"])).features
    assert found.to_pydict() == {"a": [999, 1, 999], "b": [None, 1, None]}
    (tmp_path / "t.csv").write_text("a,b\nNA,1\n,2\na,-\n-,3\n")
    found = read(tmp_path / "t.csv", {"a": Categorical(["a", None])}, Format(missing=["-"])).features
    assert found.column("a").to_pylist() == [None, None, "a", None]


def test_ids_are_as_they_are_written_and_words_for_missing_are_no_ids(tmp_path):
    (tmp_path / "t.csv").write_text("x,id\n1,007\n2,NA\n3, a \n")
    found = read(tmp_path / "t.csv", {"x": Numeric()}, besides=["id"]).besides
    assert found.column("id").to_pylist() == ["007", None, " a "]
