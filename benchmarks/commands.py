"""The commands of ``python -m benchmarks``, one for each benchmark, with its own options."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import errors, output, print_json, steps
from dpforest.errors import RepeatedFitWarning

warnings.simplefilter("ignore", RepeatedFitWarning)  # all tables are public

# Columns of a row on the papers that the table's title and first column say, or that only the page has room for.
SHORT = {"no privacy, same system": "ε = ∞", "no privacy, random forest": "forest", "always the same answer": "guess"}
NOT_SHOWN = ("experiment", "unit", "data", "system", "parameters", "splits", "private at 2ε")
# Columns of a row on utility that its table's title says, or that only the page has room for.
IN_TITLE = ("table", "metric", "which")

commands = typer.Typer(
    help="Run a benchmark and print its figures; there is one for each question.", no_args_is_help=True,
    add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False,
)  # fmt: skip

Lines = list[dict[str, Any]]
Quick = Annotated[bool, typer.Option("--quick", help="Run a subset, in under two minutes.")]
Results = Annotated[Path, typer.Option(help="Rows are kept here; a second run goes on where it ended.")]
Report = Annotated[Path | None, typer.Option(help="A folder for the page and its plots.")]
Render = Annotated[bool, typer.Option("--render", help="Measure nothing, use the rows that are kept.")]
Tables = Annotated[str, typer.Option(help="Only these tables, with commas.")]
PeersEnv = Annotated[
    Path | None,
    typer.Option(help="Folder of the peers' environment, which is made if it is not there; by default in the cache."),
]
Plots = Annotated[bool, typer.Option(help="Plots beside the page.")]
Repeats = Annotated[
    int | None, typer.Option(min=1, help="Runs of a case; the best counts. By default 3, quick 2.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print rows as JSON.")]


@commands.command()
def foundation(as_json: AsJson = False) -> None:
    """Measure the accuracy of the default recipe on adult, and what a small fit and an import cost.

    Example: [bold]DPFOREST_DATA=tables python -m benchmarks foundation[/bold]
    """
    from benchmarks.foundation import run

    with steps("Measuring") as progress:
        lines = list(run(progress))
    _print(lines, as_json)


@commands.command()
def interactions(
    rows: Annotated[int, typer.Option(min=1000, help="Rows to train on.")] = 1_000_000, as_json: AsJson = False
) -> None:
    """Measure the default recipe on a large generated table, with noise and without, beside ordinary boosting.

    Example: [bold]python -m benchmarks interactions --rows 100000[/bold]
    """
    from benchmarks.interactions import run

    with steps("Measuring") as progress:
        lines = list(run(progress, rows))
    _print(lines, as_json)


@commands.command()
def large(
    rows: Annotated[int, typer.Option(min=1000, help="Rows to train on.")] = 8_000_000,
    repeats: Annotated[int, typer.Option(min=1, help="Fits of each kind.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure what a secret sample of large tables costs in accuracy, and what it saves in time.

    Example: [bold]python -m benchmarks large --rows 4000000 --repeats 1[/bold]
    """
    from benchmarks.large import run

    with steps("Measuring") as progress:
        lines = list(run(progress, rows, repeats))
    _print(lines, as_json)


@commands.command()
def papers(
    quick: Quick = False, results: Results = Path("papers.jsonl"), report: Report = None, as_json: AsJson = False
) -> None:
    """Run the experiments of the papers again, beside what they print.

    Example: [bold]DPFOREST_DATA=tables python -m benchmarks papers --quick --report page[/bold]
    """
    from benchmarks.papers.report import side_by_side, write
    from benchmarks.papers.run import run

    _measure(results, lambda progress: run(progress, quick, results))
    _show(side_by_side, write, results, report, as_json)


@commands.command()
def utility(
    quick: Quick = False,
    results: Results = Path("utility.jsonl"),
    report: Report = None,
    systems: Annotated[
        str, typer.Option(help="Only these systems, with commas: names, or auto, recipes, peers, references, ablations.")
    ] = "",
    tables: Tables = "",
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Leave out other people's systems.")] = False,
    peers_env: PeersEnv = None,
    jobs: Annotated[int, typer.Option(min=1, help="Cases to run side by side.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Measure how good predictions are at a given budget, beside other private models.

    Example: [bold]DPFOREST_DATA=tables python -m benchmarks utility --quick[/bold]
    """
    from benchmarks.utility.report import side_by_side, write
    from benchmarks.utility.run import group_of, run, wanted

    cases = wanted(quick, _listed(systems), _listed(tables))

    def measured(progress: Callable[[str], None]) -> Iterable[Any]:
        has_peers = not no_peers and any(group_of(case.system) == "peers" for case in cases)
        python = _peers_python(peers_env, progress) if has_peers else None
        yield from run(progress, results, cases, python=python, n_jobs=jobs)

    _measure(results, measured)
    _show(side_by_side, write, results, report, as_json)


@commands.command()
def speed(
    quick: Quick = False,
    results: Results = Path("speed.jsonl"),
    report: Report = None,
    only: Annotated[str, typer.Option(help="Only these parts, with commas: goals, defaults, growth, memory, parquet.")] = "",
    repeats: Repeats = None,
    parquet_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of the Parquet file; by default 30,000,000.", show_default=False)
    ] = None,
    plots: Plots = True,
    render: Render = False,
    as_json: AsJson = False,
) -> None:
    """Measure time and memory beside other libraries, and how they grow.

    Example: [bold]python -m benchmarks speed --quick --only goals[/bold]
    """
    from benchmarks.speed import cases
    from benchmarks.speed.report import side_by_side, write
    from benchmarks.speed.run import run

    if not render:
        scale, chosen = cases.QUICK if quick else cases.FULL, {"repeats": repeats, "parquet_rows": parquet_rows}
        _say_if_busy()
        _measure(results, lambda progress: run(progress, results, scale, parts=_listed(only), **chosen))
    _show(side_by_side, lambda results, report: write(results, report, plots), results, report, as_json)


@commands.command()
def engines(
    quick: Quick = False,
    results: Results = Path("engines.jsonl"),
    report: Report = None,
    only: Annotated[str, typer.Option(help="Only these engines, with commas.")] = "",
    rows: Annotated[str, typer.Option(help="Other numbers of rows, with commas.")] = "",
    repeats: Repeats = None,
    render: Render = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a fit costs: from files, in databases and on clusters.

    Example: [bold]python -m benchmarks engines --quick --only DuckDB[/bold]
    """
    from benchmarks.engines import cases
    from benchmarks.engines.report import side_by_side, write
    from benchmarks.engines.run import run

    if not render:
        scale, numbers = cases.QUICK if quick else cases.FULL, _numbers(rows)
        _say_if_busy()
        _measure(
            results,
            lambda progress: run(progress, results, scale, engines=_listed(only), rows=numbers, repeats=repeats),
        )
    _show(side_by_side, write, results, report, as_json)


@commands.command()
def search(
    quick: Quick = False,
    results: Results = Path("search.jsonl"),
    report: Report = None,
    render: Render = False,
    as_json: AsJson = False,
) -> None:
    """Measure whether a private search is worth its price.

    Example: [bold]DPFOREST_DATA=tables python -m benchmarks search --quick[/bold]
    """
    from benchmarks.search import run, side_by_side, write

    if not render:
        _measure(results, lambda progress: run(progress, results, 1 if quick else 10))
    _show(side_by_side, write, results, report, as_json)


@commands.command()
def accounting(
    quick: Quick = False,
    results: Results = Path("accounting.jsonl"),
    report: Report = None,
    render: Render = False,
    as_json: AsJson = False,
) -> None:
    """Measure how much accuracy tighter accounting with delta could buy at most.

    Example: [bold]DPFOREST_DATA=tables python -m benchmarks accounting --quick[/bold]
    """
    from benchmarks.accounting import run, side_by_side, write

    if not render:
        _measure(results, lambda progress: run(progress, results, quick))
    _show(side_by_side, write, results, report, as_json)


@commands.command()
def bounds(
    quick: Quick = False,
    results: Results = Path("bounds.jsonl"),
    report: Report = None,
    systems: Annotated[
        str, typer.Option(help="Only these, with commas: auto, auto before, peers or one of them, cost.")
    ] = "",
    tables: Tables = "",
    before: Annotated[
        Path | None, typer.Option(help="A worktree of an earlier commit of this repository, to measure beside this one.")
    ] = None,
    peers_env: PeersEnv = None,
    plots: Plots = True,
    render: Render = False,
    as_json: AsJson = False,
) -> None:
    """Measure what bounds of numbers that are too wide, or not known, cost.

    Example: [bold]DPFOREST_DATA=tables python -m benchmarks bounds --quick --systems auto[/bold]
    """
    from benchmarks.bounds.cases import group_of, wanted
    from benchmarks.bounds.report import side_by_side, write
    from benchmarks.bounds.run import run

    cases = wanted(quick, _listed(systems), _listed(tables))

    def measured(progress: Callable[[str], None]) -> Iterable[Any]:
        has_peers = any(group_of(case.system) == "peers" for case in cases)
        python = _peers_python(peers_env, progress) if has_peers else None
        yield from run(progress, results, cases, before=before, python=python)

    if not render:
        _measure(results, measured)
    _show(side_by_side, lambda results, report: write(results, report, plots), results, report, as_json)


def _peers_python(folder: Path | None, progress: Callable[[str], None]) -> Path | None:
    """The Python of the peers' environment; None, and a word why, if it cannot be made."""
    from benchmarks.core.results import NotMeasured
    from benchmarks.peers import environment

    try:
        return environment.build(folder, progress)
    except NotMeasured as error:
        errors.print(f"[bold]Without peers.[/bold] {escape(str(error))}", soft_wrap=True)
        return None


def _measure(results: Path, run: Callable[[Callable[[str], None]], Iterable[Any]]) -> None:
    """Run a benchmark, whose rows are written to ``results`` as they are measured; rows that are there stay."""
    from dpforest.common.files import check_writable

    check_writable(results)
    with steps("Measuring") as progress:
        for _ in run(progress):
            pass


def _say_if_busy() -> None:
    from benchmarks.core.machine import BUSY, load_average

    if (load_average() or 0.0) > BUSY:
        errors.print("[bold]The machine is busy.[/bold] Times will be those of a busy machine.", soft_wrap=True)


def _show(
    side_by_side: Callable[[Path], Lines],
    write: Callable[[Path, Path], Path],
    results: Path,
    report: Path | None,
    as_json: bool,
) -> None:
    """Write the page, if it is asked for, and print the figures."""
    if report is not None:
        output.print(f"Page: {escape(str(write(results, report)))}", soft_wrap=True)
    _print(side_by_side(results), as_json)


def _print(lines: Lines, as_json: bool) -> None:
    if as_json:
        print_json(lines)
        return
    for title, entries in _by_title(lines).items():
        first, *heads = entries[0]
        table = Table(title=escape(title), title_justify="left")
        table.add_column(first, overflow="fold", min_width={"what": 24, "engine": 22}.get(first))
        for head in heads:
            table.add_column(head)
        for entry in entries:
            table.add_row(*(escape(str(value)) for value in entry.values()))
        output.print(table)


def _by_title(lines: Lines) -> dict[str, Lines]:
    """The tables to print, by title: the lines of each experiment or table, in columns that fit a terminal."""
    tables: dict[str, Lines] = {}
    for line in lines:
        if "experiment" in line:
            what = ", ".join(part for part in (line["data"], line["system"], line["parameters"]) if part)
            figures = {SHORT.get(name, name): value for name, value in line.items() if name not in NOT_SHOWN}
            tables.setdefault(f"{line['experiment']} ({line['unit']})", []).append({"what": what, **figures})
        elif "metric" in line:
            figures = {name: value for name, value in line.items() if name not in IN_TITLE}
            tables.setdefault(f"{line['table']} ({line['metric']})", []).append(figures)
        else:
            figures = {name: value for name, value in line.items() if name != "section"}
            tables.setdefault(line.get("section", ""), []).append(figures)
    return tables


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    from dpforest.errors import ParameterError

    try:
        return tuple(int(float(number)) for number in _listed(text))
    except ValueError:
        raise ParameterError(f"--rows takes numbers with commas between them, not {text!r}.") from None
