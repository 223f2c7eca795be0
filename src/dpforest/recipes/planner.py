"""The planner of the default recipe: which plan is made. Sees public facts and a released number of rows.

It knows the number of rows (declared, or released with noise), epsilon, delta, and the numbers of features and classes.
"""

import math
from dataclasses import replace

from dpforest.growing.linear import STEPS, Linear
from dpforest.growing.sequential import Phase, Sequential
from dpforest.mechanisms.noise import MOST_VARIANCE
from dpforest.parts.leaves import PARTS, residual_sensitivity, rotated_sensitivity
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.recipes.plans.classes import (
    MORE_CLASSES_WITH_DELTA,
    MOST_MARGINAL_TREES,
    PURE_MORE_CLASSES,
    PURE_TWO_CLASSES,
    TWO_CLASSES_WITH_DELTA,
    WITHOUT_NOISE,
    Shape,
    few_rows,
    is_numeric,
    one_more,
    one_tree,
    sequential,
    signal_of,
)
from dpforest.recipes.plans.means import sequential_means
from dpforest.recipes.plans.sketch import SKETCH, rows_epsilon
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT
from dpforest.schema import TARGET_STEPS

# With delta, but rows * epsilon below this: pure epsilon is better, and it is (epsilon, delta)-DP too.
WITHOUT_DELTA = {"two classes": 400.0, "more classes": 600.0, "a number": 100.0}
# The shapes of trees in sequence, by the kind of target and by whether there is delta.
LINES: dict[tuple[str, bool], tuple[Shape, ...]] = {
    ("two classes", False): PURE_TWO_CLASSES,
    ("two classes", True): TWO_CLASSES_WITH_DELTA,
    ("more classes", False): PURE_MORE_CLASSES,
    ("more classes", True): MORE_CLASSES_WITH_DELTA,
}
# Rows * epsilon without delta below which trees in sequence do not pay.
FEW_ROWS = 900.0
# Below these signals there is one tree; its depth follows from rows * epsilon. A marginal tree sees all of a categorical
# feature but one or two cuts of a number, so mostly numeric tables of many classes stay with one tree for longer.
ONE_TREE = {"two classes": 500.0, "more classes": 500.0, "more classes by numbers": 5_000.0}
# L2 sensitivity squared of leaves, at most; see ``parts.leaves``; a value has 1024 steps.
LARGEST_SQUARE = max(
    rotated_sensitivity(PARTS, TARGET_STEPS).l2_squared, residual_sensitivity(PARTS, MOST_WEIGHT).l2_squared
)


def plan_forest(facts: Facts, n_trees: int | None = None, depth: int | None = None) -> Recipe:
    """The recipe that is planned for these facts; ``n_trees`` and ``depth`` are what the user asks for, if anything."""
    product = rows_epsilon(facts)
    kind = {None: "a number", 1: "two classes", 2: "two classes"}.get(facts.n_classes, "more classes")
    if facts.delta > 0:
        recipe = _plan_for(product, kind, facts, n_trees, depth)
        if product >= WITHOUT_DELTA[kind] and _has_room(recipe, facts, n_trees or recipe.n_trees):
            return recipe
        return replace(plan_forest(replace(facts, delta=0.0), n_trees, depth), without_delta=True)
    return _plan_for(product, kind, facts, n_trees, depth)


def _plan_for(product: float, kind: str, facts: Facts, n_trees: int | None, depth: int | None) -> Recipe:
    """The recipe for facts whose delta is used, if it is above 0."""
    if facts.n_classes is None:
        return sequential_means(facts, n_trees)
    # Without noise many trees cost nothing.
    has_many = facts.delta > 0 or math.isinf(facts.epsilon)
    signal = signal_of(facts)
    is_by_numbers = kind == "more classes" and is_numeric(facts)
    least = ONE_TREE[f"{kind} by numbers" if is_by_numbers else kind]
    is_open = 1 < facts.n_classes <= MOST_CLASSES  # to trees that add up
    if not is_open or (n_trees == 1 and not facts.n_earlier):
        return one_tree(product, facts)
    is_small = not has_many and product < FEW_ROWS and facts.n_features <= MOST_MARGINAL_TREES
    if is_small and n_trees is depth is None and not facts.n_earlier:
        return few_rows(product, facts)
    is_one = n_trees == 1 or (n_trees is None and not has_many and signal < least)
    if is_one and not facts.n_earlier:
        return one_tree(product, facts)
    lines = (WITHOUT_NOISE,) if math.isinf(facts.epsilon) else LINES[kind, facts.delta > 0]
    line = next(line for line in lines if signal < line.below)
    # A deep tree that counts classes starts a sequence; after an earlier model it has to correct, as all others do.
    shape = one_more(product, facts) if facts.n_earlier and (is_one or line.one_tree) else line
    return sequential(shape, facts, n_trees, depth)


def _has_room(recipe: Recipe, facts: Facts, n_trees: int) -> bool:
    """Whether the Gaussian noise of every leaf fits 64 bits, so that no fit fails after a part of its budget is spent."""
    root = math.sqrt(-math.log(facts.delta))
    # A quarter of the least that (epsilon, delta) gives: up to 0.62 of it goes to the target's range, and a little to the
    # number of rows.
    rho = (math.sqrt(root**2 + facts.epsilon) - root) ** 2 / 4
    phases = recipe.stages.phases if isinstance(recipe.stages, Sequential) else (Phase(1.0, n_trees),)
    for phase in phases:
        own, square = rho * phase.share, float(LARGEST_SQUARE)
        if isinstance(phase, Linear):
            own, square = own * min(phase.looks), MOST_MARGINAL_TREES * float(STEPS * MOST_WEIGHT) ** 2
        elif isinstance(phase, Phase):
            step = replace(recipe, **phase.parts)
            own = step.allocate.plan(own / phase.n_trees, step.depth).leaves
        if square / (2 * own) >= MOST_VARIANCE:
            return False
    return True


AUTO = replace(SKETCH, planner=plan_forest)
