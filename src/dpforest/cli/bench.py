"""dpforest bench: measured figures."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import errors, output, print_json, steps

# Columns of a row on the papers that the table's title and first column say, or that only the page has room for.
SHORT = {"no privacy, same system": "ε = ∞", "no privacy, random forest": "forest", "always the same answer": "guess"}
NOT_SHOWN = ("experiment", "unit", "data", "system", "parameters", "splits", "private at 2ε")
# Columns of a row on utility that its table's title says, or that only the page has room for.
IN_TITLE = ("table", "metric", "which")
BENCHMARKS = ("foundation", "papers", "utility", "speed", "engines", "search")


def bench(
    name: Annotated[
        str, typer.Argument(help="Which benchmark: foundation, papers, utility, speed, engines or search.")
    ] = "foundation",
    quick: Annotated[bool, typer.Option("--quick", help="All but foundation: a subset, in under two minutes.")] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Rows are kept here; a second run goes on where it ended. By default NAME.jsonl.", show_default=False
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="A folder for the page and its plots.")] = None,
    systems: Annotated[
        str, typer.Option(help="utility: only these, with commas; names or auto, recipes, peers, references, ablations.")
    ] = "",
    tables: Annotated[str, typer.Option(help="utility: only these tables, with commas.")] = "",
    no_peers: Annotated[bool, typer.Option("--no-peers", help="utility: without other people's systems.")] = False,
    peers_env: Annotated[
        Path | None,
        typer.Option(help="utility: environment of the peers, made there if it is not; by default in the cache."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="utility: cases to run side by side.")] = 2,
    only: Annotated[
        str,
        typer.Option(help="speed: only these parts, with commas: goals, growth, memory, parquet. engines: only these."),
    ] = "",
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, help="speed, engines: runs of a case; the best counts. By default 3, quick 2.", show_default=False
        ),
    ] = None,
    rows: Annotated[str, typer.Option(help="engines: other numbers of rows, with commas.")] = "",
    parquet_rows: Annotated[
        int | None, typer.Option(min=1, help="speed: rows of the Parquet file; by default 30,000,000.", show_default=False)
    ] = None,
    plots: Annotated[bool, typer.Option(help="speed, engines: plots beside the page.")] = True,
    render: Annotated[
        bool, typer.Option("--render", help="speed, engines, search: measure nothing, use the rows that are kept.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
) -> None:
    """Measure and print figures.

    Example: [bold]DPFOREST_DATA=tables dpforest bench utility --quick[/bold]
    """
    from dpforest.errors import ParameterError

    if name not in BENCHMARKS:
        raise ParameterError(f"There is no benchmark {name!r}. Known: {', '.join(BENCHMARKS)}.")
    results = results or Path(f"{name}.jsonl")
    if name == "foundation":
        found = _foundation()
    elif name == "papers":
        found = _papers(quick, results, report)
    elif name == "speed":
        settings = {"parts": _listed(only), "repeats": repeats, "parquet_rows": parquet_rows}
        found = _speed(quick, results, report, plots, None if render else settings)
    elif name == "engines":
        settings = {"engines": _listed(only), "rows": _numbers(rows), "repeats": repeats}  # type: ignore[dict-item]
        found = _engines(quick, results, report, plots, None if render else settings)
    elif name == "search":
        found = _search(results, report, 0 if render else 1 if quick else 10)
    else:
        chosen = {"systems": _listed(systems), "tables": _listed(tables), "n_jobs": jobs}
        found = _utility(quick, results, report, None if no_peers else (peers_env,), chosen)
    if as_json:
        print_json(found)
        return
    for title, lines in _by_experiment(found).items():
        first, *heads = lines[0]
        table = Table(title=escape(title), title_justify="left")
        table.add_column(first, overflow="fold", min_width={"what": 24, "engine": 22}.get(first))
        for head in heads:
            table.add_column(head)
        for line in lines:
            table.add_row(*(escape(str(value)) for value in line.values()))
        output.print(table)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    from dpforest.errors import ParameterError

    try:
        return tuple(int(float(number)) for number in _listed(text))
    except ValueError:
        raise ParameterError(f"--rows takes numbers with commas between them, not {text!r}.") from None


def _by_experiment(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows under the title of their experiment or table, in columns that fit a terminal; other rows as they are."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "experiment" in row:
            what = ", ".join(part for part in (row["data"], row["system"], row["parameters"]) if part)
            figures = {SHORT.get(name, name): value for name, value in row.items() if name not in NOT_SHOWN}
            tables.setdefault(f"{row['experiment']} ({row['unit']})", []).append({"what": what, **figures})
        elif "metric" in row:
            figures = {name: value for name, value in row.items() if name not in IN_TITLE}
            tables.setdefault(f"{row['table']} ({row['metric']})", []).append(figures)
        elif "section" in row:
            tables.setdefault(row["section"], []).append({name: value for name, value in row.items() if name != "section"})
        else:
            tables.setdefault("", []).append(row)
    return tables


def _foundation() -> list[dict[str, Any]]:
    from dpforest.bench import foundation

    with steps("Measuring") as progress:
        return list(foundation.run(progress))


def _papers(quick: bool, results: Path, report: Path | None) -> list[dict[str, Any]]:
    from dpforest.bench import papers, papers_report
    from dpforest.files import check_writable

    check_writable(results)
    with steps("Measuring") as progress:
        for _ in papers.run(progress, quick, results):
            pass
    if report is not None:
        output.print(f"Page: {escape(str(papers_report.write(results, report)))}", soft_wrap=True)
    return papers_report.side_by_side(results)


def _utility(
    quick: bool, results: Path, report: Path | None, peers_env: tuple[Path | None] | None, chosen: dict[str, Any]
) -> list[dict[str, Any]]:
    """``peers_env`` is None for no peers, else where they live."""
    from dpforest.bench import peers, utility, utility_report
    from dpforest.files import check_writable

    check_writable(results)
    wanted = utility.wanted(quick, chosen["systems"], chosen["tables"])
    python = None
    with steps("Measuring") as progress:
        if peers_env is not None and any(utility.group_of(case.system) == "peers" for case in wanted):
            try:
                python = peers.build(*peers_env, progress)
            except peers.NoPeers as error:
                errors.print(f"[bold]Without peers.[/bold] {escape(str(error))}", soft_wrap=True)
        for _ in utility.run(progress, results, wanted, python=python, n_jobs=chosen["n_jobs"]):
            pass
    if report is not None:
        output.print(f"Page: {escape(str(utility_report.write(results, report)))}", soft_wrap=True)
    return utility_report.side_by_side(results)


def _search(results: Path, report: Path | None, n_splits: int) -> list[dict[str, Any]]:
    from dpforest.bench import search
    from dpforest.files import check_writable

    if n_splits:
        check_writable(results)
        with steps("Measuring") as progress:
            search.run(progress, results, n_splits)
    if report is not None:
        output.print(f"Page: {escape(str(search.write(results, report)))}", soft_wrap=True)
    return search.side_by_side(results)


def _speed(
    quick: bool, results: Path, report: Path | None, plots: bool, settings: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """``settings`` is None to measure nothing."""
    from dpforest.bench import speed, speed_cases, speed_report

    return _timed(speed, speed_report, speed_cases.QUICK if quick else speed_cases.FULL, results, report, plots, settings)


def _engines(
    quick: bool, results: Path, report: Path | None, plots: bool, settings: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """``settings`` is None to measure nothing."""
    from dpforest.bench import engines, engines_cases, engines_report

    scale = engines_cases.QUICK if quick else engines_cases.FULL
    return _timed(engines, engines_report, scale, results, report, plots, settings)


def _timed(
    bench: Any, page: Any, scale: Any, results: Path, report: Path | None, plots: bool, settings: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """A benchmark of times: on a busy machine they are those of a busy machine."""
    from dpforest.bench.speed import BUSY, load_average
    from dpforest.files import check_writable

    if settings is not None:
        check_writable(results)
        if (load_average() or 0.0) > BUSY:
            errors.print("[bold]The machine is busy.[/bold] Times will be those of a busy machine.", soft_wrap=True)
        with steps("Measuring") as progress:
            for _ in bench.run(progress, results, scale, **settings):
                pass
    if report is not None:
        output.print(f"Page: {escape(str(page.write(results, report, plots)))}", soft_wrap=True)
    return page.side_by_side(results)
