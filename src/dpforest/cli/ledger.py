"""dpforest ledger: every charge of a model, so that anyone can add them up again."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dpforest.cli.console import add_row, output, print_json, say


def ledger(
    model: Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole ledger as JSON, for an accountant.")] = False,
) -> None:
    """Print every charge of a model: what it paid for, the mechanism with its parameters, and how charges add up.

    This is for a privacy officer who does not want to take the stated epsilon on trust. Each loss follows from the
    parameters of its mechanism, and the total from the scopes: the parts of a scope add up, of parallel parts the largest
    counts, a sum s in a bootstrap costs exp(s) - 1, and a scope with copies counts as often as it has copies. The guide
    "The report" has the formulas.

    Example: [bold]dpforest ledger adult.dpf --json[/bold]
    """
    from dpforest.estimators import load_model
    from dpforest.model.file import model_digest
    from dpforest.privacy.composition import entries

    loaded = load_model(model)
    charges = loaded.ledger_
    if as_json:
        print_json(charges.to_dict())
        return
    for number, book in enumerate(charges.books, 1):
        unit = book.accountant.unit
        at = f" at delta = {book.accountant.noise_delta:.3g}" if book.accountant.noise_delta else ""
        share = book.accountant.share
        sample = f" on a secret sample of {float(share):.3g} of the records" if share < 1 else ""
        stated = f", stated as epsilon = {book.accountant.epsilon_of(book.total):.6g}{at}" if at or sample else ""
        listed = book.accountant.threshold_delta
        lists = f"; delta = {listed:.3g} for values that are named" if listed else ""
        title = f"Book {number}: {unit} = {book.total:.6g}{sample}{stated}{lists}"
        table = Table("scope", "for", "mechanism", "ran with", unit, title=title, title_justify="left")
        for scopes, entry in entries(book.root):
            path = " / ".join(map(_scope, scopes[1:]))
            add_row(table, path, entry.label, entry.mechanism.name, _parameters(entry), f"{entry.amount:.6g}")
        output.print(table)
    of_unit = f" of a person with at most {charges.rows} rows" if charges.rows > 1 else ""
    at = f" at delta = {charges.delta:.3g}" if charges.delta else ""
    say(f"Spent{of_unit}: epsilon = {charges.spent:.6g}{at}. Amounts in the table are for one of the records that are used.")
    say(f"Hash of the model, as its report has it: {model_digest(loaded)}")


def _scope(scope: Any) -> str:
    kind = "" if scope.kind == "sequential" else f" ({scope.kind})"
    return f"{scope.label}{kind}" + (f" x {scope.copies}" if scope.copies > 1 else "")


def _parameters(entry: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in entry.mechanism.parameters.items()) or "not recorded"
