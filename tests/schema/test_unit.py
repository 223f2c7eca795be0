"""A schema states whether one row is one person, and names of columns say which may be ids."""

import pytest

from dpforest import Classes, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.schema.patterns import expanded
from dpforest.schema.words import is_id_name


def schema(stated, **features):
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
    assert ("one_row_per_person" in schema(stated).to_dict()) == (stated is not None)


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
        schema(stated)


def test_the_column_of_ids_matches_no_pattern():
    found = expanded(schema("patient", **{"*": Numeric()}), lambda: ["patient", "dose", "well"])
    assert [*found.features] == ["dose"]
