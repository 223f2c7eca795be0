"""Draws what a fit released: importances, where its loss went, how far leaves stand out of noise. Released values only."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpforest.common.text import counted, in_brackets, share_words
from dpforest.forest.bands import STANDS_OUT
from dpforest.model.importances import importance_rows
from dpforest.model.signal import Signal
from dpforest.privacy.composition import Priced
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, Purpose, Scope
from dpforest.privacy.ledger import Ledger
from dpforest.show.charges import charged
from dpforest.show.plots import canvas
from dpforest.show.plots.canvas import AS_IS, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, drawable

# Letters of names; room for so many bars, that one alone is no block.
LONGEST, LONGEST_PURPOSE, LEAST_ROWS = 32, 36, 4
# Steps of the choice of a split itself; others are a help that has a name of its own.
STEPS = (None, "feature", "split")
PAINTS = {SPLITS: BLUE, COUNTS: ORANGE, LEAVES: GREEN}
# Other releases come first, then level by level, then the leaves.
PLACES = {SPLITS: 1, COUNTS: 1, LEAVES: 2}
# Marker, colour and bounds of signal over noise.
KINDS = (("o", BLUE, STANDS_OUT, math.inf), ("s", ORANGE, 1.0, STANDS_OUT), ("x", VERMILION, 0.0, 1.0))
MANY = 500  # leaves
# Below this the axis ends: whatever such leaves say is noise.
LOWEST = 0.1
# Why there is no noise of leaves, by what these released.
NOTHING = {
    "labels": ("The leaves release a label each and no counts,", "so there is no size to set against the noise."),
    "printed": ("How wide the noise of the printed algorithm is", "was not recorded."),
}


def importances(model: Any, *, ax: Any = None, most: int = 20) -> Any:
    """Draw bars of ``model.feature_importances_`` with 95 % bands, the largest first; of at most ``most`` columns.

    An importance is the column's share in what the model has learnt, without what noise alone would give: of trees that add
    up in the variance of the score, of trees that vote in the decrease of impurity.
    """
    canvas.check_forest(model)
    canvas.check_number("most", most, 1)
    every = importance_rows(model.forest_, model.ledger_)
    rows = every[:most]
    ax = canvas.axes(ax, 6.4, 1.0 + 0.28 * len(rows))
    values, bands = (np.array([row[name] or 0.0 for row in rows]) for name in ("share", "band"))
    lows, highs = np.maximum(values - bands, 0), np.minimum(values + bands, 1)
    error = {"ecolor": GREY, "elinewidth": 1, "capsize": 2}
    ax.barh(range(len(rows)), values, color=BLUE, xerr=np.stack([values - lows, highs - values]), error_kw=error)
    words = [
        in_brackets(share_words(row["share"], low if row["band"] else None, high)) if row["asked"] else "not asked"
        for row, low, high in zip(rows, lows, highs, strict=True)
    ]
    what = "the decrease of impurity" if model.forest_.link == "shares" else "the variance of the score"
    note = f"the {len(rows)} largest of {len(every)} columns" if len(rows) < len(every) else ""
    along = f"share in {what}" + (", with 95 % bands" if bands.any() else "")
    _label(ax, [drawable(row["feature"], LONGEST) for row in rows], highs, words, along, note)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, min(1.25 * float(highs.max()), 1) or 1))
    canvas.in_percent(ax.xaxis)
    return ax


def budget_by_level(model: Any, *, ax: Any = None) -> Any:
    """Draw as bars how the loss was divided: splits and counts of each level (0 is the root), leaves, and other releases.

    Bars are shares of the whole loss and add up to 1; the amounts beside them are in the unit of the ledger (epsilon, or rho
    of zCDP). Trees in sequence add up. Scopes about different records cost as much as the largest, so only that one
    is shown, and a line says which are not. A ledger with two books, in epsilon and in rho, gives each the share of its
    own epsilon at its delta.
    """
    canvas.check_forest(model)
    ledger: Ledger = model.ledger_
    rows, beside = _loss_rows(ledger)
    n_rows = max(LEAST_ROWS, len(rows))
    ax = canvas.axes(ax, 6.8, 1.5 + 0.28 * n_rows)
    if not rows:
        no_bound = "exact values were opened" if ledger.leaks else "every release is exact"
        without = f"The loss has no bound: {no_bound}." if math.isinf(ledger.spent) else "Nothing was charged."
        return canvas.say(ax, without)
    shares = [share for _, share, _ in rows]
    ax.barh(range(len(rows)), shares, color=[PAINTS.get(purpose.kind, PURPLE) for purpose, _, _ in rows])
    names = [
        str(drawable(purpose, LONGEST_PURPOSE)) if purpose.level is None else f"{purpose.kind}, level {purpose.level}"
        for purpose, _, _ in rows
    ]
    words = [f"{share:.1%}   {amount}" for _, share, amount in rows]
    _label(ax, names, shares, words, "share of the loss", "\n".join(_notes(ledger, beside)), offset=3)
    ax.set(ylim=(n_rows - 0.4, -0.6), xlim=(0, 1.35 * max(shares)))
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= min(1, 1.02 * max(shares))])
    canvas.in_percent(ax.xaxis)
    ax.spines["bottom"].set_bounds(0, max(shares))
    return ax


def _label(
    ax: Any, names: list[str], ends: Sequence[float], words: list[str], along: str, note: str, offset: float = 5
) -> None:
    style = {"textcoords": "offset points", "va": "center", "color": GREY, "fontsize": "small", "annotation_clip": False}
    for row, (end, text) in enumerate(zip(ends, words, strict=True)):
        ax.annotate(text, (end, row), (offset, 0), **style, **AS_IS)
    ax.set_yticks(range(len(names)), names, **AS_IS)
    ax.tick_params(axis="y", length=0)
    canvas.entitle(ax, along, title=note, without=("top", "right", "left"))


def _loss_rows(ledger: Ledger) -> tuple[list[tuple[Purpose, float, str]], list[str]]:
    """For each purpose its share of the loss and its amounts in words, in order; and the labels of what adds nothing."""
    found = [each for each in charged(ledger, counted=True) if each.root.cost]
    shares: dict[Purpose, Fraction] = defaultdict(Fraction)
    amounts: dict[Purpose, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))
    for each in found:
        if each.share:
            purpose, book = _bar(each.entry.purpose), (each.book.accountant.unit, id(each.book))
            shares[purpose] += each.share
            amounts[purpose][book] += float(each.root.cost * each.share / each.root.share)
    order = sorted(shares, key=lambda purpose: (PLACES.get(purpose.kind, 0), purpose.level or 0, purpose.kind == SPLITS))
    words = {of: " and ".join(f"{unit} {amount:.3g}" for (unit, _), amount in amounts[of].items()) for of in order}
    roots = {id(each.root): each.root for each in found}.values()
    beside = list(dict.fromkeys(label for root in roots for label in _beside(root)))
    return [(purpose, float(shares[purpose]), words[purpose]) for purpose in order], beside


def _beside(part: Priced) -> list[str]:
    """The labels of parallel scopes that cost nothing beside a larger one."""
    inside = [label for inner in part.parts if inner.share for label in _beside(inner)]
    is_parallel = isinstance(part.entry, Scope) and part.entry.kind == "parallel"
    return inside + [inner.entry.label for inner in part.parts if is_parallel and not inner.share]


def _bar(purpose: Purpose) -> Purpose:
    """The purpose of a bar: a level with all steps of its choice, a step with its own bar, or all else."""
    if purpose.level is None:
        return purpose
    return replace(purpose, step=None) if purpose.step in STEPS else Purpose(str(purpose.step))


def _notes(ledger: Ledger, beside: list[str]) -> list[str]:
    whole = f"100 % is epsilon = {ledger.spent:.4g}" + (f" at delta = {ledger.delta:.3g}" if ledger.delta else "")
    if len(ledger.books) > 1:
        whole += "; books in epsilon and in rho add up as epsilon"
    notes = [f"{len(ledger.leaks)} exact values were opened: the loss has no bound" if ledger.leaks else whole]
    return notes + ([f"not shown, of other records and no larger: {drawable(', '.join(beside), 60)}"] if beside else [])


def leaf_noise(model: Any, *, ax: Any = None) -> Any:
    """Draw the signal of each leaf over the standard deviation of its noise, against the share of records in leaves so far.

    Leaves stand from the clearest to the noisiest, on a logarithmic axis with lines at 1, where signal equals noise, and at
    3; the picture says which share of the (released) records is in leaves above 3, as the report does. The signal is
    the size of the leaf or, of additive trees, by how much its first class leads: they release leads precisely and
    sizes roughly. The axis ends at a tenth of the noise, and the number of leaves below is said. Without noise
    the sizes themselves are drawn.
    """
    canvas.check_forest(model)
    ax = canvas.axes(ax, 6.4, 4.2)
    signal = Signal.of(model.forest_, model.ledger_)
    if signal.release in NOTHING:
        return canvas.say(ax, *NOTHING[signal.release])
    leaves = np.flatnonzero(model.forest_.is_leaf)
    sizes, ratios = model.forest_.bands.sizes[leaves], (signal.ratios if signal.has_noise else signal.sizes)[leaves]
    order = np.argsort(-ratios, kind="stable")[: np.count_nonzero(ratios > 0)]
    if not len(order) or sizes.sum() <= 0:
        return canvas.say(ax, "The leaves hold no more records than noise could give.")
    # Sizes of nothing but noise may be below 0; the way along the axis does not go back for them.
    reached = np.clip(np.maximum.accumulate(sizes[order].cumsum() / sizes.sum()), 0, 1)
    _draw(ax, reached, ratios[order], signal.has_noise)
    what = "lead of a class" if signal.release == "lead" else "released records"
    across = f"{what} over noise" if signal.has_noise else "released records of a leaf"
    canvas.entitle(ax, "share of the released records, leaves in order", across, _title(ratios, signal))
    return ax


def _draw(ax: Any, reached: np.ndarray, ratios: np.ndarray, has_noise: bool) -> None:
    ax.set_yscale("log")
    ax.plot(np.append(0, reached), np.append(ratios[0], ratios), color=GREY, linewidth=0.8, drawstyle="steps-pre", zorder=1)
    size, is_large = (6, True) if len(ratios) > MANY else (22, False)
    for marker, colour, low, high in KINDS if has_noise else [("o", BLUE, 0.0, math.inf)]:
        own = (ratios >= low) & (ratios < high)
        ax.scatter(reached[own], ratios[own], size, color=colour, marker=marker, linewidths=1, rasterized=is_large)
    low, high = ratios.min() / 1.5, 2 * ratios.max()
    if has_noise:  # both lines are always in sight
        low, high = min(max(low, LOWEST), 0.6), max(high, 2 * STANDS_OUT)
        for level, name, line in ((STANDS_OUT, f"{STANDS_OUT:g} standard deviations", "--"), (1.0, "signal = noise", "-")):
            ax.axhline(level, color="black", linewidth=1, linestyle=line)
            style = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": "small"}
            ax.annotate(name, (1.015, level), annotation_clip=False, **style, **AS_IS)
    ax.set(xlim=(0, 1.02), ylim=(low, high), xticks=np.linspace(0, 1, 6))
    canvas.in_percent(ax.xaxis)
    ticker = canvas.load("matplotlib.ticker")
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1,) if high / low > 100 else (1, 2, 5)))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    ax.yaxis.set_major_formatter(lambda tick, _: f"{tick:,g}")


def _title(ratios: np.ndarray, signal: Signal) -> str:
    reliability = signal.reliability()
    title, hidden, reason = "counts without noise", ratios <= 0, "have no records"
    if reliability is not None:
        part = in_brackets(share_words(*(reliability[name] for name in ("standing_out", "low", "high"))))
        title = f"{part} of the released records are in leaves above {STANDS_OUT:g} standard deviations"
        hidden, reason = ratios < LOWEST, f"are below {LOWEST:g} and not shown"
    words = f", of which {int(hidden.sum()):,} {reason}" if hidden.any() else ""
    return f"{title}\n{counted(len(ratios), 'leaf', 'leaves')}{words}"
