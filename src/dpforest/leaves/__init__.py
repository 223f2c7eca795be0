"""Leaf releases: sealed statistics in, released counts out. One release per file."""

from dpforest.leaves.base import LeafRelease
from dpforest.leaves.margin import NoisyMargin
from dpforest.leaves.noisy_counts import NoisyCounts
from dpforest.leaves.private_label import PrivateLabel
from dpforest.leaves.residual_sums import ResidualSums
from dpforest.leaves.rotated import Rotated
from dpforest.leaves.two_bin_mean import TwoBinMean

__all__ = ["LeafRelease", "NoisyCounts", "NoisyMargin", "PrivateLabel", "ResidualSums", "Rotated", "TwoBinMean"]
