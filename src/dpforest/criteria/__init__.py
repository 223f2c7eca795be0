"""Criteria: counts of children in, integer scores with a bound out. One criterion per file."""

from dpforest.criteria.balance import Balance
from dpforest.criteria.base import Criterion, children_of
from dpforest.criteria.entropy import EntropyCount
from dpforest.criteria.gini import GiniCount
from dpforest.criteria.majority import MaxOperator
from dpforest.criteria.mixture import Mixture
from dpforest.criteria.soft_agreement import SoftAgreement
from dpforest.criteria.squared_error import SquaredError
from dpforest.criteria.weighted_majority import WeightedMajority

__all__ = [
    "Balance", "Criterion", "EntropyCount", "GiniCount", "MaxOperator", "Mixture", "SoftAgreement", "SquaredError",
    "WeightedMajority", "children_of",
]  # fmt: skip
