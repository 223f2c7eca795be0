"""Draws where the loss of a fit went. Sees the ledger, which is public."""

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpforest.privacy.composition import Priced, entries, shared
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, Purpose, Scope
from dpforest.privacy.ledger import Book, Ledger
from dpforest.show.plots.canvas import AS_IS, BLUE, GREEN, GREY, ORANGE, PURPLE, axes, drawable, in_percent, say
from dpforest.show.plots.given import check_forest

LONGEST = 36
# Room for so many bars, that one alone is no block.
LEAST_ROWS = 4
# Steps of the choice of a split itself; others are a help that has a name of its own.
STEPS = (None, "feature", "split")
COLOURS = {SPLITS: BLUE, COUNTS: ORANGE, LEAVES: GREEN}


def budget_by_level(model: Any, *, ax: Any = None) -> Any:
    """Draw as bars how the loss was divided: splits and counts of each level (0 is the root), leaves, and other releases.

    Bars are shares of the whole loss and add up to 1; the amounts beside them are in the unit of the ledger (epsilon, or rho
    of zCDP). Trees in sequence add up. Scopes about different records cost as much as the largest, so only that one
    is shown, and a line says which are not. A ledger with two books, in epsilon and in rho, gives each the share of its
    own epsilon at its delta.
    """
    check_forest(model)
    ledger: Ledger = model.ledger_
    roots = shared([(book.root, book.accountant) for book in ledger.books], counted=True)
    books = [(book, root) for book, root in zip(ledger.books, roots, strict=True) if root.cost]
    beside = list(dict.fromkeys(label for _, root in books for label in _beside(root)))
    rows = sorted(_rows(books).items(), key=lambda row: _order(row[0]))
    ax = axes(ax, 6.8, 1.5 + 0.28 * max(LEAST_ROWS, len(rows)))
    if not rows:
        no_bound = "exact values were opened" if ledger.leaks else "every release is exact"
        return say(ax, f"The loss has no bound: {no_bound}." if math.isinf(ledger.spent) else "Nothing was charged.")
    shares = [share for _, (share, _) in rows]
    bars = ax.barh(range(len(rows)), shares, color=[COLOURS.get(purpose.kind, PURPLE) for purpose, _ in rows])
    amounts = [f"{share:.1%}   {amount}" for _, (share, amount) in rows]
    ax.bar_label(bars, amounts, padding=3, color=GREY, fontsize="small", **AS_IS)
    ax.set_yticks(range(len(rows)), [_name(purpose) for purpose, _ in rows], **AS_IS)
    ax.set(ylim=(max(LEAST_ROWS, len(rows)) - 0.4, -0.6), xlim=(0, 1.35 * max(shares)))
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= min(1, 1.02 * max(shares))])
    in_percent(ax.xaxis)
    ax.set_xlabel("share of the loss", **AS_IS)
    ax.set_title("\n".join(_notes(ledger, beside)), loc="left", fontsize="small", color=GREY, **AS_IS)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_bounds(0, max(shares))
    return ax


def _rows(books: list[tuple[Book, Priced]]) -> dict[Purpose, tuple[float, str]]:
    """For each purpose its share of the whole loss, and its amounts in words."""
    shares: dict[Purpose, Fraction] = defaultdict(Fraction)
    amounts: dict[Purpose, list[str]] = defaultdict(list)
    for book, root in books:
        own: dict[Purpose, Fraction] = defaultdict(Fraction)
        for (_, entry), share in zip(entries(book.root), root.shares, strict=True):
            if share:
                own[_purpose(entry.purpose)] += share
        for purpose, share in own.items():
            shares[purpose] += share
            amounts[purpose].append(f"{book.accountant.unit} {float(root.cost * share / root.share):.3g}")
    return {purpose: (float(share), " and ".join(amounts[purpose])) for purpose, share in shares.items()}


def _beside(part: Priced) -> list[str]:
    """The labels of parallel scopes that cost nothing beside a larger one."""
    inside = [label for inner in part.parts if inner.share for label in _beside(inner)]
    is_parallel = isinstance(part.entry, Scope) and part.entry.kind == "parallel"
    return inside + [inner.entry.label for inner in part.parts if is_parallel and not inner.share]


def _purpose(purpose: Purpose) -> Purpose:
    """The purpose that a bar stands for: a level with all steps of its choice, a step with a bar of its own, or all else."""
    if purpose.level is None:
        return purpose
    return replace(purpose, step=None) if purpose.step in STEPS else Purpose(str(purpose.step))


def _order(purpose: Purpose) -> tuple[int, int, int]:
    """A key that sorts other releases first, then level by level, then the leaves."""
    return ({SPLITS: 1, COUNTS: 1, LEAVES: 2}.get(purpose.kind, 0), purpose.level or 0, purpose.kind == SPLITS)


def _name(purpose: Purpose) -> str:
    at_level = purpose.level is not None
    return f"{purpose.kind}, level {purpose.level}" if at_level else drawable(str(purpose), LONGEST)


def _notes(ledger: Ledger, beside: list[str]) -> list[str]:
    whole = f"100 % is epsilon = {ledger.spent:.4g}" + (f" at delta = {ledger.delta:.3g}" if ledger.delta else "")
    if len(ledger.books) > 1:
        whole += "; books in epsilon and in rho add up as epsilon"
    notes = [f"{len(ledger.leaks)} exact values were opened: the loss has no bound" if ledger.leaks else whole]
    if beside:
        notes.append(f"not shown, of other records and no larger: {drawable(', '.join(beside), 60)}")
    return notes
