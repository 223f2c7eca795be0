"""The loop over levels that grows trees at once, and the usual order of trees. Sees sealed counts, by protocol; no rows."""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from dpforest.common.work import Step
from dpforest.forest.tree import Forest
from dpforest.growing.choosing import Joint, Level, choose
from dpforest.parts.allocation import TreeBudget
from dpforest.parts.postprocess import plain_shares
from dpforest.parts.recipe import Job, Recipe, Stages
from dpforest.parts.routes import Candidates, Routes
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, Purpose
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema import Target
from dpforest.schema.domain import Domain

# Public caps. Multiway splits multiply nodes; those that would pass a cap stay leaves. What the open nodes can hold is a
# byte for each code.
MOST_NODES, MOST_REACH = 1 << 19, 1 << 30


class Growth:
    """The nodes of all trees so far; the open ones are ``first`` .. ``first + n_open - 1``.

    ``reach`` ``(n_open, total_codes)`` says whether a record with that code can come to an open node: public, since it
    follows from the schema and released splits. ``reached`` ``(n_open,)`` is the share of all rows that a node would hold if
    every split divided its rows evenly among the listed values; a child for "other" or "missing" alone would hold none.
    """

    def __init__(self, domain: Domain, n_trees: int) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.first = 0
        self._reach = np.ones((n_trees, domain.total_codes), dtype=bool)
        self._reached = np.ones(n_trees)
        self._unseen: tuple[np.ndarray, ...] | None = None  # the last split, if what its children can hold was not asked yet
        self._trees = [np.arange(n_trees)]
        self._parents = [np.full(n_trees, -1)]
        self._first_children: list[np.ndarray] = []
        self._features: list[np.ndarray] = []
        self._routes: list[np.ndarray] = []

    @property
    def open_trees(self) -> np.ndarray:
        """The tree ``(n_open,)`` of each open node."""
        return self._trees[-1]

    @property
    def n_open(self) -> int:
        return len(self.open_trees)

    @property
    def reach(self) -> np.ndarray:
        """Whether a record with a code can come to an open node, ``(n_open, total_codes)``."""
        self._look()
        return self._reach

    @property
    def reached(self) -> np.ndarray:
        """The share of all rows ``(n_open,)`` that a node would hold if every split divided its rows evenly."""
        self._look()
        return self._reached

    def _look(self) -> None:
        """Find what open nodes can hold. Not before somebody asks: of the last level, which may be large, nobody does."""
        if self._unseen is None:
            return
        (features, routes, runs, n_children, parents), self._unseen = self._unseen, None
        reach, listed = self._reach[parents], np.zeros(len(parents), dtype=bool)
        _narrow(self.domain.offsets, self.domain.n_values, features, routes, runs, n_children, reach, listed)
        n_listed = np.bincount(parents, listed, minlength=len(features))
        self._reached = np.where(listed, self._reached[parents] / np.maximum(n_listed[parents], 1), 0.0)
        self._reach = reach

    def split(self, candidates: Candidates, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split the open nodes by their chosen candidates; afterwards their children are the open nodes.

        Returns, for the nodes that were open, the feature ``(n_open,)`` (-1 for a leaf), the route ``(n_open, route_width)``
        and the first child ``(n_open,)``.
        """
        n_open, n_children = self.n_open, np.zeros(self.n_open, dtype=np.int64)
        given = np.where(chosen >= 0, candidates.indices[np.arange(n_open), chosen], -1)
        features = np.where(given >= 0, candidates.routes.features[given], -1)
        own_routes = candidates.routes.entries(self.domain, given)
        most = min(MOST_NODES - self.first - n_open, MOST_REACH // self.domain.total_codes)
        runs = self.domain.runs(features, own_routes)
        _renumber(self.reach, self.domain.offsets, most, features, own_routes, runs, n_children)
        is_split = features >= 0
        first_children = np.where(is_split, self.first + n_open + np.cumsum(n_children) - n_children, -1)
        self._first_children.append(first_children)
        self._features.append(features)
        self._routes.append(own_routes[is_split])

        parents = np.repeat(np.arange(n_open), n_children)
        self._unseen = (features, own_routes, runs, n_children, parents)
        self._trees.append(self._trees[-1][parents])
        self._parents.append(self.first + parents)
        self.first += n_open
        return features, own_routes, first_children

    def finish(self, target: Target) -> Forest:
        """The forest, with the open nodes as leaves and without any counts yet."""
        none = np.full(self.n_open, -1)
        features = np.concatenate([*self._features, none])
        inner = features >= 0
        routes = np.concatenate([np.empty((0, self.domain.route_width), dtype=np.uint16), *self._routes])
        n_nodes = len(features)
        return Forest(
            domain=self.domain,
            target=target,
            trees=np.concatenate(self._trees),
            parents=np.concatenate(self._parents),
            levels=np.repeat(np.arange(len(self._trees)), [len(part) for part in self._trees]),
            first_children=np.concatenate([*self._first_children, none]),
            features=features,
            splits=np.where(inner, np.cumsum(inner) - 1, -1),
            routes=routes,
            counts=np.full((n_nodes, target.n_values), np.nan),
            variances=np.full(n_nodes, np.nan),
        )


@njit(cache=True, nogil=True)
def _renumber(reach, offsets, most, features, routes, runs, n_children):
    """Renumber the children in ``routes`` so that some code can reach each, and write how many there are.

    A run of a wide feature divides its node, or it would not have been offered, so both its children are reached.
    Nodes whose children would be more than ``most`` in all stay leaves: they have no feature any more.
    """
    used = np.empty(routes.shape[1], dtype=np.bool_)
    number = np.empty(routes.shape[1], dtype=np.uint16)
    n_before = 0
    for node in range(features.size):
        feature = features[node]
        if feature < 0:
            continue
        offset, is_run = offsets[feature], runs.size > 0 and runs[node, 0] >= 0
        used[:] = False
        if is_run:
            used[:2] = True
        else:
            for code in range(offsets[feature + 1] - offset):
                used[routes[node, code]] |= reach[node, offset + code]
        n_used = 0
        for child in range(used.size):
            number[child] = max(n_used + used[child] - 1, 0)
            n_used += used[child]
        n_before += n_used
        if n_before <= most:
            n_children[node] = n_used
            if not is_run:
                for code in range(routes.shape[1]):
                    routes[node, code] = number[routes[node, code]]
        else:
            features[node] = -1
            routes[node] = 0


@njit(cache=True, nogil=True)
def _narrow(offsets, n_values, features, routes, runs, n_children, reach, listed):
    """Leave to each child (a row of ``reach``) only the codes of its parent's feature that are routed to it.

    ``listed`` says whether a value that the schema lists is among them.
    """
    row = 0
    for node in range(features.size):
        for child in range(n_children[node]):
            offset, is_run = offsets[features[node]], runs.size > 0 and runs[node, 0] >= 0
            for code in range(offsets[features[node] + 1] - offset):
                if is_run:
                    reach[row, offset + code] &= (runs[node, 0] <= code < runs[node, 1]) == (child == 0)
                else:
                    reach[row, offset + code] &= routes[node, code] == child
                listed[row] |= reach[row, offset + code] and code < n_values[features[node]]
            row += 1


def grow(job: Job, budget: TreeBudget, feature_order: np.ndarray | None = None) -> Forest:
    """The forest of the recipe's number of trees, of at most ``budget.depth`` levels of splits, with released leaves.

    ``feature_order`` ``(n_trees, depth)`` fixes the feature that each level of each tree splits on.

    Privacy:
        Claim: one tree costs at most the sum of its budget.
        Because: given the released splits above, the node of a record is a function of that record alone, so an added
            record changes the counts of one node of a level: all choices of a level cost its amount once
            (parallel composition), and levels and leaves add up (adaptive sequential composition). A node that
            offers one candidate or none asks nothing. Stopping rules read released values. A node that stops early is a
            leaf; a record is in one leaf only, so its counts may have the whole amount of the leaves.
        Assumes: add/remove neighbours; how trees add up is proved in ``parts.sampling``.
    """
    counter, recipe, gate, rng = job.counter, job.recipe, job.gate, job.gate.entropy.generator()
    growth, fixed = Growth(counter.domain, recipe.n_trees), recipe.propose.fixed(counter.domain)
    inner: list[tuple[np.ndarray, np.ndarray, float]] = []
    # Amounts of levels that had nothing to ask. Which those are follows from released values, so the leaves may have them.
    unspent: list[float] = []
    for level in range(budget.depth):
        counts, variance = None, 0.0
        if budget.counts[level] > 0:
            statistics, purpose = counter.count_nodes(growth.first, growth.n_open), Purpose(COUNTS, level=level)
            counts, variance = recipe.leaf.release(
                statistics, budget.counts[level], gate, counter.target, purpose, counter.most_per_node
            )
            inner.append((np.arange(growth.first, growth.first + growth.n_open), counts, variance))
        candidates = _offered(recipe, growth, fixed, None if feature_order is None else feature_order[:, level], rng)
        if recipe.stop is not None:
            candidates.valid[~recipe.stop.may_split(counts, variance, growth.reached, job.facts)] = False
        candidates, chosen, rest = _chosen(job, growth, candidates, level, budget.splits[level])
        unspent.append(rest)
        first = growth.first
        counter.descend(first, *growth.split(candidates, chosen))
        job.progress(Step(f"level {level + 1} of {budget.depth}", level + 1, budget.depth))
        if not growth.n_open:
            unspent += [*budget.splits[level + 1 :], *budget.counts[level + 1 : -1]]
            break
    forest = growth.finish(counter.target)
    for nodes, counts, variance in inner:
        forest = forest.with_counts(nodes, counts, variance)
    forest = _with_leaves(forest, job, add(budget.leaves, *unspent))
    job.progress("leaves")
    return forest


def _offered(
    recipe: Recipe, growth: Growth, fixed: Routes | None, features: np.ndarray | None, rng: np.random.Generator
) -> Candidates:
    """The candidates of each open node; ``features`` ``(n_trees,)`` leaves each tree one feature to split on."""
    if features is None:
        return recipe.propose.propose(growth.domain, fixed, growth.reach, rng)
    allowed = features[growth.open_trees, None] == np.arange(growth.domain.n_features)
    fixed = None if fixed is None else fixed.of_features(features)
    return recipe.propose.propose(growth.domain, fixed, growth.reach, rng, allowed)


def _chosen(
    job: Job, growth: Growth, candidates: Candidates, level: int, amount: float
) -> tuple[Candidates, np.ndarray, float]:
    """The remaining candidates, the released choice among them, and the unspent part of ``amount``.

    The choice ``(n_open,)`` is the index of a candidate of each open node, or -1 for a node that becomes a leaf.
    """
    counter, recipe, gate = job.counter, job.recipe, job.gate
    purpose, n_before = Purpose(SPLITS, level=level), gate.ledger.n_charges
    if recipe.centres is not None and (candidates.valid.sum(axis=1) > 1).any():
        share, amount = divide(amount, [recipe.centres.share, 1 - recipe.centres.share])
        recipe.centres.release(counter, growth.first, growth.n_open, share, gate, purpose)
    if recipe.narrow is not None:
        share, rest = divide(amount, [recipe.narrow.share, 1 - recipe.narrow.share])
        candidates = recipe.narrow.narrow(candidates, counter, growth.first, share, gate, purpose)
        amount = rest if gate.ledger.n_charges > n_before else amount
    n_before, distinct = gate.ledger.n_charges, recipe.distinct_roots and level == 0
    parts = (counter, growth.first, gate, purpose, recipe.criterion, recipe.select, distinct)
    chosen = choose(recipe.choose or Joint(), Level(candidates, *parts), amount)
    return candidates, chosen, amount if gate.ledger.n_charges == n_before else 0.0


def _with_leaves(forest: Forest, job: Job, amount: float) -> Forest:
    """The forest with the counts that its leaves release for ``amount``, and the factors of the noise in them."""
    counter, recipe = job.counter, job.recipe
    if (noise := recipe.leaf.noise(counter.target)) is not None:
        forest = replace(forest, noise=np.tile(noise, (recipe.n_trees, 1)))
    leaves = np.flatnonzero(forest.is_leaf)
    if recipe.leaf.residuals:
        sums, most = counter.sum_residuals(0, forest.n_nodes), MOST_WEIGHT
    else:
        sums, most = counter.count_nodes(0, forest.n_nodes), counter.most_per_node
    statistics = sums.map(lambda sums: sums[leaves])
    counts, variance = recipe.leaf.release(statistics, amount, job.gate, counter.target, Purpose(LEAVES), most)
    return forest.with_counts(leaves, counts, variance)


@dataclass(frozen=True)
class Together(Stages):
    """All trees grow at once, level by level, on the records that the sampling assigns to them.

    Privacy:
        Claim: costs at most ``amount``.
        Because: a tree costs at most its budget (``grow``), trees add up as their sampling proves, and the share of a tree
            is chosen so that all of them together cost at most ``amount``.
        Assumes: the number of trees is public or follows from released values.
    """

    def train(self, job: Job, amount: float, feature_order: np.ndarray | None = None) -> Forest:
        recipe, gate = job.recipe, job.gate
        sample, n_trees = recipe.sample, recipe.n_trees
        job.counter.deal(sample.assignment(n_trees), gate.entropy)
        budget = recipe.allocate.plan(sample.amount_per_tree(gate.ledger.accountant, amount, n_trees), recipe.depth)
        with sample.scopes(gate.ledger, n_trees):
            forest = grow(job, budget, feature_order)
        return refined(forest, recipe)


def refined(forest: Forest, recipe: Recipe) -> Forest:
    """The forest after the recipe's post-processing, with its votes; a function of released values."""
    forest = forest.summed()
    if not any(getattr(step, "gives_shares", False) for step in recipe.refine[:1]):
        forest = plain_shares(forest)
    for step in recipe.refine:
        forest = step.refine(forest)
    return replace(forest, votes=recipe.vote.votes(forest), link=recipe.vote.link, draws=recipe.vote.draws)
