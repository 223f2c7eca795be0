"""dpforest bench: runs the benchmarks, where the repository has them."""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from dpforest.cli.console import refuse

HERE = "src/dpforest/cli/bench.py"  # this file, in a clone
MISSING = (
    "The benchmarks are not part of what pip installs: they are in the repository of dpforest, beside its sources. "
    "Clone the repository, then type in its folder: pip install --editable '.[bench]', and dpforest bench --help. "
    "Or type make bench there, which sets everything up."
)


class _Benchmarks(TyperGroup):
    """The commands of the package ``benchmarks``, which is looked for when one of them is asked for."""

    @property  # type: ignore[override]
    def commands(self) -> dict[str, Any]:
        return _found().commands

    @commands.setter
    def commands(self, own: dict[str, Any]) -> None:
        """Do nothing: typer sets the commands of a new group, and this one has none of its own."""


@cache
def _found() -> Any:
    """The group of all benchmarks, from the clone that this file is in or in which the command is typed.

    Exits with an explanation where there is neither; a package of that name that somebody else installed is not taken.
    """
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / HERE).is_file() and (root / "benchmarks" / "commands.py").is_file():
            sys.path.insert(0, str(root))
            return typer.main.get_command(import_module("benchmarks.commands").commands)
    refuse(MISSING)
    raise typer.Exit(2)


bench = typer.Typer(
    cls=_Benchmarks, no_args_is_help=True, help="Run a benchmark and print its figures; there is one for each question."
)
