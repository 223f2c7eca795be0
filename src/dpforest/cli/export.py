"""dpforest export: a model for systems that do not have dpforest."""

from pathlib import Path
from typing import Annotated

import typer

from dpforest.cli.console import say, steps
from dpforest.cli.options import Model, check_ending


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help="Where to write; the ending says what: .onnx, .sql or .json.")],
    table: Annotated[str, typer.Option(help="For .sql: the table that the query scores.")] = "records",
    id: Annotated[
        list[str] | None,
        typer.Option(
            help="For .sql: a column to give beside the predictions and to order them by, instead of all columns in no "
            "order; may be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a model as ONNX, as a SQL query that scores a table, or as JSON; [bold]dpforest rules[/bold] writes its rules.

    Example: [bold]dpforest export adult.dpf --out adult.onnx[/bold]
    """
    from dpforest.common.files import check_writable, write_whole
    from dpforest.errors import ParameterError
    from dpforest.estimators import load_model

    check_ending(out, "Models are exported", ".onnx", ".sql", ".json")
    check_writable(out, model)
    if id and out.suffix != ".sql":
        raise ParameterError("--id names columns of a table in a database; it goes with an export to .sql alone.")
    with steps("Export") as progress:
        progress("reading the model")
        forest = load_model(model)
        progress(f"writing {out.suffix}")
        if out.suffix == ".onnx":
            content = forest.to_onnx()
        else:
            content = (forest.to_sql(table, id or ()) if out.suffix == ".sql" else forest.to_json()).encode("utf-8")
        write_whole(out, content)
    say(f"Model: {out}")
