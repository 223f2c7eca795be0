"""Two features of two bins each, and the parts of a small recipe whose trees follow each other."""

from dataclasses import dataclass

import numpy as np
from tests.support.targets import NUMBER, classes

from dpforest import Numeric, Schema
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import MaxOperator
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.proposals import Menu
from dpforest.parts.routes import Routes
from dpforest.parts.voting import LogShares
from dpforest.schema.grid import Grid


@dataclass(frozen=True)
class OneCutEach:
    """A candidate for each numeric feature: its first cut."""

    def fixed(self, domain):
        return Routes.of_runs(domain, *np.array([(feature, 0, 1, 2) for feature in range(domain.n_features)]).T)

    def drawn(self, domain, n_nodes, rng):
        return None


TINY = {"x": Numeric(0, 2), "z": Numeric(0, 2)}
TINY_TWO, TINY_THREE, TINY_NUMBER = (Schema(TINY, target) for target in (classes(2), classes(3), NUMBER))
# Votes so loud that the second tree finds records it must trust fully and records it may forget.
ADDITIVE = {
    "criterion": MaxOperator(), "stages": Sequential((Phase(1.0, 2),)), "leaf": NoisyCounts(), "refine": (EvenShrinkage(),),
    "vote": LogShares(60.0), "allocate": Uniform(split_share=0.65), "propose": Menu((OneCutEach(),)), "grid": Grid(2),
    "n_trees": 2, "depth": 1,
}  # fmt: skip
