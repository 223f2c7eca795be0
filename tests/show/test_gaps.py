"""What is said to be spent because of what a schema does not know is what the ledger says."""

import math

import pytest

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.common.text import NOTHING
from dpforest.errors import SchemaError
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.show.gaps import gaps
from dpforest.show.plan import explain
from dpforest.show.report.content import report_content

SCHEMA = Schema(
    {"a": Numeric(), "b": Categorical(), "c": Categorical(learn=True), "d": Numeric(0, 1)}, Bounded(name="y"), n_rows=100
)
KNOWN = Schema({"a": Numeric(0, 1), "b": Categorical(["x", "y"])}, Classes([0, 1]), n_rows=100)


def ledger(epsilon=1.0):
    made = Ledger(make_accountant(epsilon, 0.0))
    for purpose, amount in (
        (Purpose("grid", "middle", round=1), 0.1), (Purpose("grid", "quarters"), 0.1),
        (Purpose("spread of the target"), 0.05), (Purpose("splits", level=0), 0.25),
    ):  # fmt: skip
        made.charge(purpose, "geometric", amount if math.isfinite(epsilon) else math.inf)
    return made


def test_shares_are_those_of_all_charges_of_a_kind():
    assert [(gap.unknown.columns, gap.share) for gap in gaps(SCHEMA, ledger())] == [
        (("a",), pytest.approx(0.4)), (("y",), pytest.approx(0.1)), (("c",), 0.0), (("b",), 0.0),
    ]  # fmt: skip


def test_words_say_what_was_spent_and_what_more_would_buy():
    said = [gap.sentences for gap in gaps(SCHEMA, ledger())]
    assert said[0].startswith("40 % of the loss was spent to find where numbers lie. With lower and upper ")
    assert said[2].startswith("Nothing is paid to find the common values. With a public list ")
    assert said[3].startswith("Values share 64 buckets, which costs nothing. With a public list ")


def test_an_infinite_loss_has_no_shares():
    found = gaps(SCHEMA, ledger(math.inf))
    assert {gap.share for gap in found} == {None}
    assert found[0].sentences.startswith("Cuts lie at every scale, which costs nothing. With lower and upper ")


def test_a_plan_has_a_line_for_each_gap_and_none_where_all_is_known():
    schema = Schema({"a": Numeric(), "b": Categorical()}, Classes([0, 1]), n_rows=100)
    lines = explain(schema, None, 1.0).unknown
    assert [line.what for line in lines] == ["bounds: a", "list: b"]
    assert lines[1].why.startswith("values share 64 buckets, which costs nothing; with a public list ")
    assert explain(schema, None, math.inf).unknown[0].value == NOTHING
    assert explain(KNOWN, None, 1.0).unknown == ()


def test_a_plan_needs_to_know_what_patterns_stand_for():
    with pytest.raises(SchemaError, match=r"pattern 'lab_\*': how many columns it stands for decides the plan"):
        explain(Schema({"lab_*": Numeric()}, Classes([0, 1])), 100, 1.0)
    plan = explain(Schema({"lab_*": Numeric()}, Classes([0, 1])), 100, 1.0, columns=["lab_*"])  # a column that is called so
    assert plan.unknown[0].what == "bounds: lab_*"
    plan = explain(Schema({"lab_*": Numeric()}, Classes([0, 1])), 100, 1.0, columns=["lab_1", "lab_2"])
    assert plan.unknown[0].what == "bounds: lab_1, lab_2"


def test_a_report_says_what_was_not_known():
    schema = Schema({"a": Numeric(), "b": Numeric(0, 1)}, Classes([0, 1]))
    inputs = report_content(DPForestClassifier(schema).fit([[1, 0.5]] * 20, [0, 1] * 10))["inputs"]
    assert [(gap["lacks"], gap["columns"]) for gap in inputs["unknown"]] == [("bounds", ["a"])]
    assert [feature["words"] for feature in inputs["features"]] == ["any number", "0 to 1"]
    known = DPForestClassifier(KNOWN).fit([[1, "x"]] * 20, [0, 1] * 10)
    assert report_content(known)["inputs"]["unknown"] == []
