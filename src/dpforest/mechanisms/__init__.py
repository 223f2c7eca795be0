"""Mechanisms: they take opened integers, a rate and coins, and give released values. No rows."""

from dpforest.mechanisms.choices import Exponential, PermuteAndFlip
from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import Rate
from dpforest.mechanisms.logarithmic import Logarithmic
from dpforest.mechanisms.noise import Gaussian, GeometricNoise, KNorm

__all__ = ["Entropy", "Exponential", "Gaussian", "GeometricNoise", "KNorm", "Logarithmic", "PermuteAndFlip", "Rate"]
