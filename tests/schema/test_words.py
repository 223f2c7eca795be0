"""A column is described as its kind is read, and names of columns say which may be ids."""

import pytest

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.schema.patterns import expanded
from dpforest.schema.words import GRID, LIST, SCALE, how_found, in_words, is_id_name, unknowns


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Numeric(), "any number; where the signal pays, a part of the budget finds where they lie"),
        (Numeric(integer=True), "any whole number; where the signal pays, a part of the budget finds where they lie"),
        (Numeric(0), "0 or more; where the signal pays, a part of the budget finds where they lie"),
        (
            Numeric(upper=9, integer=True),
            "at most 9, whole numbers; where the signal pays, a part of the budget finds where they lie",
        ),
        (Numeric(-1.5, 120_000), "-1.5 to 120,000"),
        (Numeric(0, 9, integer=True), "0 to 9, whole numbers"),
        (Bounded(), "any number; a part of the budget finds where they lie"),
        (Bounded(0, 30), "0 to 30"),
        (Categorical(), "any text, in 64 buckets"),
        (Categorical(learn=True), "any text; a part of the budget buys a list of the common ones"),
        (Date(), "a date: day, weekday, month"),
        (Date("2020-01-31", "2024-12-31"), "a date from 2020-01-31 to 2024-12-31: day, weekday, month"),
        (Date(upper="2024-12-31", time=True), "a point in time to 2024-12-31T00:00:00Z: second, weekday, month, hour"),
        (Categorical(["a"]), ""),
        (Classes([0, 1]), ""),
    ],
)
def test_how_a_column_is_read(part, words):
    assert in_words(part) + how_found(part) == words


def test_columns_that_lack_the_same_are_named_together():
    features = {
        "a": Numeric(), "b": Numeric(0, 1), "c": Numeric(0), "d": Date(), "e": Categorical(), "f": Categorical(learn=True),
        "g": Categorical(["x"]),
    }  # fmt: skip
    found = {(each.lacks, each.paid_for): each.columns for each in unknowns(Schema(features, Bounded(name="y")))}
    assert found == {
        ("bounds", GRID): ("a", "c"),
        ("bounds of the target", SCALE): ("y",),
        ("list", LIST): ("f",),
        ("list", ()): ("e",),
    }


@pytest.mark.parametrize("target", [Bounded(0, 1), Classes([0, 1])])
def test_a_schema_that_knows_all_lacks_nothing(target):
    assert (
        unknowns(Schema({"a": Numeric(0, 1), "b": Categorical(["x"]), "c": Date("2020-01-01", "2021-01-01")}, target)) == []
    )


def stating(stated, **features):
    return Schema(features or {"dose": Numeric(0, 1)}, Classes([0, 1], name="well"), one_row_per_person=stated)


@pytest.mark.parametrize(
    "name",
    ["id", "patient_id", "PatID", "IDPatient", "patientid", "person", "case no", "Record Number", "mrn", "SSN", "Kennung",
     "Fallnr", "user.uuid", "id2"],
)  # fmt: skip
def test_a_column_is_like_an_id_by_the_words_of_its_name(name):
    assert is_id_name(name)


@pytest.mark.parametrize(
    "name",
    ["humidity", "paid", "video", "covid", "valid", "fluid", "n_persons", "patient age", "patient no show", "student",
     "case", "education-num", "IDLE", "no", "", "7"],
)  # fmt: skip
def test_letters_of_an_id_inside_of_another_word_are_none(name):
    assert not is_id_name(name)


@pytest.mark.parametrize("stated", [None, True, "patient"])
def test_a_statement_that_was_not_made_leaves_no_trace(stated):
    assert ("one_row_per_person" in stating(stated).to_dict()) == (stated is not None)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (False, "Name the column that does"),
        (1, "must be True, the name"),
        ("", "must be True, the name"),
        ("dose", "neither a feature nor the target"),
        ("well", "neither a feature nor the target"),
    ],
)
def test_what_does_not_say_whose_row_it_is_is_refused(stated, words):
    with pytest.raises(SchemaError, match=words):
        stating(stated)


def test_the_column_of_ids_matches_no_pattern():
    found = expanded(stating("patient", **{"*": Numeric()}), lambda: ["patient", "dose", "well"])
    assert [*found.features] == ["dose"]
