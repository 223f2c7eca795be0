"""Random trees with private labels, after Fletcher and Islam (2017), in the form of their addendum of 2021.

Paper: 100 random trees (30 to 300 do well, by budget) on disjoint parts, all of the budget each; depth by the expected
number of untested numeric features (eq. 4.37 of the thesis), m/2 for categorical ones, which are used once on a path; each
leaf releases its commonest label by the exponential mechanism with smooth sensitivity (eqs. 4.21 and 4.22), since the
addendum by one-sided noisy arg max on class counts (§4.3.3, §4.5.1; parts from §5.1).
Kept: all of it in the addendum's form: weights exp(epsilon f) of monotone counts, by permute-and-flip, which is that arg
max. Readings: the least depth at which under half are untested, for eq. 4.37 itself has no minimum, plus half of the
categorical features, rounded down; where the thesis is silent, a child for each category and a majority vote.
Departs: records are dealt by a draw each; numbers are split at a random cut of a public grid, or missing ones from the rest;
values outside of the category lists and missing ones have children of their own; a public cap on nodes (docs/review.md,
§2.8, §2.11, §2.13).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.jagannathan_2009 import RECIPE as RANDOM_TREES

RECIPE = replace(
    RANDOM_TREES,
    name="fletcher-islam-2017",
    title="Random trees on disjoint parts, one private label a leaf",
    paper="Fletcher and Islam, Expert Systems with Applications 2017; addendum 2021",
    sample=parts.Disjoint(),
    leaf=parts.PrivateLabel(),
    refine=(),
    vote=parts.Majority(),
    n_trees=100,
    depth=parts.HalfUntested(),
    has_published_variant=True,
    claim="fails: smooth sensitivity inside the exponential mechanism",
)
