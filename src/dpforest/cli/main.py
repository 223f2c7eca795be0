"""dpforest: the command line. Exit codes: 0 done, 1 refused, 2 usage."""

import sys

import typer
from rich.markup import escape

from dpforest.cli import audit, bench, demo, fit, plan, predict, recipes, rules
from dpforest.cli.console import errors
from dpforest.errors import DPForestError

commands = typer.Typer(
    help="Differentially private random forests.", no_args_is_help=True, add_completion=False, rich_markup_mode="rich"
)
commands.command("demo")(demo.demo)
commands.command("fit")(fit.fit)
commands.command("plan")(plan.plan)
commands.command("predict")(predict.predict)
commands.command("recipes")(recipes.recipes)
commands.command("rules")(rules.rules)
commands.command("audit")(audit.audit)
commands.command("bench")(bench.bench)


def app() -> None:
    """Run a command; a refusal is one clear line, not a traceback."""
    try:
        commands()
    except DPForestError as error:
        errors.print(f"[bold]Refused.[/bold] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(1)


if __name__ == "__main__":
    app()
