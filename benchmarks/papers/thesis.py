"""000, chapter 5: DPRF_thesis (Suihkonen, master's thesis, University of Helsinki 2023)."""

from typing import Any

from benchmarks.core.trials import HeldOut
from benchmarks.papers.base import N_THESIS, Cells, Question, Sentence, Table, grid
from benchmarks.papers.quoted import quoted
from benchmarks.papers.rules import Above, Between, Trend, pick

THESIS = "suihkonen-2023"
THESIS_BUDGETS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0)
# Depth, number of trees, features drawn at a node. The thesis does not say the last but that it is below their number.
THESIS_SHAPES = {"banknote": (4, 9, 3), "mushroom:complete": (11, 6, 5), "adult:complete": (7, 15, 5)}

SENTENCES = (
    Sentence("§6", "the smaller the budget, the less accurate", Trend(pick(THESIS), "epsilon")),
    Sentence("§5.3", "banknote: no mean over 90 %", Between(pick(THESIS, "banknote"), 0.0, 0.9)),
    Sentence(
        "§5.3",
        "banknote, mushroom: the smaller the budget, the larger the differences between runs",
        Trend(pick(THESIS, "banknote", "mushroom:complete"), "epsilon", up=False, of_spread=True),
    ),
    Sentence(
        "§5.3",
        "adult: the opposite",
        Trend(pick(THESIS, "adult:complete"), "epsilon", up=True, of_spread=True),
    ),
    Sentence(
        "§5.3",
        "mushroom: DPRF_thesis is better than DPRF-Hou",
        Above(
            pick(THESIS, "mushroom:complete", n_trees=6, depth=11), pick("hou-2019", table="thesis-hou", n_trees=50, depth=6)
        ),
    ),
    Sentence(
        "§5.3",
        "adult: DPRF-Hou is better than DPRF_thesis",
        Above(pick("hou-2019", "adult:data", table="thesis-hou", n_trees=50, depth=6), pick(THESIS, n_trees=15, depth=7)),
    ),
)


def _cells(dataset: str, epsilon: Any) -> Cells:
    depth, n_trees, k = THESIS_SHAPES[dataset]
    return grid(dataset, THESIS, epsilon=epsilon, depth=depth, n_trees=n_trees, k=k)


def thesis() -> Question:
    accuracy = Table(
        name="thesis-accuracy",
        title="Figures 5.1 to 5.3: accuracy against the budget",
        note=f"Depth and number of trees as printed; means of {N_THESIS} runs as in the thesis. The figures exist as "
        "pictures only; printed values are read off the text.",
        cells=tuple(cell for dataset in THESIS_SHAPES for cell in _cells(dataset, THESIS_BUDGETS)),
        quick=_cells("banknote", 1.0) + _cells("adult:complete", 1.0),
        n_seeds=N_THESIS,
        columns=("private at 2ε", "auto", "random forest"),
        sentences=SENTENCES,
    )
    return Question(
        name="thesis",
        title="DPRF_thesis: Suihkonen, master's thesis, University of Helsinki 2023",
        note="75 % of the rows for training; without rows that have missing values, which leaves 30,162 of adult.data "
        "and 5,644 of mushroom. Then what the thesis quotes of other papers in §4.6, missing values kept: mostly "
        "pictures, whose budgets are not said; the systems' pseudo-code is not in the thesis, so they have no printed form "
        "unless another source prints it. Depths are levels of splits.",
        why="The printed form stops at small nodes and pays for one of K medians. The private form makes one choice among "
        "public cuts and stops at its depth. Of the quoted systems, those that share ε among 20 to 90 bootstrap trees "
        "leave each query next to nothing.",
        split=HeldOut(0.25),
        tables=(accuracy, *quoted()),
    )
