"""A small tree whose leaves carry labels, in competition with cuts of a score. Sees sealed counts.

A choice among rules that carry their labels needs no leaves: the rule that is released says it all. So the budget of leaves
is free for something else.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.growing.choosing import score
from dpforest.growing.growth import Growth
from dpforest.parts.criteria import MaxOperator, children_of
from dpforest.parts.proposals import Candidates, Menu
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.base import Bound, Sensitivity
from dpforest.privacy.events import SPLITS, Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import AllTrees, Counter

# A rule that is right for a share (1 + r) / 2 of the records has log-odds by r, which is kept within these ends.
LEAST_LEAD, MOST_LEAD = 0.1, 0.95


@dataclass(frozen=True)
class Rule:
    """What was chosen, a tree with a label at each leaf or the index of a cut, and the log-odds by its released lead."""

    tree: Forest | None
    cut: int | None
    odds: float


def choose_rule(
    counter: Counter,
    gate: Gate,
    cut_scores: Sealed[np.ndarray] | None,
    n_cuts: int,
    depth: int,
    n_rows: float,
    amount: float,
    amount_of_lead: float,
) -> Rule:
    """The rule that gets most records of two classes right: a tree of ``depth`` levels of splits, or one of some cuts.

    ``cut_scores`` ``(n_cuts,)`` are the sealed numbers of records that each cut gets right; None if there are no cuts.

    Privacy:
        Claim: costs at most ``amount`` and ``amount_of_lead`` together.
        Because: the score of a rule is the number of records that it gets right, which an added record raises by 0 or 1:
            monotone, of width 1, and so is the max operator, by which all levels but the last choose. Nodes of a level hold
            different records, so its choices cost its share once; levels add up. The lead of the chosen rule, records right
            less records wrong, moves by at most 1. If a cut wins, the levels that are not grown leave it their share.
        Assumes: records count once; the cuts are of a score that was released.
    """
    counter.deal(AllTrees(1), gate.entropy)
    domain, growth, menu = counter.domain, Growth(counter.domain, 1), Menu()
    fixed, rng, amounts = menu.fixed(domain), gate.entropy.generator(), divide(amount, [1] * depth)
    for level, own in enumerate(amounts):
        candidates = menu.propose(domain, fixed, growth.reach, rng)
        wanted = candidates.wanted(domain.n_features)
        wanted[:, 0] = True  # by which all records of a node are counted
        counts = counter.count_codes(growth.first, wanted)
        valid = candidates.valid
        if level == depth - 1:
            scores = counts.map(partial(labelled_scores, candidates, domain.offsets))
            valid = np.concatenate([valid, valid, np.ones((growth.n_open, 2), dtype=bool)], axis=1)
        else:
            scores = counts.map(partial(score, MaxOperator(), domain.offsets, counter.target, candidates))
        n_splits = valid.shape[1]
        if level == 0:
            n_records = counts.map(partial(_total, int(domain.n_codes[0])))
        if level == 0 and cut_scores is not None:
            scores = Sealed.concatenate([scores.map(_flat), cut_scores]).map(_one_row)
            valid = np.concatenate([valid, np.ones((1, n_cuts), dtype=bool)], axis=1)
        chosen = gate.select(scores, valid, Bound(0, 1), own, Purpose(SPLITS, "labelled", level=level))
        right = scores.map(partial(_right, chosen))
        if level == 0 and chosen[0] >= n_splits:
            odds = _odds(right, n_records, n_rows, add(amount_of_lead, *amounts[1:]), gate)
            return Rule(None, int(chosen[0]) - n_splits, odds)
        labels, n = np.zeros(growth.n_open), candidates.n_candidates
        if level == depth - 1:
            # First splits whose child 0 is of the second class, then those whose child 0 is of the first, then one class.
            labels = np.where((chosen < n) | (chosen == 2 * n), 1.0, -1.0)
            chosen = np.where(chosen < 2 * n, chosen % n, -1)
        first, children = growth.first, growth.split(candidates, chosen)
        counter.descend(first, *children)
    odds = _odds(right, n_records, n_rows, amount_of_lead, gate)
    return Rule(_with_labels(growth.finish(counter.target), first, children[2], labels, odds), None, odds)


def labelled_scores(candidates: Candidates, offsets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The records ``(n_nodes, 2 n_candidates + 2)`` of each node that each split gets right, with either pair of labels.

    The last two columns are for no split, and the second or the first class for all.
    """
    valid, children = candidates.valid, children_of(counts, candidates, offsets)
    second, first = np.zeros((2, *valid.shape), dtype=np.int64)
    second[valid] = children[:, 0, 1] + children[:, 1, 0]
    first[valid] = children[:, 0, 0] + children[:, 1, 1]
    totals = counts[:, : offsets[1]].sum(axis=1)
    return np.concatenate([second, first, totals[:, ::-1]], axis=1)


def cut_scores(step: int, counts: np.ndarray) -> np.ndarray:
    """The records ``(n_cuts,)`` that each cut of a score gets right: from its bin on they are of the second class.

    ``counts`` ``(n_bins, 2)`` are records of each class by the lead of their own class; cuts are ``step`` bins apart.
    """
    above = np.cumsum(counts[::-1, 1])[::-1]
    below = np.cumsum(np.append(0, counts[:0:-1, 0]))
    return (above + below)[::step]


def _total(n_codes: int, counts: np.ndarray) -> np.ndarray:
    return counts[:, :n_codes].sum(axis=(1, 2))


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1)


def _one_row(values: np.ndarray) -> np.ndarray:
    return values[None]


def _right(chosen: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return scores[np.arange(len(chosen)), chosen].sum(keepdims=True)


def _odds(right: Sealed[np.ndarray], n_records: Sealed[np.ndarray], n_rows: float, amount: float, gate: Gate) -> float:
    """The log-odds of a rule by its lead, released for ``amount``, over the number of rows; the noisier, the smaller."""
    margin = Sealed.concatenate([right, n_records]).map(lambda values: 2 * values[:1] - values[1:])
    noisy, variance = gate.add_noise(margin, Sensitivity(1, 1), amount, Purpose("lead of the rule"))
    lead, spread = float(noisy[0]), math.sqrt(variance / 2)
    share = lead / (max(n_rows, abs(lead), 5 * spread) + 2 * spread) if lead else 0.0
    return 2 * math.atanh(min(max(share, LEAST_LEAD), MOST_LEAD))


def _with_labels(forest: Forest, first: int, children: np.ndarray, labels: np.ndarray, odds: float) -> Forest:
    """The tree with votes of ``odds`` for the label of each leaf; a label counts as one record, as in ``PrivateLabel``."""
    leads = np.zeros(forest.n_nodes)
    split = children >= 0
    leads[first : first + len(labels)][~split] = odds * labels[~split]
    leads[children[split]], leads[children[split] + 1] = odds * labels[split], -odds * labels[split]
    counts = np.stack([leads < 0, leads > 0], axis=1).astype(float)
    forest = replace(forest, counts=np.where(forest.is_leaf[:, None], counts, np.nan))
    return additive(replace(forest, variances=np.where(forest.is_leaf, 0.0, np.nan)), leads)


def additive(forest: Forest, leads: np.ndarray) -> Forest:
    """The forest with votes that add ``leads`` ``(n_nodes,)`` to the log-odds of the second of two classes."""
    shares = 1 / (1 + np.exp(np.stack([leads, -leads], axis=1)))
    forest = replace(forest.summed(), shares=shares)
    return replace(forest, votes=LogShares().votes(forest), link=LogShares.link)
