"""003: weights from out-of-bag records (Li, Qin, Luo and Zheng, Mathematics 2022)."""

from benchmarks.core.trials import HeldOut
from benchmarks.papers.base import BUDGETS, N_SPLITS, Question, Sentence, Table, grid
from benchmarks.papers.rules import Above, Peak, Trend, pick

OURS = "li-2022"


def out_of_bag() -> Question:
    tables = ("adult:data", "mushroom")
    depth = Table(
        name="out-of-bag-depth",
        title="Figures 2 and 3: accuracy against the depth, 50 trees",
        note="The text has the five numbers at depth 3.",
        cells=grid(tables, OURS, epsilon=BUDGETS, n_trees=50, depth=(3, 4, 5, 6, 7)),
        quick=grid("mushroom", OURS, epsilon=1.0, n_trees=50, depth=3),
        x="depth",
        sentences=(
            Sentence("§4.4 (Figures 2 and 3)", "accuracy increases with the budget", Trend(pick(OURS), "epsilon")),
            Sentence("§4.4 (Figures 2 and 3)", "the deeper the tree, the higher the accuracy", Trend(pick(OURS), "depth")),
        ),
    )
    trees = Table(
        name="out-of-bag-trees",
        title="Figures 4 and 5: accuracy against the number of trees, depth 5",
        note="The text has the five numbers with 50 trees.",
        cells=grid(tables, OURS, epsilon=BUDGETS, n_trees=(10, 30, 50, 70, 90), depth=5),
        x="n_trees",
        sentences=(
            Sentence("§4.4 (Figures 4 and 5)", "accuracy is highest with 50 trees", Peak(pick(OURS), "n_trees", (50,))),
        ),
    )
    three = (OURS, "li-2020", "mu-2016")
    source = "§4.4 (Figures 6 and 7)"
    budget = Table(
        name="out-of-bag-epsilon",
        title="Figures 6 and 7: three systems against the budget, 50 trees of depth 5",
        note="Five features are drawn at each node, as in the paper. li-2020 is its RFDPP-gini, mu-2016 its DiffP-RFs.",
        cells=grid(tables, three, epsilon=BUDGETS, n_trees=50, depth=5),
        quick=grid("mushroom", three, epsilon=1.0, n_trees=50, depth=5),
        sentences=(
            *(Sentence(source, f"{name} gains from a larger budget", Trend(pick(name), "epsilon")) for name in three),
            *(Sentence(source, f"{OURS} is better than {name}", Above(pick(OURS), pick(name))) for name in three[1:]),
        ),
    )
    return Question(
        name="out-of-bag",
        title="Out-of-bag weights: Li, Qin, Luo and Zheng, Mathematics 2022",
        note="The 32,561 rows of adult.data, missing values kept; 75 % for training (the paper does not say), "
        f"{N_SPLITS} splits.",
        why="The printed form takes its weights, and the order in which features split, from a forest without noise, "
        "compares discrete features exactly, and stops at pure nodes. A private form must pay for each of these from "
        "the same budget, which 50 trees share. As printed, eq. 13 gives the trees a T-th of the budget, and step 9 of "
        "Algorithm 3 favours impure cuts; the printed form here does both.",
        split=HeldOut(0.25),
        tables=(depth, trees, budget),
    )
