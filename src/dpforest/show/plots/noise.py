"""Draws how far leaves stand out of their noise. Released values only."""

import math
from typing import Any

import numpy as np

from dpforest.common.text import counted, in_brackets, share_words
from dpforest.forest.bands import STANDS_OUT
from dpforest.model.signal import Signal
from dpforest.show.plots import canvas
from dpforest.show.plots.canvas import AS_IS, BLUE, GREY, ORANGE, VERMILION

# Marker, colour and bounds of signal over noise.
KINDS = (("o", BLUE, STANDS_OUT, math.inf), ("s", ORANGE, 1.0, STANDS_OUT), ("x", VERMILION, 0.0, 1.0))
MANY = 500
# Below this the axis ends: whatever such leaves say is noise.
LOWEST = 0.1
NOTHING = {
    "labels": ("The leaves release a label each and no counts,", "so there is no size to set against the noise."),
    "printed": ("How wide the noise of the printed algorithm is", "was not recorded."),
}


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
    """What one should read off the picture."""
    reliability = signal.reliability()
    title, hidden, reason = "counts without noise", ratios <= 0, "have no records"
    if reliability is not None:
        part = in_brackets(share_words(*(reliability[name] for name in ("standing_out", "low", "high"))))
        title = f"{part} of the released records are in leaves above {STANDS_OUT:g} standard deviations"
        hidden, reason = ratios < LOWEST, f"are below {LOWEST:g} and not shown"
    words = f", of which {int(hidden.sum()):,} {reason}" if hidden.any() else ""
    return f"{title}\n{counted(len(ratios), 'leaf', 'leaves')}{words}"
