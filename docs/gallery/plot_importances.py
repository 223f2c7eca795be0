"""Importances of features

How much each feature lowers the impurity of the trees, as shares that sum to 1. They come from released counts, so they
cost no further budget; and they carry the noise of those counts, so small differences mean nothing.
"""

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.plots import importances

X, y, schema = load_survey()
model = DPForestClassifier(schema, epsilon=1).fit(X, y)
figure = importances(model).figure
