"""The part of a forest that a page has room for: some trees, some rules, and how much is left out. Public values only."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpforest.common.text import MINUS, count_words, figure, mean_words, share_words, shortened, visible
from dpforest.forest.bands import NORMAL_95
from dpforest.model.signal import Signal
from dpforest.schema import Bounded
from dpforest.schema.domain import Domain
from dpforest.show.report.html import script_json

MOST_TREES = 60
MOST_NODES = 3000  # of all drawn trees
MOST_BRANCHES = 50  # of one node
MOST_RULES = 2000
MOST_LISTED = 6  # categories in a condition
MOST_CLASSES = 5  # with a colour of their own
# Bytes of texts that drawn trees and rules may bring to the page.
ROOM_FOR_TREES, ROOM_FOR_RULES = 300_000, 600_000


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
        if len(words) == 1:
            return f"{name} {equal} {listed}"
        more = f" and {len(words) - MOST_LISTED:,} more" if len(words) > MOST_LISTED else ""
        return f"{name} {among} {{{listed}{more}}}"


@dataclass
class Texts:
    """The texts of a page, each kept once and named by a number."""

    size: int = 0
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers)
            self.size += len(script_json(text).encode())
        return self.numbers[text]


class Drawing:
    """Makes what the script of the page draws: trees and rules as short rows, with their texts by number."""

    def __init__(self, signal: Signal) -> None:
        self.signal, self.forest = signal, signal.forest
        self.domain, self.texts = ShortDomain.from_domain(self.forest.domain), Texts()
        inner = self.forest.parents[self.forest.parents >= 0]
        self.n_children = np.bincount(inner, minlength=self.forest.n_nodes)
        self.coloured = np.argsort(-self.forest.shares[0], kind="stable")[:MOST_CLASSES]

    def to_dict(self) -> dict[str, Any]:
        trees = self._trees()
        rules = self._rules()
        target = self.forest.target
        bounded = isinstance(target, Bounded)
        labels = [] if isinstance(target, Bounded) else [target.labels[index] for index in self.coloured]
        coloured = [self.texts.number(shortened(label, 60, visible)) for label in labels]
        n_below = 0 if bounded else target.n_values - len(coloured)
        return {
            "trees": trees, "rules": rules, "texts": list(self.texts.numbers), "coloured": coloured, "others": n_below,
            "link": self.forest.link, "release": self.signal.release, "bounded": bounded, "n_trees": self.forest.n_trees,
            "n_nodes": self.forest.n_nodes, "n_drawn": sum(len(tree) for tree in trees),
        }  # fmt: skip

    def _condition(self, node: int) -> int:
        """The number of the text of the condition that leads from its parent to a node."""
        is_root = self.forest.parents[node] < 0
        return self.texts.number("all records" if is_root else self.forest.condition(node, self.domain))

    def _trees(self) -> list[list[Any]]:
        forest = self.forest
        n_drawn = min(forest.n_trees, MOST_TREES)
        drawn = []
        for tree in range(n_drawn):
            if self.texts.size > ROOM_FOR_TREES:
                break
            drawn.append(self._tree(tree, max(MOST_NODES // n_drawn, 60)))
        return drawn

    def _tree(self, root: int, most: int) -> list[list[Any]]:
        """A row for each drawn node, from the root down: index of the parent, branches left out, and what ``_row`` gives."""
        rows: list[list[Any]] = []
        queue = [(root, -1)]
        while queue and self.texts.size <= ROOM_FOR_TREES:
            node, above = queue.pop(0)
            branches = self._branches(node)
            if len(rows) + len(queue) + 1 + len(branches) > most:
                branches = branches[:0]
            rows.append([above, int(self.n_children[node]) - len(branches), self._condition(node), *self._row(node)])
            queue += [(int(child), len(rows) - 1) for child in branches]
        for _, above in queue:
            rows[above][1] += 1
        return rows

    def _branches(self, node: int) -> np.ndarray:
        """The children of a node that are drawn: the largest, in their order."""
        first = int(self.forest.first_children[node])
        children = np.arange(first, first + self.n_children[node]) if first >= 0 else np.empty(0, dtype=int)
        if len(children) <= MOST_BRANCHES:
            return children
        return np.sort(children[np.argsort(-self.signal.sizes[children], kind="stable")[:MOST_BRANCHES]])

    def _rules(self) -> list[list[Any]]:
        """A row for each rule, leaves and large nodes first: tree, node, whether it is a leaf, conditions, and ``_row``."""
        sizes, forest = self.signal.sizes, self.forest
        rules = []
        for node in map(int, np.lexsort((-sizes, ~forest.is_leaf))[:MOST_RULES]):
            if self.texts.size > ROOM_FOR_RULES:
                break
            path = self._path(node)
            conditions = [self._condition(step) for step in path[-40:]]
            rules.append([int(forest.trees[node]), node, int(forest.is_leaf[node]), conditions, *self._row(node)])
        return rules

    def _path(self, node: int) -> list[int]:
        path: list[int] = []
        while self.forest.parents[node] >= 0:
            path.insert(0, node)
            node = int(self.forest.parents[node])
        return path

    def _row(self, node: int) -> list[Any]:
        """What is shown of a node: size, lead and value, as numbers and in words; ratio, label, shares. None is unknown."""
        signal, bands = self.signal, self.forest.bands
        # A label, or a leaf in which nothing is counted, has no lead and no noise of its own.
        is_noisy = self.forest.variances[node] > 0
        size, lead = (
            float(signal.sizes[node]),
            float(signal.heights[node]) if signal.release == "lead" and is_noisy else None,
        )
        size_band = NORMAL_95 * float(bands.size_deviations[node]) if is_noisy else None
        says = self.forest.says(node)
        value = says["adds"] if "adds" in says else says["mean"] if "mean" in says else says["confidence"]
        return [
            round(size, 2),
            count_words(size, size_band),
            round(float(signal.ratios[node]), 2) if signal.has_noise else None,
            None if lead is None else round(lead, 2),
            None if lead is None else count_words(lead, NORMAL_95 * float(signal.deviations[node])),
            self.texts.number(shortened(says["class"], 60, visible)) if "class" in says else None,
            value,
            self._value_words(says, value),
            [round(float(share), 4) for share in self._bar(node)],
        ]

    def _value_words(self, says: dict[str, Any], value: float) -> str:
        """A share or mean with its band, in words; what additive trees add has no band, the lead beside it has."""
        if "adds" in says:
            return ("" if value < 0 else "+") + figure(value, 3 if self.forest.link == "softmax" else 4)
        words = share_words if "class" in says else mean_words
        return ", ".join(words(value, says["low"], says["high"])).replace("-", MINUS)

    def _bar(self, node: int) -> np.ndarray:
        shares = self.forest.shares[node]
        return shares[1:] if isinstance(self.forest.target, Bounded) else shares[self.coloured]
