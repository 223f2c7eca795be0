"""A small tree whose leaves carry labels, in competition with cuts of a score. Sees sealed counts.

A choice among rules that carry their labels needs no leaves: the rule that is released says it all. So the budget of leaves
is free for something else.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.growing.grower import Growth
from dpforest.parts.proposals import Menu
from dpforest.parts.routes import Candidates, children_of
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.events import SPLITS, Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import AllTrees, Counter

# A rule that is right for a share (1 + r) / 2 of the records has log-odds by r, its lead, which is kept within these ends.
LEAST_LEAD, MOST_LEAD = 0.1, 0.95
# What is assumed of leads before one is released, mean and standard deviation, so that a noisy one does not hide what most
# rules are worth: with a mean of 0, probabilities at small budgets would be too near to one half.
USUAL_LEAD, SPREAD_OF_LEADS = 0.4, 0.3


@dataclass(frozen=True)
class LabelledRule:
    """The chosen labelled tree or cut, and the log-odds by its released lead."""

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
) -> LabelledRule:
    """The rule that gets most records of two classes right: a tree of ``depth`` levels of splits, or one of some cuts.

    ``cut_scores`` ``(n_cuts,)`` are the sealed numbers of records that each cut gets right; None if there are no cuts.

    Privacy:
        Claim: costs at most ``amount`` and ``amount_of_lead`` together.
        Because: the score of a rule is the number of records that it gets right, which an added record raises by 0 or 1:
            monotone, of width 1, and so is the number of those of the majority of their child, by which all levels but the
            last choose splits. Nodes of a level hold different records, so its choices cost its share once; levels add up.
            The lead of the chosen rule, records right less records wrong, moves by at most 1. Levels not grown leave
            it their share.
        Assumes: records count once; the cuts are of a score that was released.
    """
    counter.deal(AllTrees(1), gate.entropy)
    domain, growth, menu = counter.domain, Growth(counter.domain, 1), Menu()
    fixed, rng, amounts = menu.fixed(domain), gate.entropy.generator(), divide(amount, [1] * depth)
    right, leads = [], [np.zeros(1)]  # of nodes that have a label: records that are right; of all nodes: the label or 0
    for level, own in enumerate(amounts):
        candidates, n_open = menu.propose(domain, fixed, growth.reach, rng), growth.n_open
        wanted = candidates.wanted(domain.n_features)
        wanted[:, 0] = True  # by which all records of a node are counted
        counts = counter.count_codes(growth.first, wanted)
        is_last, valid = level == depth - 1, candidates.valid
        scores = counts.map(partial(labelled_scores, candidates, domain.offsets, is_last))
        valid = np.concatenate([*[valid] * (2 if is_last else 1), np.ones((n_open, 2), dtype=bool)], axis=1)
        n_rules = valid.shape[1]
        if level == 0:
            n_records = counts.map(lambda counts: counts[:, : domain.offsets[1]].sum(axis=(1, 2)))
        if level == 0 and cut_scores is not None:
            scores = Sealed.concatenate([scores.map(lambda own: own[0]), cut_scores]).map(lambda joined: joined[None])
            valid = np.concatenate([valid, np.ones((1, n_cuts), dtype=bool)], axis=1)
        chosen = gate.select(scores, valid, Bound(0, 1), own, Purpose(SPLITS, "labelled", level=level))
        is_split, has_label = chosen < n_rules - 2, (chosen >= n_rules - 2) | is_last
        right.append(scores.map(partial(_right, chosen, has_label)))
        if level == 0 and chosen[0] >= n_rules:
            odds = _odds(right, n_records, n_rows, add(amount_of_lead, *amounts[1:]), gate)
            return LabelledRule(None, int(chosen[0]) - n_rules, odds)
        # First splits (of the last level those whose child 0 is of the second class, then of the first), then one class.
        n = candidates.n_candidates
        label = np.where((chosen == n_rules - 2) | (is_split & (chosen < n)), 1.0, -1.0) * has_label
        leads[-1] = np.where(is_split, 0.0, label)
        children = growth.split(candidates, np.where(is_split, chosen % n, -1))
        counter.descend(growth.first - n_open, *children)
        leads.append((label[is_split][:, None] * np.array([1.0, -1.0])).reshape(-1))
        if not growth.n_open:
            amount_of_lead = add(amount_of_lead, *amounts[level + 1 :])
            break
    odds = _odds(right, n_records, n_rows, amount_of_lead, gate)
    return LabelledRule(_with_labels(growth.finish(counter.target), odds * np.concatenate(leads)), None, odds)


def labelled_scores(candidates: Candidates, offsets: np.ndarray, is_last: bool, counts: np.ndarray) -> np.ndarray:
    """The records of each node that each split gets right, ``(n_nodes, 2 n_candidates + 2)`` with either pair of labels.

    If the level is not the last, a split has no labels yet and counts by the majority of its children: ``(n_nodes,
    n_candidates + 2)``. The last two columns are for no split, and the second or the first class for all.
    """
    valid, children = candidates.valid, children_of(counts, candidates, offsets)
    second, first = np.zeros((2, *valid.shape), dtype=np.int64)
    if is_last:
        second[valid] = children[:, 0, 1] + children[:, 1, 0]
        first[valid] = children[:, 0, 0] + children[:, 1, 1]
    else:
        second[valid] = children.max(axis=2).sum(axis=1)
    totals = counts[:, : offsets[1]].sum(axis=1)
    return np.concatenate([second, first, totals[:, ::-1]] if is_last else [second, totals[:, ::-1]], axis=1)


def cut_scores(step: int, counts: np.ndarray) -> np.ndarray:
    """The records ``(n_cuts,)`` that each cut of a score gets right: from its bin on they are of the second class.

    ``counts`` ``(n_bins, 2)`` are records of each class by the lead of their own class; cuts are ``step`` bins apart.
    """
    above = np.cumsum(counts[::-1, 1])[::-1]
    below = np.cumsum(np.append(0, counts[:0:-1, 0]))
    return (above + below)[::step]


def _right(chosen: np.ndarray, has_label: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return scores[np.arange(len(chosen)), chosen][has_label].sum(keepdims=True)


def _odds(right: list[Sealed[np.ndarray]], n_records: Sealed[np.ndarray], n_rows: float, amount: float, gate: Gate) -> float:
    """The released log-odds of a rule by its lead, shrunk to a usual rule's as far as it is noisy."""
    margin = Sealed.concatenate([*right, n_records]).map(lambda values: 2 * values[:-1].sum(keepdims=True) - values[-1:])
    noisy, variance = gate.add_noise(margin, Sensitivity(1, 1), amount, Purpose("lead of the rule"))
    n_rows = max(n_rows, 1.0)
    trust = SPREAD_OF_LEADS**2 / (SPREAD_OF_LEADS**2 + variance / n_rows**2)
    lead = trust * float(noisy[0]) / n_rows + (1 - trust) * USUAL_LEAD
    return 2 * math.atanh(min(max(lead, LEAST_LEAD), MOST_LEAD))


def _with_labels(forest: Forest, leads: np.ndarray) -> Forest:
    """The tree with these log-odds ``(n_nodes,)`` as votes; a label counts as one record, as in ``PrivateLabel``."""
    leaves = np.flatnonzero(forest.is_leaf)
    counts = np.stack([leads < 0, leads > 0], axis=1)[leaves]
    return additive(forest.with_counts(leaves, counts, 0.0), np.stack([-leads, leads], axis=1) / 2)


def additive(forest: Forest, scores: np.ndarray) -> Forest:
    """The forest with votes that add ``scores`` ``(n_nodes, n_classes)`` to the log-odds of the classes."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    return replace(forest.summed(), shares=shares, votes=LogShares().of_shares(shares), link=LogShares.link)
