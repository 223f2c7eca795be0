"""A relaxed forest made private, after Rana, Gupta and Venkatesh (2015).

Paper: trees for two classes on bootstraps, each with the whole epsilon, which protects variances and not records: eqs. 4.35
and 4.36 of the thesis bound the number of trees for which it does. Information gain chooses; a numeric feature that is
chosen is cut half-way between the noisy means of its classes (eq. 4.7). There is no depth: a node is not split if a child
would hold fewer records than a least leaf size, a small fraction of all.
Kept: bootstrap, information gain, cuts between noisy class means; the least leaf size, as a share ``least_leaf`` of the
records (1 %; the thesis gives no value). Readings, where the thesis is silent: noisy
class counts in leaves, majority vote, and 4 features for a node, about the root of the 15 of the paper's credit table, for
eq. 4.35 counts a feature in one of sqrt(M) trees.
Departs: the budget is shared among trees, and the bounds say nothing about it (5 trees); a record comes k ~ Poisson(1)
times, so a tree has ln(1 + B/T). Class means are ratios of noisy two-bin sums, on a public grid; their middle is taken over
all classes with a sum above 0; and every numeric feature that a node may use offers its cut before one is chosen, for half
of the level's budget (``threshold_share``). Splits are undone by the released counts of their children, after all leaves are
counted: how many records a child would hold is not known before, and the counts of leaves have less noise than the sums
behind class means. So depth bounds the trees too (4). For shares counts below 0 are taken as 0, and a leaf with none above 0
says what its parent says (docs/review.md, §1, §2.9, §2.11).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest import parts
from dpforest.errors import ParameterError
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import Counter
from dpforest.schema import Classes
from dpforest.schema.domain import Domain

STEPS = 1024  # a bin's position between the bounds is a whole number from 0 to this


@dataclass(frozen=True)
class ClassMeans(parts.Narrow):
    """Leaves each numeric feature the one cut that is nearest to the middle of its class means [suihkonen2023, eq. 4.7].

    The middle is the mean of the means of all classes whose released sums are above 0.

    Privacy:
        Claim: what a level offers costs ``amount`` once.
        Because: for each feature that a node may use a record adds s to one sum and STEPS - s to another (its bin's
            position, as seen from both ends, in the sums of its class) of one node, so L1 moves by at most STEPS for
            a feature and L2**2 by at most STEPS**2; features add up. Means are ratios of released sums.
        Assumes: nodes hold different records; bins are public.
    """

    share: float = 0.5  # of a level's amount
    targets = (Classes,)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ParameterError(f"threshold_share must lie in (0, 1), not {self.share!r}.")

    def narrow(
        self, candidates: parts.Candidates, counter: Counter, first: int, amount: float, gate: Gate, purpose: Purpose
    ) -> parts.Candidates:
        """The candidates with one cut left for each numeric feature that a node may use."""
        domain = counter.domain
        wanted = candidates.wanted(domain.n_features) & domain.is_numeric
        n_drawn = int(wanted.sum(axis=1).max(initial=0))
        if n_drawn == 0:
            return candidates
        sums = counter.count_codes(first, wanted).map(partial(_end_sums, domain))
        sensitivity = Sensitivity(n_drawn * STEPS, n_drawn * STEPS**2)
        released, _ = gate.add_noise(sums, sensitivity, amount, replace(purpose, step="class means"))
        low, high = np.maximum(released[..., 0], 0), np.maximum(released[..., 1], 0)
        # A class of which nothing is seen has no mean that could draw the middle to an end of the range.
        held = low + high
        means = high / np.maximum(held, 1)
        middle = means.sum(axis=2) / np.maximum((held > 0).sum(axis=2), 1) * (domain.n_codes - 2)  # in bins
        features = candidates.features
        stops = candidates.routes.stops[candidates.indices]
        is_cut = domain.is_numeric[features] & (candidates.routes.starts[candidates.indices] == 0)
        nodes = np.arange(len(features))
        distance = np.where(candidates.valid & is_cut, np.abs(stops - middle[nodes[:, None], features] - 0.5), np.inf)
        valid = candidates.valid & ~domain.is_numeric[features]
        for feature in np.flatnonzero(domain.is_numeric):
            own = np.where(features == feature, distance, np.inf)
            nearest = own.argmin(axis=1)  # the first of those that are equally near
            valid[nodes, nearest] |= np.isfinite(own[nodes, nearest])
        return parts.Candidates(candidates.routes, candidates.indices, valid)


def _end_sums(domain: Domain, counts: np.ndarray) -> np.ndarray:
    """Sums ``(n_nodes, n_features, n_classes, 2)`` of distances of bins from both bounds; missing ones left out."""
    sums = np.zeros((len(counts), domain.n_features, counts.shape[2], 2), dtype=np.int64)
    for feature in np.flatnonzero(domain.is_numeric):
        offset, n_bins = domain.offsets[feature], domain.n_codes[feature] - 1
        position = np.arange(n_bins) * STEPS // max(n_bins - 1, 1)
        cells = counts[:, offset : offset + n_bins]
        sums[:, feature, :, 0] = np.einsum("nbc,b->nc", cells, STEPS - position)
        sums[:, feature, :, 1] = np.einsum("nbc,b->nc", cells, position)
    return sums


RECIPE = parts.Recipe(
    name="rana-2015",
    title="Class-mean thresholds, information gain",
    paper="Rana, Gupta and Venkatesh, ICDM 2015",
    sample=parts.PoissonBootstrap(),
    propose=parts.Menu(n_features=4),
    narrow=ClassMeans(),
    criterion=parts.EntropyCount(),
    allocate=parts.Uniform(),
    leaf=parts.NoisyCounts(),
    refine=(parts.LeastLeaf(), parts.NonNegative()),
    vote=parts.Majority(),
    n_trees=5,
    depth=4,
    parameters={"k": "propose.n_features", "threshold_share": "narrow.share", "least_leaf": "refine.0.share"},
    claim="not differential privacy by design: losses of trees are not added up",
)
