"""Where the values of a number or date stand along the picture of its effect, in plots and report alike. Public values."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpforest.common.text import BAND_MEANS, brief
from dpforest.model.effect_values import Effect, Effects, Interaction, Part

MOST_TICKS = 5
# What holds less than this share of the records sets no scale.
RARE = 0.01
# At an end without a bound, what holds less than this share is left out: noise alone gives ranges far away some records.
FAR = 0.05
# Without bounds, an axis is logarithmic if a quarter of its ends is so many times nearer to 0 than the farthest.
SKEWED = 1000
DATE = re.compile(r"\d-\d\d-\d\d")
MONTHS = ((1, "Jan"), (4, "Apr"), (7, "Jul"), (10, "Oct"))


def whole_reach(effect: Effect) -> float:
    """The end of a scale on which all of one effect is seen, with its bands."""
    ends = [
        abs(value) + (part.bands[index] if part.bands else 0.0)
        for part in effect.parts
        for index, value in enumerate(part.effects)
    ]
    return 1.05 * max(ends, default=0.0) or 1.0


def reach_of(effects: Sequence[Effect]) -> float:
    """The end of a common scale of effects: the largest of what is not rare, with its band unless that is far wider."""
    parts = [part for effect in effects for part in effect.parts if part.share >= RARE]
    most = max((abs(value) for part in parts for value in part.effects), default=0.0)
    ends = [abs(v) + b for part in parts if part.bands for v, b in zip(part.effects, part.bands, strict=True)]
    return 1.05 * max(most, min(max(ends, default=0.0), 2 * most)) or 1.0


def band_words(found: Effects, panels: Sequence[Effect | Interaction]) -> str:
    """What is said of the bands of some panels: what they mean, and why there is none, each where it applies."""
    known = [panel.stands_out is not None for panel in panels]
    means, why = BAND_MEANS if any(known) else "", found.no_band or "" if not all(known) else ""
    return f"{means} {why}".strip()


@dataclass(frozen=True)
class Axis:
    """Ranges of values side by side, from 0 to 1 along the axis, with ticks."""

    ranges: tuple[Part, ...]
    ends: np.ndarray  # (n_ranges + 1,)
    ticks: tuple[tuple[float, str], ...]


def axis_of(effect: Effect) -> Axis:
    """The axis of a number or date; values without a bound reach as far as some records do."""
    every = [part for part in effect.parts if part.kind == "range"]
    ranges = _common(every)
    # Where there is no bound, the last range that holds records is drawn as far as others are wide, wherever it ends.
    if every[0].lower is None:
        ranges[0] = replace(ranges[0], lower=None)
    if every[-1].upper is None:
        ranges[-1] = replace(ranges[-1], upper=None)
    is_whole = effect.kind == "whole number"
    ends, is_free = _ends(ranges, is_whole), ranges[0].lower is None or ranges[-1].upper is None
    near = float(np.quantile(np.abs(ends[ends != 0]), 0.25)) if ends.any() else 1.0
    if len(ranges) == 1 and ranges[0].lower is None and ranges[0].upper is None:
        ticks, unit = [(float(ends.mean()), "nearly all values")], math.inf
    elif effect.kind == "date":
        ticks, unit = _dates(ranges, ends), math.inf
    elif is_free and np.abs(ends).max() > SKEWED * near:
        unit = near
        ticks = [(value, brief(value)) for value in _powers(ends, near)]
    elif effect.feature.endswith("(month)"):
        ticks, unit = [(float(number), name) for number, name in MONTHS if ends[0] <= number <= ends[-1]], math.inf
    else:
        unit = math.inf
        ticks = [(value, brief(value)) for value in _round_numbers(ends[0], ends[-1], is_whole)]
    start, width = _scaled(ends[0], unit), _scaled(ends[-1], unit) - _scaled(ends[0], unit)
    places = [(float((_scaled(value, unit) - start) / width), words) for value, words in ticks]
    return Axis(tuple(ranges), (_scaled(ends, unit) - start) / width, tuple(places))


def _scaled(values: np.ndarray | float, unit: float) -> np.ndarray:
    """The values, or their logarithm where they are larger than the unit."""
    values = np.asarray(values, dtype=np.float64)
    return values if math.isinf(unit) else np.sign(values) * np.log1p(np.abs(values) / unit)


def _common(ranges: list[Part]) -> list[Part]:
    first, last = 0, len(ranges)
    weights = np.cumsum([part.share for part in ranges])
    if ranges[0].lower is None:
        first = int(np.searchsorted(weights, FAR))
    if ranges[-1].upper is None:
        last = int(np.searchsorted(weights, weights[-1] - FAR)) + 1
    first = min(first, len(ranges) - 1)
    return ranges[first : max(last, first + 1)]


def _ends(ranges: list[Part], is_whole: bool) -> np.ndarray:
    """The ends of ranges; one without a bound is as wide as the others are on average.

    A whole number has its place in the middle of its step.
    """
    lower, upper = ranges[0].lower, ranges[-1].upper
    inner = [part.upper for part in ranges[:-1] if part.upper is not None]
    known = [end for end in (lower, *inner, upper) if end is not None]
    width = (known[-1] - known[0]) / (len(known) - 1) if len(known) > 1 else 1.0
    first = lower if lower is not None else (known[0] - width if known else 0.0)
    last = upper + is_whole if upper is not None else (known[-1] + width if known else first + 1)
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
    found = [0.0] if ends[0] <= 0 <= ends[-1] else []
    most = math.floor(math.log10(np.abs(ends).max()))
    step = max(math.ceil((most - math.floor(math.log10(near))) / 2), 1)
    powers = [10.0**exponent for exponent in range(most, math.floor(math.log10(near)), -step)]
    return found + [sign * power for power in powers for sign in (-1, 1) if ends[0] <= sign * power <= ends[-1]]


def _dates(ranges: list[Part], ends: np.ndarray) -> list[tuple[float, str]]:
    """Two of the cuts of a date, in words."""
    cuts = {part.upper: part.words.rpartition("< ")[2][:10] for part in ranges[:-1] if part.upper is not None}
    wanted = (ends[0] + place * (ends[-1] - ends[0]) for place in (0.15, 0.75))
    near = {min(cuts, key=lambda cut: abs(cut - place)) for place in wanted} if cuts else set()
    return [(cut, cuts[cut]) for cut in sorted(near)]


def short_words(part: Part) -> str:
    """The lower end of a range in few letters, the upper one of the first, or the words of anything else."""
    if part.kind != "range":
        return part.words
    if DATE.search(part.words):
        return part.words.removeprefix(">= ").partition(" to < ")[0][:12]
    if part.lower is not None and not part.words.startswith("<"):
        return brief(part.lower)
    return part.words if part.upper is None else f"< {brief(part.upper)}"


def labelled(parts: Sequence[Part], most: int, most_categories: int) -> list[int]:
    """Which parts along a map have room for a label: all categories if they are few, else some from end to end."""
    n = len(parts)
    most = n if parts[0].kind != "range" and n <= most_categories else min(most, n if n < most else max(n // 2, 2))
    return np.unique(np.linspace(0, n - 1, most).astype(int)).tolist()
