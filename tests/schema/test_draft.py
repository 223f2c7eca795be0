"""A draft declares each column by name or by a pattern, which stands for the columns that its words say."""

import fnmatch
import itertools
import tomllib

import numpy as np
import pytest

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.schema import UNFILLED, unfilled
from dpforest.schema.draft import ENTRIES, LEAST_ALIKE, MOST_NAMED, draft, toml_draft
from dpforest.schema.patterns import columns_of_patterns, expanded, matches

N_TABLES = 5
ONE_OF_EACH = {kind: kind for kind in ENTRIES}


def drafted(kinds):
    """The entry that a draft gives to each column, patterns replaced by the columns that they stand for."""
    content = draft(kinds, None) | {"vouched_by": "me", "target": {"name": "y", "kind": "bounded"}}
    found = expanded(Schema.from_dict(content), lambda: [*kinds]).features
    return {name: part.to_dict() for name, part in found.items()}


def entry(kind):
    return Schema.from_dict({"features": {"x": ENTRIES[kind]}, "target": {"kind": "bounded"}}).features["x"].to_dict()


def test_each_kind_has_an_entry_that_is_complete():
    assert drafted(ONE_OF_EACH) == {kind: entry(kind) for kind in ENTRIES}


def test_columns_of_no_use_are_left_out():
    assert [*draft({"a": "number", "b": "other"}, None)["features"]] == ["a"]


@pytest.mark.parametrize(
    ("kind", "labels"), [("text", {"labels": UNFILLED}), ("truth", {"labels": [False, True]}), ("number", {}), ("whole", {})]
)
def test_what_is_open_follows_from_the_kind_of_the_target(kind, labels):
    content = draft({"a": "text", "y": kind}, "y")
    assert content["target"] == {"name": "y", "kind": "classes" if labels else "bounded", **labels}
    assert unfilled(content)[2:] == (["target.labels"] if UNFILLED in labels.values() else [])


def test_without_a_target_its_name_and_kind_are_open():
    assert unfilled(draft({"a": "text"}, None)) == ["vouched_by", "one_row_per_person", "target.name", "target.kind"]


def test_comments_show_what_could_be_added_and_change_nothing():
    content = draft(ONE_OF_EACH, "number")
    text = toml_draft(content)
    assert tomllib.loads(text) == content
    said = {part.split('"')[0]: part for part in text.split('[features."')[1:] for part in [part]}
    assert "# lower = ...\n# upper = ...\n" in said["whole"]
    assert "integer = true" in said["whole"]
    assert "# categories" in said["text"]
    assert "# learn = true" in said["text"]
    assert "#" not in said["truth"]
    assert "# lower" in said["date"]
    assert "time = true" in said["time"]
    assert 'kind = "classes" and labels' in text.split("[features.")[0]


def names_of(rng, n_columns):
    """Names that begin alike in many ways, of which some have a star or are numbers."""
    parts = ["x", "x1", "lab", "_", "__", "lab_", "7", "*", "é", "1_"]
    return dict.fromkeys("".join(rng.choice(parts, rng.integers(1, 4))) + str(rng.integers(0, 40)) for _ in range(n_columns))


def test_a_draft_of_a_wide_table_gives_each_column_its_own_kind():
    rng = np.random.default_rng(0)
    n_short = 0
    for _ in range(N_TABLES):
        kinds = {name: str(rng.choice([*ENTRIES], p=[0.8, 0.04, 0.04, 0.04, 0.04, 0.04])) for name in names_of(rng, 1000)}
        assert len(kinds) > MOST_NAMED
        content = draft(kinds, None)
        n_short += len(content["features"]) < len(kinds)
        assert drafted(kinds) == {name: entry(kind) for name, kind in kinds.items()}
    assert n_short == N_TABLES


def test_names_that_begin_alike_become_patterns_the_longest_first():
    kinds = {f"lab_{name}": "number" for name in "abcdefghijklmnop"} | {f"x{number}": "whole" for number in range(90)}
    kinds |= {"lab_note": "text", "age": "number", "xray": "text", "y": "text"}
    content = draft(kinds, "y")
    assert [*content["features"]] == ["lab_*", "x*", "lab_note", "age", "xray"]
    assert "A name with * stands for all columns" in toml_draft(content)


def test_few_columns_and_few_alike_are_named():
    kinds = {f"x{number}": "number" for number in range(MOST_NAMED)}
    assert [*draft(kinds, None)["features"]] == [*kinds]
    kinds = {f"{letter}{number}": "number" for letter in "abcdefghijkl" for number in range(LEAST_ALIKE - 1)}
    assert [*draft(kinds, None)["features"]] == [*kinds]


# --- patterns --------------------------------------------------------------------------------------------------------


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
