"""The part of a forest that a page has room for: some trees, some rules, and how much is left out. Public values only."""

import re
from typing import Any

import numpy as np
from markupsafe import Markup

from dpforest.common.jsonable import to_json
from dpforest.common.text import MINUS, count_words, figure, mean_words, share_words, shortened, visible
from dpforest.forest.bands import NORMAL_95
from dpforest.model.signal import Signal
from dpforest.schema import Bounded
from dpforest.schema.domain import Domain

MOST_TREES, MOST_RULES = 60, 2000
MOST_NODES = 3000  # of all drawn trees
MOST_BRANCHES = 50  # of one node
MOST_LISTED = 6  # categories in a condition
MOST_CLASSES = 5  # with a colour of their own
# Bytes of texts that drawn trees and rules may bring to the page.
ROOM_FOR_TREES, ROOM_FOR_RULES = 300_000, 600_000
# What a parser of HTML could act on inside a script element.
ACTIVE = {character: f"\\u{ord(character):04x}" for character in "<>&"}


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
        """The number of a text."""
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
