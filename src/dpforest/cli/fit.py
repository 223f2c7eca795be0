"""dpforest fit: train a private forest from a table and a schema."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli import options
from dpforest.cli.budget import open_budget
from dpforest.cli.console import errors, print_json, say, steps, warn
from dpforest.common.files import check_writable, free_place, write_whole
from dpforest.common.text import shortened
from dpforest.errors import LeakWarning, MissingExtraError, NothingLearntWarning, OutputError, ParameterError

SECONDS_TO_CONNECT = 10


@options.takes_format
def fit(
    table: Annotated[str, typer.Argument(help=f"{options.TABLE}. Parquet and databases need not fit in memory.")],
    schema: options.SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit; no default on purpose.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    delta: options.Delta = 0.0,
    recipe: options.RecipeName = "auto",
    variant: Annotated[
        str, typer.Option(help="private, or published: the algorithm as its paper prints it, not private.")
    ] = "private",
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the recipe, NAME=VALUE; may be repeated.")] = None,
    n_trees: Annotated[int | None, typer.Option(help="Number of trees; by default what the recipe says.")] = None,
    max_depth: Annotated[int | None, typer.Option(help="Levels of splits; by default what the recipe says.")] = None,
    groups: options.Groups = None,
    max_rows_per_person: options.RowsPerPerson = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Train a Parquet folder on the Dask cluster of this scheduler, tcp://…")
    ] = None,
    budget: options.BudgetName = None,
    class_weight: Annotated[
        list[str] | None,
        typer.Option(
            help="Weight of a class when predicting, LABEL=WEIGHT (may be repeated), or balanced. Changes no training."
        ),
    ] = None,
    earlier_model: Annotated[
        Path | None,
        typer.Option(
            help="A model of the same schema to start from, such as last month's; its own loss is not charged again."
        ),
    ] = None,
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the privacy statement as JSON.")] = False,
    *,
    read_as: options.ReadAs,
) -> None:
    """Train a private forest and write it to a file.

    Example: [bold]dpforest fit adult.csv --schema adult.schema.json --epsilon 1 --out adult.dpf[/bold]
    """
    from dpforest.estimators import DPForestClassifier, DPForestRegressor
    from dpforest.records.doors import is_database
    from dpforest.records.people import check_id_column
    from dpforest.schema import Classes, Schema
    from dpforest.schema.patterns import expanded

    facts = Schema.from_file(schema)
    check_writable(out, table, schema, over_models=True)
    if out.exists():
        raise ParameterError(f"{out} is there already. Move it away, or choose another --out. Nothing was spent.")
    if isinstance(facts.target, Classes) and len(facts.target.labels) == 1:
        raise ParameterError(
            f"The schema lists one label of {facts.target.name!r} only, so there is nothing to tell apart: records with "
            "others would be left out. List all that are possible. Nothing was spent."
        )
    facts = replace(facts, format=read_as(facts.format))
    if groups is None and max_rows_per_person is not None:
        groups = facts.id_column
    ignored: list[str] = []
    if not is_database(table):
        names = options.opened(table, facts.format).public_names()
        if groups is not None:
            check_id_column(groups, [groups] if names is None else names, facts, table)
        facts = expanded(facts, lambda: names, table, besides=[groups])
        ignored = [name for name in names or [] if name not in {*facts.features, facts.target.name, groups}]
    kind = DPForestClassifier if isinstance(facts.target, Classes) else DPForestRegressor
    model = kind(
        facts,
        epsilon=epsilon,
        delta=delta,
        recipe=options.named_recipe(recipe),
        variant=variant,
        n_trees=n_trees,
        max_depth=max_depth,
        recipe_params=_params(param),
        n_jobs=n_jobs,
        budget=open_budget(budget),
        max_rows_per_person=max_rows_per_person,
        earlier_model=earlier_model,
        **_class_weight(class_weight, facts.target),
    )
    with steps("Training") as progress, _keeping_charges(model, out), warnings.catch_warnings():
        for said_below in (LeakWarning, NothingLearntWarning):
            warnings.simplefilter("ignore", said_below)
        warnings.showwarning = lambda message, *where: warn(message)
        with nullcontext() if scheduler is None else _cluster(scheduler) as client:
            model.fit(table, groups=groups, client=client, progress=progress)
        with free_place(out) as path:
            model.save(path)
    _show(model, path, ignored, as_json)


def _show(model: Any, path: Path, ignored: list[str], as_json: bool) -> None:
    """Print what the fit spent and promises, and what looks odd about it."""
    from dpforest.model.signal import measured_words, released_doubts
    from dpforest.privacy.statement import OTHER_PAIRS

    for doubt in released_doubts(model.forest_, model.schema_, model.ledger_):
        say(f"This looks odd: {doubt}", errors)
    if as_json:
        print_json({"model": str(path), "privacy": model.privacy_.to_dict()})
        return
    if ignored:
        say(f"Not in the schema, so not read: {', '.join(map(shortened, ignored))}")
    loss = f"epsilon = {model.ledger_.spent:.4g}" + (f", delta = {model.delta:.3g}" if model.delta else "")
    say(f"Spent {loss}. Model: {path}")
    if model.forest_.n_records is not None:
        say(measured_words(model.forest_.n_records))
    say(f"{model.privacy_.sentence} {OTHER_PAIRS}")
    for note in model.privacy_.notes:
        say(f"Note: {note.removesuffix('.')}.")


@contextmanager
def _cluster(scheduler: str) -> Iterator[Any]:
    """A client of the Dask scheduler at an address, closed when the block ends."""
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
    """The parameters of a recipe that ``NAME=VALUE`` texts give: as JSON where a value reads as JSON, else as text."""
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


def _class_weight(given: list[str] | None, target: Any) -> dict[str, Any]:
    """The parameter ``class_weight`` that ``LABEL=WEIGHT`` texts, or ``balanced``, stand for; nothing if there are none."""
    if not given:
        return {}
    if given == ["balanced"] or not hasattr(target, "labels"):  # of a number, the estimator says that it has none
        return {"class_weight": given[0]}
    labels, weights = {str(label): label for label in target.labels}, {}
    for text in given:
        label, _, weight = text.rpartition("=")
        try:
            weights[labels[label]] = float(weight)
        except (KeyError, ValueError):
            raise ParameterError(
                f"--class-weight takes balanced, or a label of the schema and a number, such as {next(iter(labels))}=2; "
                f"not {text!r}."
            ) from None
    return {"class_weight": weights}


@contextmanager
def _keeping_charges(model: Any, out: Path) -> Iterator[None]:
    """If the block ends early, say what was spent and write the ledger to a file beside where the model would be."""
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
