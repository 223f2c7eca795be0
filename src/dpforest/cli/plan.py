"""dpforest plan: what a fit would do with its budget, before any data are touched."""

from typing import Annotated

import typer

from dpforest.cli.console import print_json, show_table, steps
from dpforest.cli.options import AsJson, Delta, ReadAs, SchemaFile, opened, takes_format
from dpforest.cli.own_recipes import RecipeName, named_recipe


@takes_format
def plan(
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the fit.")],
    delta: Delta = 0.0,
    recipe: RecipeName = "auto",
    table: Annotated[
        str | None,
        typer.Option(help="Take names of columns from this file, for patterns of the schema.", show_default=False),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows that you expect, if the schema does not declare them.")] = None,
    n_trees: Annotated[int | None, typer.Option(help="Number of trees, if not the planned one.")] = None,
    max_depth: Annotated[int | None, typer.Option(help="Levels of splits, if not the planned ones.")] = None,
    max_rows_per_person: Annotated[
        int | None,
        typer.Option(help="Protect persons: how many rows of each are used at most.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    *,
    read_as: ReadAs,
) -> None:
    """Show what a recipe would do and where each share of the budget goes. Reads no row and spends nothing.

    Example: [bold]dpforest plan --schema adult.schema.json --epsilon 1 --rows 50000[/bold]
    """
    from dpforest.schema import Schema
    from dpforest.show.plan import explain

    facts, chosen = Schema.from_file(schema), named_recipe(recipe)
    columns = None if table is None else opened(table, read_as(facts.format)).public_names()
    with steps("Planning"):
        found = explain(facts, rows, epsilon, delta, n_trees, max_depth, columns, chosen, max_rows_per_person)
    if as_json:
        print_json(found.to_dict())
        return
    budget = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")
    budget += " of a person" if max_rows_per_person else ""
    for title, heads, lines in (
        (f"Plan for {budget}", ("choice", "value", "why"), found.choices),
        ("Where the budget goes", ("step", "share", "of what, and for what"), found.shares),
        ("Leaf size against noise", ("leaf", "size and noise", "size in units of the noise"), found.noise),
        ("What the schema does not know", ("it lacks", "share", "for what, and what knowing it would buy"), found.unknown),
    ):
        if lines:
            show_table(title, heads, [(line.what, line.value, line.why) for line in lines])
