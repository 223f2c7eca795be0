"""Draws one tree as boxes, from the root at the left to the leaves at the right. Released values only."""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpforest.common.text import BAND_MEANS, BY_WEIGHT, brief, count_words, figure, mean_words, share_words
from dpforest.errors import ParameterError, shown
from dpforest.forest.tree import Forest
from dpforest.model.signal import Signal
from dpforest.privacy.accountants import is_whole
from dpforest.schema import Categorical, Classes, Date
from dpforest.show.plots import canvas
from dpforest.show.plots.canvas import AS_IS, BLUE, COLOURS, GREY, PALE, VERMILION, drawable, tinted, width

# Letters in a line of a box, on an edge, of a class in the legend, and in an inch. Inches of words, and of a line in a box.
IN_BOX, ON_EDGE, IN_LEGEND, PER_INCH = 28, 18, 24, 13.5
SMALL_ROW, LINE = 0.34, 0.155
SIZE = 8.0
# Of more than two children this many of the largest are shown at the root, and one fewer at each level below.
MOST_CHILDREN = 3
NUMBER = r"([-+.:T\de]+)"  # or a date
# The strength of a colour that stands for a class. Black is for text, and classes beyond the other colours share grey.
SAMPLE, OF_CLASSES = 0.8, COLOURS[:-1]


@dataclass
class Box:
    """What is drawn of a node, and where: ``row`` in inches from the top."""

    lines: list[str]
    edge: str = ""
    kind: str = "node"  # or "cut" (nothing below is shown), "words"
    children: "list[Box]" = field(default_factory=list)
    row: float = 0.0
    paint: tuple[str, float] | None = None  # the colour of a node that says something, and how strong it is, from 0 to 1


def tree(model: Any, number: int | None = None, *, ax: Any = None, max_depth: int = 3) -> Any:
    """Draw one tree of the model: questions, answers, and what the leaves say, with released sizes and their noise.

    Trees that add up (of the recipe ``auto``) say what a leaf adds: to the log-odds of a class, or to the mean. Leaves have
    the colour of their class, the darker the surer it is, or of their mean, from the least to the greatest of the tree.
    Below ``max_depth`` levels an ellipsis stands for what is there; of many children the largest few are shown. ``number``
    is an index of Python, from 0 as in ``forest_.rules()``, and that of the first of the deepest trees if not given; what is
    drawn for people counts trees from 1.
    """
    canvas.check_forest(model)
    n_trees = model.forest_.n_trees
    if number is None:
        number = int(model.forest_.trees[model.forest_.levels.argmax()])
    if not is_whole(number) or not 0 <= number < n_trees:
        raise ParameterError(
            f"number is an index, a whole number from 0 (tree 1) to {n_trees - 1} (tree {n_trees}), not {shown(number)}."
        )
    canvas.check_number("max_depth", max_depth, 0)
    boxes = Boxes(model, number, max_depth)
    root = boxes.box(0)
    return _draw(ax, root, _place(root, 0.0), _notes(model.forest_, number), boxes.paints.key if _is_painted(root) else [])


class Boxes:
    """Makes the boxes of one tree, down to a depth."""

    def __init__(self, model: Any, number: int, max_depth: int) -> None:
        forest: Forest = model.forest_
        self.whole = forest.only(np.arange(forest.n_trees) == number)
        self.max_depth = max_depth
        # Nodes keep their numbers: those that are left out come last.
        self.rules = self.whole.without_children(np.flatnonzero(self.whole.levels == max_depth)).rules()
        self.labels_only = Signal.of(forest, model.ledger_).release == "labels"
        # A node that adds up with other trees, or that labels stand for, says nothing by itself.
        self.speaks = not self.labels_only and (forest.link == "shares" or (forest.link == "sum" and number == 0))
        self.counted = "by weight" if forest.link == "softmax" and number > 0 else "records"
        self.nameless = forest.domain.renamed(lambda name: "")
        self.paints = paints(self.whole, self.labels_only)

    def box(self, node: int, edge: str = "") -> Box:
        """The box of a node, with those below it."""
        paint = self.paints.colours[node], float(self.paints.strengths[node])
        if self.whole.is_leaf[node]:
            return Box(self._says(node), edge, paint=paint)
        children = np.flatnonzero(self.whole.parents == node)
        level, is_binary = int(self.whole.levels[node]), len(children) == 2
        question = [f"{drawable(self.whole.domain.names[self.whole.features[node]], IN_BOX)}?"]
        if is_binary:
            name, condition = question[0][:-1], f"{self.condition(node, 0, IN_BOX)}?"
            is_wide = canvas.runs_leftward(name) or width(name) + width(condition) >= IN_BOX
            question = [name, condition] if is_wide else [f"{name} {condition}"]
        if level == self.max_depth and self.speaks:
            return Box(question + self._says(node), edge, "cut", paint=paint)
        if level == self.max_depth:
            return Box(question + self._size(node), edge, "cut")
        n_shown = 2 if is_binary else max(1, MOST_CHILDREN - level)
        largest = sorted(np.argsort(-self.whole.counts[children].sum(axis=1), kind="stable")[:n_shown])
        answers = [
            ("yes", "no")[at] if is_binary else self.condition(node, at, ON_EDGE).removeprefix("= ") for at in largest
        ]
        below = [self.box(int(children[at]), answer) for at, answer in zip(largest, answers, strict=True)]
        if len(largest) < len(children):
            below.append(Box([f"and {len(children) - len(largest)} more"], kind="words"))
        return Box(question + self._size(node), edge, children=below)

    def condition(self, node: int, child: int, most: int) -> str:
        """The condition that leads to a child, without the feature's name: ``< 37``, ``3 to < 5``, ``in {Oslo, Rome}``."""
        feature, first = self.whole.features[node], int(self.whole.first_children[node])
        text = self.whole.condition(first + child, self.nameless)
        if self.whole.domain.is_numeric[feature]:
            text = re.sub(f"{NUMBER} <=  < {NUMBER}", r"\1 to < \2", text)
            text = re.sub(f"{NUMBER} <= ", r">= \1", text).replace("( ", "(")
        if not isinstance(self.whole.domain.features[feature], Date | Categorical):
            text = re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", lambda found: brief(float(found[0])), text)
        return drawable(text, most)

    def _says(self, node: int) -> list[str]:
        rule = self.rules[node]
        label = drawable(rule["class"], IN_BOX - 8) if "class" in rule else ""
        if self.labels_only:
            return [label, "(a label, no counts)"]
        if "adds" in rule:
            words = [f"{rule['adds']:+.{3 if label else 4}g}"]
        elif label:
            words = share_words(rule["confidence"], rule["low"], rule["high"])
        else:
            words = mean_words(rule["mean"], rule["low"], rule["high"])
        band = [f"({word})" for word in words[1:]]
        if rule.get("lead_band") is not None:
            band = [f"lead {count_words(rule['lead'], rule['lead_band'])}"]
        begin = f"{label} " if label else "adds" if "adds" in rule else "mean"
        return [f"{begin} {words[0]}", *band, *self._size(node)]

    def _size(self, node: int) -> list[str]:
        rule = self.rules[node]
        return [] if self.labels_only else [count_words(rule["support"], rule["support_band"], self.counted)]


def _is_painted(box: Box) -> bool:
    """Whether a box is drawn whose colour means something."""
    return box.paint is not None or any(map(_is_painted, box.children))


class Paints(NamedTuple):
    """The colour of each node, how strong it is, from 0 to 1, and what is said of colours: name, colour and strength."""

    colours: list[str]
    strengths: np.ndarray
    key: list[tuple[str, str, float]]


def paints(tree: Forest, labels_only: bool) -> Paints:
    """The paints of a single tree, whose leaves may have labels and no shares.

    A class has its colour, deep where its share is 1 and pale where it is no larger than the others. Means are blue from
    the least to the greatest; what is added to a mean is blue below 0, and vermilion above. Of what may be anything, the
    largest of the tree is the deepest.
    """
    says, leaves = [tree.says(node) for node in range(tree.n_nodes)], tree.is_leaf
    adds = np.array([each.get("adds", 0.0) for each in says])
    most = float(np.abs(adds[leaves]).max(initial=0)) or 1.0
    if isinstance(tree.target, Classes):
        n_classes, best, share = tree.shares.shape[1], tree.shares.argmax(axis=1), tree.shares.max(axis=1)
        colours = [*OF_CLASSES, *[GREY] * n_classes]
        strengths = np.abs(adds) / most if tree.link == "softmax" else (share * n_classes - 1) / max(n_classes - 1, 1e-9)
        found = np.unique(best[leaves]).tolist()
        key = [(drawable(tree.target.labels[at], IN_LEGEND), colours[at], SAMPLE) for at in found if colours[at] != GREY]
        key += [("other classes", GREY, SAMPLE)] if len(key) < len(found) else []
        if labels_only:
            strengths = np.full(tree.n_nodes, SAMPLE)
        else:
            key.append((f"the darker, {'the more it adds' if tree.link == 'softmax' else 'the surer'}", GREY, 0.3))
        return Paints([colours[at] for at in best.tolist()], strengths, key)
    if "adds" in says[0]:
        key = [(f"adds {figure(-most, 3)}", BLUE, 1.0), ("0", GREY, 0.0), (f"adds +{figure(most, 3)}", VERMILION, 1.0)]
        return Paints([BLUE if value < 0 else VERMILION for value in adds.tolist()], np.abs(adds) / most, key)
    means = np.array([each["mean"] for each in says])
    least, greatest = float(means[leaves].min()), float(means[leaves].max())
    key = [(f"mean {figure(least)}", BLUE, 0.0), (f"mean {figure(greatest)}", BLUE, 1.0)]
    return Paints([BLUE] * len(means), (means - least) / ((greatest - least) or 1.0), key)


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
    columns, is_given = _columns(root), ax is not None
    total = sum(map(sum, columns))
    ax = canvas.axes(ax, max(total, 5.2), height + 0.6 + 0.2 * len(notes))
    ax.set(xlim=(0, total), ylim=(height, 0))
    ax.set_axis_off()
    canvas.entitle(ax, title="\n".join(notes))
    # Letters shrink with the axes that are given, so that boxes never meet.
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    scale = min(1.0, extent.width / dpi / total, extent.height / dpi / height) if is_given else 1.0
    _draw_box(ax, root, columns, 0.05, scale)
    patch = canvas.load("matplotlib.patches").Patch
    samples = [patch(facecolor=tinted(colour, strength), edgecolor=colour, label=name) for name, colour, strength in key]
    style = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 4, "borderaxespad": 0, "frameon": False}
    for text in ax.legend(handles=samples, fontsize="small", **style).get_texts():
        text.set(**AS_IS)
    return ax


def _draw_box(ax: Any, box: Box, columns: list[tuple[float, float]], left: float, scale: float) -> None:
    own, gap = columns[0]
    style = {"fontsize": SIZE * scale, "va": "center", "linespacing": 1.15, **AS_IS}
    line = {"color": GREY, "linewidth": scale, "zorder": 1}
    if box.kind == "words":
        ax.text(left + 0.08, box.row, "\n".join(box.lines), color=GREY, style="italic", **style)
    else:
        colour, face = (GREY, PALE) if box.paint is None else (box.paint[0], tinted(*box.paint))
        frame = {"boxstyle": "round,pad=0.35", "linewidth": 1.2 * scale, "facecolor": face, "edgecolor": colour}
        ax.text(left + 0.06, box.row, "\n".join(box.lines), bbox=frame, zorder=3, **style)
    trunk, end = left + own + 0.1, left + own + gap
    if box.children or box.kind == "cut":
        ax.plot([left + 0.1, trunk], [box.row, box.row], **line)
    if box.kind == "cut":
        ax.text(trunk + 0.05, box.row, "…", color=GREY, **style | {"fontsize": 1.6 * SIZE * scale})
    if box.children:
        ax.plot([trunk, trunk], [box.children[0].row, box.children[-1].row], **line)
    for child in box.children:
        ax.plot([trunk, end], [child.row, child.row], linestyle=":" if child.kind == "words" else "-", **line)
        ax.text(trunk + 0.06, child.row - 0.02, child.edge, color=GREY, **style | {"va": "bottom"})
        _draw_box(ax, child, columns[1:], end, scale)


def _notes(forest: Forest, number: int) -> list[str]:
    notes = [f"tree {number + 1} of {forest.n_trees}"]
    if forest.link == "softmax":
        notes.append("Leaves say what they add to the log-odds of a class; the trees add up.")
        notes += [BY_WEIGHT] if number else []
    elif forest.link == "sum" and forest.n_trees > 1:
        notes.append("The first tree gives a mean; each later one adds to it.")
    return notes + ([BAND_MEANS] if forest.variances.any() else [])
