"""Mechanisms: they take opened integers, a rate and coins, and give released values. One mechanism per file; no rows."""

from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exponential import Exponential
from dpforest.mechanisms.gaussian import Gaussian
from dpforest.mechanisms.geometric import Geometric
from dpforest.mechanisms.k_norm import KNorm
from dpforest.mechanisms.logarithmic import Logarithmic
from dpforest.mechanisms.permute_and_flip import PermuteAndFlip
from dpforest.mechanisms.rates import Rate

__all__ = ["Entropy", "Exponential", "Gaussian", "Geometric", "KNorm", "Logarithmic", "PermuteAndFlip", "Rate"]
