"""What pictures of effects and of evaluations hold, whoever draws them: plots by matplotlib, pages as SVG. Public values."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpforest.common.text import BAND_MEANS, brief
from dpforest.model.effects import Effect, Effects, Interaction, ValuePart

MOST_TICKS = 5
# What holds less than this share of the records sets no scale.
RARE = 0.01
# At an end without a bound, what holds less than this share is left out: noise alone gives ranges far away some records.
FAR = 0.05
# Without bounds, an axis is logarithmic if a quarter of its ends is so many times nearer to 0 than the farthest.
SKEWED = 1000
DATE = re.compile(r"\d-\d\d-\d\d")
MONTHS = ((1, "Jan"), (4, "Apr"), (7, "Jul"), (10, "Oct"))

Ticks = list[tuple[float, str]]


def whole_reach(effect: Effect) -> float:
    """The end of a scale on which all of one effect is seen, with its bands."""
    return 1.05 * max((np.abs(ends_of(part)).max() for part in effect.parts), default=0.0) or 1.0


def reach_of(effects: Sequence[Effect]) -> float:
    """The end of a common scale of effects: the largest of what is not rare, with its band unless that is far wider."""
    ends = [np.abs(ends_of(part)) for effect in effects for part in effect.parts if part.share >= RARE]
    most = max((each[0].max() for each in ends), default=0.0)
    return 1.05 * min(max((each.max() for each in ends), default=0.0), 2 * most) or 1.0


def ends_of(part: ValuePart) -> np.ndarray:
    """The effects of a part with the low and the high ends of their bands, ``(3, n_outputs)``."""
    values, bands = np.array(part.effects), np.array(part.bands or 0.0)
    return np.stack([values, values - bands, values + bands])


def band_words(found: Effects, panels: Sequence[Effect | Interaction]) -> str:
    """What is said of the bands of some panels: what they mean, and why there is none, each where it applies."""
    known = [panel.stands_out is not None for panel in panels]
    means, why = BAND_MEANS if any(known) else "", found.no_band or "" if not all(known) else ""
    return f"{means} {why}".strip()


def commonest(effect: Effect, most: int) -> tuple[list[ValuePart], int]:
    """The parts of an effect that hold most records, in their order, and how many others there are."""
    largest = np.argsort([-part.share for part in effect.parts], kind="stable")[:most]
    return [effect.parts[index] for index in sorted(largest)], max(len(effect.parts) - most, 0) + effect.left_out


class EffectMap(NamedTuple):
    """What is drawn of an interaction: the output that it is largest for, and its values there."""

    output: Any  # None if there is only one
    values: np.ndarray  # (n_parts of the first, n_parts of the second)
    bands: np.ndarray | None
    within: np.ndarray  # which values are within their band
    most: float  # the end of the scale


def map_of(pair: Interaction, outputs: Sequence[Any]) -> EffectMap:
    at = int(np.abs(pair.effects).max(axis=(0, 1)).argmax())
    output, values = outputs[at] if len(outputs) > 1 else None, pair.effects[:, :, at]
    bands, sizes = None if pair.bands is None else pair.bands[:, :, at], np.abs(values)
    return EffectMap(output, values, bands, sizes <= (-1 if bands is None else bands), float(sizes.max()) or 1.0)


@dataclass(frozen=True)
class Axis:
    """Ranges of values side by side, from 0 to 1 along the axis, with ticks."""

    ranges: tuple[ValuePart, ...]
    ends: np.ndarray  # (n_ranges + 1,)
    ticks: Ticks


def axis_of(effect: Effect) -> Axis:
    """The axis of a number or date; values without a bound reach as far as some records do."""
    every = [part for part in effect.parts if part.kind == "range"]
    ranges = _common(every)
    # Where there is no bound, the last range that holds records is drawn as far as others are wide, wherever it ends.
    if every[0].lower is None:
        ranges[0] = replace(ranges[0], lower=None)
    if every[-1].upper is None:
        ranges[-1] = replace(ranges[-1], upper=None)
    is_whole, is_free = effect.kind == "whole number", ranges[0].lower is None or ranges[-1].upper is None
    ends, unit = _ends(ranges, is_whole), math.inf
    near = float(np.quantile(np.abs(ends[ends != 0]), 0.25)) if ends.any() else 1.0
    if len(ranges) == 1 and ranges[0].lower is None and ranges[0].upper is None:
        ticks = [(float(ends.mean()), "nearly all values")]
    elif effect.kind == "date":
        ticks = _dates(ranges, ends)
    elif is_free and np.abs(ends).max() > SKEWED * near:
        ticks, unit = [(value, brief(value)) for value in _powers(ends, near)], near
    elif effect.feature.endswith("(month)"):
        ticks = [(float(number), name) for number, name in MONTHS if ends[0] <= number <= ends[-1]]
    else:
        ticks = [(value, brief(value)) for value in _round_numbers(ends[0], ends[-1], is_whole)]

    def scaled(values: Any) -> np.ndarray:
        """The values, or their logarithm where they are larger than the unit."""
        return values if math.isinf(unit) else np.sign(values) * np.log1p(np.abs(values) / unit)

    start, width = scaled(ends[0]), scaled(ends[-1]) - scaled(ends[0])
    places = [(float((scaled(value) - start) / width), words) for value, words in ticks]
    return Axis(tuple(ranges), (scaled(ends) - start) / width, places)


def _common(ranges: list[ValuePart]) -> list[ValuePart]:
    """The ranges without those at an end without a bound that hold next to no records."""
    weights = np.cumsum([part.share for part in ranges])
    first = int(np.searchsorted(weights, FAR)) if ranges[0].lower is None else 0
    last = int(np.searchsorted(weights, weights[-1] - FAR)) + 1 if ranges[-1].upper is None else len(ranges)
    first = min(first, len(ranges) - 1)
    return ranges[first : max(last, first + 1)]


def _ends(ranges: list[ValuePart], is_whole: bool) -> np.ndarray:
    """The ends of ranges; one without a bound is as wide as the others are on average.

    A whole number has its place in the middle of its step.
    """
    lower, upper = ranges[0].lower, ranges[-1].upper
    inner = [part.upper for part in ranges[:-1] if part.upper is not None]
    known = [end for end in (lower, *inner, upper) if end is not None] or [1.0]
    width = (known[-1] - known[0]) / (len(known) - 1) if len(known) > 1 else 1.0
    first = lower if lower is not None else known[0] - width
    last = upper + is_whole if upper is not None else known[-1] + width
    if not last > first:  # a single value, which may be large
        last = first + max(abs(first), 1.0)
    return np.array([first, *inner, last]) - 0.5 * is_whole


def _round_numbers(low: float, high: float, is_whole: bool) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / MOST_TICKS))
    step = next(step * by for by in (1, 2, 5, 10) if (high - low) / (step * by) <= MOST_TICKS)
    step = max(step, 1.0) if is_whole else step
    return [float(step * index) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _powers(ends: np.ndarray, near: float) -> list[float]:
    """Zero and powers of 10 on both sides of it, few enough to be written side by side."""
    least, most = math.floor(math.log10(near)), math.floor(math.log10(np.abs(ends).max()))
    powers = [10.0**exponent for exponent in range(most, least, -max(math.ceil((most - least) / 2), 1))]
    return [
        value for value in (0.0, *(sign * power for power in powers for sign in (-1, 1))) if ends[0] <= value <= ends[-1]
    ]


def _dates(ranges: list[ValuePart], ends: np.ndarray) -> Ticks:
    """Two of the cuts of a date, in words."""
    cuts = {part.upper: part.words.rpartition("< ")[2][:10] for part in ranges[:-1] if part.upper is not None}
    wanted = (ends[0] + place * (ends[-1] - ends[0]) for place in (0.15, 0.75))
    near = {min(cuts, key=lambda cut: abs(cut - place)) for place in wanted} if cuts else set()
    return [(cut, cuts[cut]) for cut in sorted(near)]


def short_words(part: ValuePart) -> str:
    """The lower end of a range in few letters, the upper one of the first, or the words of anything else."""
    if part.kind != "range":
        return part.words
    if DATE.search(part.words):
        return part.words.removeprefix(">= ").partition(" to < ")[0][:12]
    if part.lower is not None and not part.words.startswith("<"):
        return brief(part.lower)
    return part.words if part.upper is None else f"< {brief(part.upper)}"


def labelled(parts: Sequence[ValuePart], most: int, most_categories: int) -> list[int]:
    """Which parts along a map have room for a label: all categories if they are few, else some from end to end."""
    n = len(parts)
    most = n if parts[0].kind != "range" and n <= most_categories else min(most, n if n < most else max(n // 2, 2))
    return np.unique(np.linspace(0, n - 1, most).astype(int)).tolist()


def roc_curve(points: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """The points of a ROC curve from end to end, and the outline of its band, without points where there is no noise.

    The band is the curve moved by the margins of its points, up and to the left, and back.
    """
    names = ("false_positives", "true_positives", "false_positives_margin", "true_positives_margin")
    found = np.array([[float(point[name]) for name in names] for point in points])
    curve, margins = found[:, :2], found[:, 2:] * (-1, 1)
    sides = [np.clip(np.maximum.accumulate(curve + sign * margins), 0, 1) for sign in (1, -1)]
    line, above, below = (np.concatenate([[(0.0, 0.0)], side, [(1.0, 1.0)]]) for side in (curve, *sides))
    return line, np.concatenate([above, below[::-1]] if margins.any() else [np.empty((0, 2))])


def calibration_marks(points: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """For each bin with enough records its middle, the share of the second class, and the margin of noise and luck."""
    known = [point for point in points if point["share"] is not None]
    bins = ((float(point["low"] + point["high"]) / 2, point["share"]) for point in known)
    margins = (float(np.hypot(point["margin"], point["sampling"] or 0.0)) for point in known)
    return np.array([(*each, margin) for each, margin in zip(bins, margins, strict=True)], float).reshape(-1, 3)
