"""Depth and number of trees of every recipe, and the shares of its layers, as its source has them."""

import pytest

from dpforest import get_recipe, list_recipes
from dpforest.parts.shape import AllFeatures, HalfTheFeatures, HalfUntested, LogRows, SupportedTrees

# Recipe: depth, trees, and where its source says so. A depth is levels of splits, leaves are one layer more: h layers of a
# source that counts them are h - 1 here. "Table" is Table 4.1 of the thesis.
SHAPES = {
    "blum-2005": (4, 1, "none; as friedman-schuster-2010, with which it is compared"),
    "jagannathan-2009": (HalfTheFeatures(), 10, "Table: m/2 and 10"),
    "friedman-schuster-2010": (4, 1, "DPDF, §5: delta = 5 with the leaves (eq. 9); §4: a single tree"),
    "patil-singh-2014": (5, 20, "Table: 5 and 20"),
    "rana-2015": (4, 5, "none: Table has no depth, and a bound for the trees (eqs. 4.35 and 4.36)"),
    "fletcher-islam-2015-dpdf": (4, 4, "DPDF, §5: delta = 5 with the leaves (eq. 9), tau = 4"),
    "fletcher-islam-2015-snr": (AllFeatures(), SupportedTrees(), "§4.5.3: a feature once on a path; eq. 4.38"),
    "bojarski-2015": (14, LogRows(), "Table: 14 and O(log n)"),
    "mu-2016": (5, 50, "out-of-bag, §4: 5 and 50, where it is compared"),
    "li-2017": (5, 20, "Table, in its caption: likely those of Patil and Singh"),
    "fletcher-islam-2017": (HalfUntested(), 100, "Table: eq. 4.37 and 100"),
    "hou-2019": (6, 50, "Table: 7 with the leaves (eq. 4.28) and 50"),
    "li-2020": (5, 50, "out-of-bag, §4: 5 and 50, where it is compared"),
    "guan-2020": (HalfTheFeatures(), 50, "Table: m/2 and 50"),
    "consul-2020": (5, 10, "DiPriMe, Table 2: 5 and 10; Table has 8"),
    "consul-2020-ert": (5, 10, "DiPriMe, Table 2: 5 and 10"),
    "zhang-2021": (5, 50, "Table: no depth, 50; the depth of li-2020, with whose parts it is built"),
    "dong-2022": (8, 25, "DiffPRF_linear, experiments: h = 9 with the leaves (its Figure 2), T = 25"),
    "li-2022": (5, 50, "out-of-bag, §4: 5 and 50"),
    "liu-2022": (4, 90, "Table: 5 with the leaves (eqs. 4.31 and 4.32) and 90"),
    "suihkonen-2023": (HalfTheFeatures(), 9, "thesis §5.1: m/2; Figure 5.1: 9"),
}


@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes() if recipe["name"] != "auto"])
def test_the_shape_of_a_recipe_is_that_of_its_source(name):
    recipe = get_recipe(name)
    depth, n_trees, source = SHAPES[name]
    assert (recipe.depth, recipe.n_trees) == (depth, n_trees), source


@pytest.mark.parametrize(
    ("name", "given", "parts"),
    [
        # Equation 4.29 for seven: 2/7, 2/6, 2/5, 2/4, 2/3, 2/2 and 1.
        ("hou-2019", {}, (60, 70, 84, 105, 140, 210, 210)),
        # Equation 4.32 for five: 1/5, 1/4, 1/3, 1/2 and 1.
        ("liu-2022", {}, (12, 15, 20, 30, 60)),
        # Equation 12 for nine, d half of its largest, 1/72: layers 1/18, 5/72, 6/72 and so on, as e1 = (2 - 9 * 8/72)/18.
        ("dong-2022", {"q": 1.0, "d": 0.5}, range(4, 13)),
        ("dong-2022", {"q": 2, "d": 0.0}, [2**layer for layer in range(9)]),
        ("dong-2022", {"q": 1, "d": 0}, [1] * 9),
        # Equation 9 for five.
        ("fletcher-islam-2015-dpdf", {}, (2, 2, 2, 2, 1)),
    ],
)
def test_the_layers_of_a_tree_are_those_of_the_equations(name, given, parts):
    recipe = get_recipe(name).with_parameters(given)
    plan = recipe.allocate.plan(1.0, recipe.depth)
    layers = [sum(pair) for pair in zip((*plan.splits, 0.0), plan.counts, strict=True)]
    assert layers == pytest.approx([part / sum(parts) for part in parts])
