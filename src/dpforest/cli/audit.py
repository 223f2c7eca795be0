"""dpforest audit: what was tried to break a claim, and what was found."""

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import output, print_json, show_table, steps
from dpforest.cli.options import AsJson, Delta
from dpforest.common.progress import Step

# The attack is repeated at these multiples of epsilon, and without privacy, to show what it can do.
ATTACKED_AT = (0.1, 1.0, 10.0, math.inf)
ATTACK_FITS = 2000
# As ``report.HEAD``, for a terminal of 80 columns; the number of pairs was asked for.
SHORT_HEAD = ("recipe", "claimed", "at least", "", "found", "closest", "verdict")


def audit(
    recipe: Annotated[str, typer.Option(help="The name of a recipe, or all.")] = "auto",
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

    Example: [bold]dpforest audit --recipe consul-2020 --variant all --html audit.html[/bold]
    """
    from dpforest.audit.report import write_html
    from dpforest.audit.runner import audit as run
    from dpforest.audit.runner import subjects
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
    chosen = subjects(recipe, variant, epsilon, delta)
    found = []
    with steps("Audit") as progress:
        for index, subject in enumerate(chosen):
            title = f"{subject.name}, {subject.variant} ({index + 1} of {len(chosen)}): "
            found.append(run(subject, pairs, trials, partial(_told, progress, title)))
        attacks = [] if attack is None else _attacks(attack, recipe, epsilon, delta, progress)
    audits, attacked = [item.to_dict() for item in found], [item.to_dict() for item in attacks]
    if html is not None:
        write_html(html, audits, attacked)
    if as_json:
        print_json({"audits": audits, "attacks": attacked})
    else:
        _show(audits, attacked)
    if not all(item.kept for item in found) or any(item.exceeds for item in attacks):
        sys.exit(1)


def _told(progress: Callable[[str], None], title: str, step: str) -> None:
    progress(Step(title + step, step.done, step.total) if isinstance(step, Step) else title + step)


def _attacks(table: str, recipe: str, epsilon: float, delta: float, progress: Any) -> list[Any]:
    """The results of membership attacks on one recipe at several epsilons; on the default recipe if all are audited."""
    from dpforest.audit.attack import attack, realistic_table
    from dpforest.audit.subject import Subject

    X, y, schema = realistic_table(table)
    found = []
    for factor in ATTACKED_AT:
        claim = factor * epsilon
        subject = Subject("auto" if recipe == "all" else recipe, epsilon=claim, delta=delta)
        # Without noise forests are large and slow, and a few of them show all there is.
        n_fits = ATTACK_FITS if math.isfinite(claim) else ATTACK_FITS // 5
        title = f"attack on {table} at epsilon = {claim:g}: "
        found.append(attack(subject, X, y, schema, table, n_fits=n_fits, progress=partial(_told, progress, title)))
    return found


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
