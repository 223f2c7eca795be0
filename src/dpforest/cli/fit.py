"""dpforest fit: train a private forest from a table and a schema."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import errors, print_json, say, steps
from dpforest.cli.options import BudgetName, Delta, SchemaFile
from dpforest.common.text import shortened

SECONDS_TO_CONNECT = 10


def fit(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV (also .gz), with numbers such as 3.14; Parquet, which need not fit in memory; or "
            "duckdb:///FILE::TABLE, postgresql://…::TABLE."
        ),
    ],
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit; no default on purpose.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    delta: Delta = 0.0,
    recipe: Annotated[str, typer.Option(help="Name of the algorithm; dpforest recipes lists them.")] = "auto",
    variant: Annotated[
        str, typer.Option(help="private, or published: the algorithm as its paper prints it, not private.")
    ] = "private",
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter of the recipe, NAME=VALUE; may be repeated.", show_default=False)
    ] = None,
    n_trees: Annotated[int | None, typer.Option(help="Number of trees; by default what the recipe says.")] = None,
    max_depth: Annotated[int | None, typer.Option(help="Levels of splits; by default what the recipe says.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column with the id of each row's person, to protect persons.", show_default=False)
    ] = None,
    max_rows_per_person: Annotated[
        int | None, typer.Option(help="With --groups: how many rows of a person are used at most.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Train a Parquet folder on the Dask cluster of this scheduler, tcp://…", show_default=False),
    ] = None,
    budget: BudgetName = None,
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the privacy statement as JSON.")] = False,
) -> None:
    """Train a private forest and write it to a file.

    Example: [bold]dpforest fit adult.csv --schema adult.schema.json --epsilon 1 --out adult.dpf[/bold]
    """
    from dpforest.cli.budget import open_budget
    from dpforest.cli.connections import open_table
    from dpforest.common.files import check_writable, free_place
    from dpforest.errors import LeakWarning, NothingLearntWarning, ParameterError
    from dpforest.estimators import DPForestClassifier, DPForestRegressor
    from dpforest.model.doubts import measured_words, released_doubts
    from dpforest.records.tables import header, is_parquet, read_column, read_table
    from dpforest.schema import Classes, Schema

    facts = Schema.from_file(schema)
    check_writable(out, table, schema, over_models=True)
    if out.exists():
        raise ParameterError(f"{out} is there already. Move it away, or choose another --out. Nothing was spent.")
    kind = DPForestClassifier if isinstance(facts.target, Classes) else DPForestRegressor
    is_file = "://" not in table
    if groups is not None and (not is_file or scheduler is not None):
        raise ParameterError("--groups needs a file that is read here, CSV or Parquet; not a database or a cluster.")
    read = (*facts.features, facts.target.name, groups)
    ignored = [name for name in (header(table) if is_file else []) if name not in read]
    model = kind(
        facts,
        epsilon=epsilon,
        delta=delta,
        recipe=recipe,
        variant=variant,
        n_trees=n_trees,
        max_depth=max_depth,
        recipe_params=_params(param),
        n_jobs=n_jobs,
        budget=open_budget(budget),
        max_rows_per_person=max_rows_per_person,
    )
    with steps("Training") as progress, _keeping_charges(model, out), warnings.catch_warnings():
        for said_below in (LeakWarning, NothingLearntWarning):
            warnings.simplefilter("ignore", said_below)
        if not is_file:
            model.fit_table(open_table(table, [*facts.features, facts.target.name]), progress=progress)
        elif scheduler is not None:
            with _cluster(scheduler) as client:
                model.fit_dask(table, client, progress=progress)
        elif is_parquet(Path(table)):
            model.fit(table, groups=groups, progress=progress)
        else:
            X, y = read_table(table, facts, with_target=True, progress=progress)
            ids = None if groups is None else read_column(table, groups)
            model.fit(X, y, groups=ids, progress=progress)
        with free_place(out) as place:
            model.save(place)
    for doubt in released_doubts(model.forest_, facts):
        say(f"This looks odd: {doubt}", errors)
    if as_json:
        print_json({"model": str(place), "privacy": model.privacy_.to_dict()})
        return
    if ignored:
        say(f"Not in the schema, so not read: {', '.join(map(shortened, ignored))}")
    loss = f"epsilon = {model.ledger_.spent:.4g}" + (f", delta = {delta:.3g}" if delta else "")
    say(f"Spent {loss}. Model: {place}")
    if model.forest_.n_records is not None:
        say(measured_words(model.forest_.n_records))
    say(model.privacy_.sentence)
    for note in model.privacy_.notes:
        say(f"Note: {note.removesuffix('.')}.")


@contextmanager
def _cluster(scheduler: str) -> Iterator[Any]:
    """The client of a scheduler, for as long as the block takes."""
    from dpforest.errors import MissingExtraError, ParameterError

    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("A Dask cluster", "dask") from None
    try:
        client = Client(scheduler, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError, TypeError):
        raise ParameterError(f"There is no scheduler at {scheduler!r}. Start one with 'dask scheduler'.") from None
    with client:
        yield client


def _params(given: list[str] | None) -> dict[str, Any] | None:
    """Parameters as the recipe takes them: numbers where they read as numbers, else text."""
    from dpforest.errors import ParameterError

    params: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"A parameter is given as NAME=VALUE, not as {text!r}.")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params or None


@contextmanager
def _keeping_charges(model: Any, out: Path) -> Iterator[None]:
    """If the run ends early, write what it has spent beside the model that is not there."""
    from dpforest.common.files import free_place, write_whole
    from dpforest.errors import OutputError

    try:
        yield
    except BaseException:
        ledger = getattr(model, "ledger_", None)
        if ledger is not None and ledger.n_entries:
            say(f"Stopped. epsilon = {ledger.spent:.4g} was spent and stays spent; no model was written.", errors)
            with suppress(OutputError):  # of the model that could not be written either, the error tells
                with free_place(out.with_name(f"{out.name}.charges.json")) as charges:
                    write_whole(charges, ledger.to_json().encode())
                say(f"Charges: {charges}", errors)
        raise
