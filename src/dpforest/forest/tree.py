"""The released forest: flat arrays over the nodes of all trees. Released values only.

Nodes are numbered level by level, all trees together; the roots are 0 .. n_trees-1, and the children of a node follow one
another. A bounded target is treated as two classes, low and high: a record of value z counts 1-z for low and z for high, so
the share of high is the mean, and everything below works for both targets.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from dpforest.common.text import count_words, in_brackets, mean_words, one_line, share_words
from dpforest.errors import ParameterError, shown
from dpforest.forest.bands import INDEPENDENT, NORMAL_95, STANDS_OUT, Bands
from dpforest.forest.walks import add_votes, coins, find_leaves, sum_children
from dpforest.schema import Classes, Target
from dpforest.schema.domain import Domain

# Votes of additive trees are multiples of 1/1024, so that sums of votes are exact integers.
SCORE_STEPS = 1024
LINKS = ("shares", "softmax", "sum")
MOST_CHARACTERS_OF_RULES = 1 << 26
PER_NODE = ("levels", "counts", "variances", "shares", "votes", "released")


@dataclass(frozen=True)
class Estimate:
    """A released number, and the standard deviation of the noise in it."""

    value: float
    deviation: float

    @property
    def band(self) -> float:
        """Half the width of the 95 % band."""
        return NORMAL_95 * self.deviation


@dataclass(frozen=True)
class Forest:
    """All trees of a model with everything that was released about them, in arrays over nodes.

    ``first_children`` is -1 at a leaf. ``routes[splits[node], code]`` is the child, counted from the first, of a code of
    the feature ``features[node]``; of a wide feature it is a run, see ``route``. ``counts`` ``(n_nodes, n_values)`` are
    released counts, or sums of released counts below; ``variances`` ``(n_nodes,)`` is the variance of the noise in each of
    them; ``shares`` ``(n_nodes, n_values)`` are class shares after post-processing; ``votes`` ``(n_nodes, n_values)`` are
    what a record at a leaf adds to the prediction.
    """

    domain: Domain
    target: Target
    trees: np.ndarray
    parents: np.ndarray
    levels: np.ndarray
    first_children: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    routes: np.ndarray
    counts: np.ndarray
    variances: np.ndarray
    shares: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    votes: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    link: str = "shares"  # how summed votes become shares: scaled to sum 1, by softmax, or cut to 0 .. 1
    draws: bool = False  # whether a label is drawn by the votes instead of taking the largest
    # Which nodes had their counts released; those of others are sums. Empty before ``summed``, and if read from a file.
    released: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    # Factors of the noise ``(n_trees, 3)``, see ``bands``; empty if the noise in all counts is independent.
    noise: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    # Of trees in which nothing is counted: the standard deviation ``(n_trees,)`` of their one draw of noise, as a part of
    # each vote; 0 where it is not known. Empty if there is no such tree.
    vote_noise: np.ndarray = field(default_factory=lambda: np.empty(0))
    n_records: Estimate | None = None  # the noisy number of records that the fit measured to plan by; None if it did not
    n_earlier: int = 0  # how many of the trees, the first ones, are those of an earlier model

    @property
    def n_nodes(self) -> int:
        return len(self.trees)

    @cached_property
    def n_trees(self) -> int:
        return int(np.count_nonzero(self.parents < 0))

    @property
    def depth(self) -> int:
        return int(self.levels.max(initial=0))

    @cached_property
    def is_leaf(self) -> np.ndarray:
        """Whether each node is a leaf, ``(n_nodes,)``."""
        return self.first_children < 0

    def level_slices(self) -> list[slice]:
        """The range of node numbers of each level, from the roots down."""
        edges = np.searchsorted(self.levels, np.arange(self.depth + 2))
        return [slice(a, b) for a, b in pairwise(edges)]

    def with_counts(self, nodes: np.ndarray, counts: np.ndarray, variance: float) -> "Forest":
        """A copy of the forest with these released counts ``(len(nodes), n_values)`` at some nodes."""
        all_counts, variances = self.counts.copy(), self.variances.copy()
        all_counts[nodes], variances[nodes] = counts, variance
        return replace(self, counts=all_counts, variances=variances)

    def summed(self) -> "Forest":
        """A copy of the forest in which nodes without released counts have the sums of their children's counts."""
        counts, variances = self.counts.copy(), self.variances.copy()
        missing = np.isnan(variances)
        for values in (counts, variances[:, None]):
            sum_children(self.parents, self.first_children, missing, values)
        return replace(self, counts=counts, variances=variances, released=~missing)

    def without_children(self, nodes: np.ndarray) -> "Forest":
        """A copy of the forest in which the given nodes are leaves, without all nodes below them."""
        closed = np.zeros(self.n_nodes, dtype=bool)
        closed[nodes] = True
        kept = np.ones(self.n_nodes, dtype=bool)
        for level in self.level_slices()[1:]:
            parents = self.parents[level]
            kept[level] = kept[parents] & ~closed[parents]
        return self._kept(kept, kept & ~closed & ~self.is_leaf, self.trees[kept])

    def _kept(self, kept: np.ndarray, inner: np.ndarray, trees: np.ndarray) -> "Forest":
        """A copy with the nodes of the mask ``kept`` only, of which ``inner`` keep their children; ``trees`` are theirs."""
        index = np.cumsum(kept) - 1
        parents, children, inner_kept = self.parents[kept], self.first_children[kept], inner[kept]
        return replace(
            self,
            trees=trees,
            parents=np.where(parents < 0, -1, index[parents]),
            first_children=np.where(inner_kept, index[children], -1),
            splits=np.where(inner_kept, np.cumsum(inner_kept) - 1, -1),
            features=np.where(inner_kept, self.features[kept], -1),
            routes=self.routes[self.splits[inner]],
            **{name: getattr(self, name)[kept] for name in PER_NODE if len(getattr(self, name))},
        )

    @staticmethod
    def join(forests: "list[Forest]") -> "Forest":
        """One forest with the trees of all, in their order."""
        order = np.argsort(np.concatenate([forest.levels for forest in forests]), kind="stable")
        index, n_nodes = np.argsort(order), [forest.n_nodes for forest in forests]

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(forest, name) for forest in forests])[order]

        def numbered(name: str, sizes: list[int]) -> np.ndarray:
            """Numbers of nodes, trees or routes of joined forests, each shifted by the counts of the forests before."""
            shifts, numbers = np.repeat(np.cumsum([0, *sizes[:-1]]), n_nodes)[order], joined(name)
            return np.where(numbers < 0, -1, numbers + shifts)

        changed: dict[str, Any] = {name: joined(name) for name in (*PER_NODE, "features")}
        for name in ("parents", "first_children"):
            ids = numbered(name, n_nodes)
            changed[name] = np.where(ids < 0, -1, index[ids])
        changed["trees"] = numbered("trees", [forest.n_trees for forest in forests])
        changed["splits"] = numbered("splits", [len(forest.routes) for forest in forests])
        changed["routes"] = np.concatenate([forest.routes for forest in forests])
        changed["noise"] = np.concatenate([forest.factors for forest in forests])
        if any(len(forest.vote_noise) for forest in forests):
            changed["vote_noise"] = np.concatenate([forest.noise_of_votes for forest in forests])
        return replace(forests[0], **changed)

    def only(self, trees: np.ndarray) -> "Forest":
        """A copy of the forest with some of its trees, given as a mask ``(n_trees,)``."""
        kept = trees[self.trees]
        some = self._kept(kept, kept & ~self.is_leaf, (np.cumsum(trees) - 1)[self.trees[kept]])
        n_earlier = int(np.count_nonzero(trees[: self.n_earlier]))
        return replace(some, noise=self.factors[trees], vote_noise=self.noise_of_votes[trees], n_earlier=n_earlier)

    @property
    def factors(self) -> np.ndarray:
        """The factors of the noise of each tree, ``(n_trees, 3)``: first, rest and common, see ``bands``."""
        return self.noise if len(self.noise) else np.tile(INDEPENDENT, (self.n_trees, 1))

    @property
    def noise_of_votes(self) -> np.ndarray:
        """The noise in the votes of trees without counts, as a part of each vote ``(n_trees,)``; see ``vote_noise``."""
        return self.vote_noise if len(self.vote_noise) else np.zeros(self.n_trees)

    @cached_property
    def bands(self) -> Bands:
        """Sizes, leads and shares of all nodes, with how far noise may have moved them."""
        return Bands(self.counts, self.variances, self.factors[self.trees])

    @cached_property
    def held(self) -> Bands:
        """Bands of the roots of all trees together, as one node: a record counts once for each tree that it is in.

        Each tree may have a part of the records only, drawn by lot, so no single root stands for the table. Of trees in
        sequence it is the first root alone, since later trees count records by weight.
        """
        return self.bands.summed(slice(0, self.n_trees if self.link == "shares" else 1))

    @cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arrays that kernels of ``walks`` follow: nodes ``(n_nodes, 3)``, all routes in a row, and the depths of trees.

        A node has its feature, where its route begins, and its first child; and two numbers more if some feature is wide. A
        leaf is its own only child, so that all records take the same number of steps in a tree.
        """
        n_codes, inner = self.routes.shape[1], ~self.is_leaf
        nodes = np.empty((self.n_nodes, 5 if self.domain.is_wide.any() else 3), dtype=np.int64)
        nodes[:, 0] = np.maximum(self.features, 0)
        nodes[:, 1] = np.where(self.is_leaf, len(self.routes), self.splits) * n_codes
        nodes[:, 2] = np.where(self.is_leaf, np.arange(self.n_nodes), self.first_children)
        if nodes.shape[1] > 3:
            nodes[~inner, 3:] = 0, np.iinfo(np.int64).max
            nodes[inner, 3:] = self.domain.runs(self.features[inner], self.routes[self.splits[inner]])
        depths = np.zeros(self.n_trees, dtype=np.int64)
        np.maximum.at(depths, self.trees, self.levels)
        return nodes, np.append(self.routes.reshape(-1), np.zeros(n_codes, dtype=self.routes.dtype)), depths

    def leaves(self, codes: np.ndarray) -> np.ndarray:
        """The leaf that each record reaches in each tree, ``(n_trees, n_records)``."""
        leaves = np.empty((self.n_trees, codes.shape[1]), dtype=np.int64)
        find_leaves(np.ascontiguousarray(codes), *self._steps, leaves)
        return leaves

    def choices(self, codes: np.ndarray) -> np.ndarray:
        """The index of the class that each tree votes for, ``(n_trees, n_records)``."""
        return self.votes.argmax(axis=1)[self.leaves(codes)]

    def vote(self, codes: np.ndarray) -> np.ndarray:
        """Summed votes ``(n_records, n_values)`` for codes ``(n_features, n_records)``."""
        totals = np.zeros((codes.shape[1], self.votes.shape[1]))
        add_votes(np.ascontiguousarray(codes), *self._steps, self.votes, totals)
        return totals

    def predict(self, codes: np.ndarray) -> np.ndarray:
        """Class shares ``(n_records, n_values)``, each row summing to 1."""
        totals = self.vote(codes)
        if self.link == "softmax":
            totals = np.exp(totals - totals.max(axis=1, keepdims=True))
        elif self.link == "sum":
            totals = np.clip(totals, 0, 1)
        return totals / totals.sum(axis=1, keepdims=True)

    @cached_property
    def labels(self) -> np.ndarray:
        """The labels of the classes, ``(n_classes,)``, of a type of numpy unless that would change or split them."""
        assert isinstance(self.target, Classes)
        labels = self.target.labels
        array = np.asarray(labels) if not any(isinstance(label, tuple) for label in labels) else None
        if array is not None and array.ndim == 1 and array.tolist() == list(labels):
            return array
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
        return array

    def decide(self, shares: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The predicted label of each record: that of the largest share, or one drawn by the shares if the vote draws."""
        return self.labels[self.decided(shares, codes)]

    def decided(self, shares: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The index of each record's predicted class among the classes, ``(n_records,)``; see ``decide``."""
        if not self.draws:
            return shares.argmax(axis=1)
        below = shares.cumsum(axis=1)
        return (below > coins(codes)[:, None] * below[:, -1:]).argmax(axis=1)

    def decreases(self) -> list[Estimate]:
        """The share of each column in the decrease of impurity, with its standard deviation by noise and chance.

        That of a column is all that splits on the features that are derived from it decrease together. Shares sum to 1, or
        are all 0.

        What noise of the known variance adds to a decrease is subtracted, and what splits of records at random would add
        (see ``Bands.gains``); the latter not for a bounded target, whose spread within a node is not released, and not for
        the choice of the best of many splits. A column whose decrease is within three standard deviations of what noise and
        chance alone would give has 0.
        """
        # Of trees that vote for themselves: each counts every record once.
        records = np.full(self.n_nodes, float(isinstance(self.target, Classes)))
        with np.errstate(over="ignore", invalid="ignore"):  # fourth powers of what a file may hold
            gains = self.bands.gains(self.parents, self.level_slices(), records)
        inner, n_columns = ~self.is_leaf, len(self.domain.column_names)
        columns = self.domain.columns[self.features[inner]]
        found, doubts, by_luck = (np.bincount(columns, part[inner], n_columns) for part in gains)
        return shares_of(np.where(found > STANDS_OUT * np.sqrt(by_luck), found, 0.0), doubts)

    @cached_property
    def asked(self) -> np.ndarray:
        """Whether any split of the forest asks for each column of the table, ``(n_columns,)``."""
        columns = self.domain.columns[self.features[~self.is_leaf]]
        return np.bincount(columns, minlength=len(self.domain.column_names)) > 0

    def rules(self, min_confidence: float | None = None, min_support: float | None = None) -> list[dict[str, Any]]:
        """One dictionary for each node: the conditions on the path to it, its class (or mean), confidence and support.

        ``distribution`` has the released count of each class, noise and all, and its share after post-processing. Only
        rules with at least ``min_confidence`` and ``min_support`` are given, judged by released values, noise and all.
        A rule of additive trees says what it "adds": to the log-odds of its class, or to the mean of the first tree.
        ``support_band`` and ``lead_band`` are half the width of 95 % bands, ``low`` and ``high`` the ends of that of the
        confidence or mean; None where there is no noise, or none whose width is known. ``tree`` and ``node`` are indices of
        Python, from 0; text for people counts trees from 1.
        """
        chosen, conditions = self._chosen(min_confidence, min_support), self._conditions()
        return [
            {
                "tree": int(self.trees[node]),
                "node": node,
                "leaf": bool(self.is_leaf[node]),
                "conditions": conditions[node],
                "rule": " and ".join(conditions[node]) or "always",
                "support": max(0.0, float(self.bands.sizes[node])),
                "support_band": NORMAL_95 * float(self.bands.size_deviations[node]) if self.variances[node] else None,
                **self.says(node),
            }
            for node in np.flatnonzero(chosen).tolist()
        ]

    def _chosen(self, min_confidence: float | None, min_support: float | None) -> np.ndarray:
        """A mask ``(n_nodes,)`` of the nodes with a rule of at least that confidence and support."""
        chosen = np.ones(self.n_nodes, dtype=bool)
        if min_confidence is not None:
            if not isinstance(self.target, Classes):
                raise ParameterError("Rules of a bounded target have no confidence; choose them by min_support.")
            if not _is_number(min_confidence) or not 0 <= min_confidence <= 1:
                raise ParameterError(f"min_confidence must be a number from 0 to 1, not {shown(min_confidence)}.")
            # Shares are pulled by a hair to those of the parent, so that 3 of 4 records are a little less or more.
            chosen &= self.shares.max(axis=1) >= min_confidence - 1e-9
        if min_support is not None:
            if not _is_number(min_support) or not 0 <= min_support <= 1e300:
                raise ParameterError(f"min_support must be a number of records of at least 0, not {shown(min_support)}.")
            chosen &= np.maximum(self.bands.sizes, 0) >= min_support
        return chosen

    def condition(self, node: int, domain: Domain | None = None) -> str:
        """The condition under which a record goes from its parent to a node, in the words of ``domain``."""
        parent = self.parents[node]
        feature = int(self.features[parent])
        return (domain or self.domain).describe(feature, self.route(parent) == node - self.first_children[parent])

    def route(self, node: int) -> np.ndarray:
        """The child, counted from the first, of each code ``(n_codes,)`` of the feature that a node is split on."""
        return self.domain.route(int(self.features[node]), self.routes[self.splits[node]])

    def _conditions(self) -> list[list[str]]:
        """The conditions on the path from its root to each node; raises if all of them together are too long."""
        conditions: list[list[str]] = [[] for _ in range(self.n_nodes)]
        lengths = np.zeros(self.n_nodes, dtype=np.int64)
        total = 0
        for node in np.flatnonzero(self.parents >= 0).tolist():
            parent, condition = self.parents[node], self.condition(node)
            lengths[node] = lengths[parent] + len(condition)
            total += int(lengths[node])
            if total > MOST_CHARACTERS_OF_RULES:
                raise ParameterError(
                    f"The rules of this forest, {self.n_nodes} of up to {self.depth} conditions, have more than "
                    f"{MOST_CHARACTERS_OF_RULES} characters. Take some of its trees with forest.only, or export it."
                )
            conditions[node] = [*conditions[parent], condition]
        return conditions

    def rules_text(self, leaves: bool = False, min_confidence: float | None = None, min_support: float | None = None) -> str:
        """The rules as sentences, one a line, chosen as by ``rules``; with ``leaves`` only those that end at a leaf.

        Trees are counted from 1, as everywhere in text for people; ``tree`` of ``rules`` is an index from 0.
        """
        chosen = [rule for rule in self.rules(min_confidence, min_support) if rule["leaf"] or not leaves]
        return "\n".join(map(self.rule_line, chosen))

    def rule_line(self, rule: dict[str, Any]) -> str:
        """One of ``rules`` as a sentence; it is one line, whatever its names hold."""
        # Later trees count records by their residuals.
        what = "records by weight" if self.link == "softmax" and rule["tree"] else "records"
        size = count_words(rule["support"], rule["support_band"], what)
        where = f"if {rule['rule']} then" if rule["conditions"] else "all records:"
        return one_line(f"tree {rule['tree'] + 1}: {where} {said_words(rule)}, about {size}")

    def says(self, node: int) -> dict[str, Any]:
        """What the rule of a node predicts: its class or mean with bands, or what it adds; entries of ``rules``."""
        shares, votes = self.shares[node], self.votes[node] if len(self.votes) else np.zeros(self.target.n_values)
        if isinstance(self.target, Classes):
            best = int(shares.argmax())
            each = zip(self.target.labels, self.counts[node].tolist(), shares.tolist(), strict=True)
            distribution = [{"class": label, "count": count, "share": share} for label, count, share in each]
            says = {"class": self.target.labels[best], "confidence": float(shares[best]), "distribution": distribution}
            if self.link != "softmax":
                return says | self._ends(node, best)
            lead, band = float(self.bands.leads[node]), NORMAL_95 * float(self.bands.lead_deviations[node])
            says |= {"adds": float(votes[best] - np.delete(votes, best).mean()), "lead": lead}
            return says | {"lead_band": band if self.variances[node] else None}
        if self.link == "sum" and votes.sum() < 0.5:  # votes of the first tree sum to 1, those that correct it to 0
            return {"mean": None, "confidence": None, "adds": float(self.target.span * votes[1])}
        ends = {name: end if end is None else float(self.target.mean_of(end)) for name, end in self._ends(node, 1).items()}
        return {"mean": float(self.target.mean_of(shares[1])), "confidence": None, **ends}

    def _ends(self, node: int, value: int) -> dict[str, float | None]:
        """The ends of the band of one value's share at a node; None where there is no noise."""
        low, high = self.bands.shares
        known = self.variances[node] > 0
        return {"low": float(low[node, value]) if known else None, "high": float(high[node, value]) if known else None}

    def __repr__(self) -> str:
        return f"Forest(n_trees={self.n_trees}, depth={self.depth}, n_nodes={self.n_nodes})"


def shares_of(parts: np.ndarray, variances: np.ndarray) -> list[Estimate]:
    """The share of each part in their sum, with its standard deviation; all 0 if the sum is 0."""
    total = float(parts.sum())
    if not 0 < total < np.inf:
        return [Estimate(0.0, float(variance > 0)) for variance in variances]
    shares = parts / total
    spread = np.square(1 - shares) * variances + np.square(shares) * (variances.sum() - variances)
    return [Estimate(*pair) for pair in zip(shares.tolist(), (np.sqrt(spread) / total).tolist(), strict=True)]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def said_words(rule: dict[str, Any]) -> str:
    """What a rule predicts or adds, as text with its band."""
    if "lead" in rule:
        lead = "" if rule["lead_band"] is None else f" by a lead of {count_words(rule['lead'], rule['lead_band'])}"
        return f"{rule['class']} {rule['adds']:+.3g}{lead}"
    if "adds" in rule:
        return f"{rule['adds']:+.6g}"
    if "class" in rule:
        return f"{rule['class']} ({', '.join(share_words(rule['confidence'], rule['low'], rule['high']))})"
    return in_brackets(mean_words(rule["mean"], rule["low"], rule["high"]))
