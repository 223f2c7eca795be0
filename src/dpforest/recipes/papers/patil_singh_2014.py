"""DiffPRF: a forest of ID3 trees, after Patil and Singh (2014).

Paper: 20 trees of depth 5 on bootstraps, B/T each, divided without sophistication (Table 4.1, §4.4.1 and §4.7 of the
thesis); information gain, max operator or Gini in the exponential mechanism (§4.3.2). Numeric features are discretised
beforehand: of all values the one with the least class entropy cuts an interval in two, and its parts are cut again,
until the gain is below the description length (eq. 4.4).
Kept: bootstrap, shape, equal layers, a child for each value, the three criteria (``criterion``, by default the max
operator), noisy leaves, majority vote; cuts and their stop by eq. 4.4, once for all trees, on noisy class counts of
``bins`` public bins for a tenth of the budget. Missing is a value of its own. Without numeric features nothing is bought.
Departs: cuts lie between public bins, of which those that noise would drown are one, and noise counts against a cut; a
feature of which it leaves none has five even intervals, while without noise it has one value and is not split;
permute-and-flip at the rates of monotone scores; no stop on pure nodes, though it is common (§3.1); a bootstrap
multiplies a record, so a tree gets ln(1 + B/T) (docs/review.md, §2.4, §2.9, §2.11).
How many features a node draws is in no source: half of them, ``k``. ``cuts="even"`` makes a child of every bin instead;
the table ``thesis-choices`` of docs/bench/papers.md has both.
"""

from dpforest import parts
from dpforest.recipes.papers.first_look import FirstLook
from dpforest.schema.grid import Grid

RECIPE = parts.Recipe(
    name="patil-singh-2014",
    title="DiffPRF: bootstrap forest of multiway ID3 trees",
    paper="Patil and Singh, ICACCI 2014",
    sample=parts.PoissonBootstrap(),
    grid=Grid(bins=32),
    first_look=FirstLook(cuts=True),
    propose=parts.Menu((parts.OneChildPerValue(),), n_features=0.5),
    criterion=parts.MaxOperator(),
    allocate=parts.Uniform(),
    leaf=parts.NoisyCounts(),
    refine=(parts.NonNegative(),),
    vote=parts.Majority(),
    n_trees=20,
    depth=5,
    parameters={
        "criterion": (
            "criterion",
            {"infogain": parts.EntropyCount(), "max": parts.MaxOperator(), "gini": parts.GiniCount()},
        ),
        "bins": "grid.bins",
        "cuts": ("first_look", {"mdl": FirstLook(cuts=True), "even": None}),
        "k": "propose.n_features",
    },
    claim="fails: data-dependent cut points, bootstrap not charged",
)
