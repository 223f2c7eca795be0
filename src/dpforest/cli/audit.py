"""dpforest audit: what was tried to break a claim, and what was found."""

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import output, print_json, show_table, steps
from dpforest.cli.options import AsJson, Delta
from dpforest.cli.own_recipes import named_recipe
from dpforest.common.progress import Step

if TYPE_CHECKING:
    from dpforest.audit.attack import Attack
    from dpforest.audit.runner import Audit
    from dpforest.audit.subject import Subject

# The attack is repeated at these multiples of epsilon, and without privacy, to show what it can do.
ATTACKED_AT = (0.1, 1.0, 10.0, math.inf)
ATTACK_FITS = 2000
# As ``report.HEAD``, for a terminal of 80 columns; the number of pairs was asked for.
SHORT_HEAD = ("recipe", "claimed", "at least", "", "found", "closest", "verdict")


def audit(
    recipe: Annotated[
        str, typer.Option(help="The name of a recipe, module:NAME for one of your own, or all for the whole catalogue.")
    ] = "auto",
    variant: Annotated[str, typer.Option(help="The variant of the recipe: private, published or all.")] = "private",
    epsilon: Annotated[float, typer.Option(help="Epsilon of the claim that is attacked.")] = 1.0,
    delta: Delta = 0.0,
    pairs: Annotated[int, typer.Option(help="Generated pairs of neighbouring tables to replay; 0 for none.")] = 200,
    trials: Annotated[int, typer.Option(help="Fits for the lower bound on epsilon; 0 for none.")] = 20_000,
    attack: Annotated[
        str | None, typer.Option(help="Also run membership attacks on this table: survey, or a benchmark table.")
    ] = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(help="Also write a report for people to this file.")] = None,
) -> None:
    """Try to break the privacy claim of a recipe; exit code 1 if something was found.

    It says first, on standard error, how long it will take on this machine.

    Example: [bold]dpforest audit --recipe consul-2020 --variant all --html audit.html[/bold]
    """
    from dpforest.audit.report import write_html
    from dpforest.audit.runner import subjects
    from dpforest.audit.subject import Subject
    from dpforest.common.files import check_writable
    from dpforest.errors import ParameterError
    from dpforest.privacy.accountants import make_accountant

    if variant not in ("private", "published", "all"):
        raise ParameterError(f"--variant is private, published or all, not {variant!r}.")
    if min(pairs, trials) < 0:
        raise ParameterError(f"--pairs and --trials are at least 0, not {pairs} and {trials}.")
    make_accountant(epsilon, delta)
    if html is not None:
        check_writable(html)
    named = named_recipe(recipe)
    chosen = subjects(named, variant, epsilon, delta)
    # Of all recipes the default one is attacked.
    planted = Subject("auto" if named == "all" else named, delta=delta)
    attacked = [] if attack is None else [planted.claiming(factor * epsilon, delta) for factor in ATTACKED_AT]
    found, attacks = _run(chosen, pairs, trials, attacked, attack or "")
    results = {"audits": [item.to_dict() for item in found], "attacks": [item.to_dict() for item in attacks]}
    if html is not None:
        write_html(html, results["audits"], results["attacks"])
    if as_json:
        print_json(results)
    else:
        _show(results["audits"], results["attacks"])
    if not all(item.kept for item in found) or any(item.exceeds for item in attacks):
        sys.exit(1)


def _run(
    subjects: list["Subject"], pairs: int, trials: int, attacked: list["Subject"], table: str
) -> tuple[list["Audit"], list["Attack"]]:
    """The audits of subjects, and the attacks on others."""
    from dpforest.audit.attack import attack, realistic_table
    from dpforest.audit.runner import audit as run

    given: tuple[Any, Any, Any] = realistic_table(table) if table else (None, None, None)
    X, y, schema = given
    with steps("Audit") as progress:
        found, attacks = [], []
        for number, subject in enumerate(subjects):
            title = f"{subject.name}, {subject.variant} ({number + 1} of {len(subjects)}): "
            found.append(run(subject, pairs, trials, partial(_show_step, progress, title)))
        for subject in attacked:
            told = partial(_show_step, progress, f"attack on {table} at epsilon = {subject.epsilon:g}: ")
            attacks.append(attack(subject, X, y, schema, table, n_fits=_attack_fits(subject), progress=told))
    return found, attacks


def _show_step(progress: Callable[[str], None], title: str, step: str) -> None:
    """Show a step of one task, with a bar of its own for each kind of work."""
    if isinstance(step, Step):
        progress(Step(title + step, step.done, step.total, title + step.unit))
    else:
        progress(title + step)


def _attack_fits(subject: "Subject") -> int:
    """The fits of one attack. Without noise forests are large and slow, and a few of them show all there is."""
    return ATTACK_FITS if math.isfinite(subject.epsilon) else ATTACK_FITS // 5


def _show(audits: list[dict[str, Any]], attacks: list[dict[str, Any]]) -> None:
    from dpforest.audit.report import cells, found_in, name_of

    table = Table(title="What was tried, and what was found", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for head in filter(None, SHORT_HEAD):
        table.add_column(head, no_wrap=head == "verdict", min_width=24 if head == "recipe" else None)
    for audit in audits:
        kept = [escape(cell) for head, cell in zip(SHORT_HEAD, cells(audit), strict=True) if head]
        table.add_row(*kept, style="bold red" if found_in(audit) else None)
    output.print(table)
    for audit in audits:
        for line in found_in(audit):
            output.print(f"\n[bold]{escape(name_of(audit))}[/bold]: {escape(line)}", soft_wrap=True)
    if attacks:
        title = f"Membership attack on {attacks[0]['table']}, {attacks[0]['n_rows']:,} rows"
        rows = [(f"{row['epsilon']}", f"{row['tpr_at_1_percent']:.1%}", f"{row['allowed']:.1%}") for row in attacks]
        show_table(title, ("epsilon", "members found at 1 % false alarms", "allowed"), rows)
