"""dpforest recipes and plan: the catalogue, what a recipe does with a budget, and the beginning of a new recipe."""

import inspect
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from shlex import quote
from string import Template
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from dpforest.cli.console import output, print_json, say, show_table, steps
from dpforest.cli.options import AsJson, Delta, ReadAs, RecipeName, SchemaFile, named_recipe, opened, takes_format
from dpforest.common.files import write_whole
from dpforest.errors import NothingLearntWarning, ParameterError

if TYPE_CHECKING:
    from dpforest.parts.recipe import Recipe

TEMPLATE = Path(__file__).parent / "template"


class _Catalogue(TyperGroup):
    """A group of which the command ``show`` need not be typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in (*self.commands, "--help") else ["show", *args])


recipes = typer.Typer(
    cls=_Catalogue,
    help="List the catalogue, show one recipe ([bold]dpforest recipes NAME[/bold]), or begin a new one.",
)


@recipes.command("show")
def show(
    name: Annotated[
        str | None, typer.Argument(help="The name of a recipe, or module:NAME for one of your own, to show it in full.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Budget for which the ledger is shown.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """List the catalogue, or show one recipe with its ledger; the word show may be left out.

    Example: [bold]dpforest recipes show consul-2020 --epsilon 0.5[/bold]
    """
    from dpforest.recipes import get_recipe

    if name is None:
        _list(as_json)
        return
    own = named_recipe(name)
    recipe = get_recipe(own) if isinstance(own, str) else own
    ledger = _ledger(recipe, epsilon)
    if as_json:
        print_json(recipe.to_dict() | {"ledger": ledger.to_dict()})
        return
    _describe(recipe, sys.modules[name.partition(":")[0]] if recipe is own else _module(recipe.name, "recipes.papers"))
    charges = [(row["scope"], row["label"], row["mechanism"], f"{row[ledger.unit]:.4g}") for row in ledger.entries()]
    title = f"Ledger of a fit at epsilon = {epsilon:g}, on five features"
    show_table(title, ("scope", "for", "mechanism", ledger.unit), charges)
    output.print(f"Total: epsilon = {ledger.spent:.6g}")
    if recipe is own:
        say(f"Proof: {ledger.proof}.")


@recipes.command("new")
def new(
    name: Annotated[str, typer.Argument(help="The name of the recipe and of its module, such as my_leaves.")],
    out: Annotated[Path | None, typer.Option(help="The folder to write to; by default NAME, in this folder.")] = None,
) -> None:
    """Write a folder with a small recipe, a part of its own with its proof, and tests that pass; then change it.

    Example: [bold]dpforest recipes new my_leaves[/bold]
    """
    if not name.isidentifier() or iskeyword(name):
        raise ParameterError(f"The name is that of a Python module: letters, digits and _, such as my_leaves, not {name!r}.")
    known = find_spec(name)
    if known is not None and known.origin is not None:  # a folder of that name has none
        raise ParameterError(f"There is a module {name!r} already, in {known.origin}. Choose another name.")
    folder = Path(name) if out is None else out
    places = {"recipe.py.txt": f"{name}.py", "checks.py.txt": f"test_{name}.py", "README.md": "README.md"}
    for place in places.values():
        if (folder / place).exists():
            raise ParameterError(f"{folder / place} is there already, and nothing was written. Choose another --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"The folder {folder} cannot be made: {error.strerror}.") from None
    for source, place in places.items():
        text = Template((TEMPLATE / source).read_text("utf-8")).substitute(name=name)
        write_whole(folder / place, text.encode("utf-8"))
    say(f"Recipe, tests and README: {folder}")
    say(f"Then: cd {quote(str(folder))} && pytest && dpforest audit --recipe {name}:RECIPE")


@takes_format
def plan(
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the fit.")],
    delta: Delta = 0.0,
    recipe: RecipeName = "auto",
    table: Annotated[
        str | None, typer.Option(help="Take names of columns from this file, for patterns of the schema.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows that you expect, if the schema does not declare them.")] = None,
    n_trees: Annotated[int | None, typer.Option(help="Number of trees, if not the planned one.")] = None,
    max_depth: Annotated[int | None, typer.Option(help="Levels of splits, if not the planned ones.")] = None,
    max_rows_per_person: Annotated[
        int | None, typer.Option(help="Protect persons: how many rows of each are used at most.")
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


def _list(as_json: bool) -> None:
    """Print the catalogue."""
    from dpforest.recipes.catalogue import describe_recipes

    rows = describe_recipes()
    if as_json:
        print_json(rows)
        return
    table = Table("recipe", "paper; tasks", "splits on; budget", "published claim", show_lines=True)
    table.columns[0].no_wrap = True  # names are to be typed
    for row in rows:
        cells = (row["name"], f"{row['paper']};\n{row['tasks']}", f"{row['splits']};\n{row['budget']}", row["claim"])
        table.add_row(*map(escape, cells))
    output.print(table)


def _describe(recipe: "Recipe", module: Any) -> None:
    """Print what a recipe is, by the docstring of the module that holds it, and what can be set."""
    from dpforest.recipes import is_listed

    output.print(f"[bold]{escape(recipe.name)}[/bold]: {escape(recipe.title)}\n")
    output.print(escape(inspect.getdoc(module) or ""), soft_wrap=True)
    if recipe.claim:
        output.print(f"\n{'Published claim' if is_listed(recipe) else 'Claim'}: {escape(recipe.claim)}")
    if recipe.has_published_variant and is_listed(recipe):
        output.print("\n[bold]As printed[/bold] (variant='published'), for research:\n")
        output.print(escape(inspect.getdoc(_module(recipe.name, "published")) or ""), soft_wrap=True)
    output.print("\nIts recipe_params, with their defaults:")
    for parameter, value in recipe.settings().items():
        setting = recipe.all_parameters[parameter]
        words = f" (one of {', '.join(map(repr, setting[1]))})" if isinstance(setting, tuple) else ""
        output.print(escape(f"  {parameter} = {value!r}{words}"), soft_wrap=True)


def _module(name: str, room: str) -> Any:
    """The module that holds a recipe of the catalogue, or its printed form: what the paper does, and what departs."""
    return import_module(f"dpforest.{room}.{name.replace('-', '_')}")


def _ledger(recipe: "Recipe", epsilon: float) -> Any:
    """The ledger of a fit on an empty table with five features; what is charged does not depend on rows."""
    from dpforest.estimators import DPForestClassifier, DPForestRegressor
    from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema

    numeric = {f"number {index}": Numeric(0, 1) for index in (1, 2, 3)}
    listed = {f"category {index}": Categorical(("a", "b", "c")) for index in (1, 2)}
    is_classifier = "classification" in recipe.tasks
    target, kind = (Classes((0, 1)), DPForestClassifier) if is_classifier else (Bounded(0, 1), DPForestRegressor)
    schema = Schema({**numeric, **listed}, target, n_rows=10_000, one_row_per_person=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingLearntWarning)  # there is nothing to learn
        return kind(schema, epsilon=epsilon, recipe=recipe).fit([], []).ledger_
