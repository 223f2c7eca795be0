"""dpforest fit: train a private forest from a table and a schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dpforest.cli.console import errors, output, steps


def fit(
    table: Annotated[Path, typer.Argument(help="CSV (also .gz), or Parquet, which need not fit in memory.")],
    schema: Annotated[Path, typer.Option(help="Public facts about the table, .json or .toml.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit; no default on purpose.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    delta: Annotated[float, typer.Option(help="0 for pure epsilon.")] = 0.0,
    recipe: Annotated[str, typer.Option(help="Algorithm by name.")] = "auto",
    n_trees: Annotated[int | None, typer.Option(help="Number of trees; by default what the recipe says.")] = None,
    max_depth: Annotated[int | None, typer.Option(help="Levels of splits; by default what the recipe says.")] = None,
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
) -> None:
    """Train a private forest and write it to a file.

    Example: [bold]dpforest fit adult.csv --schema adult.schema.json --epsilon 1 --out adult.dpf[/bold]
    """
    from dpforest.estimators import DPForestClassifier, DPForestRegressor
    from dpforest.files import check_writable
    from dpforest.schema import Classes, Schema
    from dpforest.tables import column_names, is_large, read_table

    facts = Schema.from_file(schema)
    check_writable(out)
    kind = DPForestClassifier if isinstance(facts.target, Classes) else DPForestRegressor
    model = kind(facts, epsilon=epsilon, delta=delta, recipe=recipe, n_trees=n_trees, max_depth=max_depth, n_jobs=n_jobs)
    with steps("Training") as progress, _keeping_charges(model, out):
        if is_large(table, facts):
            model.fit(table, progress=progress)
        else:
            X, y = read_table(table, facts, with_target=True)
            progress("table read")
            model.fit(X, y, progress=progress)
        model.save(out)
    ignored = [name for name in column_names(table) if name not in facts.features and name != facts.target.name]
    if ignored:
        output.print(f"Not in the schema, so not read: {escape(', '.join(ignored))}")
    budget = f"epsilon = {model.ledger_.spent:.4g}" + (f", delta = {delta:.3g}" if delta else "")
    output.print(f"Spent {budget}. Model: {escape(str(out))}", soft_wrap=True)
    output.print(escape(str(model.privacy_)))


@contextmanager
def _keeping_charges(model: Any, out: Path) -> Iterator[None]:
    """If the run ends early, write what it has spent beside the model that is not there."""
    from dpforest.files import write_whole

    try:
        yield
    except BaseException:
        ledger = getattr(model, "ledger_", None)
        if ledger is not None and ledger.n_entries:
            charges = out.with_name(f"{out.name}.charges.json")
            write_whole(charges, ledger.to_json().encode())
            errors.print(
                f"Stopped. epsilon = {ledger.spent:.4g} was spent and stays spent; no model was written. "
                f"Charges: {escape(str(charges))}",
                soft_wrap=True,
            )
        raise
