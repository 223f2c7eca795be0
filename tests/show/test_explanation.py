"""The plan in words is the plan that runs, its shares are those of the ledger, and so is what a schema lacks."""

import math
from collections import defaultdict

import numpy as np
import pytest
from tests.support.crosses import pairwise

from benchmarks.utility.ablations import ABLATIONS
from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, get_recipe
from dpforest.common.text import NOTHING
from dpforest.errors import ParameterError, SchemaError
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.composition import entries, shared
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.show.charges import gaps
from dpforest.show.plan import explain
from dpforest.show.report.content import report_content

FEATURES = {"a": Numeric(0, 1), "b": Numeric(-3, 3), "c": Categorical(["x", "y", "z"])}
TARGETS = {"two": Classes([0, 1]), "four": Classes([0, 1, 2, 3]), "number": Bounded(0, 10)}


def schema_of(name: str, n_rows: int | None = None) -> Schema:
    return Schema(FEATURES, TARGETS[name], n_rows=n_rows)


def dry_run(schema: Schema, **budget):
    """A fit on no rows: what is charged follows from the declared number alone."""
    kind = DPForestRegressor if isinstance(schema.target, Bounded) else DPForestClassifier
    return kind(schema, **budget).fit(np.empty((0, 3), dtype=object), np.empty(0))


def percent(text: str) -> float:
    return float(text.rstrip("%")) / 100


def without_second_look(schema, delta):
    """A model of no rows whose target was looked for in three steps: by what it finds, a fit may take more or fewer."""
    models = (dry_run(schema, epsilon=1.0, delta=delta) for _ in range(200))
    found = ((model, sum("of the target" in entry["label"] for entry in model.ledger_.entries())) for model in models)
    return next(model for model, n_steps in found if n_steps in (0, 3))


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "name", "delta"), pairwise([30, 3_000, 40_000, 3_000_000], [*TARGETS], [0.0, 1e-6]))
def test_shares_are_those_of_the_ledger(n_rows, name, delta):
    schema = schema_of(name, n_rows)
    plan, model = explain(schema, None, 1.0, delta), without_second_look(schema, delta)
    (book,) = model.ledger_.books
    (root,), charged = shared([(book.root, book.accountant)]), defaultdict(float)
    for (_, entry), share in zip(entries(book.root), root.shares, strict=True):
        charged[entry.purpose.kind] += float(share) * book.total / book.accountant.budget
    shares = {line.what: percent(line.value) for line in plan.shares}
    assert sum(shares.values()) == pytest.approx(1, abs=0.003)
    assert shares.keys() == charged.keys()
    if name != "number":  # where what a step on the range of the target leaves to the others follows from what it finds
        assert shares == pytest.approx(charged, abs=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_numbers_of_trees_are_those_of_the_forest(name):
    for n_rows, n_trees in [(30, None), (3_000_000, None), (20_000, 7), (20_000, 1)]:
        plan = explain(schema_of(name, n_rows), None, 1.0, n_trees=n_trees)
        names = ("trees", "deep tree", "tree without splits")
        trees = sum(int(line.value) for line in plan.choices if line.what.endswith(names))
        found = dry_run(schema_of(name, n_rows), epsilon=1.0, n_trees=n_trees).forest_.n_trees
        # A tree for each feature that has a map.
        has_score = any(line.what in ("linear score", "order") for line in plan.choices)
        assert trees < found if has_score else trees == found


def test_a_noisy_number_of_rows_is_paid_for():
    plan = explain(schema_of("two"), 5_000, 1.0)
    assert (plan.shares[0].what, plan.shares[0].value) == ("number of rows", "2.0%")
    assert "your guess" in plan.choices[0].why
    assert all(line.what != "number of rows" for line in explain(schema_of("two", 5_000), None, 1.0).shares)


def test_the_kind_of_release_is_named():
    budgets = {(10_000, 1.0, 0.0): "pure epsilon", (10_000, 1.0, 1e-6): "zCDP", (20, 1.0, 1e-6): "pure epsilon"}
    for (n_rows, epsilon, delta), said in (budgets | {(20, np.inf, 0.0): "exact"}).items():
        choices = explain(schema_of("two", n_rows), None, epsilon, delta).choices
        assert [line.value for line in choices if line.what == "releases"] == [said]


def test_noise_that_differs_between_leaves_is_said_to_be_an_average():
    mixed = Schema({"x": Numeric(0, 1), "c": Categorical(list("abcdefgh"))}, Classes([0, 1]), n_rows=5000)
    marginal, own = explain(mixed, None, 1.0).noise
    assert marginal.what == "leaf of the marginal trees"
    assert marginal.value.endswith(" on average")
    assert not own.value.endswith(" on average")


def test_a_plan_needs_a_number_of_rows_and_a_budget():
    with pytest.raises(ParameterError, match="how many you expect"):
        explain(schema_of("two"), None, 1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        explain(schema_of("two"), 100, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ABLATIONS)
def test_each_ablation_trains_and_spends_what_it_has(name):
    recipe = ABLATIONS[name]
    target = "number" if recipe.tasks == ("regression",) else "four"
    for n_rows, delta in ((100, 1e-6), (20_000, 0.0)):
        model = dry_run(schema_of(target, n_rows), epsilon=1.0, delta=delta, recipe=recipe)
        assert model.ledger_.spent == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("recipe", ["mu-2016", "hou-2019", "li-2022", "patil-singh-2014", "consul-2020"])
@pytest.mark.parametrize("n_rows", [None, 5_000])
def test_the_plan_of_any_recipe_names_its_parts_and_where_all_of_the_budget_goes(recipe, n_rows):
    plan = explain(schema_of("two", n_rows), 5_000, 1.0, recipe=recipe)
    assert sum(percent(line.value) for line in plan.shares) == pytest.approx(1, abs=0.003)
    is_bought = n_rows is None and get_recipe(recipe).needs_rows
    assert [line.what for line in plan.shares if line.what == "number of rows"] == ["number of rows"] * is_bought
    choices = {line.what: line for line in plan.choices}
    leaf = get_recipe(recipe).leaf
    assert choices["a leaf releases"].value == type(getattr(leaf, "classes", leaf)).__name__
    assert all(line.why for line in plan.choices)


def test_a_recipe_for_another_task_has_no_plan():
    with pytest.raises(SchemaError, match="is for classification, not for regression"):
        explain(schema_of("number", 5_000), None, 1.0, recipe="mu-2016")


# What a schema lacks

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


def test_what_is_said_to_be_spent_on_what_a_schema_lacks_is_what_the_ledger_says():
    found = gaps(SCHEMA, ledger())
    assert [gap.unknown.columns for gap in found] == [("a",), ("y",), ("c",), ("b",)]
    assert [gap.share for gap in found] == pytest.approx([0.4, 0.1, 0.0, 0.0])
    said = [gap.sentences for gap in found]
    assert said[0].startswith("40 % of the loss was spent to find where numbers lie. With lower and upper ")
    assert said[2].startswith("Nothing is paid to find the common values. With a public list ")
    assert said[3].startswith("Values share 64 buckets, which costs nothing. With a public list ")
    endless = gaps(SCHEMA, ledger(math.inf))
    assert {gap.share for gap in endless} == {None}
    assert endless[0].sentences.startswith("Cuts lie at every scale, which costs nothing. With lower and upper ")


def test_a_plan_has_a_line_for_each_gap_and_none_where_all_is_known():
    schema = Schema({"a": Numeric(), "b": Categorical()}, Classes([0, 1]), n_rows=100)
    lines = explain(schema, None, 1.0).unknown
    assert [line.what for line in lines] == ["bounds: a", "list: b"]
    assert lines[1].why.startswith("values share 64 buckets, which costs nothing; with a public list ")
    assert explain(schema, None, math.inf).unknown[0].value == NOTHING
    assert explain(KNOWN, None, 1.0).unknown == ()


def test_a_plan_needs_to_know_what_patterns_stand_for():
    schema = Schema({"lab_*": Numeric()}, Classes([0, 1]))
    with pytest.raises(SchemaError, match=r"pattern 'lab_\*': how many columns it stands for decides the plan"):
        explain(schema, 100, 1.0)
    for columns in (["lab_*"], ["lab_1", "lab_2"]):  # the first is a column that is called so
        assert explain(schema, 100, 1.0, columns=columns).unknown[0].what == f"bounds: {', '.join(columns)}"


def test_a_report_says_what_was_not_known():
    schema = Schema({"a": Numeric(), "b": Numeric(0, 1)}, Classes([0, 1]))
    inputs = report_content(DPForestClassifier(schema).fit([[1, 0.5]] * 20, [0, 1] * 10))["inputs"]
    assert [(gap["lacks"], gap["columns"]) for gap in inputs["unknown"]] == [("bounds", ["a"])]
    assert [feature["words"] for feature in inputs["features"]] == ["any number", "0 to 1"]
    known = DPForestClassifier(KNOWN).fit([[1, "x"]] * 20, [0, 1] * 10)
    assert report_content(known)["inputs"]["unknown"] == []
