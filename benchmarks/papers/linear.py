"""004: DiffPRF_linear (Dong, Zhang, Xu, Wang and Liu, 2022)."""

from itertools import product
from typing import Any

from benchmarks.core.trials import HeldOut
from benchmarks.papers.base import N_SPLITS, Cells, Question, Sentence, Table, grid
from benchmarks.papers.rules import Above, BestAbove, Peak, Trend, pick

LINEAR = "dong-2022"
# Coefficient q and d, as a share of its largest value: uniform, arithmetic, geometric, and the paper's linear 1 to 4.
COEFFICIENTS = ((1.0, 0.0), (1.0, 0.5), (1.2, 0.0), (1.2, 0.25), (1.2, 0.5), (1.1, 0.25), (1.1, 0.5))
LAYERS = (5, 6, 7, 8, 9, 10)
# The budgets of one tree in Figures 3 and 4.
PER_TREE = (0.2, 0.4, 0.8, 1.0, 2.0, 4.0, 8.0)
N_TREES = 25
TABLES = ("adult:us", "bank_additional")


def _cells(datasets: Any, epsilon: Any, layers: Any, coefficients: Any) -> Cells:
    """A tree of h layers has h - 1 levels of splits; ``epsilon`` is the total of 25 trees."""
    depths = tuple(h - 1 for h in layers)
    return tuple(
        cell
        for q, d in coefficients
        for cell in grid(datasets, LINEAR, epsilon=epsilon, n_trees=N_TREES, depth=depths, q=q, d=d)
    )


def _better(dataset: str, figure: str, *layers: int) -> Sentence:
    plain, combined = (
        tuple(pick(LINEAR, dataset, q=q, d=d, depth=h - 1) for q, d in coefficients for h in layers)
        for coefficients in (COEFFICIENTS[:3], COEFFICIENTS[3:])
    )
    return Sentence(
        f"Experimental Results ({figure})",
        f"{dataset}, h = {', '.join(map(str, layers))}: the best linear allocation is better than uniform, arithmetic and "
        "geometric",
        BestAbove(combined, plain, "depth"),
    )


def _q_and_d() -> Table:
    return Table(
        name="linear-grid",
        title="Figures 3 and 4: q and d, 25 trees of h = 9 layers",
        note="ε = 0.2, 0.4, 0.8, 1, 2, 4 and 8 for each tree, so B = 5 to 200. The paper has pictures only. The printed "
        "form does not depend on the budget, so the curves of the paper cannot come from it.",
        cells=_cells(
            TABLES, tuple(N_TREES * each for each in PER_TREE), (9,), product((1.1, 1.2, 1.3, 2.0), (0.25, 0.5, 0.75))
        ),
        published=(),
        panel="q",
        sentences=(
            Sentence("Experimental Results", "accuracy rises with ε on the whole", Trend(pick(LINEAR), "epsilon")),
            *(
                Sentence(
                    "Experimental Results",
                    f"q = 2 is generally lower than q = {q}",
                    Above(pick(LINEAR, q=q), pick(LINEAR, q=2.0)),
                )
                for q in (1.1, 1.2, 1.3)
            ),
        ),
    )


def linear() -> Question:
    thin = (COEFFICIENTS[0], COEFFICIENTS[3])
    printed = Table(
        name="linear-depth",
        title="Tables 1 and 2: accuracy against the number of layers h, 25 trees at ε = 1 each, so B = 25",
        note="h layers are h - 1 levels of splits (depth). d is a share of its largest value 2ε/(h(h-1)); q = 1 and "
        "d = 0 is uniform, the paper's RFDPP-Gini. The printed form is run for uniform and linear 1 at h = 5, 7 and 9 "
        "only; its trees do not depend on the budget.",
        cells=_cells(TABLES, 25.0, LAYERS, COEFFICIENTS),
        published=_cells(TABLES, 25.0, (5, 7, 9), thin),
        quick=_cells("bank_additional", 25.0, (5,), thin[1:]),
        x="depth",
        sentences=(
            _better("adult:us", "Figure 5", 5, 6, 7, 9),
            _better("bank_additional", "Figure 6", 5, 6, 7, 8, 9),
            Sentence(
                "Experimental Results (Figures 5 and 6)",
                "accuracy falls when the tree is too deep",
                Peak(pick(LINEAR), "depth"),
            ),
        ),
    )
    total = Table(
        name="linear-depth-total",
        title="Tables 1 and 2 at a total of B = 1 for all trees",
        note="What a total budget of 1 gives; h = 5, 7 and 9. The printed form does not depend on the budget.",
        cells=_cells(TABLES, 1.0, (5, 7, 9), COEFFICIENTS),
        published=(),
        quick=_cells("bank_additional", 1.0, (5,), thin[1:]),
        x="depth",
    )
    return Question(
        name="linear",
        title="DiffPRF_linear: Dong, Zhang, Xu, Wang and Liu, 2022",
        note="adult.data restricted to the United States, without the column native-country (29,170 rows), and "
        f"bank_additional; 70 % for training, {N_SPLITS} splits (the paper: 15 runs).",
        why="Nothing that reaches the output of the printed form is random but the bootstrap: cuts and leaf labels are "
        "exact. So its accuracy is that of a forest without privacy at any budget.",
        split=HeldOut(0.3),
        tables=(printed, total, _q_and_d()),
    )
