"""The planner of the default recipe: which plan is made. Sees public facts and a released number of rows.

It knows the number of rows (declared, or released with noise), epsilon, delta, and the numbers of features and classes.
"""

import math
from dataclasses import dataclass, field, replace

from dpforest.growing.learnt import LearnedGrid
from dpforest.growing.linear import STEPS, LinearScore, Order
from dpforest.growing.sequential import Phase, SequenceStep, Sequential, SequentialMeans
from dpforest.growing.target import Centres, TargetRange
from dpforest.mechanisms.noise import MOST_VARIANCE
from dpforest.parts.allocation import Geometric, LeavesOnly, Uniform
from dpforest.parts.criteria import Criterion, GiniCount, MaxOperator, Mixture, ResidualGain, SoftAgreement, SquaredError
from dpforest.parts.leaves import (
    PARTS,
    NoisyCounts,
    ResidualSums,
    Rotated,
    TwoBinMean,
    residual_sensitivity,
    rotated_sensitivity,
)
from dpforest.parts.postprocess import LEAST_WEIGHT, EvenShrinkage, Shrinkage
from dpforest.parts.proposals import Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord, SecretSample
from dpforest.parts.shape import Facts
from dpforest.parts.voting import LogShares, MeanOfShares
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT
from dpforest.schema import TARGET_STEPS
from dpforest.schema.grid import Grid

# rows * epsilon beyond this changes nothing; also stands for an infinite epsilon.
MOST_SIGNAL = 2.0**40
SPARSE_GRID = 5_000.0  # rows * epsilon without delta, below which small scales have fewer cuts

SKETCH = Recipe(
    name="auto",
    title="Few shallow trees in sequence, or one tree; planned from rows * epsilon",
    paper="the library's own",
    sample=EveryRecord(),
    propose=Menu(),
    criterion=GiniCount(),
    allocate=Uniform(split_share=0.65),
    leaf=NoisyCounts(),
    refine=(Shrinkage(strength=2.0),),
    vote=MeanOfShares(),
    secret_sample=SecretSample(),
    tasks=("classification", "regression"),
    claim="proved",
)


def rows_epsilon(facts: Facts) -> float:
    """Rows times epsilon, at most MOST_SIGNAL; 0 for a released number of rows that is not above 0."""
    return min(facts.n_rows * facts.epsilon, MOST_SIGNAL) if facts.n_rows > 0 else 0.0


def public_cuts(bins: int, facts: Facts) -> Grid:
    """The public cuts of numbers, of any scale; fewer where a private choice could not tell many of them apart."""
    return Grid(bins=bins, scales=True, sparse=facts.delta == 0 and rows_epsilon(facts) < SPARSE_GRID)


@dataclass(frozen=True)
class Shape:
    """A line of the tables: the shape of trees in sequence, for a signal below ``below`` and above that of the line before.

    ``n_trees`` trees choose their splits. Before them may come others: one deep tree, then marginal trees (on one feature
    each: together they see all features, where a few chosen splits see some). Each kind has a share of the budget, which
    is 0 for none.
    """

    below: float
    n_trees: int
    depth: int
    rate: float  # of learning: votes are log-odds times this
    split_share: float = 0.65
    bins: int = 32
    one_tree: float = 0.0  # the share of the deep tree
    marginal_trees: float = 0.0  # the share of the marginal trees
    passes: int = 1  # the number of marginal trees on each feature
    criterion: Criterion = field(default_factory=MaxOperator)  # for two classes


def _with_gini(weight: int) -> Criterion:
    """The max operator with some Gini, which also sees a difference between children of the same majority."""
    return Mixture(((GiniCount(), weight), (MaxOperator(), 16)))


# Without delta a tree costs its share in full, so chosen trees are few and look at all features.
PURE_TWO_CLASSES = (
    Shape(below=4_000, n_trees=4, depth=2, rate=1.0, bins=16),
    Shape(below=6_000, n_trees=4, depth=2, rate=1.0, bins=16, marginal_trees=0.3),
    Shape(below=20_000, n_trees=8, depth=2, rate=0.7, bins=16, marginal_trees=0.25),
    Shape(below=150_000, n_trees=10, depth=3, rate=0.65, marginal_trees=0.2),
    Shape(below=400_000, n_trees=24, depth=4, rate=0.4, marginal_trees=0.1),
    Shape(below=math.inf, n_trees=36, depth=4, rate=0.35, bins=128, marginal_trees=0.1, criterion=_with_gini(2)),
)
PURE_MORE_CLASSES = (
    Shape(below=5_000, n_trees=1, depth=2, rate=0.5, one_tree=0.5, marginal_trees=0.4),
    Shape(below=15_000, n_trees=8, depth=3, rate=0.65, marginal_trees=0.3),
    Shape(below=150_000, n_trees=16, depth=3, rate=0.5, marginal_trees=0.2),
    Shape(below=math.inf, n_trees=24, depth=4, rate=0.4, marginal_trees=0.1),
)
# With delta losses add up like squares, so trees can be many, each split on a third of the features.
TWO_CLASSES_WITH_DELTA = (
    Shape(below=250, n_trees=12, depth=2, rate=0.7, split_share=0.35, bins=16),
    Shape(below=600, n_trees=30, depth=3, rate=0.5, split_share=0.35, bins=16),
    Shape(below=5_000, n_trees=40, depth=4, rate=0.4, split_share=0.5),
    Shape(below=20_000, n_trees=40, depth=4, rate=0.4, split_share=0.5, marginal_trees=0.2, passes=3),
    Shape(below=100_000, n_trees=60, depth=5, rate=0.3, split_share=0.5, marginal_trees=0.2, passes=3),
    Shape(
        below=math.inf, n_trees=60, depth=5, rate=0.3, split_share=0.5, marginal_trees=0.1, bins=128, criterion=_with_gini(4)
    ),
)  # fmt: skip
MORE_CLASSES_WITH_DELTA = (
    *TWO_CLASSES_WITH_DELTA[:-1],
    Shape(below=math.inf, n_trees=60, depth=5, rate=0.3, split_share=0.5, marginal_trees=0.2, passes=3, bins=128),
)
# The signal from which with delta, too, each node sees all features.
ALL_FEATURES = {"two classes": 100_000.0, "more classes": 3_000.0}
# Without noise nothing keeps trees from what boosting does: Gini on residual weights is its gain, and bins are fine.
WITHOUT_NOISE = Shape(below=math.inf, n_trees=100, depth=6, rate=0.2, bins=256, criterion=GiniCount())
# With more features than this, a marginal tree for each would get too little, and so would a linear score.
MOST_MARGINAL_TREES = 60
# Trees take turns on batches of about this many rows. Without delta nothing is lost by that: a tree may spend as many times
# more on as many times fewer rows. With delta its noise grows by the root of their number, so it takes this signal as well.
BATCH_ROWS, BATCH_SIGNAL, MOST_BATCHES = 250_000, 500_000.0, {"pure": 16, "with delta": 4}
# The levels of a tree with labels, while rows * epsilon is below the key; and the share of a score that orders more classes.
RULE_DEPTHS, ORDER = {128.0: 1, 512.0: 2, math.inf: 3}, 0.1


def signal_of(facts: Facts) -> float:
    """How far the records of a class stand out of the noise."""
    return 2 * rows_epsilon(facts) / (facts.n_classes or 2)


def n_batches(facts: Facts) -> int:
    """The number of batches that trees take turns on."""
    if math.isinf(facts.epsilon):
        return 1
    most = facts.n_rows / BATCH_ROWS
    if facts.delta > 0:
        most = min(most, signal_of(facts) / BATCH_SIGNAL)
    return min(max(round(most), 1), MOST_BATCHES["with delta" if facts.delta > 0 else "pure"])


def is_numeric(facts: Facts) -> bool:
    """Whether most features are numbers."""
    return 2 * facts.n_numeric > facts.n_features


def one_tree(product: float, facts: Facts) -> Recipe:
    """The recipe of a single tree, whose depth follows from rows * epsilon.

    For two classes it splits by the max operator, with a little Gini where both children keep the same majority; for more
    classes by Gini + lambda * max operator, with lambda from 4 down to 1/4 as rows * epsilon grow.
    """
    bits = math.log2(max(product, 1))
    two = facts.n_classes is not None and facts.n_classes <= 2
    parts = 320 if two else round(16 * min(max(4 - 0.5 * (bits - 6), 0.25), 4))
    return replace(
        SKETCH,
        grid=public_cuts(16 if two else 32, facts),
        learned_grid=LearnedGrid(),
        criterion=Mixture(((GiniCount(), 16), (MaxOperator(), parts))),
        depth=min(max(round((bits - (4 if two else 2)) / 2), 1), 8),
        n_trees=1,
    )


def few_rows(product: float, facts: Facts) -> Recipe:
    """The recipe for few rows: a linear score of all features with a small tree, for two classes one with labels."""
    if facts.n_classes != 2:
        tree = replace(one_tree((1 - ORDER) * product, facts), vote=LogShares(1.0))
        return replace(tree, stages=Sequential((Phase(1 - ORDER, 1), Order(ORDER))))
    depth = next(depth for below, depth in RULE_DEPTHS.items() if product < below)
    score = LinearScore(0.97, looks=(0.2, 0.05), choice=0.7, least_signal=0.5, categories=True, rule_depth=depth)
    recipe = sequential(PURE_TWO_CLASSES[0], facts, None, None)
    return replace(recipe, stages=Sequential((_constant(0.03), score)), n_trees=1, depth=depth)


def one_more(product: float, facts: Facts) -> Shape:
    """The shape of a single tree correcting an earlier model, as deep as a single tree alone.

    Of more classes the steps of leaves are in all directions at once, and in full they would go too far.
    """
    return Shape(below=math.inf, n_trees=1, depth=one_tree(product, facts).depth, rate=1.0 if facts.n_classes == 2 else 0.5)


def _constant(share: float) -> Phase:
    """One leaf with all records: how common the classes are."""
    parts = {"depth": 0, "allocate": LeavesOnly(), "refine": (EvenShrinkage(1.0),), "vote": LogShares(1.0)}
    return Phase(share, 1, parts)


def _linear(facts: Facts) -> tuple[SequenceStep, ...]:
    """The steps that come first on mostly numeric tables of two classes.

    A look at D numbers has noise of about D / epsilon records, so it gets what makes that a few percent of the rows.
    """
    signal = max(rows_epsilon(facts), 1) * (4 if facts.delta > 0 else 1)
    look = min(max(25 * facts.n_numeric / signal, 0.005), 0.07 if facts.delta > 0 else 0.2)
    choice = min(max(200 / signal, 0.005), 0.06)
    share = 2 * look + choice
    return (_constant(choice / 3), LinearScore(share, looks=(look / share, look / share), choice=choice / share))


def sequential(shape: Shape, facts: Facts, n_trees: int | None, depth: int | None) -> Recipe:
    """The recipe of trees in sequence, of the given shape.

    If the user asks for a number of trees, the trees that choose their splits are as many more or fewer; if that would leave
    none of them, all trees choose their splits.
    """
    phases = _phases_before(shape, facts, depth)
    before: tuple[SequenceStep, ...] = phases
    is_few = facts.n_classes == 2 and facts.n_features <= MOST_MARGINAL_TREES
    is_free = n_trees is depth is None and not facts.n_earlier
    if is_free and is_few and is_numeric(facts) and math.isfinite(facts.epsilon):
        first = _linear(facts)
        room = 1 - sum(step.share for step in first)
        before = (*first, *(replace(phase, share=room * phase.share) for phase in phases))
    n_before = sum(phase.n_trees for phase in before)
    if n_trees is not None and n_trees <= n_before:
        before, n_before = (), 0
    batches = n_batches(facts) if n_trees is depth is None else 1
    n_chosen = batches * math.ceil(shape.n_trees / batches) if n_trees is None else n_trees - n_before
    has_delta, mass = facts.delta > 0, 0.3 if facts.delta > 0 else 0.15
    is_pair = facts.n_classes == 2
    sees_some = has_delta and signal_of(facts) < ALL_FEATURES["two classes" if is_pair else "more classes"]
    return replace(
        SKETCH,
        grid=public_cuts(shape.bins, facts),
        learned_grid=LearnedGrid(),
        propose=Menu(
            kinds=(Thresholds(), OneAgainstRest(), RandomSubsets(4)) if has_delta else (Thresholds(), OneAgainstRest()),
            n_features=max(2, math.ceil(0.34 * facts.n_features)) if sees_some else None,
        ),
        criterion=shape.criterion if is_pair else ResidualGain(),
        allocate=Uniform(split_share=shape.split_share),
        leaf=Rotated(mass) if is_pair else ResidualSums(mass),
        refine=(EvenShrinkage(3.0),),
        # More trees than planned learn more slowly.
        vote=LogShares(min(1.0, shape.rate * shape.n_trees / n_chosen)),
        stages=Sequential((*before, Phase(1 - sum(phase.share for phase in before), n_chosen)), batches),
        n_trees=n_before + n_chosen,
        depth=shape.depth,
    )


def _phases_before(shape: Shape, facts: Facts, depth: int | None) -> tuple[Phase, ...]:
    """The phases of trees before those that choose their splits: one deep tree and marginal trees."""
    phases = []
    if shape.one_tree:
        tree = one_tree(shape.one_tree * rows_epsilon(facts), facts)
        names = ("criterion", "allocate", "leaf", "refine")
        parts = {name: getattr(tree, name) for name in names} | {"vote": LogShares(1.0), "depth": depth or tree.depth}
        phases.append(Phase(shape.one_tree, 1, parts))
    slow = {"refine": (EvenShrinkage(1.0),), "vote": LogShares(0.3)}
    if shape.marginal_trees and facts.n_features <= MOST_MARGINAL_TREES:
        menu = Menu((Thresholds(), OneChildPerValue(numeric=False)))
        levels = 1 if facts.n_classes == 2 else 2
        parts = slow | {"propose": menu, "allocate": Uniform(split_share=0.4), "depth": min(levels, depth or levels)}
        if shape.passes == 1:
            parts |= {"vote": LogShares(0.5)}
        phases.append(Phase(shape.marginal_trees, shape.passes * facts.n_features, parts, one_feature_each=True))
    return tuple(phases)


# The number of trees, while rows * epsilon is below the key.
MEAN_TREES = {200_000.0: 1, math.inf: 3}
MEAN_TREES_WITH_DELTA = {5_000.0: 2, 30_000.0: 3, math.inf: 5}
COARSE_GRID = 1_000.0  # rows * epsilon below which fewer cuts are easier to choose from


def sequential_means(facts: Facts, n_trees: int | None) -> Recipe:
    """The recipe for a bounded target: trees in sequence, whose depth and default number follow from rows * epsilon."""
    if math.isinf(facts.epsilon):
        return _boosted_means(facts, n_trees)
    has_delta, product = facts.delta > 0, rows_epsilon(facts)
    planned = next(n for below, n in (MEAN_TREES_WITH_DELTA if has_delta else MEAN_TREES).items() if product < below)
    splits, centres, leaves = (0.5, 0.15, 0.35) if has_delta else (0.5, 0.2, 0.3)
    return replace(
        SKETCH,
        grid=public_cuts(32 if product < COARSE_GRID else 128, facts),
        learned_grid=LearnedGrid(far_only=True),
        criterion=SoftAgreement(),
        centres=Centres(share=centres / (splits + centres)),
        target_range=TargetRange(),
        allocate=Geometric(ratio=1.2, split_share=1 - leaves),
        leaf=Rotated(0.6) if has_delta else TwoBinMean(),
        refine=(Shrinkage(strength=4.0),),
        stages=SequentialMeans(),
        n_trees=n_trees or planned,
        depth=min(max(round(math.log2(max(product, 1)) - 7), 1), 12),
    )


def _boosted_means(facts: Facts, n_trees: int | None) -> Recipe:
    """The recipe for a bounded target without noise: what ordinary boosting does."""
    shape = WITHOUT_NOISE
    return replace(
        SKETCH,
        grid=public_cuts(shape.bins, facts),
        learned_grid=LearnedGrid(),
        criterion=SquaredError(),
        target_range=TargetRange(),
        leaf=TwoBinMean(),
        refine=(Shrinkage(strength=0.0, least=LEAST_WEIGHT),),
        stages=SequentialMeans(half_width=1.0, rate=shape.rate),
        n_trees=n_trees or shape.n_trees,
        depth=shape.depth,
    )


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
    """The recipe planned for these facts; ``n_trees`` and ``depth`` are the user's wishes, if any."""
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
    """Whether the Gaussian noise of every leaf fits 64 bits, so that no fit fails half-way."""
    root = math.sqrt(-math.log(facts.delta))
    # A quarter of the least that (epsilon, delta) gives: up to 0.62 of it goes to the target's range, and a little to the
    # number of rows.
    rho = (math.sqrt(root**2 + facts.epsilon) - root) ** 2 / 4
    phases = recipe.stages.phases if isinstance(recipe.stages, Sequential) else (Phase(1.0, n_trees),)
    for phase in phases:
        own, square = rho * phase.share, float(LARGEST_SQUARE)
        if isinstance(phase, LinearScore):
            own, square = own * min(phase.looks), MOST_MARGINAL_TREES * float(STEPS * MOST_WEIGHT) ** 2
        elif isinstance(phase, Phase):
            step = replace(recipe, **phase.parts)
            own = step.allocate.plan(own / phase.n_trees, step.depth).leaves
        if square / (2 * own) >= MOST_VARIANCE:
            return False
    return True


AUTO = replace(SKETCH, planner=plan_forest)
