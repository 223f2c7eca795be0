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

from dpforest.growing.noisy_gain import NoisyGain
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import EntropyCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import NonNegative
from dpforest.parts.proposals import Menu, OneChildPerValue
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.parts.voting import Majority
from dpforest.schema.grid import Grid

RECIPE = Recipe(
    name="blum-2005",
    title="SuLQ-ID3: one multiway ID3 tree from noisy counts",
    paper="Blum, Dwork, McSherry and Nissim, PODS 2005",
    sample=EveryRecord(),
    grid=Grid(bins=5),
    propose=Menu((OneChildPerValue(),)),
    criterion=EntropyCount(),
    choose=NoisyGain(),
    allocate=Uniform(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    depth=4,
    has_published_variant=True,
    claim="holds",
)
