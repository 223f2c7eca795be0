"""What the library did not prove it does not vouch for: a recipe or a part of one's own is said to be that everywhere."""

import json
from dataclasses import dataclass, replace
from functools import partial, wraps

import numpy as np
import pytest

from dpforest import Budget, Classes, DPForestClassifier, Numeric, Schema, get_recipe, load_model
from dpforest.errors import ParameterError
from dpforest.growing.sequential import Phase, Sequential
from dpforest.mechanisms import Entropy
from dpforest.parts.criteria import Criterion, GiniCount
from dpforest.parts.leaves import LeafRelease, NoisyCounts
from dpforest.parts.recipe import ByTarget, Recipe, Stages
from dpforest.parts.sampling import Sampling
from dpforest.parts.shape import HalfTheFeatures, Rule, Stop
from dpforest.parts.voting import Vote
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.recipes import is_listed
from dpforest.recipes.catalogue import outside_parts
from dpforest.recipes.planner import plan_forest

SCHEMA = Schema({"a": Numeric(0, 7, integer=True), "b": Numeric(0, 7, integer=True)}, Classes([0, 1]))
BASE = get_recipe("jagannathan-2009")


class TwoReleases(NoisyCounts):
    """Loses twice what it charges: two releases about the same records are charged as if they were about different ones."""

    def release(self, statistics, amount, gate, target, label, most=1):
        with gate.ledger.scope("two releases", "parallel"):
            (first, variance), (second, _) = (
                super(TwoReleases, self).release(statistics, amount, gate, target, label, most) for _ in range(2)
            )
        return (first + second) / 2, variance / 2


class Chameleon(NoisyCounts):
    """Says of itself that it equals whatever it is compared with."""

    __hash__ = NoisyCounts.__hash__

    def __eq__(self, other):
        return True


class OwnRecipe(Recipe):
    pass


@dataclass(frozen=True)
class OwnDepth(Rule):
    def value(self, facts):
        return 2


@wraps(plan_forest)
def wrapped(*arguments):
    return plan_forest(*arguments)


class Planner:
    def plan(self, facts, n_trees, depth):
        return plan_forest(facts, n_trees, depth)


OF_THE_LIBRARY = replace(BASE, name="mine", title="Mine alone", paper="My notebook", claim="proved by me", depth=2)
FROM_OUTSIDE = replace(OF_THE_LIBRARY, leaf=TwoReleases())


def fitted(recipe, kind=DPForestClassifier, **named):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (200, 2)).astype(float)
    return kind(SCHEMA, epsilon=1.0, recipe=recipe, **named).fit(X, (X[:, 0] > 3).astype(int))


def test_a_model_of_the_catalogue_says_so_and_nothing_else_and_a_word_lets_no_other_part_in():
    privacy = fitted("jagannathan-2009").privacy_
    assert (privacy.own_recipe, privacy.outside) == (False, ())
    assert not any(words in str(privacy) for words in ("own recipe", "outside"))
    assert fitted(BASE.with_parameters(None)).privacy_ == privacy
    recipe = get_recipe("friedman-schuster-2010")
    assert is_listed(replace(recipe, criterion=recipe.with_parameters({"criterion": "gini"}).criterion))
    assert not is_listed(replace(recipe, criterion=get_recipe("zhang-2021").criterion))


# Recipes with a part from outside, and the name under which it is found.
OUTSIDE = {
    "leaf": (replace(BASE, leaf=TwoReleases()), "TwoReleases"),
    "equal to all": (replace(BASE, leaf=Chameleon()), "Chameleon"),
    "one target": (replace(BASE, leaf=ByTarget(TwoReleases(), None)), "TwoReleases"),
    "rule": (replace(BASE, depth=OwnDepth()), "OwnDepth"),
    "phase": (replace(BASE, stages=Sequential((Phase(1.0, 1, {"leaf": TwoReleases()}),))), "TwoReleases"),
    "lambda": (replace(BASE, planner=lambda facts, n_trees, depth: BASE), "<lambda>"),
    "wrapped": (replace(get_recipe("auto"), planner=wrapped), "wrapped"),
    "part of a function": (replace(BASE, planner=partial(plan_forest, OwnDepth())), "OwnDepth"),
    "method": (replace(BASE, planner=Planner().plan), "Planner"),
    "class": (replace(BASE, refine=(TwoReleases,)), "TwoReleases"),
    "recipe": (OwnRecipe(**vars(BASE)), "OwnRecipe"),
}


@pytest.mark.parametrize("title", OUTSIDE)
def test_a_part_from_outside_is_found_wherever_it_hides(title):
    recipe, name = OUTSIDE[title]
    found = [part for part in outside_parts(recipe) if name in part]
    assert found
    assert found[0].startswith(__name__)
    assert not is_listed(recipe)


def test_a_schema_of_a_class_from_outside_is_named():
    class OwnClasses(Classes):
        pass

    schema = Schema(dict(SCHEMA.features), OwnClasses([0, 1]))
    model = DPForestClassifier(schema).fit([[1.0, 2.0]], [1])
    assert any("OwnClasses" in part for part in model.privacy_.outside)


def test_parts_and_values_of_the_library_are_not_from_outside():
    own = replace(BASE, criterion=ByTarget(GiniCount(), None), depth=HalfTheFeatures(), n_rows_share=np.float64(0.1))
    own = replace(own, stages=Sequential((Phase(1.0, 2, {"leaf": NoisyCounts()}),)), planner=partial(plan_forest))
    assert outside_parts(own) == ()
    around = [own]
    around.append(around)  # a circle ends
    assert outside_parts(around) == ()


def test_an_own_part_has_what_its_kind_says_unless_it_says_otherwise():
    assert fitted(replace(OF_THE_LIBRARY, depth=OwnDepth())).forest_.depth == 2
    assert not OwnDepth().needs_rows


def test_a_part_that_does_not_say_what_it_needs_is_refused_before_a_charge():
    class Loose:
        def value(self, facts):
            return 2

    model = DPForestClassifier(SCHEMA, recipe=replace(OF_THE_LIBRARY, depth=Loose()))
    with pytest.raises(ParameterError, match="Loose of recipe 'mine' does not say what it needs"):
        model.fit([[1.0, 2.0]], [1])
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize("kind", [Criterion, LeafRelease, Rule, Sampling, Stages, Stop, Vote])
def test_a_flag_that_is_misspelt_is_an_error(kind):
    for flag in ("needs_row", "need", "residual", "in_sequenze"):
        for more in ({}, {"__annotations__": {flag: "ClassVar[bool]"}}):
            with pytest.raises(TypeError, match=f"Own.{flag} is not declared"):
                type("Own", (kind,), {flag: True, **more})
    assert type("Own", (kind,), {"needs_rows": True})().needs_rows


def test_what_a_parameter_could_be_set_to_has_not_run():
    open_to = replace(BASE, name="mine", parameters={"leaf": ("leaf", {"two": TwoReleases()})})
    assert fitted(open_to).privacy_.outside == ()
    assert fitted(open_to, recipe_params={"leaf": "two"}).privacy_.outside == (f"{__name__}.TwoReleases",)


def test_an_own_recipe_is_not_reviewed_and_names_parts_from_outside_first():
    reviewed, outside = fitted(OF_THE_LIBRARY).privacy_, fitted(FROM_OUTSIDE).privacy_
    assert reviewed.holds
    assert reviewed.sentence.endswith(
        "Own recipe 'mine' made of the library's parts: each part is proved there, the combination was composed by its "
        "rules and was not reviewed."
    )
    assert outside.holds
    assert str(outside).startswith("Not proved by the library: own recipe 'mine' with parts from outside the library")
    for words in (
        f"({__name__}.TwoReleases)",
        "they were not proved here. If what they declare is true, this model is differentially private with",
    ):
        assert words in str(outside)


@pytest.mark.parametrize("recipe", [OF_THE_LIBRARY, FROM_OUTSIDE, replace(FROM_OUTSIDE, name="auto")])
def test_statement_ledger_and_file_say_whose_recipe_it_is(recipe, tmp_path):
    model = fitted(recipe)
    model.save(tmp_path / "m.dpf")
    again = load_model(tmp_path / "m.dpf")
    assert (again.privacy_, again.ledger_) == (model.privacy_, model.ledger_)
    for each in (model, again):
        assert each.privacy_.to_dict()["own_recipe"] is True
        assert each.privacy_.to_dict()["proof"] == each.ledger_.to_dict()["proof"]
        assert Ledger.from_json(each.ledger_.to_json()).proof.startswith(f"own recipe {recipe.name!r}")
        assert Statement.from_dict(json.loads(json.dumps(each.privacy_.to_dict()))) == model.privacy_
        assert ("TwoReleases" in each.to_json()) == (recipe is not OF_THE_LIBRARY)


def test_charges_of_a_fit_that_fails_say_whose_recipe_it_was():
    def stop(step):
        raise KeyboardInterrupt

    model = DPForestClassifier(SCHEMA, recipe=FROM_OUTSIDE)
    with pytest.raises(KeyboardInterrupt):
        model.fit([[1.0, 2.0]], [1], progress=stop)
    assert "not proved here" in model.ledger_.to_dict()["proof"]


def test_an_estimator_from_outside_is_not_vouched_for_either():
    class Quiet(Gate):
        pass

    class OwnForest(DPForestClassifier):
        @staticmethod
        def _make_gate(ledger, random_state):
            return Quiet(ledger, Entropy(random_state))

    privacy = fitted("auto", OwnForest).privacy_
    assert not privacy.own_recipe
    assert "OwnForest" in privacy.outside[0]
    assert str(privacy).startswith("Not proved by the library: recipe 'auto' of the library with parts from outside")


def test_a_budget_tells_an_own_recipe_from_one_of_the_catalogue(tmp_path):
    budget = Budget.open(tmp_path / "b.db", "ward", epsilon=3.0)
    fitted(replace(FROM_OUTSIDE, name="auto"), budget=budget)
    fitted("auto", budget=budget)
    assert [entry["what"] for entry in budget.history()] == ["fit own recipe auto", "fit auto"]


def test_an_own_recipe_has_no_printed_form():
    printed = get_recipe("consul-2020")
    with pytest.raises(ParameterError, match="not the catalogue's"):
        fitted(replace(printed, leaf=TwoReleases()), variant="published")
