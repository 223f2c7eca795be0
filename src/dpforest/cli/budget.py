"""dpforest budget: what all releases from a data set may cost together, and what they have cost."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import print_json, say, show_table
from dpforest.cli.options import AsJson, check_page
from dpforest.common.files import check_writable, write_whole
from dpforest.common.text import counted, shortened, to_json
from dpforest.errors import BudgetStoreError, ParameterError, shown_down

WIDTH_OF_BAR = 40
budget = typer.Typer(
    help="Keep the budget of a data set in a file: what all its releases may cost together, and what they have cost.",
    no_args_is_help=True,
)


Named = Annotated[str, typer.Argument(metavar="FILE::DATASET", help="The budget of a data set.")]
NamedOrAll = Annotated[str, typer.Argument(metavar="FILE[::DATASET]", help="One budget, or all of a file.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file of budgets.")]


def open_budget(name: str | None) -> Any:
    """The budget that FILE::DATASET names; None if nothing is named."""
    from dpforest.budget import Budget

    return None if name is None else Budget.open(*_parts(name))


def _parts(name: str) -> tuple[str, str]:
    """The file and the data set that FILE::DATASET names."""
    path, separator, dataset = name.rpartition("::")
    if not separator or not path:
        raise ParameterError(f"A budget is named as FILE::DATASET, such as budget.db::ward-7, not as {name!r}.")
    return path, dataset


def _one_or_all(name: str) -> list[Any]:
    from dpforest.budget import Budget

    return [open_budget(name)] if "::" in name else Budget.open_all(name)


def _not_empty(found: list[Any], path: str) -> list[Any]:
    if not found:
        raise BudgetStoreError(f"There is no data set in {path}.")
    return found


@budget.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="FILE::DATASET", help="A file of budgets, and the name of a data set.")],
    epsilon: Annotated[float, typer.Option(help="The most that all releases may cost together; never changed later.")],
    delta: Annotated[float, typer.Option(help="Delta of the cap; 0 admits pure epsilon only.")] = 0.0,
    unit: Annotated[str, typer.Option(help="Who is protected: record or person.")] = "record",
    belongs_to: Annotated[
        str | None, typer.Option(help="A data set of the same file that is charged for every release too.")
    ] = None,
) -> None:
    """Begin the budget of a data set. It must not be there yet.

    If it belongs to another data set, each release from it is charged to both, and refused if it would pass one of the caps.

    Example: [bold]dpforest budget create budget.db::ward-7 --epsilon 3 --delta 1e-6[/bold]
    """
    from dpforest.budget import Budget

    path, dataset = _parts(name)
    if Path(path).exists() and dataset in (other.dataset for other in Budget.open_all(path)):
        raise ParameterError(f"There is a budget of {shortened(dataset)!r} in {path} already. Nothing was changed.")
    made = Budget.open(path, dataset, epsilon=epsilon, delta=delta, unit=unit, belongs_to=belongs_to)
    say(f"Budget of {shortened(dataset)!r}: epsilon = {epsilon:g}, delta = {delta:g}, for each {unit}. File: {path}")
    if belongs_to is not None:
        say(f"It belongs to {shortened(belongs_to)!r}, which every release is charged to as well.")
    say(f"Head: {made.verify()}")


@budget.command("show")
def show(name: NamedOrAll, as_json: AsJson = False) -> None:
    """Show the cap of a budget, what is spent and what is left.

    Example: [bold]dpforest budget show budget.db::ward-7[/bold]
    """
    facts = [item.position() for item in _one_or_all(name)]
    for item in facts:
        del item["head"]
        item["releases"] = len(item["releases"])  # how many there are, instead of all of them
    if as_json:
        print_json(facts)
        return
    for item in facts:
        say(f"{shortened(item['dataset'])}: the budget of each {item['unit']}")
        say(f"  {_bar(item['spent'], item['epsilon'])}  {_spent(item)}")
        with_delta = f" ({shown_down(item['left_with_delta'], 4)} with delta)" if item["delta"] else ""
        left = f"one more release may have epsilon = {shown_down(item['left'], 4)}{with_delta}"
        say(f"  {left if max(item['left'], item['left_with_delta']) else 'no further release is possible: nothing is left'}")
        if item["reserved"]:
            say(f"  {item['reserved']} of {item['releases']} releases are not settled yet; they count in full")
        above = item
        while (above := above["belongs_to"]) is not None:
            say(f"  belongs to {shortened(above['dataset'])}, where {_spent(above)}")


@budget.command("history")
def history(name: Named, as_json: AsJson = False) -> None:
    """Show every charged release, in order, those from parts of this data set included.

    Example: [bold]dpforest budget history budget.db::ward-7[/bold]
    """
    found = open_budget(name)
    releases = found.history()
    if as_json:
        print_json(releases)
        return
    rows = []
    for entry in releases:
        of = "" if entry["dataset"] == found.dataset else f" ({shortened(entry['dataset'])})"
        cost = "not settled" if entry["loss"] is None else _cost(entry["loss"])
        time, what = entry["time"][:19].replace("T", " "), shortened(entry["what"]) + of
        rows.append((str(entry["number"]), time, what, cost, f"{entry['spent']:.4g}"))
    if not rows:
        say(f"No release was charged to the budget of {shortened(found.dataset)} so far.")
        return
    heads = ("entry", "time (UTC)", "release", "cost", "spent so far")
    show_table(f"Budget of {shortened(found.dataset)}", heads, rows)


@budget.command("verify")
def verify(
    path: File,
    anchor: Annotated[
        str | None, typer.Option(help="A head (last hash) that was kept elsewhere; it must still be there.")
    ] = None,
) -> None:
    """Check every entry of a file against its hash and the one before; exit code 1 if one was changed or is missing.

    Example: [bold]dpforest budget verify budget.db[/bold]
    """
    from dpforest.budget import Budget

    found = Budget.open_all(path)
    heads = {item.verify(anchor) for item in found}
    there = " The anchor is there." if anchor else ""
    say(f"All entries are as they were written, for {counted(len(found), 'data set')}.{there}")
    for item in found:
        if (above := item.position()["belongs_to"]) is not None:
            say(f"{shortened(item.dataset)} belongs to {shortened(above['dataset'])}, where {_spent(above)}.")
    for head in heads:
        say(f"Head: {head}")


@budget.command("export")
def export(path: File, out: Annotated[Path, typer.Option(help="Where to write, as JSON.")]) -> None:
    """Write every entry with its hash as JSON, to keep elsewhere.

    Example: [bold]dpforest budget export budget.db --out budget.json[/bold]
    """
    from dpforest.budget import Budget

    check_writable(out, path)
    content = _not_empty(Budget.open_all(path), path)[0].export()
    write_whole(out, to_json(content, indent=1).encode())
    say(f"{len(content['entries'])} entries: {out}")
    say(f"Head: {content['head']}")


@budget.command("report")
def report(
    name: NamedOrAll,
    out: Annotated[Path, typer.Option(help="Where to write the page, .html; the same as JSON goes beside it.")],
) -> None:
    """Write what budgets have cost over time as one page that needs no network, and the same as JSON.

    Example: [bold]dpforest budget report budget.db --out budget.html[/bold]
    """
    from dpforest.show.report import write_budget_page

    twin = check_page(out, "A report is written", name.rpartition("::")[0] or name)
    write_budget_page(_not_empty(_one_or_all(name), name), out)
    say(f"Report: {out}\nAs JSON: {twin}")


def _spent(item: dict[str, Any]) -> str:
    cap = f"epsilon = {item['epsilon']:g}" + (f" at delta = {item['delta']:g}" if item["delta"] else "")
    return f"{item['spent']:.4g} of {cap} is spent"


def _cost(loss: Any) -> str:
    if not math.isinf(loss.divergence):
        return f"Rényi divergence = {loss.divergence:.4g}"
    return f"rho = {loss.rho:.4g}" if math.isinf(loss.epsilon) else f"epsilon = {loss.epsilon:.4g}"


def _bar(spent: float, cap: float) -> str:
    full = min(WIDTH_OF_BAR, math.ceil(WIDTH_OF_BAR * min(1.0, spent / cap)))
    return "█" * full + "░" * (WIDTH_OF_BAR - full)
