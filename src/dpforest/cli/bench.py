"""dpforest bench: measured figures."""

import json
from typing import Annotated

import typer
from rich.table import Table

from dpforest.cli.console import output, steps


def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark: foundation.")] = "foundation",
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
) -> None:
    """Measure and print figures.

    Example: [bold]DPFOREST_DATA=tables dpforest bench foundation[/bold]
    """
    from dpforest.bench import foundation
    from dpforest.errors import ParameterError

    benches = {"foundation": foundation.run}
    if name not in benches:
        raise ParameterError(f"There is no benchmark {name!r}. Known: {', '.join(benches)}.")
    with steps("Measuring") as progress:
        rows = list(benches[name](progress))
    if as_json:
        output.print_json(json.dumps(rows))
        return
    table = Table("figure", "value")
    for row in rows:
        table.add_row(str(row["figure"]), str(row["value"]))
    output.print(table)
