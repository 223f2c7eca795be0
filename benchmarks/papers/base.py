"""What the experiments of a paper are made of: questions, tables, cells, and sentences that are true or not of them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.core.results import Case, Row
from benchmarks.core.trials import Loaded, Split
from benchmarks.core.trials import run as run_case
from benchmarks.papers.rules import Rule

# Repetitions. The papers have 100 (DPDF), 15 (DiffPRF_linear), 10 (DPRF_thesis); the others do not say.
N_FOLDS = 10  # all ten, once
N_SPLITS = 3
N_THESIS = 10
N_QUICK = 1

DPDF, DIFFPID3 = "fletcher-islam-2015-dpdf", "friedman-schuster-2010"
DIPRIME, DP_ERT = "consul-2020", "consul-2020-ert"

# The budgets of 003, and of what the thesis quotes without saying its budgets.
BUDGETS = (0.1, 0.25, 0.5, 0.75, 1.0)


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
class Sentence:
    """What a paper says in words of a picture, and when it is true. ``source`` is where it says so."""

    source: str
    says: str
    rule: Rule


@dataclass(frozen=True)
class Table:
    """Cells that are shown together, and how often each is run.

    ``published`` and ``quick`` are the cells to which the printed form, which can be slow, and the quick run keep.
    ``columns`` are those beside the systems' own. ``forest`` is the shape of the usual forests there, by default that of
    the cell. ``x`` is the parameter that a plot has on its axis; with ``panel``, another one, each of its values has a
    panel.
    """

    name: str
    title: str
    note: str
    cells: Cells
    quick: Cells = ()
    metric: str = "accuracy"
    published: Cells | None = None
    n_seeds: int = N_SPLITS
    columns: tuple[str, ...] = ("auto", "random forest")
    forest: tuple[tuple[str, Any], ...] | None = None
    x: str = "epsilon"
    panel: str | None = None
    sentences: tuple[Sentence, ...] = ()


Measure = Callable[[Case, Callable[[str], Loaded], Split], Row]


@dataclass(frozen=True)
class Question:
    """The experiments of one paper, and why its printed form may do better than a private one can."""

    name: str
    title: str
    note: str
    why: str
    split: Split
    tables: tuple[Table, ...]
    measure: Measure = run_case


def grid(datasets: Any, systems: Any, **axes: Any) -> Cells:
    """The cells of all combinations of parameters; a tuple stands for several values of one."""
    names = sorted(axes)
    values = [axes[name] if isinstance(axes[name], tuple) else (axes[name],) for name in names]
    return tuple(
        Cell(dataset, system, tuple(zip(names, combination, strict=True)))
        for dataset in ((datasets,) if isinstance(datasets, str) else datasets)
        for system in ((systems,) if isinstance(systems, str) else systems)
        for combination in product(*values)
    )
