"""Parts of recipes: each is one idea of a paper, with its claim and proof. Sees public and sealed values."""

# ruff: noqa: F401, I001 - so that a recipe has all of them by one import, as in ``parts.Menu()``
from dpforest.parts.allocation import Arithmetic, EveryQuery, Geometric, Harmonic, LeavesOnly, Linear, Uniform, Weighted
from dpforest.parts.criteria import Balance, Criterion, EntropyCount, GiniCount, MaxOperator, Mixture, ResidualGain
from dpforest.parts.criteria import SoftAgreement, SquaredError, WeightedMajority
from dpforest.parts.leaves import LeafRelease, NoisyCounts, NoisyMargin, PrivateLabel, ResidualSums, Rotated, TwoBinMean
from dpforest.parts.postprocess import Consistency, EvenShrinkage, LeastLeaf, NonNegative, Prune, PruneByGini, PruneBySignal
from dpforest.parts.postprocess import Shrinkage
from dpforest.parts.proposals import AllSubsets, Intervals, Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.parts.recipe import ByTarget, Choose, Job, Narrow, Recipe, Stages
from dpforest.parts.routes import Candidates
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap, SecretSample
from dpforest.parts.shape import AboveNoise, AllFeatures, EstimatedSupport, Facts, FilledLeaves, HalfTheFeatures
from dpforest.parts.shape import HalfUntested, LogRows, NoisySize, SupportedTrees
from dpforest.parts.voting import ConfidenceWeighted, LogShares, Majority, MeanOfShares, MostConfidentNode, PooledMargins
from dpforest.parts.voting import ProbabilisticAverage
