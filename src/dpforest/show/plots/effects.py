"""Draws what a model has learnt: effects of features as curves or bars, and interactions as maps. Released values only."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpforest.errors import ParameterError, shown
from dpforest.model.effects import Effect, Effects, Interaction, ValuePart, effects_of
from dpforest.show import pictures
from dpforest.show.plots import canvas
from dpforest.show.plots.canvas import AS_IS, COLOURS, GREY, drawable

LONGEST, MOST_BARS = 24, 14
# A panel in inches, and panels in a row.
WIDE, HIGH, IN_ROW = 3.7, 2.7, 3
PER_INCH = 15  # letters of a note
SCALES = {"log-odds": "log-odds of {}", "probability": "probability of {}", "target": "{}"}
NO_SPLIT = "No tree asks for any feature, so there is nothing to draw."


def effects(model: Any, column: Any = None, *, ax: Any = None, most: int = 6, pairs: int = 2) -> Any:
    """Draw how each feature moves the prediction: a curve for numbers and dates, bars for categories, with 95 % bands.

    An effect is by how much the prediction for a value is above or below its mean, other features being averaged by the
    released sizes of nodes. It is in log-odds where trees add up log-odds, in probability where they vote, in the unit of a
    bounded target. Of two classes the second is shown, of more the six commonest. The ``most`` strongest features come
    first, on one scale, then the ``pairs`` strongest interactions as maps: what two features do together beside what each
    does alone. Bands are about noise alone. ``model.effects()`` has the numbers.

    Returns an array of axes. With ``column``, the name of a feature, or on axes ``ax`` it draws one feature (the strongest
    if none is named) and returns its axes.
    """
    canvas.check_forest(model)
    canvas.check_number("most", most, 1)
    canvas.check_number("pairs", pairs, 0)
    if column is not None or ax is not None:
        return _one(model, column, ax)
    found = effects_of(model.forest_, model.ledger_, pairs)
    panels: list[Effect | Interaction] = [*found.features[:most], *found.pairs]
    if not panels:
        return np.array([canvas.say(canvas.axes(None, 6.4, 2.0), NO_SPLIT)])
    n_rows = math.ceil(len(panels) / IN_ROW)
    n_columns = math.ceil(len(panels) / n_rows)
    notes = _notes(found, panels, WIDE * n_columns)
    size = (WIDE * n_columns, HIGH * n_rows + 0.2 * len(notes))
    grid = canvas.load("matplotlib.pyplot").subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    figure, drawn = grid[0], grid[1].reshape(-1)
    for left in drawn[len(panels) :]:
        left.remove()
    reach = pictures.reach_of(found.features[:most])
    for index, (panel, own) in enumerate(zip(panels, drawn, strict=False)):
        _draw(own, panel, found, reach, has_legend=not index)
    figure.suptitle("\n".join(notes), x=0.01, ha="left", fontsize="small", color=GREY, **AS_IS)
    return drawn[: len(panels)]


def _one(model: Any, column: Any, ax: Any) -> Any:
    found = effects_of(model.forest_, model.ledger_, n_pairs=0)
    effect = found.of(str(column)) if column is not None else next(iter(found.features), None)
    if effect is None and column is not None and str(column) not in model.forest_.domain.names:
        names = ", ".join(map(shown, model.forest_.domain.names[:10]))
        raise ParameterError(f"The model has no feature {shown(column)}. Its features are, the first ten: {names}.")
    ax = canvas.axes(ax, 6.4, 4.2)
    if effect is None:
        return canvas.say(ax, NO_SPLIT if column is None else "No tree asks for this feature, so it moves nothing.")
    _draw(ax, effect, found, pictures.whole_reach(effect))
    notes = _notes(found, (effect,), ax.get_window_extent().width / ax.figure.dpi)
    ax.set_title("\n".join([ax.get_title(loc="left"), *notes]), loc="left", fontsize="small", color=GREY, **AS_IS)
    return ax


def _notes(found: Effects, panels: Sequence[Effect | Interaction], inches: float) -> list[str]:
    """What should be known to read the picture, in lines of a width."""
    name = drawable(found.outputs[0], LONGEST) if len(found.outputs) == 1 else "each class"
    words = [f"Effect on {SCALES[found.scale].format(name)}, beside its mean.", pictures.band_words(found, panels)]
    if any(isinstance(panel, Effect) and panel.kind != "category" for panel in panels):
        words.append("? stands for missing values.")
    if any(isinstance(panel, Interaction) for panel in panels):
        words.append("Maps: what two features do beside what each does alone.")
    return textwrap.wrap(" ".join(words), max(int(PER_INCH * inches), 20))


def _draw(ax: Any, panel: Effect | Interaction, found: Effects, reach: float, has_legend: bool = True) -> None:
    if isinstance(panel, Interaction):
        title = _map(ax, panel, found)
    else:
        names = [drawable(name, LONGEST) for name in found.outputs]
        (_bars if panel.kind == "category" else _curve)(ax, panel, names, reach)
        title = drawable(panel.feature, LONGEST)
        ax.spines[["top", "right"]].set_visible(False)
        if len(found.outputs) > 1 and has_legend:
            ax.legend(fontsize="x-small", frameon=False, ncols=2)
    doubt = " (within the noise)" if panel.stands_out is False else ""
    ax.set_title(title + doubt, loc="left", fontsize="medium", **AS_IS)


def _curve(ax: Any, effect: Effect, names: list[str], reach: float) -> None:
    """Steps over the range of a number, and a point for missing values at the right."""
    axis = pictures.axis_of(effect)
    missing = [part for part in effect.parts if part.kind == "missing"]
    for index, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        values, bands = _values(axis.ranges, index)
        if bands is not None:
            low, high = (np.append(ends, ends[-1]) for ends in (values - bands, values + bands))
            ax.fill_between(axis.ends, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
        ax.step(axis.ends, np.append(values, values[-1]), where="post", color=colour, linewidth=1.6, label=name)
        ax.errorbar([1.06], *_values(missing, index), fmt="o", color=colour, markersize=4, linewidth=1, capsize=2)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlim=(-0.03, 1.1), ylim=(-reach, reach))
    # Words have room left of the question mark.
    ticks = [(place, words) for place, words in axis.ticks if 0 <= place <= 1.02 - 0.015 * len(words)] + [(1.06, "?")]
    ax.set_xticks(*map(list, zip(*ticks, strict=True)), fontsize="small", **AS_IS)


def _values(parts: Sequence[ValuePart], index: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The effects of some parts on one output, and their bands."""
    bands = [part.bands[index] for part in parts if part.bands is not None]
    return np.array([part.effects[index] for part in parts]), np.array(bands) if len(bands) == len(parts) else None


def _bars(ax: Any, effect: Effect, names: list[str], reach: float) -> None:
    """Bars of one output, or points of several, for the categories that hold most records."""
    parts, n_left = pictures.commonest(effect, MOST_BARS)
    rows = np.arange(len(parts))
    for index, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        values, bands = _values(parts, index)
        if len(names) == 1:
            ax.barh(rows, values, color=colour, xerr=bands, error_kw={"ecolor": GREY, "elinewidth": 1, "capsize": 2})
        else:
            places = rows + 0.6 * ((index + 0.5) / len(names) - 0.5)
            ax.errorbar(values, places, xerr=bands, fmt="o", color=colour, markersize=3, linewidth=1, label=name)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.set(xlim=(-reach, reach), ylim=(len(parts) - 0.4, -0.6))
    ax.set_yticks(rows, [drawable(part.words, 16) for part in parts], fontsize="small", **AS_IS)
    if n_left:
        ax.set_xlabel(f"{n_left:,} rarer values are left out", fontsize="small", color=GREY, **AS_IS)


def _map(ax: Any, pair: Interaction, found: Effects) -> str:
    """Draw a map of cells, blue below 0 and red above, pale where within their band; returns its title."""
    drawn = pictures.map_of(pair, found.outputs)
    alpha = np.where(drawn.within, 0.35, 1.0).T
    style = {"vmin": -drawn.most, "vmax": drawn.most, "aspect": "auto", "origin": "lower"}
    ax.figure.colorbar(ax.imshow(drawn.values.T, cmap="RdBu_r", alpha=alpha, **style), ax=ax, shrink=0.9)
    names = [drawable(name, 14) for name in pair.features]
    # Labels stand side by side, or one above the other where there is more room.
    for axis, name, parts, most in zip((ax.xaxis, ax.yaxis), names, pair.parts, (3, 9), strict=True):
        places = pictures.labelled(parts, min(most, 4), most)
        words = [drawable(pictures.short_words(parts[index]), 12) for index in places]
        axis.set_ticks(places, words, fontsize="x-small", **AS_IS)
        axis.set_label_text(name, fontsize="small", **AS_IS)
    of_class = f", {drawable(drawn.output, 12)}" if drawn.output is not None else ""
    return f"{names[0]} \N{MULTIPLICATION SIGN} {names[1]}{of_class}"
