"""Budget by level

Where the loss of one fit went, from its ledger: splits of each level (0 is the root), leaves, and other releases such as
the number of rows. Bars add up to the whole loss. Here delta is above 0, so most amounts are in rho of zCDP; the number
of rows was bought in epsilon, and both books are added up as epsilon.
"""

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.plots import budget_by_level

X, y, schema = load_survey()
model = DPForestClassifier(schema, epsilon=1, delta=1e-6).fit(X, y)
figure = budget_by_level(model).figure
