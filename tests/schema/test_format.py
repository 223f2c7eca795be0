"""The format of text files is public, survives every way of keeping a schema, and leaves no trace where it is plain."""

import json

import pytest

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.schema import Format
from dpforest.schema.words import format_words

MESSY = Format(";", "windows-1252", ",", ".", ("-", "?"), {"age": (999, "k.A."), 'na"me': ("-9",)}, "dmy")


def schema_of(format):
    return Schema({"age": Numeric(), 'na"me': Categorical()}, Classes(["no", "yes"]), format=format)


def test_a_plain_format_leaves_no_trace_in_a_schema():
    assert "format" not in schema_of(Format()).to_dict()
    assert Format().to_dict() == {}


def test_numbers_for_missing_are_kept_as_words():
    assert MESSY.missing_in["age"] == ("999", "k.A.")
    assert json.loads(json.dumps(MESSY.to_dict())) == MESSY.to_dict()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        *(({"separator": wrong}, "one character") for wrong in (";;", '"', "\n", "§", None)),
        # In cp424 the byte of p stands for nothing.
        *(({"encoding": wrong}, "is not read") for wrong in ("utf-7", "iso-2022-jp", "rot13", "no such", None, "cp424")),
        ({"decimal": ";"}, "decimal mark"),
        ({"decimal": ",", "thousands": ","}, "mark of thousands"),
        *(({"thousands": wrong}, "mark of thousands") for wrong in ("x", [","])),
        *(({"missing": wrong}, "list of words") for wrong in ("-", [None], [True])),
        ({"missing": ["\ud800"]}, "half a character"),
        ({"missing_in": {"age": ["\ud800"]}}, "half a character"),
        ({"dates": ["dmy"]}, "order of a date"),
        ({"dates": "ydm"}, "ymd, dmy, mdy, not 'ydm'"),
        ({"missing_in": ["999"]}, "maps names of columns"),
        ({"missing_in": {"age": 999}}, "list of words"),
        ({"quote": "'"}, "entries of these names only"),
        ("csv", "entries of these names only"),
    ],
)
def test_what_is_no_format_is_refused_by_a_sentence(entries, words):
    with pytest.raises(SchemaError, match=words):
        Format.from_dict(entries)


@pytest.mark.parametrize(
    ("given", "known"),
    [("UTF8", "utf-8"), ("utf-8-sig", "utf-8"), ("cp1252", "windows-1252"), ("ISO-8859-1", "latin-1"),
     ("UTF-16LE", "utf-16-le")],
)  # fmt: skip
def test_an_encoding_has_one_name(given, known):
    assert Format(encoding=given).encoding == known


def test_a_schema_takes_no_other_format():
    with pytest.raises(SchemaError, match="must be Format"):
        Schema({"x": Numeric()}, Bounded(), format={"separator": ";"})


def test_a_format_in_words():
    assert format_words(MESSY.to_dict()) == (
        "separator ';', encoding 'windows-1252', decimal ',', thousands '.', missing '-' '?', dates 'dmy', missing in age "
        "'999' 'k.A.', missing in na\"me '-9'"
    )


@pytest.mark.parametrize(
    ("dates", "text", "iso"),
    [
        ("dmy", "31.12.2024", "2024-12-31"),
        ("dmy", "1.2.2024", "2024-02-01"),
        ("dmy", " 01/02/2024 14:30 ", "2024-02-01 14:30"),
        ("dmy", "1-2-2024T14:30:05Z", "2024-02-01T14:30:05Z"),
        ("mdy", "12/31/2024", "2024-12-31"),
        ("mdy", "1/2/2024", "2024-01-02"),
        ("dmy", "2024-12-31", "2024-12-31"),
        ("ymd", "31.12.2024", "31.12.2024"),
        ("dmy", "31.12.24", "31.12.24"),
        ("dmy", "31.12.20245", "31.12.20245"),
        ("dmy", "1.2.2024x", "1.2.2024x"),
        ("dmy", "\u0661.\u0662.2024", "\u0661.\u0662.2024"),
        ("dmy", "soon", "soon"),
        ("dmy", "", ""),
    ],
)
def test_dates_in_the_order_of_the_format_are_written_as_iso_does(dates, text, iso):
    assert Format(dates=dates).iso_date(text) == iso


def test_a_column_without_words_for_missing_is_not_named():
    assert Format(missing_in={"age": []}) == Format()
