"""What a model has learnt

How each feature moves the prediction, from released values alone: a curve for a number, bars for categories, with the band
of the noise. Maps show what two features do together beside what each does alone. Where the band reaches 0, the effect
cannot be told from noise.
"""

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.plots import effects

X, y, schema = load_survey()
model = DPForestClassifier(schema, epsilon=2).fit(X, y)
figure = effects(model)[0].figure
