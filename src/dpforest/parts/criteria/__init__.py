"""Criteria: integer scores of candidate splits with proved bounds, one in each file. Sees sealed counts."""

from dpforest.parts.criteria.balance import Balance
from dpforest.parts.criteria.base import Criterion, children_in_blocks, children_of
from dpforest.parts.criteria.entropy import EntropyCount
from dpforest.parts.criteria.gini import GiniCount
from dpforest.parts.criteria.majority import MaxOperator
from dpforest.parts.criteria.mixture import Mixture
from dpforest.parts.criteria.residual_gain import ResidualGain
from dpforest.parts.criteria.soft_agreement import SoftAgreement
from dpforest.parts.criteria.squared_error import SquaredError
from dpforest.parts.criteria.weighted_majority import WeightedMajority

__all__ = [
    "Balance", "Criterion", "EntropyCount", "GiniCount", "MaxOperator", "Mixture", "ResidualGain", "SoftAgreement",
    "SquaredError", "WeightedMajority", "children_in_blocks", "children_of",
]  # fmt: skip
