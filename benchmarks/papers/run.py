"""Which cases the experiments of the papers are, and their run."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.core.results import Case, Row, run_all
from benchmarks.core.trials import FORESTS, Loaded, Split
from benchmarks.papers.base import N_QUICK, Cell, Measure, Question, Table
from benchmarks.papers.diprime import diprime, evenness
from benchmarks.papers.dpdf import dpdf
from benchmarks.papers.linear import linear
from benchmarks.papers.out_of_bag import out_of_bag
from benchmarks.papers.thesis import thesis
from benchmarks.papers.views import load_view
from dpforest.recipes import get_recipe

# What budgets and choices of budgets do not change once there is no noise.
ONLY_NOISE = ("epsilon", "q", "d", "rho")

QUESTIONS = (dpdf(), diprime(), evenness(), out_of_bag(), linear(), thesis())


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
    twice = cell.without() | {"epsilon": 2 * cell.epsilon}
    shape = _forest_shape(table, cell)
    beside = {
        "private at 2ε": case(cell.system, "private", twice),
        "auto": case("auto", "private", {"epsilon": cell.epsilon}),
        "random forest": case("random-forest", "no privacy", shape),
        "extra trees": case("extra-trees", "no privacy", shape),
    }
    return columns | {column: beside[column] for column in table.columns}


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


def printed() -> list[Row]:
    """The numbers that the papers print as text, each with its source."""
    return json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))


def _measure(case: Case, load: Callable[[str], Loaded], ways: dict[str, tuple[Measure, Split]]) -> Row:
    measure, split = ways[case.question]
    return measure(case, load, split)


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
    # Not the questions themselves: what is sent to another process for each case is small.
    ways = {question.name: (question.measure, question.split) for question in questions}
    measure = partial(_measure, load=load, ways=ways)
    yield from run_all(all_cases(questions, quick), measure, Path(results), progress, n_jobs)
