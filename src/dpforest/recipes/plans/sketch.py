"""What all plans of the default recipe have in common. Sees public facts and a released number of rows."""

from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import Shrinkage
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.parts.secret_sample import SecretSample
from dpforest.parts.shape import Facts
from dpforest.parts.voting import MeanOfShares
from dpforest.schema.grid import Grid

# rows * epsilon beyond this changes nothing; also stands for an infinite epsilon.
MOST_SIGNAL = 2.0**40
SPARSE_GRID = 5_000.0  # rows * epsilon without delta, below which small scales have fewer cuts

SKETCH = Recipe(
    name="auto",
    title="Few shallow trees in sequence, or one tree; planned from rows * epsilon",
    paper="the library's own",
    sample=EveryRecord(),
    propose=Menu(),
    criterion=GiniCount(),
    allocate=Uniform(split_share=0.65),
    leaf=NoisyCounts(),
    refine=(Shrinkage(strength=2.0),),
    vote=MeanOfShares(),
    secret_sample=SecretSample(),
    tasks=("classification", "regression"),
    claim="proved",
)


def rows_epsilon(facts: Facts) -> float:
    """Rows times epsilon, at most MOST_SIGNAL; 0 for a released number of rows that is not above 0."""
    return min(facts.n_rows * facts.epsilon, MOST_SIGNAL) if facts.n_rows > 0 else 0.0


def public_cuts(bins: int, facts: Facts) -> Grid:
    """The public cuts of numbers, of any scale; fewer where a private choice could not tell many of them apart."""
    return Grid(bins=bins, scales=True, sparse=facts.delta == 0 and rows_epsilon(facts) < SPARSE_GRID)
