"""The command ``dpforest`` with all its commands. Exit codes: 0 done, 1 refused, 2 wrong usage."""

import signal
import sys
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any

import typer

from dpforest.cli import (
    audit,
    bench,
    budget,
    demo,
    evaluate,
    export,
    fit,
    ledger,
    plan,
    predict,
    recipes,
    report,
    rules,
    schema,
)
from dpforest.cli.console import refuse, say, steps
from dpforest.errors import DPForestError

# Commands that train models or read them.
WITH_MODELS = (
    "demo", "plan", "fit", "predict", "evaluate", "report", "ledger", "rules", "export",
    "recipes", "audit",
)  # fmt: skip


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"dpforest {version('dpforest')}")
        raise typer.Exit


commands = typer.Typer(
    help="Differentially private random forests.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    # A traceback with local variables would show rows.
    pretty_exceptions_enable=False,
)
commands.command("demo")(demo.demo)
commands.add_typer(schema.schema, name="schema")
commands.command("plan")(plan.plan)
commands.command("fit")(fit.fit)
commands.command("predict")(predict.predict)
commands.command("evaluate")(evaluate.evaluate)
commands.command("report")(report.report)
commands.command("ledger")(ledger.ledger)
commands.command("rules")(rules.rules)
commands.command("export")(export.export)
commands.add_typer(budget.budget, name="budget")
commands.add_typer(recipes.recipes, name="recipes")
commands.command("audit")(audit.audit)
commands.command("bench", hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    bench.bench
)


@commands.callback()
def every_command(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Differentially private random forests."""
    if context.invoked_subcommand in WITH_MODELS and "--help" not in sys.argv:
        with steps("Loading"):
            import dpforest.estimators  # noqa: F401 - numpy, scikit-learn and numba take a while


def app(group: Any = commands) -> None:
    """Run the command of a group that was typed; a refusal is one clear line, not a traceback."""
    # Ended from outside, a command cleans up after itself, as it does when it is interrupted at the keyboard.
    signal.signal(signal.SIGTERM, _stop)
    try:
        group()
    except DPForestError as error:
        refuse(error)
        sys.exit(1)


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    app()
