"""Leaf releases: what leaves publish about their records, one kind in each file. Sees sealed statistics."""

from dpforest.parts.leaves.base import LeafRelease
from dpforest.parts.leaves.margin import NoisyMargin
from dpforest.parts.leaves.noisy_counts import NoisyCounts
from dpforest.parts.leaves.private_label import PrivateLabel
from dpforest.parts.leaves.residual_sums import ResidualSums
from dpforest.parts.leaves.rotated import Rotated
from dpforest.parts.leaves.two_bin_mean import TwoBinMean

__all__ = ["LeafRelease", "NoisyCounts", "NoisyMargin", "PrivateLabel", "ResidualSums", "Rotated", "TwoBinMean"]
