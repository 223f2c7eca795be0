"""Arguments and options that several commands take, and the check of where they write."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")]
SchemaFile = Annotated[Path, typer.Option(help="Public facts about the table, .json or .toml.")]
Delta = Annotated[float, typer.Option(help="Delta of the guarantee; 0 means pure epsilon.")]
BudgetName = Annotated[
    str | None, typer.Option(help="Charge what is spent to this budget, FILE::DATASET.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def check_ending(out: Path, what: str, *endings: str) -> None:
    """Raise unless a file name has one of these endings, which say what is written."""
    from dpforest.errors import ParameterError

    if out.suffix not in endings:
        listed = " or ".join([", ".join(endings[:-1]), endings[-1]]) if len(endings) > 1 else endings[0]
        raise ParameterError(f"{what} to {listed}, not to {str(out)!r}.")
