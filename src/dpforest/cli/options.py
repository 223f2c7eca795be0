"""Arguments and options that several commands take, and the check of where they write."""

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

TABLE = (
    "CSV or other text (also .gz, .bz2, .zst, .zip), Excel, JSON lines, Parquet, Feather, SPSS, Stata or SAS; or "
    "duckdb:///FILE::TABLE, postgresql://…::TABLE"
)
Model = Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")]
SchemaFile = Annotated[Path, typer.Option(help="Public facts about the table, .json or .toml.")]
Delta = Annotated[float, typer.Option(help="Delta of the guarantee; 0 means pure epsilon.")]
BudgetName = Annotated[
    str | None, typer.Option(help="Charge what is spent to this budget, FILE::DATASET.", show_default=False)
]
Groups = Annotated[
    str | None, typer.Option(help="Column with the id of each row's person, to protect persons.", show_default=False)
]
RowsPerPerson = Annotated[
    int | None,
    typer.Option(
        help="How many rows of a person are used at most; needs --groups, unless the schema names the ids.",
        show_default=False,
    ),
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
PANEL = "How a text file is written, where the schema does not say it"


def _format_option(help: str) -> Any:
    return typer.Option(help=help, show_default=False, rich_help_panel=PANEL)


FORMAT: dict[str, Any] = {
    "sep": Annotated[str | None, _format_option("What stands between cells: ',', ';', '|' or tab.")],
    "encoding": Annotated[str | None, _format_option("utf-8, utf-16, windows-1252, latin-1 or the like.")],
    "decimal": Annotated[str | None, _format_option("The decimal mark, '.' or ','.")],
    "thousands": Annotated[str | None, _format_option("What stands between thousands: '.', ',', ' ' or \"'\".")],
    "dates": Annotated[str | None, _format_option("The order of day, month and year in a date: ymd, dmy or mdy.")],
    "na": Annotated[
        list[str] | None,
        _format_option("A word for missing beside NA, NULL and the like, such as '-', or COLUMN=999; may be repeated."),
    ],
}


def takes_format(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the options of ``FORMAT`` instead of its argument ``read_as``, and is called with that.

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
    from dataclasses import replace

    separator = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
    given = {name: value for name, value in {"separator": separator, **others}.items() if value is not None}
    if na:
        in_columns = [word.rpartition("=") for word in na if "=" in word]
        given["missing"] = tuple(word for word in na if "=" not in word)
        given["missing_in"] = {name: tuple(word for own, _, word in in_columns if own == name) for name, _, _ in in_columns}
    return replace(declared, **given)


def check_ending(out: Path, what: str, *endings: str) -> None:
    """Raise unless a file name has one of these endings, which say what is written."""
    from dpforest.errors import ParameterError

    if out.suffix not in endings:
        listed = " or ".join([", ".join(endings[:-1]), endings[-1]]) if len(endings) > 1 else endings[0]
        raise ParameterError(f"{what} to {listed}, not to {str(out)!r}.")


def opened(table: str, format: Any, names_lines: bool = False) -> Any:
    """The source of a table; its connection, if it has one, ends with the command."""
    from dpforest.records.tables import open_source

    source = open_source(table, format, names_lines=names_lines)
    _sources.callback(source.close)
    return source
