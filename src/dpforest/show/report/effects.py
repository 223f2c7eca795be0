"""What the report shows of what a model has learnt: effects as plain data, and as pictures. Released values only.

Pictures need no script: a template writes them as SVG, in a box of 340 by 184 or, for bars, as high as it takes. The script
only chooses among them and reads values out.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.common.text import MINUS, decimals, figure
from dpforest.model.effect_values import Effect, Effects, Interaction, Part
from dpforest.show.effect_axis import axis_of, band_words, labelled, reach_of, short_words

# Effects on the page, those of them that are seen without a script, bars of a picture, and values in its table.
MOST_EFFECTS, MOST_OPEN, MOST_BARS, MOST_VALUES = 24, 4, 12, 40
# Where the drawing begins and ends, where missing values stand, and the height of a bar.
LEFT, RIGHT, TOP, BOTTOM, MISSING = 46.0, 304.0, 8.0, 156.0, 325.0
LEFT_OF_BARS, ROW = 120.0, 15.0
SCALES = {"log-odds": "log-odds of", "probability": "probability of", "target": "predicted"}

Ticks = tuple[tuple[float, str], ...]


def effects_content(found: Effects) -> dict[str, Any]:
    """The effects as plain values, ready for JSON."""
    pairs = [
        asdict(replace(pair, effects=np.empty(0), bands=None))
        | {"effects": pair.effects.tolist(), "bands": None if pair.bands is None else pair.bands.tolist()}
        for pair in found.pairs
    ]
    return asdict(replace(found, pairs=())) | {"pairs": pairs}


@dataclass(frozen=True)
class Mark:
    """A part of a picture: its value in words, where it is, and for each output the places of value, low and high end."""

    words: str
    said: str
    start: float
    stop: float
    places: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Picture:
    """One effect, ready to be written as SVG and as a table."""

    name: str
    kind: str  # "curve" or "bars"
    doubt: bool  # whether it cannot be told from noise
    height: float
    zero: float
    marks: tuple[Mark, ...]  # ranges or bars
    apart: tuple[Mark, ...]  # missing values of a number
    lines: tuple[tuple[str, str], ...]  # of a curve, for each output: the line, and the outline of its band
    of_value: Ticks
    of_feature: Ticks
    left_out: int


@dataclass(frozen=True)
class Map:
    """One interaction, ready to be written as SVG."""

    names: tuple[str, str]
    output: Any  # the class that it is about; None if there is only one output
    doubt: bool
    most: str
    strongest: tuple[str, str, str]  # where the interaction does most to records, and what it is there
    cells: tuple[tuple[float, float, float, float, int, float], ...]  # x, y, width, height, whether it is above 0, depth
    along: Ticks
    across: Ticks


def effects_section(found: Effects) -> dict[str, Any]:
    """What the template of effects is filled with."""
    shown = found.features[:MOST_EFFECTS]
    reach = reach_of(shown)
    return {
        "effects": found,
        "on": SCALES[found.scale],
        "of_bands": band_words(found, (*shown, *found.pairs)),
        "pictures": [(_bars if effect.kind == "category" else _curve)(effect, reach) for effect in shown],
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


def _said(part: Part) -> str:
    values = [signed(value, part.bands[index] if part.bands else None) for index, value in enumerate(part.effects)]
    return "; ".join(values)


def _curve(effect: Effect, reach: float) -> Picture:
    axis = axis_of(effect)
    ends = (LEFT + (RIGHT - LEFT) * axis.ends).tolist()
    middle, unit = (TOP + BOTTOM) / 2, (BOTTOM - TOP) / 2 / reach

    def place(value: float) -> float:
        return round(float(np.clip(middle - unit * value, TOP - 4, BOTTOM + 4)), 1)

    places = zip(axis.ranges, pairwise(ends), strict=True)
    marks = tuple(_mark(part, start, stop, place) for part, (start, stop) in places)
    missing = tuple(_mark(p, MISSING - 8, MISSING + 8, place) for p in effect.parts if p.kind == "missing")
    return Picture(
        name=effect.feature,
        kind="curve",
        doubt=effect.stands_out is False,
        height=BOTTOM + 28,
        zero=middle,
        marks=marks,
        apart=missing,
        lines=tuple(_outline(marks, output) for output in range(len(marks[0].places))),
        of_value=tuple((place(value), figure(value, 2)) for value in _round_values(reach)),
        of_feature=tuple((round(LEFT + (RIGHT - LEFT) * at, 1), words) for at, words in axis.ticks if 0 <= at <= 0.97),
        left_out=0,
    )


def _mark(part: Part, start: float, stop: float, place: Any) -> Mark:
    bands = part.bands or (0.0,) * len(part.effects)
    ends = ((place(v), place(v - b), place(v + b)) for v, b in zip(part.effects, bands, strict=True))
    return Mark(part.words, _said(part), round(start, 1), round(stop, 1), tuple(ends))


def _outline(marks: Sequence[Mark], output: int) -> tuple[str, str]:
    """The path of the steps of a curve, and that around its band; the latter is empty if there is none."""
    value, low, high = ([(m.start, m.stop, m.places[output][i]) for m in marks] for i in range(3))
    line = "M" + "L".join(f"{x0:g} {y:g}L{x1:g} {y:g}" for x0, x1, y in value)
    if low == high:
        return line, ""
    back = "L".join(f"{x1:g} {y:g}L{x0:g} {y:g}" for x0, x1, y in reversed(low))
    return line, "M" + "L".join(f"{x0:g} {y:g}L{x1:g} {y:g}" for x0, x1, y in high) + "L" + back + "Z"


def _bars(effect: Effect, reach: float) -> Picture:
    """The categories that hold most records, in their order."""
    largest = np.argsort([-part.share for part in effect.parts], kind="stable")[:MOST_BARS]
    parts = [effect.parts[index] for index in sorted(largest)]
    middle, unit = (LEFT_OF_BARS + MISSING) / 2, (MISSING - LEFT_OF_BARS) / 2 / reach

    def place(value: float) -> float:
        return round(float(np.clip(middle + unit * value, LEFT_OF_BARS - 4, MISSING + 8)), 1)

    bottom = TOP + ROW * len(parts)
    return Picture(
        name=effect.feature,
        kind="bars",
        doubt=effect.stands_out is False,
        height=bottom + 26,
        zero=middle,
        marks=tuple(_mark(part, TOP + ROW * row, TOP + ROW * (row + 1), place) for row, part in enumerate(parts)),
        apart=(),
        lines=(),
        of_value=tuple((place(value), figure(value, 2)) for value in _round_values(reach)),
        of_feature=(),
        left_out=len(effect.parts) - len(parts) + effect.left_out,
    )


def _round_values(reach: float) -> list[float]:
    """0, and a round number on both sides of it."""
    step = float(f"{0.8 * reach:.0e}")
    return [-step, 0.0, step]


def _map(pair: Interaction, outputs: tuple[Any, ...]) -> Map:
    """The map of an interaction, of the output that it is largest for; what is within its band is paler."""
    output = int(np.abs(pair.effects).max(axis=(0, 1)).argmax())
    values = pair.effects[:, :, output]
    within = np.zeros(values.shape, dtype=bool) if pair.bands is None else np.abs(values) <= pair.bands[:, :, output]
    most = float(np.abs(values).max()) or 1.0
    wide, high = (MISSING - LEFT_OF_BARS) / len(values), (BOTTOM - TOP) / len(values[0])
    cells = [
        (
            round(LEFT_OF_BARS + wide * row, 1),
            round(BOTTOM - high * (column + 1), 1),
            round(wide + 0.3, 1),
            round(high + 0.3, 1),
            int(value > 0),
            round(abs(value) / most * (0.4 if within[row, column] else 1), 2),
        )
        for (row, column), value in np.ndenumerate(values)
    ]
    of_rows, of_columns = (np.array([part.share for part in side]) for side in pair.parts)
    weights = np.outer(of_rows, of_columns)
    row, column = np.unravel_index((weights * np.square(values)).argmax(), values.shape)
    band = None if pair.bands is None else float(pair.bands[row, column, output])
    rows, columns = pair.parts
    return Map(
        names=pair.features,
        output=outputs[output] if len(outputs) > 1 else None,
        doubt=pair.stands_out is False,
        most=figure(most, 2),
        strongest=(rows[row].words, columns[column].words, signed(float(values[row, column]), band)),
        cells=tuple(cells),
        along=tuple((round(LEFT_OF_BARS + wide * (i + 0.5), 1), short_words(rows[i])) for i in _some(len(rows), 2)),
        across=tuple((round(BOTTOM - high * (i + 0.5), 1), short_words(columns[i])) for i in labelled(columns, 6, 9)),
    )


def _some(n: int, most: int) -> list[int]:
    return np.unique(np.linspace(0, n - 1, min(most, n)).astype(int)).tolist()
