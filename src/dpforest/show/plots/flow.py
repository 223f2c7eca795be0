"""Draws one tree as boxes, from the root at the left to the leaves at the right. Released values only."""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpforest.common.text import BAND_MEANS, BY_WEIGHT, brief, count_words, mean_words, share_words
from dpforest.errors import ParameterError, shown
from dpforest.forest.tree import Forest
from dpforest.model.signal import Signal
from dpforest.privacy.accountants import is_whole
from dpforest.schema import Categorical, Date
from dpforest.show.plots.canvas import AS_IS, GREY, PALE, axes, drawable, load, runs_leftward, tinted, width
from dpforest.show.plots.given import check_forest
from dpforest.show.plots.paints import paints

# Letters in a line of a box and on an edge; letters in an inch. Inches of words, and of a line in a box.
IN_BOX, ON_EDGE, PER_INCH = 28, 18, 13.5
SMALL_ROW, LINE = 0.34, 0.155
SIZE = 8.0
# Of more than two children this many of the largest are shown at the root, and one fewer at each level below.
MOST_CHILDREN = 3
NUMBER = r"([-+.:T\de]+)"  # or a date


@dataclass
class Box:
    """What is drawn of a node, and where: ``row`` in inches from the top."""

    lines: list[str]
    edge: str = ""
    kind: str = "leaf"  # or "inner", "cut" (inner, nothing below is shown), "words"
    children: "list[Box]" = field(default_factory=list)
    row: float = 0.0
    colour: str | None = None  # of a node that says something, and how strong it is, from 0 to 1
    strength: float = 0.0


def tree(model: Any, number: int | None = None, *, ax: Any = None, max_depth: int = 3) -> Any:
    """Draw one tree of the model: questions, answers, and what the leaves say, with released sizes and their noise.

    Trees that add up (of the recipe ``auto``) say what a leaf adds: to the log-odds of a class, or to the mean. Leaves have
    the colour of their class, the darker the surer it is, or of their mean, from the least to the greatest of the tree.
    Below ``max_depth`` levels an ellipsis stands for what is there; of many children the largest few are shown. ``number``
    is an index of Python, from 0 as in ``forest_.rules()``, and that of the first of the deepest trees if not given; what is
    drawn for people counts trees from 1.
    """
    check_forest(model)
    n_trees = model.forest_.n_trees
    if number is None:
        number = int(model.forest_.trees[model.forest_.levels.argmax()])
    if not is_whole(number) or not 0 <= number < n_trees:
        raise ParameterError(
            f"number is an index, a whole number from 0 (tree 1) to {n_trees - 1} (tree {n_trees}), not {shown(number)}."
        )
    if not is_whole(max_depth) or max_depth < 0:
        raise ParameterError(f"max_depth must be a whole number of at least 0, not {shown(max_depth)}.")
    boxes = _Boxes(model, number, max_depth)
    root = boxes.box(0)
    height = _place(root, 0.0)
    return _draw(ax, root, height, _notes(model, number), boxes.paints.key if _has_colour(root) else [])


class _Boxes:
    """Makes the boxes of one tree, down to a depth."""

    def __init__(self, model: Any, number: int, max_depth: int) -> None:
        forest: Forest = model.forest_
        self.whole = forest.only(np.arange(forest.n_trees) == number)
        self.max_depth = max_depth
        # Nodes keep their numbers: those that are left out come last.
        self.rules = self.whole.without_children(np.flatnonzero(self.whole.levels == max_depth)).rules()
        self.labels_only = Signal.of(forest, model.ledger_).release == "labels"
        self.gives_shares = forest.link == "shares" or (forest.link == "sum" and number == 0)
        self.by_weight = forest.link == "softmax" and number > 0
        self.nameless = forest.domain.renamed(lambda name: "")
        self.paints = paints(self.whole, self.labels_only)

    def box(self, node: int, edge: str = "") -> Box:
        colour, strength = self.paints.of_node(node)
        if self.whole.is_leaf[node]:
            return Box(self._says(node), edge, colour=colour, strength=strength)
        children = np.flatnonzero(self.whole.parents == node)
        level, is_binary = int(self.whole.levels[node]), len(children) == 2
        name = drawable(self.whole.domain.names[self.whole.features[node]], IN_BOX)
        question = _joined(name, f"{self._condition(node, 0, IN_BOX)}?") if is_binary else [f"{name}?"]
        if level == self.max_depth:
            # A node that adds up with other trees, or that labels stand for, says nothing by itself.
            speaks = self.gives_shares and not self.labels_only
            if not speaks:
                return Box(question + self._size(node), edge, "cut")
            return Box(question + self._says(node), edge, "cut", colour=colour, strength=strength)
        n_shown = 2 if is_binary else max(1, MOST_CHILDREN - level)
        largest = sorted(np.argsort(-self.whole.counts[children].sum(axis=1), kind="stable")[:n_shown])
        below = [self.box(int(children[child]), self._answer(node, child, is_binary)) for child in largest]
        if len(largest) < len(children):
            below.append(Box([f"and {len(children) - len(largest)} more"], kind="words"))
        return Box(question + self._size(node), edge, "inner", below)

    def _answer(self, node: int, child: int, is_binary: bool) -> str:
        return ("yes", "no")[child] if is_binary else self._condition(node, child, ON_EDGE).removeprefix("= ")

    def _condition(self, node: int, child: int, most: int) -> str:
        """The condition that leads to a child, without the feature's name: ``< 37``, ``3 to < 5``, ``in {Oslo, Rome}``."""
        text = self.whole.condition(int(self.whole.first_children[node]) + child, self.nameless)
        if self.whole.domain.is_numeric[self.whole.features[node]]:
            text = re.sub(f"{NUMBER} <=  < {NUMBER}", r"\1 to < \2", text)
            text = re.sub(f"{NUMBER} <= ", r">= \1", text).replace("( ", "(")
        if not isinstance(self.whole.domain.features[self.whole.features[node]], Date | Categorical):
            text = re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", lambda found: brief(float(found[0])), text)
        return drawable(text, most)

    def _says(self, node: int) -> list[str]:
        rule = self.rules[node]
        if self.labels_only:
            return [drawable(rule["class"], IN_BOX - 8), "(a label, no counts)"]
        if "class" in rule:
            label = drawable(rule["class"], IN_BOX - 8)
            words = (
                [f"{rule['adds']:+.3g}"] if "adds" in rule else share_words(rule["confidence"], rule["low"], rule["high"])
            )
            says = f"{label}  {words[0]}"
        else:
            words = [f"{rule['adds']:+.4g}"] if "adds" in rule else mean_words(rule["mean"], rule["low"], rule["high"])
            says = f"{'adds' if 'adds' in rule else 'mean'} {words[0]}"
        band = [f"({word})" for word in words[1:]]
        if rule.get("lead_band") is not None:
            band = [f"lead {count_words(rule['lead'], rule['lead_band'])}"]
        return [says, *band, *self._size(node)]

    def _size(self, node: int) -> list[str]:
        if self.labels_only:
            return []
        rule, what = self.rules[node], "by weight" if self.by_weight else "records"
        return [count_words(rule["support"], rule["support_band"], what)]


def _has_colour(box: Box) -> bool:
    """Whether a box is drawn whose colour means something."""
    return box.colour is not None or any(map(_has_colour, box.children))


def _joined(name: str, condition: str) -> list[str]:
    """The lines of a question: one if there is room, else name and condition apart."""
    apart = runs_leftward(name) or width(name) + width(condition) >= IN_BOX
    return [name, condition] if apart else [f"{name} {condition}"]


def _place(box: Box, top: float) -> float:
    """The height of a box with all below it, which are given their rows from ``top`` on."""
    if not box.children:
        height = SMALL_ROW if box.kind == "words" else 0.25 + LINE * len(box.lines)
        box.row = top + height / 2
        return height
    height = 0.0
    for child in box.children:
        height += _place(child, top + height)
    box.row = (box.children[0].row + box.children[-1].row) / 2
    return height


def _columns(root: Box) -> list[tuple[float, float]]:
    """For each level, inches of its boxes and of the edges that lead on from them."""
    columns, level = [], [root]
    while level:
        below = [child for box in level for child in box.children]
        in_box = max(width(line) for box in level for line in box.lines)
        on_edge = max((width(child.edge) for child in below), default=0)
        columns.append((in_box / PER_INCH + 0.25, on_edge / PER_INCH + 0.45))
        level = below
    return columns


def _draw(ax: Any, root: Box, height: float, notes: list[str], key: list[tuple[str, str, float]]) -> Any:
    columns = _columns(root)
    total = sum(box + edge for box, edge in columns)
    is_given = ax is not None
    ax = axes(ax, max(total, 5.2), height + 0.6 + 0.2 * len(notes))
    ax.set(xlim=(0, total), ylim=(height, 0))
    ax.set_axis_off()
    ax.set_title("\n".join(notes), loc="left", fontsize="small", color=GREY, **AS_IS)
    # Letters shrink with the axes that are given, so that boxes never meet.
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    scale = min(1.0, extent.width / dpi / total, extent.height / dpi / height) if is_given else 1.0
    _draw_box(ax, root, columns, 0.05, scale)
    patch = load("matplotlib.patches").Patch
    samples = [patch(facecolor=tinted(colour, strength), edgecolor=colour, label=name) for name, colour, strength in key]
    style = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 4, "borderaxespad": 0, "frameon": False}
    for text in ax.legend(handles=samples, fontsize="small", **style).get_texts():
        text.set(**AS_IS)
    return ax


def _draw_box(ax: Any, box: Box, columns: list[tuple[float, float]], left: float, scale: float) -> None:
    (own, gap), words = columns[0], box.kind == "words"
    frame: dict[str, Any] = {"boxstyle": "round,pad=0.35", "linewidth": 1.2 * scale, "facecolor": PALE, "edgecolor": GREY}
    if box.colour is not None:
        frame |= {"facecolor": tinted(box.colour, box.strength), "edgecolor": box.colour}
    style = {"fontsize": SIZE * scale, "va": "center", "linespacing": 1.15, **AS_IS}
    text = "\n".join(box.lines)
    if words:
        ax.text(left + 0.08, box.row, text, color=GREY, style="italic", **style)
    else:
        ax.text(left + 0.06, box.row, text, bbox=frame, zorder=3, **style)
    line = {"color": GREY, "linewidth": scale, "zorder": 1}
    trunk = left + own + 0.1
    if box.kind == "cut":
        ax.plot([left + 0.1, trunk], [box.row, box.row], **line)
        ax.text(trunk + 0.05, box.row, "…", color=GREY, **style | {"fontsize": 1.6 * SIZE * scale})
    if box.children:
        rows = [child.row for child in box.children]
        ax.plot([left + 0.1, trunk], [box.row, box.row], **line)
        ax.plot([trunk, trunk], [rows[0], rows[-1]], **line)
    for child in box.children:
        end = left + own + gap
        ax.plot([trunk, end], [child.row, child.row], linestyle=":" if child.kind == "words" else "-", **line)
        ax.text(trunk + 0.06, child.row - 0.02, child.edge, color=GREY, **style | {"va": "bottom"})
        _draw_box(ax, child, columns[1:], end, scale)


def _notes(model: Any, number: int) -> list[str]:
    forest = model.forest_
    notes = [f"tree {number + 1} of {forest.n_trees}"]
    if forest.link == "softmax":
        notes.append("Leaves say what they add to the log-odds of a class; the trees add up.")
        if number:
            notes.append(BY_WEIGHT)
    elif forest.link == "sum" and forest.n_trees > 1:
        notes.append("The first tree gives a mean; each later one adds to it.")
    if forest.variances.any():
        notes.append(BAND_MEANS)
    return notes
