"""The command ``dpforest`` with all its commands. Exit codes: 0 done, 1 refused, 2 wrong usage."""

import signal
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer

from dpforest.cli.audit import audit
from dpforest.cli.budget import budget
from dpforest.cli.console import refuse, say, steps
from dpforest.cli.demo import demo
from dpforest.cli.fit import fit
from dpforest.cli.predict import evaluate, predict
from dpforest.cli.recipes import plan, recipes
from dpforest.cli.saved import export, ledger, report, rules
from dpforest.cli.schema import schema
from dpforest.errors import DPForestError

commands = typer.Typer(
    help="Differentially private random forests.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    # A traceback with local variables would show rows.
    pretty_exceptions_enable=False,
)
for command in (demo, plan, fit, predict, evaluate, report, ledger, rules, export, audit):
    commands.command()(command)
for name, group in {"schema": schema, "budget": budget, "recipes": recipes}.items():
    commands.add_typer(group, name=name)


@commands.command("bench", hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def _bench() -> None:
    """Say how benchmarks are run: the old name, for one release."""
    refuse("Benchmarks are run in a clone of the repository of dpforest, by `python -m benchmarks`, which lists them.")
    raise typer.Exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"dpforest {version('dpforest')}")
        raise typer.Exit


@commands.callback()
def every_command(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Differentially private random forests."""
    if context.invoked_subcommand not in ("schema", "budget") and "--help" not in sys.argv:
        with steps("Loading"):
            import dpforest.estimators  # noqa: F401 - numpy, scikit-learn and numba take a while


def app(group: Any = commands) -> None:
    """Run the command of a group that was typed; a refusal is one clear line, not a traceback."""
    # Ended from outside, a command cleans up after itself, as it does when it is interrupted at the keyboard.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        group()
    except DPForestError as error:
        refuse(error)
        sys.exit(1)
