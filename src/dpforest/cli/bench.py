"""dpforest bench: measured figures."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import output, steps

# Columns of a row on the papers that the table's title and first column say, or that only the page has room for.
SHORT = {"no privacy, same system": "ε = ∞", "no privacy, random forest": "forest", "always the same answer": "guess"}
NOT_SHOWN = ("experiment", "unit", "data", "system", "parameters", "splits", "private at 2ε")


def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark: foundation or papers.")] = "foundation",
    quick: Annotated[bool, typer.Option("--quick", help="papers: a subset, in under two minutes.")] = False,
    results: Annotated[Path, typer.Option(help="papers: rows are kept here; a second run goes on where it ended.")] = Path(
        "papers.jsonl"
    ),
    report: Annotated[Path | None, typer.Option(help="papers: a folder for the page and its plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
) -> None:
    """Measure and print figures.

    Example: [bold]DPFOREST_DATA=tables dpforest bench papers --quick[/bold]
    """
    from dpforest.errors import ParameterError

    if name not in ("foundation", "papers"):
        raise ParameterError(f"There is no benchmark {name!r}. Known: foundation, papers.")
    rows = _papers(quick, results, report) if name == "papers" else _foundation()
    if as_json:
        output.print_json(json.dumps(rows))
        return
    for title, lines in _by_experiment(rows).items():
        first, *heads = lines[0]
        table = Table(title=escape(title), title_justify="left")
        table.add_column(first, overflow="fold", min_width=24)
        for head in heads:
            table.add_column(head)
        for line in lines:
            table.add_row(*(escape(str(value)) for value in line.values()))
        output.print(table)


def _by_experiment(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows of the papers under the title of their table, in columns that fit a terminal; other rows as they are."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "experiment" not in row:
            tables.setdefault("", []).append(row)
            continue
        what = ", ".join(part for part in (row["data"], row["system"], row["parameters"]) if part)
        figures = {SHORT.get(name, name): value for name, value in row.items() if name not in NOT_SHOWN}
        tables.setdefault(f"{row['experiment']} ({row['unit']})", []).append({"what": what, **figures})
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
