"""dpforest audit: what was tried to break a claim, and what was found."""

import math
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from dpforest.cli.console import output, print_json, show_table, steps
from dpforest.cli.options import AsJson, Delta, named_recipe
from dpforest.common.files import check_writable
from dpforest.common.work import Step
from dpforest.errors import ParameterError

# The attack is repeated at these multiples of epsilon, and without privacy, to show what it can do. Without noise forests
# are large and slow, and a few of them show all there is.
ATTACKS = {0.1: 2000, 1.0: 2000, 10.0: 2000, math.inf: 400}
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

    Example: [bold]dpforest audit --recipe consul-2020 --variant all --html audit.html[/bold]
    """
    from dpforest.audit import attack as attacking
    from dpforest.audit import runner
    from dpforest.audit.report import write_html
    from dpforest.audit.subject import Subject
    from dpforest.privacy.accountants import make_accountant

    if variant not in ("private", "published", "all"):
        raise ParameterError(f"--variant is private, published or all, not {variant!r}.")
    if min(pairs, trials) < 0:
        raise ParameterError(f"--pairs and --trials are at least 0, not {pairs} and {trials}.")
    make_accountant(epsilon, delta)
    if html is not None:
        check_writable(html)
    named = named_recipe(recipe)
    subjects = runner.subjects(named, variant, epsilon, delta)
    given: tuple[Any, Any, Any] = (None, None, None) if attack is None else attacking.realistic_table(attack)
    X, y, schema = given
    with steps("Audit") as progress:
        found, attacks = [], []
        for number, subject in enumerate(subjects, 1):
            title = f"{subject.name}, {subject.variant} ({number} of {len(subjects)}): "
            found.append(runner.audit(subject, pairs, trials, partial(_show_step, progress, title)))
        for factor, n_fits in ATTACKS.items() if attack else ():
            # Of all recipes the default one is attacked.
            subject = Subject("auto" if named == "all" else named, epsilon=factor * epsilon, delta=delta)
            told = partial(_show_step, progress, f"attack on {attack} at epsilon = {subject.epsilon:g}: ")
            attacks.append(attacking.attack(subject, X, y, schema, attack or "", n_fits=n_fits, progress=told))
    results = {"audits": [item.to_dict() for item in found], "attacks": [item.to_dict() for item in attacks]}
    if html is not None:
        write_html(html, results["audits"], results["attacks"])
    if as_json:
        print_json(results)
    else:
        _show(results["audits"], results["attacks"])
    if not all(item.kept for item in found) or any(item.exceeds for item in attacks):
        sys.exit(1)


def _show_step(progress: Any, title: str, step: str) -> None:
    """Show a step of one task, with a bar of its own for each kind of work."""
    words = title + step
    progress(Step(words, step.done, step.total, title + step.unit) if isinstance(step, Step) else words)


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
