"""A released forest as trees of yes-or-no questions, which is what scikit-learn's trees are. Released values only.

A split into several children becomes a chain: is it for the first child? for the second? ... Yes goes right, to that child;
no goes left, to the next question, and at the end to the last child. No subtree is there twice.
"""

from dataclasses import dataclass

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.schema import Bounded
from dpforest.show.export.splits import Splits

LEAF = -1  # scikit-learn's mark for the children of a leaf
NO_FEATURE = -2  # and for its feature and threshold


@dataclass(frozen=True)
class TreeArrays:
    """One tree under scikit-learn's public names.

    ``value`` ``(node_count, 1, n_classes)`` is what a record at the node adds to the votes; of a bounded target
    ``(node_count, 1, 1)`` it is the mean, or what the tree adds to the mean. ``n_node_samples`` are released counts, rounded
    and at least 0; ``impurity`` is Gini's, by the released shares. Later questions of a chain show the values of the split.
    """

    children_left: np.ndarray
    children_right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    n_node_samples: np.ndarray
    impurity: np.ndarray
    max_depth: int

    @property
    def node_count(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.children_left == LEAF))


@dataclass(frozen=True)
class ReleasedTree:
    """A tree of a released forest."""

    tree_: TreeArrays


@dataclass(frozen=True)
class BinaryTrees:
    """Binary trees, and all questions that they ask: of which feature, and where its answers begin in ``answered``."""

    questions: list[str]
    features: np.ndarray
    starts: np.ndarray
    answered: np.ndarray
    trees: list[ReleasedTree]

    @classmethod
    def of(cls, forest: Forest) -> "BinaryTrees":
        splits, domain = Splits.of(forest), forest.domain
        indices: dict[tuple[int, bytes], int] = {}
        texts: list[str] = []
        features, masks, chains = [], [], []
        for split in splits.distinct:
            # Children that no code leads to are left out.
            *asked, last = np.unique(split.routes).tolist()
            chain = []
            for child in asked:
                mask = split.routes == child
                key = (split.feature, mask.tobytes())
                if key not in indices:
                    indices[key] = len(texts)
                    texts.append(domain.describe(split.feature, mask))
                    features.append(split.feature)
                    masks.append(mask)
                chain.append((indices[key], child))
            chains.append((chain, last))
        trees = [_Planted(forest, splits, chains, root).tree() for root in range(forest.n_trees)]
        starts = np.cumsum([0, *map(len, masks)])[:-1]
        answered = np.concatenate([np.empty(0, dtype=bool), *masks]).astype(np.uint8)
        return cls(texts, np.array(features, dtype=np.int64), starts, answered, trees)

    def answers(self, codes: np.ndarray) -> np.ndarray:
        """The answers of records to all questions, ``(n_records, n_questions)``, from codes ``(n_features, n_records)``."""
        answers = np.empty((codes.shape[1], len(self.questions)), dtype=np.uint8)
        for question, (feature, start) in enumerate(zip(self.features, self.starts, strict=True)):
            answers[:, question] = self.answered[start + codes[feature].astype(np.int64)]
        return answers

    def leaves(self, codes: np.ndarray) -> np.ndarray:
        """The leaf that each record reaches in each tree, ``(n_records, n_trees)``."""
        leaves = np.zeros((codes.shape[1], len(self.trees)), dtype=np.int64)
        for index, released in enumerate(self.trees):
            tree, reached = released.tree_, leaves[:, index]
            records = np.flatnonzero(tree.feature[reached] >= 0)
            while len(records):
                nodes = reached[records]
                questions = tree.feature[nodes]
                yes = self.answered[self.starts[questions] + codes[self.features[questions], records]]
                reached[records] = np.where(yes, tree.children_right[nodes], tree.children_left[nodes])
                records = records[tree.feature[reached[records]] >= 0]
        return leaves


class _Planted:
    """One tree as it is turned into questions, from the root down, left before right as scikit-learn numbers nodes."""

    def __init__(self, forest: Forest, splits: Splits, chains: list[tuple[list[tuple[int, int]], int]], root: int) -> None:
        self._forest, self._splits, self._chains = forest, splits, chains
        self._rows: list[list[int]] = []  # left, right, question, node of the forest
        self._depth = 0
        # What is still to be numbered: node, index in its chain, level, parent's row and side.
        waiting = [(root, 0, 0, -1, 0)]
        while waiting:
            node, index, level, parent, side = waiting.pop()
            chain, last = self._chain(node)
            while index == len(chain) and last is not None:
                # A chain that has come to its end, or a split with one child, is the last child itself.
                node, index = last, 0
                chain, last = self._chain(node)
            row = len(self._rows)
            if parent >= 0:
                self._rows[parent][side] = row
            self._depth = max(self._depth, level)
            self._rows.append([LEAF, LEAF, NO_FEATURE, node])
            if index < len(chain):
                self._rows[row][2] = chain[index][0]
                waiting.append((chain[index][1], 0, level + 1, row, 1))
                waiting.append((node, index + 1, level + 1, row, 0))

    def _chain(self, node: int) -> tuple[list[tuple[int, int]], int | None]:
        """The questions of a node, each with the child that yes leads to, and the last child; none at a leaf."""
        if self._forest.is_leaf[node]:
            return [], None
        chain, last = self._chains[self._splits.of_node[node]]
        first = int(self._forest.first_children[node])
        return [(question, first + child) for question, child in chain], first + last

    def tree(self) -> ReleasedTree:
        left, right, questions, nodes = np.array(self._rows, dtype=np.int64).T
        forest = self._forest
        return ReleasedTree(
            TreeArrays(
                children_left=left,
                children_right=right,
                feature=questions,
                threshold=np.where(questions >= 0, 0.5, float(NO_FEATURE)),
                value=_values(forest, nodes)[:, None, :],
                n_node_samples=np.rint(np.maximum(forest.counts[nodes].sum(axis=1), 0)).astype(np.int64),
                impurity=1 - np.square(forest.shares[nodes]).sum(axis=1),
                max_depth=self._depth,
            )
        )


def _values(forest: Forest, nodes: np.ndarray) -> np.ndarray:
    votes, target = forest.votes[nodes], forest.target
    if not isinstance(target, Bounded):
        return votes
    if forest.link == "sum":
        # Votes of the first tree sum to 1 and give a mean; those of later trees sum to 0 and correct it.
        return target.range[0] * votes.sum(axis=1, keepdims=True) + target.span * votes[:, 1:]
    return target.mean_of(forest.shares[nodes][:, 1:])
