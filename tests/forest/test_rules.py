"""Rules: class distributions, and rules chosen by released confidence and support."""

import numpy as np
import pytest
from hypothesis import given
from tests.support import naive
from tests.support.strategies import FIXED, classes, forests

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.parts.postprocess import plain_shares
from dpforest.schema.domain import Domain, Grid

TARGET = Classes(["no", "yes"])
DOMAIN = Domain.of(Schema({"x": Numeric(0, 2), "c": Categorical(["a"])}, TARGET), Grid(2))
# Counts of leaves: x below 1 and above.
TREE = (0, [0, 1, 1], [[6, 2], [-1, 12]])


def planted(target=TARGET, tree=TREE):
    return plain_shares(naive.plant(DOMAIN, target, tree).summed())


def test_a_rule_has_the_released_count_and_the_share_of_each_class_noise_and_all():
    distributions = [rule["distribution"] for rule in planted().rules()]
    assert [[part["class"] for part in parts] for parts in distributions] == [["no", "yes"]] * 3
    assert [[part["count"] for part in parts] for parts in distributions] == [[5, 14], [6, 2], [-1, 12]]
    shares = [[part["share"] for part in parts] for parts in distributions]
    assert np.array(shares) == pytest.approx(np.array([[5 / 19, 14 / 19], [0.75, 0.25], [0, 1]]), abs=1e-9)


@pytest.mark.parametrize(
    ("chosen", "nodes"),
    [
        ({}, [0, 1, 2]),
        ({"min_confidence": 0}, [0, 1, 2]),
        ({"min_confidence": 0.75}, [1, 2]),  # at least, so 0.75 itself too
        ({"min_confidence": 0.76}, [2]),
        ({"min_support": 8}, [0, 1, 2]),
        ({"min_support": 8.5}, [0, 2]),
        ({"min_confidence": 0.7, "min_support": 9}, [0, 2]),
        ({"min_confidence": 1}, [2]),
        ({"min_confidence": 1, "min_support": 1e9}, []),
    ],
    ids=str,
)
def test_rules_are_chosen_by_confidence_and_support(chosen, nodes):
    forest = planted()
    assert [rule["node"] for rule in forest.rules(**chosen)] == nodes
    assert forest.rules(**chosen) == [rule for rule in forest.rules() if rule["node"] in nodes]
    lines = dict(zip(range(3), forest.rules_text().split("\n"), strict=True))
    assert forest.rules_text(**chosen) == "\n".join(lines[node] for node in nodes)
    assert forest.rules_text(leaves=True, **chosen) == "\n".join(lines[node] for node in nodes if node)


@FIXED
@given(forests(classes))
def test_any_choice_keeps_what_the_rules_themselves_say(forest):
    forest = plain_shares(forest.summed())
    every = forest.rules()
    for rule in every[:5]:
        least = {"min_confidence": rule["confidence"], "min_support": rule["support"]}
        sure = [other for other in every if other["confidence"] >= rule["confidence"] - 1e-9]
        kept = [other for other in sure if other["support"] >= rule["support"]]
        assert forest.rules(**least) == kept


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("min_confidence", [-0.1, 1.01, np.nan, np.inf, "0.9", True, [0.9], 90], "number from 0 to 1"),
        ("min_support", [-1, np.nan, np.inf, "many", True, [5]], "number of records of at least 0"),
    ],
)
def test_what_is_no_share_or_number_of_records_is_refused(name, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=f"{name} must be a {words}, not "):
            planted().rules_text(**{name: value})


def test_rules_about_a_number_have_no_distribution_and_are_chosen_by_support_alone():
    forest = planted(Bounded(0, 1), (0, [0, 1, 1], [[3, 1], [0, 9]]))
    assert all("distribution" not in rule for rule in forest.rules())
    assert [rule["node"] for rule in forest.rules(min_support=np.float32(9))] == [0, 2]
    with pytest.raises(ParameterError, match="have no confidence; choose them by min_support"):
        forest.rules(min_confidence=0.5)
