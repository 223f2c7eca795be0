"""DPRF_thesis: median splits and private labels, after Suihkonen (2023).

Paper: disjoint random parts, each tree the whole budget; at each node, for each of K < m features, a split that halves the
node among ten even points of a set range, or one category against the rest (eqs. 5.1 and 5.2), then the feature by its
squared error (eq. 5.3), p B / (2 d_m) each, p = 0.5; the label of a leaf by permute-and-flip on class counts, p B = B / 2; a
leaf at depth d_m = m / 2, with one class, with a child below 4 records, with no feature left; majority vote (§5.1). K, the
number of trees (9, 6 and 15) and, on banknote, the depth (4) are those that did best.
Kept: parts, ten cuts, one category against the rest, K (5), balance and sum of squares (Gini, which is twice it for two
classes), p, labels, depth, majority vote. At an infinite epsilon, and by ``medians="first"``, the two stages.
Departs: the signs of eqs. 5.1 to 5.3, which ask for the worst; by default, ``medians="joint"``, one choice a node that
weighs balance and error alike; in two stages each of the K halvings is paid, so a choice has 1/(K + 1) of a level
(docs/review.md, §2.7). The set range is the schema's, and so are the categories, not those of the node (§2.11); what is
missing or not listed can be split off too. Labels have (1 - p) B, for p B leaves the total at B only if p is 0.5, and what
levels with nothing to choose leave over; choices by permute-and-flip too, at the rates of their bounds (§3), for eq. 5.3
eight times its own. No stop but depth and what can be split (§2.4, §2.14), and a discrete feature can be split on again.
Records are dealt by a draw each (§2.8); K is not held below m; m / 2 is rounded up.
"""

from dpforest import parts
from dpforest.growing.choosing import Medians
from dpforest.schema.grid import Grid

RECIPE = parts.Recipe(
    name="suihkonen-2023",
    title="DPRF_thesis: balanced splits on ten cuts, private labels",
    paper="Suihkonen, master's thesis, University of Helsinki 2023",
    sample=parts.Disjoint(),
    grid=Grid(bins=11),
    propose=parts.Menu(n_features=5),
    criterion=parts.GiniCount(),
    choose=Medians(jointly=True),
    allocate=parts.Uniform(split_share=0.5),
    leaf=parts.PrivateLabel(),
    vote=parts.Majority(),
    n_trees=9,
    depth=parts.HalfTheFeatures(),
    parameters={
        "k": "propose.n_features",
        "p": "allocate.split_share",
        "medians": ("choose.jointly", {"joint": True, "first": False}),
    },
    has_published_variant=True,
    claim="fails: data-dependent stopping and categories, K medians charged once",
)
