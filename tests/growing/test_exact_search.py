"""Without noise the first splits of a tree are those of an exact search over everything that is offered."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.support import naive
from tests.support.strategies import recipe_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.parts.criteria import SquaredError
from dpforest.parts.leaves import TwoBinMean
from dpforest.schema import TARGET_STEPS
from dpforest.schema.domain import Domain

# Scores are rounded down to 1/64 of a record (or of a squared range) in each of two children.
ROUNDING = Fraction(2, 64)

NUMBERS = {"x": Numeric(0, 1), "k": Numeric(0, 5, integer=True), "w": Numeric(-3, 3)}
WORDS = {"c": Categorical(["a", "b", "c"]), "d": Categorical(["u", "v"]), "e": Categorical([1, 2, 3, 4])}
FEATURES = {"numbers": NUMBERS, "words": WORDS, "mixed": NUMBERS | WORDS}


def random_column(part, n_rows, rng):
    if isinstance(part, Categorical):
        return rng.choice(np.array([*part.categories, "unlisted", None], dtype=object), n_rows)
    column = rng.uniform(part.lower - 0.1, part.upper + 0.1, n_rows)
    column = np.rint(column) if part.integer else column
    column[rng.random(n_rows) < 0.1] = np.nan
    return column


def random_table(features, n_rows, seed):
    """Columns as objects, and a noisy score in [0, 1] that depends on two of them."""
    rng = np.random.default_rng(seed)
    columns = [random_column(part, n_rows, rng) for part in features.values()]
    domain = Domain.of(Schema(features, Classes([0])), recipe_of().grid)
    codes = np.array(
        [
            [naive.code_of(value, part, cuts) for value in column]
            for column, part, cuts in zip(columns, domain.features, domain.cuts, strict=True)
        ]
    )
    signal = rng.random((2, int(domain.n_codes.max())))
    first, second = rng.permutation(len(features))[:2]
    score = 0.45 * signal[0, codes[first]] + 0.25 * signal[1, codes[second]] + 0.3 * rng.random(n_rows)
    return np.array(columns, dtype=object).T, codes, domain, score


def every_split(domain, reach):
    """Each way to divide what a node can hold: cuts, missing against the rest, a value against the rest."""
    for feature, part in enumerate(domain.features):
        held = [code for code in range(domain.n_codes[feature]) if reach[feature][code]]
        missing = domain.n_codes[feature] - 1
        if isinstance(part, Categorical):
            sides = [{code} for code in held]
        else:
            bins = [code for code in held if code != missing]
            sides = [set(bins[:index]) for index in range(1, len(bins))] + [{missing} & set(held)]
        yield from ((feature, side) for side in sides if side and side < set(held))


def cost_of_classes(labels):
    return -sum(naive.gini_terms([np.bincount(labels, minlength=2).tolist()]), Fraction(0))


def cost_of_values(steps):
    values = [int(step) for step in steps]
    statistics = [len(values), sum(values), sum(value**2 for value in values)]
    return naive.squared_errors([statistics])[0] / TARGET_STEPS**2


def children(codes, rows, feature, side):
    """Which rows are in each of both children."""
    left = rows & np.isin(codes[feature], list(side))
    return left, rows & ~left


def cost_of(target_codes, codes, rows, feature, side, cost):
    return sum(cost(target_codes[own]) for own in children(codes, rows, feature, side))


def check_node(forest, node, rows, reach, codes, target_codes, cost):
    """Checks that a split is best up to rounding; returns its feature, its first side, and whether no other is."""
    splits = list(every_split(forest.domain, reach))
    costs = [cost_of(target_codes, codes, rows, feature, side, cost) for feature, side in splits]
    feature = int(forest.features[node])
    held = [code for code in range(forest.domain.n_codes[feature]) if reach[feature][code]]
    chosen = {code for code in held if forest.routes[forest.splits[node]][code] == 0}
    paid = cost_of(target_codes, codes, rows, feature, chosen, cost)
    assert any(feature == f and chosen in (side, set(held) - side) for f, side in splits)
    assert paid <= min(costs) + ROUNDING
    best = [split for split, c in zip(splits, costs, strict=True) if c <= min(costs) + ROUNDING]
    return feature, chosen, len({frozenset(own.tobytes() for own in children(codes, rows, *split)) for split in best}) == 1


def check_first_splits(forest, codes, target_codes, cost):
    """Checks the root and its children; returns how many of them had a best split beyond doubt."""
    domain = forest.domain
    everything = [[True] * n_codes for n_codes in domain.n_codes]
    rows = np.ones(codes.shape[1], dtype=bool)
    feature, chosen, certain = check_node(forest, 0, rows, everything, codes, target_codes, cost)
    n_certain = int(certain)
    for child in range(2):
        goes = [(code in chosen) == (child == 0) for code in range(domain.n_codes[feature])]
        reach = [goes if index == feature else held for index, held in enumerate(everything)]
        node = int(forest.first_children[0]) + child
        here = rows & np.array(goes)[codes[feature]]
        n_certain += check_node(forest, node, here, reach, codes, target_codes, cost)[2]
    return n_certain


@pytest.mark.parametrize("task", ["classes", "bounded target"])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_first_splits_are_those_of_an_exact_search(features, task):
    n_certain = 0
    for seed in range(8):
        X, codes, domain, score = random_table(features, n_rows=120, seed=seed)
        if task == "classes":
            y, cost, recipe = (score > 0.5).astype(int), cost_of_classes, recipe_of(depth=2)
            model = DPForestClassifier(Schema(features, Classes([0, 1])), epsilon=math.inf, recipe=recipe).fit(X, y)
        else:
            y, cost = np.rint(score * TARGET_STEPS).astype(int), cost_of_values
            recipe = recipe_of(depth=2, criterion=SquaredError(), leaf=TwoBinMean())
            model = DPForestRegressor(Schema(features, Bounded(0, 1)), epsilon=math.inf, recipe=recipe).fit(X, score)
        assert [cuts.tolist() for cuts in model.forest_.domain.cuts] == [cuts.tolist() for cuts in domain.cuts]
        n_certain += check_first_splits(model.forest_, codes, y, cost)
    # Else the comparison would say little.
    assert n_certain >= 15
