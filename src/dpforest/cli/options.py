"""Arguments and options that several commands take, what they stand for, and the check of where commands write."""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpforest.common.files import check_writable
from dpforest.errors import ParameterError

if TYPE_CHECKING:
    from dpforest.parts.recipe import Recipe

TABLE = (
    "CSV or other text (also .gz, .bz2, .zst, .zip), Excel, JSON lines, Parquet, Feather, SPSS, Stata or SAS; or "
    "duckdb:///FILE::TABLE, postgresql://…::TABLE"
)
Model = Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")]
SchemaFile = Annotated[Path, typer.Option(help="Public facts about the table, .json or .toml.")]
Delta = Annotated[float, typer.Option(help="Delta of the guarantee; 0 means pure epsilon.")]
BudgetName = Annotated[str | None, typer.Option(help="Charge what is spent to this budget, FILE::DATASET.")]
RecipeName = Annotated[
    str, typer.Option(help="A recipe of the catalogue, which dpforest recipes lists, or module:NAME for one of your own.")
]
Groups = Annotated[str | None, typer.Option(help="Column with the id of each row's person, to protect persons.")]
RowsPerPerson = Annotated[
    int | None,
    typer.Option(help="How many rows of a person are used at most; needs --groups, unless the schema names the ids."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
RawText = Annotated[
    bool,
    typer.Option(
        "--raw-text",
        help="Write text to .csv as it is. Else text that a spreadsheet would run, as it begins with =, +, -, @, a tab or a "
        "line break, has a ' before it; numbers have none.",
    ),
]

# The format of a text file, given what the schema says about it.
ReadAs = Callable[[Any], Any]
# The tables that a command reads: what connects it with them ends with the command.
_sources = ExitStack()


def _format_option(kind: Any, help: str) -> Any:
    return Annotated[
        kind, typer.Option(help=help, rich_help_panel="How a text file is written, where the schema does not say it")
    ]


FORMAT: dict[str, Any] = {
    "sep": _format_option(str | None, "What stands between cells: ',', ';', '|' or tab."),
    "encoding": _format_option(str | None, "utf-8, utf-16, windows-1252, latin-1 or the like."),
    "decimal": _format_option(str | None, "The decimal mark, '.' or ','."),
    "thousands": _format_option(str | None, "What stands between thousands: '.', ',', ' ' or \"'\"."),
    "dates": _format_option(str | None, "The order of day, month and year in a date: ymd, dmy or mdy."),
    "na": _format_option(
        list[str] | None,
        "A word for missing beside NA, NULL and the like, such as '-', or COLUMN=999; may be repeated.",
    ),
}


def takes_format(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of ``FORMAT`` in the place of its argument ``read_as``.

    ``read_as`` gives the format of a text file: the one of a schema, with what the options say in its place.
    """

    @wraps(command)
    def called(**given: Any) -> None:
        options = {name: given.pop(name) for name in FORMAT}
        with _sources:
            command(**given, read_as=lambda declared: _overridden(declared, **options))

    own = inspect.signature(command)
    kept = [each.replace(kind=each.KEYWORD_ONLY) for name, each in own.parameters.items() if name != "read_as"]
    added = [inspect.Parameter(name, kept[0].kind, default=None, annotation=kind) for name, kind in FORMAT.items()]
    called.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in (*kept, *added)}
    return called


def _overridden(declared: Any, sep: str | None, na: list[str] | None, **others: Any) -> Any:
    separator = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
    given = {name: value for name, value in {"separator": separator, **others}.items() if value is not None}
    if na:
        in_columns = [word.rpartition("=") for word in na if "=" in word]
        given["missing"] = tuple(word for word in na if "=" not in word)
        given["missing_in"] = {name: tuple(word for own, _, word in in_columns if own == name) for name, _, _ in in_columns}
    return replace(declared, **given)


def opened(table: str, format: Any, names_lines: bool = False) -> Any:
    """The source of a table; its connection, if it has one, ends with the command."""
    from dpforest.records.doors import open_source

    source = open_source(table, format, names_lines=names_lines)
    _sources.callback(source.close)
    return source


def check_ending(out: Path, what: str, *endings: str) -> None:
    """Raise unless a file name has one of these endings, which say what is written."""
    if out.suffix not in endings:
        listed = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise ParameterError(f"{what} to {listed}, not to {str(out)!r}.")


def check_page(out: Path, what: str, *inputs: str | Path | None) -> Path:
    """The JSON file beside a page; raises unless both can be written, before anything is spent on them."""
    check_ending(out, what, ".html", ".htm")
    twin = out.with_suffix(".json")
    for path in (out, twin):
        check_writable(path, *(read for read in inputs if read is not None))
    return twin


def named_recipe(text: str) -> "str | Recipe":
    """The recipe that ``module:NAME`` names, from this folder or installed; any other text is given back as it is."""
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
    """The module of this name, looked for first in the current folder."""
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
