"""What the report shows of what a model has learnt: effects as plain data, and as pictures. Released values only.

Pictures need no script: a template writes them as SVG, in a box of 340 by 184 or, for bars, as high as it takes. The script
only chooses among them and reads values out.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.common.text import MINUS, decimals, figure
from dpforest.model.effect_values import Effect, Effects, Interaction, Part
from dpforest.show.pictures import EffectMap, axis_of, band_words, commonest, ends_of, labelled, reach_of, short_words

# Effects on the page, those of them that are seen without a script, bars of a picture, and values in its table.
MOST_EFFECTS, MOST_OPEN, MOST_BARS, MOST_VALUES = 24, 4, 12, 40
# Where the drawing begins and ends, where missing values stand, and the height of a bar.
LEFT, RIGHT, TOP, BOTTOM, MISSING = 46.0, 304.0, 8.0, 156.0, 325.0
LEFT_OF_BARS, ROW = 120.0, 15.0
SCALES = {"log-odds": "log-odds of", "probability": "probability of", "target": "predicted"}


def effects_content(found: Effects) -> dict[str, Any]:
    """The effects as plain values, ready for JSON."""
    pairs = [
        asdict(replace(pair, effects=np.empty(0), bands=None))
        | {"effects": pair.effects.tolist(), "bands": None if pair.bands is None else pair.bands.tolist()}
        for pair in found.pairs
    ]
    return asdict(replace(found, pairs=())) | {"pairs": pairs}


def effects_section(found: Effects) -> dict[str, Any]:
    """What the template of effects is filled with."""
    shown = found.features[:MOST_EFFECTS]
    reach = reach_of(shown)
    return {
        "effects": found,
        "on": SCALES[found.scale],
        "of_bands": band_words(found, (*shown, *found.pairs)),
        "pictures": [_picture(effect, reach) for effect in shown],
        "n_open": MOST_OPEN,
        "most_values": MOST_VALUES,
        "left": len(found.features) - len(shown),
        "maps": [_map(pair, found.outputs) for pair in found.pairs],
    }


def signed(value: float, band: float | None) -> str:
    """An effect as text, with its sign and band: ``+0.31 ± 0.05``."""
    if band:
        n = decimals(band)
        return f"{value:+,.{n}f} ± {band:,.{n}f}".replace("-", MINUS)
    return ("+" if value > 0 else "") + figure(value, 3)


def _picture(effect: Effect, reach: float) -> dict[str, Any]:
    """One effect, ready to be written as SVG and as a table: a curve over ranges, or bars of categories."""
    is_bars, apart, ticks = effect.kind == "category", list[Part](), list[tuple[float, str]]()
    if is_bars:
        parts, n_left = commonest(effect, MOST_BARS)
        middle, unit, ends = (
            (LEFT_OF_BARS + MISSING) / 2,
            (MISSING - LEFT_OF_BARS) / 2 / reach,
            (LEFT_OF_BARS - 4, MISSING + 8),
        )
        along = [TOP + ROW * row for row in range(len(parts) + 1)]
    else:
        axis, n_left = axis_of(effect), 0
        parts, apart = list(axis.ranges), [part for part in effect.parts if part.kind == "missing"]
        middle, unit = (TOP + BOTTOM) / 2, -(BOTTOM - TOP) / 2 / reach
        ends = (TOP - 4, BOTTOM + 4)
        along = (LEFT + (RIGHT - LEFT) * axis.ends).tolist()
        ticks = [(round(LEFT + (RIGHT - LEFT) * at, 1), words) for at, words in axis.ticks if 0 <= at <= 0.97]

    def place(values: Any) -> Any:
        return np.clip(middle + unit * values, *ends).round(1).tolist()

    marks = [_mark(part, start, stop, place) for part, (start, stop) in zip(parts, pairwise(along), strict=True)]
    step = float(f"{0.8 * reach:.0e}")
    return {
        "name": effect.feature, "kind": "bars" if is_bars else "curve", "doubt": effect.stands_out is False,
        "height": along[-1] + 26 if is_bars else BOTTOM + 28, "zero": middle, "marks": marks, "left_out": n_left,
        "apart": [_mark(part, MISSING - 8, MISSING + 8, place) for part in apart], "of_feature": ticks,
        "lines": [] if is_bars else [_outline(marks, output) for output in range(len(effect.parts[0].effects))],
        "of_value": [(place(value), figure(value, 2)) for value in (-step, 0.0, step)],
    }  # fmt: skip


def _mark(part: Part, start: float, stop: float, place: Callable[[Any], Any]) -> dict[str, Any]:
    """A part of a picture: its value in words, where it is, and for each output the places of value, low and high end."""
    bands = part.bands or [None] * len(part.effects)
    said = "; ".join(signed(value, band) for value, band in zip(part.effects, bands, strict=True))
    where = {"start": round(start, 1), "stop": round(stop, 1), "places": place(ends_of(part).T)}
    return {"words": part.words, "said": said, **where}


def _outline(marks: Sequence[dict[str, Any]], output: int) -> tuple[str, str]:
    """The path of the steps of a curve, and that around its band; the latter is empty if there is none."""
    line, low, high = (
        [f"{x:g} {mark['places'][output][which]:g}" for mark in marks for x in (mark["start"], mark["stop"])]
        for which in range(3)
    )
    return "M" + "L".join(line), "" if low == high else "M" + "L".join(high + low[::-1]) + "Z"


def _map(pair: Interaction, outputs: tuple[Any, ...]) -> dict[str, Any]:
    """One interaction, ready to be written as SVG; what is within its band is paler."""
    drawn, (rows, columns) = EffectMap.of(pair, outputs), pair.parts
    wide, high = (MISSING - LEFT_OF_BARS) / len(rows), (BOTTOM - TOP) / len(columns)
    depths = np.round(np.abs(drawn.values) / drawn.most * np.where(drawn.within, 0.4, 1), 2)
    cells = [
        (round(LEFT_OF_BARS + wide * row, 1), round(BOTTOM - high * (column + 1), 1), int(value > 0), depths[row, column])
        for (row, column), value in np.ndenumerate(drawn.values)
    ]
    # Where the interaction does most to records, and what it is there.
    weights = np.outer([part.share for part in rows], [part.share for part in columns])
    row, column = np.unravel_index((weights * np.square(drawn.values)).argmax(), weights.shape)
    band = None if drawn.bands is None else float(drawn.bands[row, column])
    return {
        "names": pair.features, "output": drawn.output, "doubt": pair.stands_out is False,
        "strongest": (rows[row].words, columns[column].words, signed(float(drawn.values[row, column]), band)),
        "cells": cells, "width": round(wide + 0.3, 1), "height": round(high + 0.3, 1),
        "along": [(round(LEFT_OF_BARS + wide * (at + 0.5), 1), short_words(rows[at])) for at in sorted({0, len(rows) - 1})],
        "across": [(round(BOTTOM - high * (at + 0.5), 1), short_words(columns[at])) for at in labelled(columns, 6, 9)],
    }  # fmt: skip
