"""Leaf noise

How far the leaves stand out of the noise. Each point is a leaf: its released size, over the standard deviation of its
noise; leaves go from the clearest to the noisiest, and take up the share of the records that they hold. The further right
the points reach the dashed line, the more predictions rest on records and not on noise. If much lies below, use fewer
levels or trees, or more budget.
"""

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.plots import leaf_noise

X, y, schema = load_survey()
model = DPForestClassifier(schema, epsilon=1, recipe="consul-2020").fit(X, y)
figure = leaf_noise(model).figure
