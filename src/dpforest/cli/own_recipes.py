"""The option that names a recipe: one of the catalogue, or module:NAME for a recipe of your own."""

import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dpforest.parts.recipe import Recipe

RecipeName = Annotated[
    str,
    typer.Option(help="A recipe of the catalogue, which dpforest recipes lists, or module:NAME for one of your own."),
]


def named_recipe(text: str) -> "str | Recipe":
    """The recipe that ``module:NAME`` names, from this folder or installed; any other text is given back as it is."""
    from dpforest.errors import ParameterError
    from dpforest.parts.recipe import Recipe

    module_name, colon, name = text.partition(":")
    if not colon:
        return text
    if not all(part.isidentifier() for part in (*module_name.split("."), name)) or module_name.endswith(".py"):
        raise ParameterError(
            f"A recipe of your own is named as module:NAME, mine:RECIPE for the value RECIPE of mine.py, not as {text!r}."
        )
    content = vars(_imported(module_name))
    if name not in content:
        recipes = [own for own, value in content.items() if isinstance(value, Recipe)]
        there = f"Its recipes are {', '.join(recipes)}." if recipes else "There is no recipe in it."
        raise ParameterError(f"Module {module_name!r} has no value {name!r}. {there}")
    if not isinstance(content[name], Recipe):
        kind = type(content[name]).__name__
        raise ParameterError(f"{text} is no Recipe: its type is {kind}. Make one with dpforest.parts.recipe.Recipe(...).")
    return content[name]


def _imported(name: str) -> object:
    """The module of that name; the folder in which the command was typed comes first, as for a script in it."""
    from dpforest.errors import ParameterError

    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise ParameterError(f"There is no module {name!r}, neither in {folder} nor installed.") from None
        *_, said = traceback.format_exception_only(error)
        raise ParameterError(f"Module {name!r} cannot be imported. {_place(error)} {said.strip()}") from None


def _place(error: BaseException) -> str:
    """The file and the line in which a module fails, in words."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}:"
    frames = traceback.extract_tb(error.__traceback__)
    frame = [frame for frame in frames if not frame.filename.startswith("<frozen")][-1]  # these are how Python imports
    return f"{frame.filename}, line {frame.lineno}:"
