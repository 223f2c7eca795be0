"""Where the loss of a fit went. Reads the ledger, which is public."""

import math
import re
from collections import defaultdict
from fractions import Fraction
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dpforest.plots.canvas import AS_IS, BLUE, GREEN, GREY, ORANGE, PURPLE, axes, drawable, in_percent, say
from dpforest.privacy.accountants import Accountant
from dpforest.privacy.ledger import Book, Charge, Leak, Ledger, Scope

LONGEST = 36
# Room for so many bars, that one alone is no block.
LEAST_ROWS = 4
# Charges at a level; what follows the colon is a step of the choice itself, or a help that has a name of its own.
AT_LEVEL = re.compile(r"(splits|counts) of level (\d+)(?:: (.+))?", re.DOTALL)
STEPS = (None, "feature", "split")
COLOURS = {"splits": BLUE, "counts": ORANGE, "leaves": GREEN}
# Scopes in parallel cost the same but for rounding.
SAME = 1e-9

Purpose = tuple[str, int]  # "splits" and the level, or another word and 0
Costs = dict[Purpose, Fraction]


def budget_by_level(model: Any, *, ax: Any = None) -> Any:
    """Bars of how the loss was divided: splits and counts of each level (0 is the root), leaves, and other releases.

    Bars are shares of the whole loss and add up to 1; the amounts beside them are in the unit of the ledger (epsilon, or rho
    of zCDP). Trees in sequence add up. Scopes about different records cost as much as the largest, so only that one
    is shown, and a line says which are not. A ledger with two books, in epsilon and in rho, gives each the share of its
    own epsilon at its delta.
    """
    check_is_fitted(model, "forest_")
    ledger: Ledger = model.ledger_
    books = [(book, *_costs(book.root, book.accountant)) for book in ledger.books]
    books = [(book, costs, beside) for book, costs, beside in books if sum(costs.values())]
    beside = list(dict.fromkeys(label for _, _, labels in books for label in labels))
    rows = sorted(_rows(books).items(), key=lambda row: _order(row[0]))
    ax = axes(ax, 6.8, 1.5 + 0.28 * max(LEAST_ROWS, len(rows)))
    if not rows:
        no_bound = "exact values were opened" if ledger.leaks else "every release is exact"
        return say(ax, f"The loss has no bound: {no_bound}." if math.isinf(ledger.spent) else "Nothing was charged.")
    shares = [share for _, (share, _) in rows]
    bars = ax.barh(range(len(rows)), shares, color=[COLOURS.get(kind, PURPLE) for (kind, _), _ in rows])
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


def _rows(books: list[tuple[Book, Costs, list[str]]]) -> dict[Purpose, tuple[float, str]]:
    """For each purpose its share of the whole loss, and its amounts in words."""
    losses = [Fraction(book.accountant.epsilon_of(float(sum(costs.values())))) for book, costs, _ in books]
    shares: dict[Purpose, Fraction] = defaultdict(Fraction)
    amounts: dict[Purpose, list[str]] = defaultdict(list)
    for (book, costs, _), loss in zip(books, losses, strict=True):
        for purpose, cost in costs.items():
            shares[purpose] += loss / sum(losses) * cost / sum(costs.values())
            amounts[purpose].append(f"{book.accountant.unit} {float(cost):.3g}")
    return {purpose: (float(share), " and ".join(amounts[purpose])) for purpose, share in shares.items()}


def _costs(entry: Charge | Leak | Scope, accountant: Accountant) -> tuple[Costs, list[str]]:
    """Finite costs by purpose, as they count outside the entry; and labels of parallel scopes that do not count."""
    if not isinstance(entry, Scope):
        return ({_purpose(entry.label): Fraction(entry.amount)} if math.isfinite(entry.amount) else {}), []
    parts = [(child, *_costs(child, accountant)) for child in entry.children]
    beside = [label for _, _, labels in parts for label in labels]
    if entry.kind == "parallel" and parts:
        largest = max(sum(costs.values()) for _, costs, _ in parts)
        shown = next(place for place, (_, costs, _) in enumerate(parts) if sum(costs.values()) >= (1 - SAME) * largest)
        beside = parts[shown][2] + [child.label for place, (child, _, _) in enumerate(parts) if place != shown]
        return _scaled(parts[shown][1], largest), beside
    total: Costs = defaultdict(Fraction)
    for _, costs, _ in parts:
        for purpose, cost in costs.items():
            total[purpose] += cost
    whole = Fraction(sum(total.values()))
    if entry.kind == "bootstrap" and whole:
        whole = Fraction(accountant.bootstrap(float(whole)))
    return _scaled(total, entry.copies * whole), beside


def _scaled(costs: Costs, whole: Fraction | int) -> Costs:
    """Costs in the same proportion that sum to ``whole``."""
    total = sum(costs.values())
    return {purpose: cost * whole / total for purpose, cost in costs.items()} if total else {}


def _purpose(label: str) -> Purpose:
    match = AT_LEVEL.fullmatch(label)
    if match is None:
        return label, 0
    kind, level, step = match.groups()
    return (kind, int(level)) if step in STEPS else (step, 0)


def _order(purpose: Purpose) -> tuple[int, int, int]:
    """Other releases first, then level by level, then the leaves."""
    kind, level = purpose
    return ({"splits": 1, "counts": 1, "leaves": 2}.get(kind, 0), level, kind == "splits")


def _name(purpose: Purpose) -> str:
    kind, level = purpose
    return f"{kind}, level {level}" if kind in ("splits", "counts") else drawable(kind, LONGEST)


def _notes(ledger: Ledger, beside: list[str]) -> list[str]:
    whole = f"100 % is epsilon = {ledger.spent:.4g}" + (f" at delta = {ledger.delta:.3g}" if ledger.delta else "")
    if len(ledger.books) > 1:
        whole += "; books in epsilon and in rho add up as epsilon"
    notes = [f"{len(ledger.leaks)} exact values were opened: the loss has no bound" if ledger.leaks else whole]
    if beside:
        notes.append(f"not shown, of other records and no larger: {drawable(', '.join(beside), 60)}")
    return notes
