"""Pages of the catalogue: what each recipe does, its parts, and its ledger."""

import inspect
import json
import re
from dataclasses import fields
from importlib import import_module
from typing import Any

from docs_references import cite
from docs_text import code, labelled, prose, table
from typer.testing import CliRunner

from dpforest.cli.main import commands
from dpforest.parts.recipe import ByTarget, Recipe
from dpforest.privacy.ledger import Ledger
from dpforest.published.form import get_published
from dpforest.recipes import get_recipe, list_recipes
from dpforest.recipes.catalogue import describe_recipes

# Fields of a recipe that are not parts, but facts about it.
FACTS = ("name", "title", "paper", "tasks", "planner", "parameters", "has_published_variant", "claim")
PRINTED = {True: '`variant="published"`, for research: not private', False: "not available"}
LONG = 20  # rows of a ledger that is folded
INTRO = """Every algorithm of the catalogue, with its privacy corrected and proved. *Published claim* says whether the
guarantee that the paper states holds for the algorithm that it prints ([the review](../review.md) has the reasons); the
recipe here keeps its own claim in every case. [Own recipes](../guide/recipes.md) are made of the same parts."""


def recipe_pages(entries: dict[str, str]) -> dict[str, str]:
    """The address and content of each page."""
    pages = {f"recipes/{recipe['name']}.md": page(recipe["name"], entries) for recipe in list_recipes()}
    return {"recipes/index.md": index(), **pages}


def index() -> str:
    heads = ("recipe", "paper", "tasks", "splits on", "budget", "published claim")
    rows = [
        (f"[{row['name']}]({row['name']}.md)", *(prose(row[key]) for key in ("paper", "tasks", "splits", "budget", "claim")))
        for row in describe_recipes()
    ]
    return "\n\n".join(
        (
            "---\nhide: [toc]\n---",
            "# Recipes",
            INTRO,
            table(heads, rows),
        )
    )


def page(name: str, entries: dict[str, str]) -> str:
    recipe = get_recipe(name)
    facts = {"paper": prose(recipe.paper), "tasks": ", ".join(recipe.tasks)}
    if recipe.planner is None:
        facts["published claim"] = prose(recipe.claim)
        facts["as printed"] = PRINTED[recipe.has_published_variant]
    return "\n\n".join(
        (
            f"# {name}",
            prose(recipe.title) + ".",
            "\n".join(f"* **{what}:** {value}" for what, value in facts.items()),
            "## What it does",
            *description(name, entries),
            *printed(recipe, entries),
            f"```python\n{example(name)}```",
            *parameters(recipe),
            *parts(recipe),
            *ledger(name),
        )
    )


def description(name: str, entries: dict[str, str]) -> list[str]:
    """What the recipe's module says of it."""
    shown = said(f"dpforest.recipes.papers.{name.replace('-', '_')}", ("Paper", "Kept", "Departs"), entries)
    return [*shown, "[How it plans](../guide/default.md), and why it is private."] if name == "auto" else shown


def printed(recipe: Recipe, entries: dict[str, str]) -> list[str]:
    """What the module of the printed form says of it, and why its claim does not hold."""
    if not recipe.has_published_variant:
        return []
    labels = ("As printed", "Readings", "Departs", "Not in the paper")
    shown = said(f"dpforest.published.{recipe.name.replace('-', '_')}", labels, entries)
    leaks = "\n".join(f"* {prose(leak)}" for leak in get_published(recipe.name).leaks)
    return ["## As printed", *shown, "Why it is not private:", leaks.replace("docs/review.md", "[the review](../review.md)")]


def said(module: str, labels: tuple[str, ...], entries: dict[str, str]) -> list[str]:
    """The docstring of a module, with a paragraph for each label and its lists as lists."""
    text = (inspect.getdoc(import_module(module)) or "").replace("docs/review.md", "the review")
    shown = []
    for label, piece in labelled(text, labels):
        blocks = [block for block in piece.split("\n\n") if block.strip()]
        for place, block in enumerate(blocks):
            head, *items = re.split(r"^- ", block, flags=re.MULTILINE)
            start = f"**{label}:** " if label and not place else ""
            lines = [start + cite(head, entries, "../")] if head.strip() else []
            shown.append("\n".join(lines + [f"* {cite(item, entries, '../')}" for item in items]))
    return [block.replace("the review", "[the review](../review.md)") for block in shown]


def example(name: str) -> str:
    """Code that fits the recipe to a real table."""
    return (
        "from dpforest import DPForestClassifier\n"
        "from dpforest.datasets import load_survey\n\n"
        "X, y, schema = load_survey()\n"
        f'model = DPForestClassifier(schema, epsilon=1.0, recipe="{name}")\n'
        "model.fit(X, y)\n"
        "print(model.privacy_)\n"
    )


def parameters(recipe: Recipe) -> list[str]:
    """What ``recipe_params`` may set, with what it is unless set."""
    rows = []
    for name, default in recipe.settings().items():
        place = recipe.all_parameters[name]
        place, words = place if isinstance(place, tuple) else (place, ())
        choices = ", ".join(code(repr(word)) for word in words)
        rows.append((code(name), code(repr(default)), choices, code(place)))
    shape = "`n_trees=` and `max_depth=` of the estimator set the shape of the forest."
    text = f"Set by `recipe_params={{...}}`; each is a value of a part below. {shape}"
    return ["## Parameters", text, table(("parameter", "default", "choices", "where"), rows)]


def parts(recipe: Recipe) -> list[str]:
    """The parts that differ from a recipe's defaults."""
    if recipe.planner is not None:
        text = "Planned from the number of rows, ε, δ, features and classes; `dpforest plan` shows them before a fit."
        return ["## Parts", text]
    rows = [
        (code(item.name), part(getattr(recipe, item.name)))
        for item in fields(recipe)
        if item.name not in FACTS and getattr(recipe, item.name) not in (None, False, ())
        if item.name != "n_rows_share" or recipe.needs_rows
        if item.name != "secret_sample" or recipe.secret_sample.needs_rows
    ]
    return ["## Parts", table(("part", "what"), rows)]


def part(value: Any) -> str:
    if isinstance(value, ByTarget):
        return f"classes: {code(value.classes)}<br>numbers: {code(value.bounded)}"
    if isinstance(value, tuple):
        return "<br>".join(code(item) for item in value)
    return code(value)


def ledger(name: str) -> list[str]:
    """What ``dpforest recipes NAME`` shows of a fit."""
    shown = CliRunner().invoke(commands, ["recipes", name, "--json"], catch_exceptions=False)
    charges = Ledger.from_dict(json.loads(shown.stdout)["ledger"])
    rows = [
        (prose(entry["scope"]), prose(entry["label"]), entry["mechanism"], f"{entry[charges.unit]:.4g}")
        for entry in charges.entries()
    ]
    text = table(("scope", "what", "mechanism", charges.unit), rows)
    if len(rows) > LONG:
        text = f'??? note "{len(rows)} charges"\n\n' + "\n".join(f"    {line}" for line in text.splitlines())
    return [
        "## Ledger at ε = 1",
        f'For three numbers, two categories and two classes, as `dpforest recipes {name}` prints it. A charge inside "each '
        'tree" is made once for each of them.',
        text,
        f"Total: ε = {charges.spent:.6g}",
    ]
