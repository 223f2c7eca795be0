"""Sizes of leaves beside their noise. Released values only."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpforest.plots.canvas import AS_IS, BLUE, GREY, ORANGE, VERMILION, axes, in_percent, load, say

CHOICES = ("permute-and-flip", "exponential")
# Above this many standard deviations noise hardly ever decides what a leaf of one class says.
CLEAR = 3.0
# Marker, colour and bounds of signal over noise.
KINDS = (("o", BLUE, CLEAR, math.inf), ("s", ORANGE, 1.0, CLEAR), ("x", VERMILION, 0.0, 1.0))
MANY = 500
# Below this the axis ends: whatever such leaves say is noise.
LOWEST = 0.1
LEAST_NOISE = 1e-6


def releases_labels(model: Any) -> bool:
    """Whether the leaves released a label each, and no counts."""
    forest = model.forest_
    leaves = forest.is_leaf
    if any(entry["label"] == "leaves" and entry["mechanism"] in CHOICES for entry in model.ledger_.entries()):
        return True
    # Without privacy the mechanism is no sign; a label counts as one record without noise.
    return bool((forest.counts[leaves].sum(axis=1) == 1).all() and (forest.variances[leaves] == 0).all())


def noise_of(forest: Any, nodes: Any) -> np.ndarray:
    """Standard deviation of the noise in the lead of one class over another (of high over low for a bounded target).

    This, and not the noise in the size, since some recipes release the lead precisely and the size roughly.
    """
    return np.sqrt(2 * forest.variances[nodes])


def leaf_noise(model: Any, *, ax: Any = None) -> Any:
    """Released size of each leaf over the standard deviation of its noise, against the share of records in leaves so far.

    Leaves stand from the clearest to the noisiest, on a logarithmic axis with lines at 1, where signal equals noise, and at
    3; the picture says which share of the (released) records is in leaves above 3. The noise is that of the lead of one
    class over another; the size is the most that a lead can be. (The recipe ``auto`` releases leads precisely and sizes
    roughly, so its sizes carry more noise than that.) The axis ends at a tenth of the noise, and the number of leaves below
    is said. Without noise the sizes themselves are drawn.
    """
    check_is_fitted(model, "forest_")
    ax = axes(ax, 6.4, 4.2)
    if releases_labels(model):
        return say(ax, "The leaves release a label each and no counts,", "so there is no size to set against the noise.")
    leaves = np.flatnonzero(model.forest_.is_leaf)
    sizes = model.forest_.counts[leaves].sum(axis=1)
    noise = noise_of(model.forest_, leaves)
    seen = sizes > 0
    if not seen.any():
        return say(ax, "No leaf has a released size above 0.")
    exact = not noise.any()
    ratios = sizes[seen] if exact else sizes[seen] / np.maximum(noise[seen], LEAST_NOISE)
    order = np.argsort(-ratios, kind="stable")
    reached = sizes[seen][order].cumsum() / sizes[seen].sum()
    _draw(ax, reached, ratios[order], exact)
    _write(ax, sizes, noise, exact)
    return ax


def _draw(ax: Any, reached: np.ndarray, ratios: np.ndarray, exact: bool) -> None:
    ax.set_yscale("log")
    ax.plot(np.append(0, reached), np.append(ratios[0], ratios), color=GREY, linewidth=0.8, drawstyle="steps-pre", zorder=1)
    size = 22 if len(ratios) <= MANY else 6
    for marker, colour, low, high in [("o", BLUE, 0.0, math.inf)] if exact else KINDS:
        own = (ratios >= low) & (ratios < high)
        ax.scatter(reached[own], ratios[own], size, color=colour, marker=marker, linewidths=1, rasterized=len(ratios) > MANY)
    # Both lines are always in sight.
    low, high = ratios.min() / 1.5, 2 * ratios.max()
    low, high = (low, high) if exact else (min(max(low, LOWEST), 0.6), max(high, 2 * CLEAR))
    ax.set(xlim=(0, 1.02), ylim=(low, high))
    ticker = load("matplotlib.ticker")
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1,) if high / low > 100 else (1, 2, 5)))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set_xticks(np.linspace(0, 1, 6))
    in_percent(ax.xaxis)
    ax.yaxis.set_major_formatter(lambda tick, _: f"{tick:,g}")
    ax.set_xlabel("share of the released records, leaves in order", **AS_IS)
    ax.set_ylabel("released records of a leaf" if exact else "released records over noise", **AS_IS)
    ax.spines[["top", "right"]].set_visible(False)


def _write(ax: Any, sizes: np.ndarray, noise: np.ndarray, exact: bool) -> None:
    """The lines, and what one should read off."""
    if exact:
        title = "counts without noise"
    else:
        for level, name in ((CLEAR, f"{CLEAR:g} standard deviations"), (1.0, "signal = noise")):
            ax.axhline(level, color="black", linewidth=1, linestyle="-" if level == 1 else "--")
            style = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": "small"}
            ax.annotate(name, (1.015, level), annotation_clip=False, **style, **AS_IS)
        positive = np.maximum(sizes, 0)
        clear = positive[sizes >= CLEAR * noise].sum() / positive.sum()
        title = f"{clear:.0%} of the released records are in leaves above {CLEAR:g} standard deviations of noise"
    n_hidden = int(np.count_nonzero(sizes <= 0 if exact else sizes < LOWEST * noise))
    reason = "have no records" if exact else f"are below {LOWEST:g} and not shown"
    hidden = f", of which {n_hidden:,} {reason}" if n_hidden else ""
    leaves = "1 leaf" if len(sizes) == 1 else f"{len(sizes):,} leaves"
    ax.set_title(f"{title}\n{leaves}{hidden}", loc="left", fontsize="small", color=GREY, **AS_IS)
