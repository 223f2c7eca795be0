"""A value of a part outside of its range is refused in a sentence, when the part is made."""

import math

import pytest

from dpforest.errors import ParameterError
from dpforest.growing.choosing import Medians
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.growing.target import Centres, TargetRange
from dpforest.parts.criteria import GiniCount, Mixture, SoftAgreement, SquaredError
from dpforest.parts.leaves import ResidualSums, Rotated
from dpforest.parts.postprocess import PruneBySignal
from dpforest.parts.proposals import Menu
from dpforest.parts.shape import NoisySize
from dpforest.recipes.papers.first_look import FirstLook

NO_SHARE = [0, 1, -0.1, math.nan]
# A part, the name of a value, some that are refused, and words of the sentence.
REFUSED = [
    (Centres, "share", NO_SHARE, "Centres need"),
    (Centres, "reach", [0, 1.1], "Centres need"),
    (Centres, "n_centres", [0, 1025], "Centres need"),
    (FirstLook, "share", NO_SHARE, "first look"),
    (Medians, "weight", [0, -1, 65, math.nan, math.inf], "balance"),
    (Menu, "n_features", [0, -1, -0.5, math.nan], "n_features must be positive"),
    (Mixture, "parts", [(), ((GiniCount(), 0),), ((GiniCount(), 0.5),)], "whole weights"),
    (Mixture, "parts", [((SquaredError(), 1), (SoftAgreement(), 1))], "all see the same"),
    (NoisySize, "least", [-1.0, math.nan], "min_size"),
    (PruneBySignal, "least", [-0.1, math.nan, math.inf], "least_snr"),
    (Rotated, "mass", [0.0, 0.04, 1.01, -1.0, math.nan], "mass"),
    (ResidualSums, "mass", [0.0, 0.04, 1.01, -1.0, math.nan], "mass"),
    (SequentialMeans, "rate", [0, -0.1, 1.01, math.inf, math.nan], "rate must lie in"),
    (TargetRange, "share", NO_SHARE, "target's range"),
]


@pytest.mark.parametrize(("part", "name", "values", "words"), REFUSED, ids=lambda given: getattr(given, "__name__", None))
def test_a_value_outside_of_its_range_is_refused(part, name, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=words):
            part(**{name: value})


@pytest.mark.parametrize("batches", [0, -1])
def test_there_is_at_least_one_batch(batches):
    with pytest.raises(ParameterError, match="at least one batch"):
        Sequential((Phase(1.0, 2),), batches)
