"""Colours of the leaves of one tree: of a class and how sure it is, or of a mean. Released values only."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpforest.common.text import figure
from dpforest.forest.tree import Forest
from dpforest.schema import Classes
from dpforest.show.plots.canvas import BLUE, COLOURS, GREY, VERMILION, drawable

LONGEST = 24
SAMPLE = 0.8  # the strength of a colour that stands for a class
# Black is for text: the last colour with a class of its own is before it. Classes beyond share grey.
OF_CLASSES = COLOURS[:-1]


@dataclass(frozen=True)
class Paints:
    """The colour of each node, and how strong it is, from 0 to 1."""

    colours: list[str]
    strengths: np.ndarray
    key: list[tuple[str, str, float]]  # what is said of colours: name, colour and strength

    def of_node(self, node: int) -> tuple[str, float]:
        return self.colours[node], float(self.strengths[node])


def paints(tree: Forest, labels_only: bool) -> Paints:
    """The paints of a single tree, whose leaves may have labels and no shares."""
    says = [tree.says(node) for node in range(tree.n_nodes)]
    leaves = np.flatnonzero(tree.is_leaf)
    if not isinstance(tree.target, Classes):
        return _of_means(says, leaves)
    found = _of_classes(tree, says, leaves)
    return replace(found, strengths=np.full(tree.n_nodes, SAMPLE), key=found.key[:-1]) if labels_only else found


def _of_classes(tree: Forest, says: list[dict[str, Any]], leaves: np.ndarray) -> Paints:
    """A colour for each class: deep where its share is 1, pale where it is no larger than those of the others."""
    n_classes = tree.shares.shape[1]
    best, share = tree.shares.argmax(axis=1), tree.shares.max(axis=1)
    strengths = (share - 1 / n_classes) / max(1 - 1 / n_classes, 1e-9)
    if tree.link == "softmax":  # what a leaf adds may be anything, so the largest of the tree is the deepest
        adds = np.abs([each["adds"] for each in says])
        strengths = adds / (adds[leaves].max(initial=0) or 1)
    shown = np.unique(best[leaves])
    names = [drawable(tree.target.labels[index], LONGEST) for index in shown]  # type: ignore[union-attr]
    key = [(name, _colour(index), SAMPLE) for name, index in zip(names, shown.tolist(), strict=True)]
    own = [entry for entry in key if entry[1] != GREY]
    others = [("other classes", GREY, SAMPLE)] if len(own) < len(key) else []
    surer = "the more it adds" if tree.link == "softmax" else "the surer"
    return Paints(
        [_colour(index) for index in best.tolist()], strengths, own + others + [(f"the darker, {surer}", GREY, 0.3)]
    )


def _colour(index: int) -> str:
    return OF_CLASSES[index] if index < len(OF_CLASSES) else GREY


def _of_means(says: list[dict[str, Any]], leaves: np.ndarray) -> Paints:
    """Blue from the least to the greatest mean; of trees that correct a mean, blue for less and vermilion for more."""
    if "adds" in says[0]:
        adds = np.array([each["adds"] for each in says])
        most = np.abs(adds[leaves]).max(initial=0) or 1.0
        key = [(f"adds {figure(-most, 3)}", BLUE, 1.0), ("0", GREY, 0.0), (f"adds +{figure(most, 3)}", VERMILION, 1.0)]
        return Paints([BLUE if value < 0 else VERMILION for value in adds.tolist()], np.abs(adds) / most, key)
    means = np.array([each["mean"] for each in says])
    least, most = float(means[leaves].min()), float(means[leaves].max())
    key = [(f"mean {figure(least)}", BLUE, 0.0), (f"mean {figure(most)}", BLUE, 1.0)]
    return Paints([BLUE] * len(means), (means - least) / ((most - least) or 1.0), key)
