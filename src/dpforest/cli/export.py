"""dpforest export: a model for systems that do not have dpforest."""

from pathlib import Path
from typing import Annotated

import typer

from dpforest.cli.console import say


def export(
    model: Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")],
    out: Annotated[Path, typer.Option(help="Where to write; the ending says what: .onnx, .sql or .json.")],
    table: Annotated[str, typer.Option(help="sql: the table to score.")] = "records",
) -> None:
    """Write a model as ONNX, as a SQL query that scores a table, or as JSON; [bold]dpforest rules[/bold] writes its rules.

    Example: [bold]dpforest export adult.dpf --out adult.onnx[/bold]
    """
    from dpforest.errors import ParameterError
    from dpforest.estimators import load_model
    from dpforest.files import check_writable, write_whole

    if out.suffix not in (".onnx", ".sql", ".json"):
        raise ParameterError(f"Models are exported to .onnx, .sql or .json, not to {str(out)!r}.")
    check_writable(out, model)
    forest = load_model(model)
    if out.suffix == ".onnx":
        content = forest.to_onnx()
    else:
        content = (forest.to_sql(table) if out.suffix == ".sql" else forest.to_json()).encode("utf-8")
    write_whole(out, content)
    say(f"Model: {out}")
