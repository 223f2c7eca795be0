"""dpforest bench: measured figures."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import output, steps


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
    table = Table(*rows[0].keys()) if rows else Table("nothing was run")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    output.print(table)


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
