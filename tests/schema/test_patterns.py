"""A pattern of a schema stands for the columns that its words say, in every place where a table is given."""

import fnmatch
import itertools

import pytest

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.schema.patterns import columns_of_patterns, expanded, matches

LAB, CODE = Numeric(), Categorical(["a", "b"])
NAMES = ["id", "lab_b", "lab_a", "age", "lab_", "y"]


def schema(**features):
    return Schema({name.replace("ANY", "*"): part for name, part in features.items()}, Classes([0, 1], name="y"))


def columns(given, names=NAMES, **others):
    return [*expanded(given, lambda: names, **others).features.items()]


def test_a_star_is_any_text_as_in_a_shell():
    names = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
    for pattern in ["".join(letters) for length in range(5) for letters in itertools.product("ab*", repeat=length)]:
        assert [name for name in names if matches(pattern, name)] == fnmatch.filter(names, pattern), pattern


@pytest.mark.parametrize("name", ["lab_?", "lab_[a-z]", "lab\n1"])
def test_no_other_character_is_special(name):
    assert matches(f"{name}*", f"{name}2")
    assert not matches(f"{name}*", "lab_x")


def test_many_stars_take_no_time():
    assert not matches("*a" * 2000 + "*b", "a" * 5000)


def test_columns_stand_where_the_pattern_stands_in_the_order_of_the_table():
    given = schema(age=LAB, lab_ANY=CODE, id=LAB)
    assert columns(given) == [("age", LAB), ("lab_b", CODE), ("lab_a", CODE), ("lab_", CODE), ("id", LAB)]


def test_names_win_over_patterns_and_the_first_pattern_over_the_others():
    given = schema(lab_ANY=LAB, ANY=CODE, lab_a=CODE)
    assert dict(columns(given)) == {"lab_b": LAB, "lab_": LAB, "id": CODE, "age": CODE, "lab_a": CODE}


def test_the_target_and_ids_of_persons_match_nothing():
    found = dict(columns(schema(ANY=LAB), besides=["id"]))
    assert list(found) == ["lab_b", "lab_a", "age", "lab_"]


def test_a_column_that_is_called_so_is_no_pattern():
    given = schema(aANYb=LAB)
    assert columns(given, ["a*b", "axb", "y"]) == [("a*b", LAB)]
    assert columns_of_patterns(given, ["a*b", "axb"]) == {}


def test_without_a_pattern_names_are_not_asked_for():
    given = schema(age=LAB)
    assert expanded(given, lambda: pytest.fail("asked")) is given


@pytest.mark.parametrize("patterns", [["nose_*"], ["*", "lab_*"]])
def test_a_pattern_that_matches_nothing_is_refused_in_words(patterns):
    given = Schema(dict.fromkeys(patterns, LAB), Classes([0, 1], name="y"))
    with pytest.raises(TableError, match=r"matches no column of t.csv that is not named otherwise. Its columns are 'id', "):
        expanded(given, lambda: NAMES, "t.csv")


def test_a_table_without_names_is_refused_in_words():
    with pytest.raises(
        TableError, match=r"pattern 'lab_\*', which stands for columns by their names, but the table has none"
    ):
        expanded(schema(lab_ANY=LAB), lambda: None)
