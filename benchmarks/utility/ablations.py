"""The default recipe without one of its parts: what each part is worth."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpforest.growing.linear import LinearScore, Order
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import MaxOperator, SquaredError
from dpforest.parts.leaves import NoisyCounts, ResidualSums, Rotated, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.proposals import OneAgainstRest, Thresholds
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.parts.voting import MeanOfShares
from dpforest.recipes.planner import PURE_MORE_CLASSES, PURE_TWO_CLASSES, SKETCH, plan_forest
from dpforest.recipes.planner import one_tree as plan_one_tree
from dpforest.recipes.planner import sequential as plan_sequential
from dpforest.schema.grid import Grid

CLASSES, NUMBERS = ("classification",), ("regression",)


def _changed(change: Callable[[Recipe, Facts], dict[str, Any]], tasks: tuple[str, ...]) -> Recipe:
    """The default recipe with some parts of what was planned changed."""

    def planner(facts: Facts, n_trees: int | None, depth: int | None) -> Recipe:
        recipe = plan_forest(facts, n_trees, depth)
        return replace(recipe, **change(recipe, facts))

    return replace(SKETCH, planner=planner, tasks=tasks)


def _if_sequential(**parts: Any) -> Callable[[Recipe, Facts], dict[str, Any]]:
    return lambda recipe, facts: parts if isinstance(recipe.stages, Sequential) else {}


def _equal_noise(recipe: Recipe, facts: Facts) -> dict[str, Any]:
    if isinstance(recipe.leaf, Rotated):
        return {"leaf": NoisyCounts()}
    return {"leaf": ResidualSums(1.0)} if isinstance(recipe.leaf, ResidualSums) else {}


def _at_once(recipe: Recipe, facts: Facts) -> dict[str, Any]:
    """The same trees, none after the other: all on records that count once, their shares averaged."""
    if not isinstance(recipe.stages, Sequential):
        return {}
    parts = {"stages": None, "leaf": NoisyCounts(), "vote": MeanOfShares(), "refine": SKETCH.refine}
    return parts | _own_class_only(recipe, facts)


def _own_class_only(recipe: Recipe, facts: Facts) -> dict[str, Any]:
    return {"criterion": MaxOperator()} if recipe.criterion.sees == "residuals" else {}


def _one_tree(facts: Facts, n_trees: int | None, depth: int | None) -> Recipe:
    return plan_one_tree(max(facts.n_rows, 0) * facts.epsilon, facts)


def _never_one(facts: Facts, n_trees: int | None, depth: int | None) -> Recipe:
    recipe = plan_forest(facts, n_trees, depth)
    if isinstance(recipe.stages, Sequential) and not isinstance(recipe.stages.phases[-1], Order):
        return recipe
    lines = PURE_TWO_CLASSES if facts.n_classes == 2 else PURE_MORE_CLASSES
    return replace(plan_sequential(lines[0], replace(facts, delta=0.0), None, None), without_delta=recipe.without_delta)


def _no_score(facts: Facts, n_trees: int | None, depth: int | None) -> Recipe:
    recipe = plan_forest(facts, n_trees, depth)
    steps = recipe.stages.phases if isinstance(recipe.stages, Sequential) else ()
    if not any(isinstance(step, LinearScore | Order) for step in steps):
        return recipe
    if isinstance(steps[-1], LinearScore | Order):
        return replace(_one_tree(facts, n_trees, depth), without_delta=recipe.without_delta)
    phases = [step for step in steps if isinstance(step, Phase) and step.parts.get("depth") != 0]
    left = sum(phase.share for phase in phases)
    kept = Sequential(tuple(replace(phase, share=phase.share / left) for phase in phases))
    return replace(recipe, stages=kept, n_trees=kept.n_trees)


def _all_features(recipe: Recipe, facts: Facts) -> dict[str, Any]:
    return {"propose": replace(recipe.propose, n_features=None)}


def _no_subsets(recipe: Recipe, facts: Facts) -> dict[str, Any]:
    return {"propose": replace(recipe.propose, kinds=(Thresholds(), OneAgainstRest()))}


def _chosen_trees_only(recipe: Recipe, facts: Facts) -> dict[str, Any]:
    if not isinstance(recipe.stages, Sequential):
        return {}
    chosen = recipe.stages.phases[-1]
    if not isinstance(chosen, Phase):
        return {}
    return {"stages": Sequential((replace(chosen, share=1.0),)), "n_trees": chosen.n_trees}


ABLATIONS: dict[str, Recipe] = {
    "one tree at every budget": replace(SKETCH, planner=_one_tree, tasks=CLASSES),
    "sequential trees at every budget": replace(SKETCH, planner=_never_one, tasks=CLASSES),
    "no linear score, no labels": replace(SKETCH, planner=_no_score, tasks=CLASSES),
    "all trees at once, records count once": _changed(_at_once, CLASSES),
    "max operator instead of all residuals": _changed(_own_class_only, CLASSES),
    "no marginal or deep trees, no linear score first": _changed(_chosen_trees_only, CLASSES),
    "equal noise on margin and mass": _changed(_equal_noise, CLASSES),
    "little shrinkage (half a standard deviation)": _changed(_if_sequential(refine=(EvenShrinkage(0.5),)), CLASSES),
    "no geometric cuts": _changed(lambda recipe, facts: {"grid": Grid(recipe.grid.bins)}, CLASSES),
    "all features at every node": _changed(_all_features, CLASSES),
    "no random subsets of categories": _changed(_no_subsets, CLASSES),
    "half of a tree's budget to splits": _changed(_if_sequential(allocate=Uniform(split_share=0.5)), CLASSES),
    "no private range of the target": _changed(lambda recipe, facts: {"target_range": None}, NUMBERS),
    "squared error instead of soft agreement": _changed(
        lambda recipe, facts: {"criterion": SquaredError(), "centres": None}, NUMBERS
    ),
    "one tree for a number": _changed(lambda recipe, facts: {"n_trees": 1}, NUMBERS),
    "two-bin leaves": _changed(lambda recipe, facts: {"leaf": TwoBinMean()}, NUMBERS),
    "32 bins instead of 128": _changed(lambda recipe, facts: {"grid": Grid(32)}, NUMBERS),
}
