"""SuLQ-ID3: one ID3 tree grown from noisy counts, after Blum, Dwork, McSherry and Nissim (2005) [blum2005].

Paper: at each node Q1, the class counts of each value of each of m attributes, and Q2, the sizes of the values, with
noise Lap(1/epsilon_Q) at epsilon_Q = B/(2dm); the information gain of the noisy counts picks the attribute (eqs. 4.1 and
4.2); leaves get noisy class counts with what is left (eq. 4.3) [suihkonen2023, §4.1]. Sound: a layer costs B/d, once for
all its nodes, and d-1 of them leave B/d for the leaves (docs/review.md, §2.20). No depth is given: here that of DiffPID3.
Kept: one tree of d = depth + 1 layers; Q1; the gain of noisy counts; a child for each value; B/d for each layer and the
leaves; no stop but depth and attributes that are used up.
Departs: a size is the sum of the counts that Q1 releases, so Q2 is not asked and Q1 has its share; m counts the
attributes that a node can still use, and a layer with one of them asks nothing and leaves its share to the leaves;
geometric noise, and counts below 0 count as 0; numeric features by five public bins; values that are missing or not
listed have children of their own.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from dpforest import parts
from dpforest.errors import ParameterError
from dpforest.growing.choosing import Level, score
from dpforest.privacy.bounds import Sensitivity
from dpforest.schema import Classes
from dpforest.schema.grid import Grid

# Criteria take counts from 0 to here.
MOST_COUNT = 1 << 40


@dataclass(frozen=True)
class NoisyGain(parts.Choose):
    """A choice of the candidate whose noisy counts score best: SuLQ [suihkonen2023, eq. 4.1 and 4.2].

    The class counts of every value of every feature that a node may use are released. A value's size is the sum of its
    counts, so it needs no query of its own. Counts below 0 count as 0.

    Privacy:
        Claim: the choices of a level cost ``amount`` once.
        Because: an added record raises one count of each feature that its node may use, so with m of those at most
            L1 moves by at most m times ``most_per_feature`` and L2**2 by m times its square. Scores follow from released
            counts. Nodes are released in blocks, each at ``amount``: a record is in one node of a tree, hence in
            one block of it, and blocks compose in parallel.
        Assumes: nodes of a tree hold different records; the features that a node may use are public.
    """

    targets = (Classes,)

    def check(self, recipe: parts.Recipe) -> None:
        """Raise for a recipe with distinct roots, or whose records add to more than one count of a feature."""
        if recipe.distinct_roots:
            raise ParameterError(f"NoisyGain of recipe {recipe.name!r} cannot keep the features of roots apart.")
        if recipe.criterion.sees != "target":
            raise ParameterError(f"NoisyGain of recipe {recipe.name!r} needs a criterion that sees class counts.")

    def choose(self, level: Level, amount: float) -> np.ndarray:
        counter, gate, domain = level.counter, level.gate, level.counter.domain
        wanted, weight = level.candidates.wanted(domain.n_features), counter.most_per_feature
        most = int(wanted.sum(axis=1).max())
        sensitivity = Sensitivity(most * weight, most * weight**2)
        lowest, chosen = np.iinfo(np.int64).min, []
        with gate.ledger.scope(level.purpose, "parallel") if level.nodes_at_once < len(wanted) else nullcontext():
            for block, counts in level.blocks():
                noisy, _ = gate.add_noise(counts, sensitivity, amount, replace(level.purpose, step="noisy counts"))
                counted = np.clip(noisy, 0, MOST_COUNT)
                scores = score(level.criterion, domain.offsets, counter.target, block, counted)
                best = np.where(block.valid, scores, lowest).argmax(axis=1)
                chosen.append(np.where(block.valid.any(axis=1), best, -1))
        return np.concatenate(chosen)


RECIPE = parts.Recipe(
    name="blum-2005",
    title="SuLQ-ID3: one multiway ID3 tree from noisy counts",
    paper="Blum, Dwork, McSherry and Nissim, PODS 2005",
    sample=parts.EveryRecord(),
    grid=Grid(bins=5),
    propose=parts.Menu((parts.OneChildPerValue(),)),
    criterion=parts.EntropyCount(),
    choose=NoisyGain(),
    allocate=parts.Uniform(),
    leaf=parts.NoisyCounts(),
    refine=(parts.NonNegative(),),
    vote=parts.Majority(),
    depth=4,
    has_published_variant=True,
    claim="holds",
)
