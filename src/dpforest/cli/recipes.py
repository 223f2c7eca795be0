"""dpforest recipes: the catalogue, and what one recipe does with a budget."""

import inspect
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import output, print_json, show_table
from dpforest.cli.options import AsJson


def recipes(
    name: Annotated[str | None, typer.Argument(help="The name of a recipe, to show it in full.")] = None,
    epsilon: Annotated[float, typer.Option(help="Budget for which the ledger is shown.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """List the catalogue, or show one recipe with its ledger.

    Example: [bold]dpforest recipes consul-2020 --epsilon 0.5[/bold]
    """
    from dpforest.recipes import get_recipe
    from dpforest.recipes.catalogue import describe_recipes

    if name is None:
        rows = describe_recipes()
        if as_json:
            print_json(rows)
            return
        table = Table(show_lines=True)
        table.add_column("recipe", no_wrap=True)  # names are to be typed
        for head in ("paper; tasks", "splits on; budget", "published claim"):
            table.add_column(head)
        for row in rows:
            cells = (row["name"], f"{row['paper']};\n{row['tasks']}", f"{row['splits']};\n{row['budget']}", row["claim"])
            table.add_row(*map(escape, cells))
        output.print(table)
        return
    recipe = get_recipe(name)
    ledger = _ledger(name, epsilon)
    if as_json:
        print_json(recipe.to_dict() | {"ledger": ledger.to_dict()})
        return
    output.print(f"[bold]{escape(recipe.name)}[/bold]: {escape(recipe.title)}\n")
    output.print(escape(_documentation(name, "private")), soft_wrap=True)
    output.print(f"\nPublished claim: {escape(recipe.claim)}")
    if recipe.has_published_variant:
        output.print("\n[bold]As printed[/bold] (variant='published'), for research:\n")
        output.print(escape(_documentation(name, "published")), soft_wrap=True)
    output.print("\nIts recipe_params, with their defaults:")
    for parameter, value in recipe.settings().items():
        setting = recipe.all_parameters[parameter]
        words = f" (one of {', '.join(map(repr, setting[1]))})" if isinstance(setting, tuple) else ""
        output.print(escape(f"  {parameter} = {value!r}{words}"), soft_wrap=True)
    charges = [(row["scope"], row["label"], row["mechanism"], f"{row[ledger.unit]:.4g}") for row in ledger.entries()]
    show_table(
        f"Ledger of a fit at epsilon = {epsilon:g}, on five features", ("scope", "for", "mechanism", ledger.unit), charges
    )
    output.print(f"Total: epsilon = {ledger.spent:.6g}")


def _documentation(name: str, variant: str) -> str:
    """The docstring of the module that holds a recipe, or its printed form: what the paper does, and what departs."""
    from importlib import import_module

    module = import_module(f"dpforest.recipes.{variant}.{name.replace('-', '_')}")
    return inspect.getdoc(module) or ""


def _ledger(name: str, epsilon: float) -> Any:
    """The ledger of a fit on an empty table with five features; what is charged does not depend on rows."""
    import warnings

    from dpforest.errors import NothingLearntWarning
    from dpforest.estimators import DPForestClassifier
    from dpforest.schema import Categorical, Classes, Numeric, Schema

    numeric = {f"number {index}": Numeric(0, 1) for index in (1, 2, 3)}
    listed = {f"category {index}": Categorical(("a", "b", "c")) for index in (1, 2)}
    schema = Schema({**numeric, **listed}, Classes((0, 1)), n_rows=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingLearntWarning)  # there is nothing to learn
        return DPForestClassifier(schema, epsilon=epsilon, recipe=name).fit([], []).ledger_
