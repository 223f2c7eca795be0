"""What is said of a column is what its kind does."""

import pytest

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.schema.words import GRID, LIST, SCALE, how_found, in_words, unknowns


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
