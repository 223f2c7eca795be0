"""What the page draws: effects as SVG and, by its script, the part of the forest it has room for. Released values only.

Pictures of effects need no script: a template writes them as SVG, in a box of 340 by 184 or, for bars, as high as it takes.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from dpforest.common.text import MINUS, count_words, decimals, figure, mean_words, share_words, shortened, to_json, visible
from dpforest.forest.bands import NORMAL_95
from dpforest.model.effects import Effect, Effects, Interaction, ValuePart
from dpforest.model.signal import Signal
from dpforest.schema import Bounded
from dpforest.schema.domain import Domain
from dpforest.show.pictures import axis_of, band_words, commonest, ends_of, labelled, map_of, reach_of, short_words

# Effects on the page, those of them that are seen without a script, bars of a picture, and values in its table.
MOST_EFFECTS, MOST_OPEN, MOST_BARS, MOST_VALUES = 24, 4, 12, 40
# Where the drawing begins and ends, where missing values stand, and the height of a bar.
LEFT, RIGHT, TOP, BOTTOM, MISSING = 46.0, 304.0, 8.0, 156.0, 325.0
LEFT_OF_BARS, ROW = 120.0, 15.0
SCALES = {"log-odds": "log-odds of", "probability": "probability of", "target": "predicted"}
MOST_TREES, MOST_RULES = 60, 2000  # on the page
MOST_NODES = 3000  # of all drawn trees
MOST_BRANCHES = 50  # of one node
MOST_LISTED = 6  # categories in a condition
MOST_CLASSES = 5  # with a colour of their own
# Bytes of texts that drawn trees and rules may bring to the page.
ROOM_FOR_TREES, ROOM_FOR_RULES = 300_000, 600_000
# What a parser of HTML could act on inside a script element.
ACTIVE = {character: f"\\u{ord(character):04x}" for character in "<>&"}


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
    is_bars, apart, ticks = effect.kind == "category", list[ValuePart](), list[tuple[float, str]]()
    if is_bars:
        parts, n_left = commonest(effect, MOST_BARS)
        middle, unit = (LEFT_OF_BARS + MISSING) / 2, (MISSING - LEFT_OF_BARS) / 2 / reach
        ends = (LEFT_OF_BARS - 4, MISSING + 8)
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


def _mark(part: ValuePart, start: float, stop: float, place: Callable[[Any], Any]) -> dict[str, Any]:
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
    drawn, (rows, columns) = map_of(pair, outputs), pair.parts
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


def script_json(value: Any) -> Markup:
    """A value as JSON that can stand inside a script element, with hidden characters made visible: its script draws it."""
    text = visible(to_json(value, ensure_ascii=False, separators=(",", ":")))
    return Markup(re.sub("[<>&]", lambda found: ACTIVE[found[0]], text))


class ShortDomain(Domain):
    """A domain whose conditions are short enough for a page: names are cut, and of many categories a few are listed."""

    @classmethod
    def from_domain(cls, domain: Domain) -> "ShortDomain":
        return cls(domain.renamed(lambda name: shortened(name, 40, visible)).derived, domain.cuts)

    def describe(self, feature: int, codes: np.ndarray) -> str:
        if self.is_numeric[feature]:
            return shortened(super().describe(feature, codes), 200, visible)
        few, equal, among = (codes, "=", "in") if 2 * codes.sum() <= len(codes) else (~codes, "≠", "not in")
        words, name = self.words[feature][few], self.names[feature]
        listed = ", ".join(shortened(word, 30, visible) for word in words[:MOST_LISTED])
        more = f" and {len(words) - MOST_LISTED:,} more" if len(words) > MOST_LISTED else ""
        return f"{name} {equal} {listed}" if len(words) == 1 else f"{name} {among} {{{listed}{more}}}"


class Drawing:
    """Makes what the script of the page draws: trees and rules as short rows, with each text kept once and numbered."""

    def __init__(self, signal: Signal) -> None:
        self.signal, self.forest = signal, signal.forest
        self.domain = ShortDomain.from_domain(self.forest.domain)
        self.texts: dict[str, int] = {}
        self.size = 0  # of the texts, in bytes
        inner = self.forest.parents[self.forest.parents >= 0]
        self.n_children = np.bincount(inner, minlength=self.forest.n_nodes)
        self.coloured = np.argsort(-self.forest.shares[0], kind="stable")[:MOST_CLASSES]

    def to_dict(self) -> dict[str, Any]:
        """The rows, their texts, and what is to be known of the forest."""
        forest, target = self.forest, self.forest.target
        n_drawn = min(forest.n_trees, MOST_TREES)
        trees = [self._tree(tree, max(MOST_NODES // n_drawn, 60)) for tree in range(n_drawn)]
        trees = [tree for tree in trees if tree]
        # Leaves and large nodes come first.
        order = np.lexsort((-self.signal.sizes, ~forest.is_leaf))[:MOST_RULES].tolist()
        rules = [self._rule(node) for node in order if self.size <= ROOM_FOR_RULES]
        labels = [] if isinstance(target, Bounded) else [target.labels[index] for index in self.coloured]
        return {
            "trees": trees, "rules": rules, "coloured": [self._number(shortened(label, 60, visible)) for label in labels],
            "others": 0 if isinstance(target, Bounded) else target.n_values - len(labels), "texts": list(self.texts),
            "link": forest.link, "release": self.signal.release, "bounded": isinstance(target, Bounded),
            "n_trees": forest.n_trees, "n_nodes": forest.n_nodes, "n_drawn": sum(map(len, trees)),
        }  # fmt: skip

    def _number(self, text: str) -> int:
        if text not in self.texts:
            self.texts[text] = len(self.texts)
            self.size += len(script_json(text).encode())
        return self.texts[text]

    def _condition(self, node: int) -> int:
        """The number of the text of the condition that leads from its parent to a node."""
        is_root = self.forest.parents[node] < 0
        return self._number("all records" if is_root else self.forest.condition(node, self.domain))

    def _tree(self, root: int, most: int) -> list[list[Any]]:
        """A row for each drawn node, from the root down: index of the parent, branches left out, and what ``_row`` gives."""
        rows: list[list[Any]] = []
        queue = [(root, -1)]
        while queue and self.size <= ROOM_FOR_TREES:
            node, above = queue.pop(0)
            branches = self._branches(node)
            if len(rows) + len(queue) + 1 + len(branches) > most:
                branches = branches[:0]
            rows.append([above, int(self.n_children[node]) - len(branches), self._condition(node), *self._row(node)])
            queue += [(int(child), len(rows) - 1) for child in branches]
        for _, above in queue if rows else []:
            rows[above][1] += 1
        return rows

    def _branches(self, node: int) -> np.ndarray:
        """The children of a node that are drawn: the largest, in their order."""
        children = int(self.forest.first_children[node]) + np.arange(self.n_children[node])
        return np.sort(children[np.argsort(-self.signal.sizes[children], kind="stable")[:MOST_BRANCHES]])

    def _rule(self, node: int) -> list[Any]:
        """The row of a rule: tree, node, whether it is a leaf, conditions, and what ``_row`` gives."""
        path, above = list[int](), node
        while self.forest.parents[above] >= 0:
            path.insert(0, above)
            above = int(self.forest.parents[above])
        conditions = [self._condition(step) for step in path[-40:]]
        return [int(self.forest.trees[node]), node, int(self.forest.is_leaf[node]), conditions, *self._row(node)]

    def _row(self, node: int) -> list[Any]:
        """What is shown of a node: size, lead and value, as numbers and in words; ratio, label, shares. None is unknown."""
        signal, forest, size, lead, lead_words = self.signal, self.forest, float(self.signal.sizes[node]), None, None
        # A label, or a leaf in which nothing is counted, has no lead and no noise of its own.
        is_noisy = forest.variances[node] > 0
        if is_noisy and signal.release == "lead":
            lead = round(float(signal.heights[node]), 2)
            lead_words = count_words(float(signal.heights[node]), NORMAL_95 * float(signal.deviations[node]))
        says, shares = forest.says(node), forest.shares[node]
        value = next(says[name] for name in ("adds", "mean", "confidence") if name in says)
        return [
            round(size, 2),
            count_words(size, NORMAL_95 * float(forest.bands.size_deviations[node]) if is_noisy else None),
            round(float(signal.ratios[node]), 2) if signal.has_noise else None,
            lead,
            lead_words,
            self._number(shortened(says["class"], 60, visible)) if "class" in says else None,
            value,
            self._value_words(says, value),
            np.round(shares[1:] if isinstance(forest.target, Bounded) else shares[self.coloured], 4).tolist(),
        ]

    def _value_words(self, says: dict[str, Any], value: float) -> str:
        """A share or mean with its band, in words; what additive trees add has no band, the lead beside it has."""
        if "adds" in says:
            return ("" if value < 0 else "+") + figure(value, 3 if self.forest.link == "softmax" else 4)
        words = share_words if "class" in says else mean_words
        return ", ".join(words(value, says["low"], says["high"])).replace("-", MINUS)
