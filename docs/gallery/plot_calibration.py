"""Calibration

Of the people who are given a probability of 30 %, do 30 % say yes? The counts come from the same release as the ROC curve
and all other scores, so they cost nothing more. Whiskers are about noise and about which people happened to be asked.
"""

from sklearn.model_selection import train_test_split

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.evaluation import evaluate_privately
from dpforest.plots import calibration

X, y, schema = load_survey()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = DPForestClassifier(schema, epsilon=1).fit(X_train, y_train)
figure = calibration(evaluate_privately(model, X_test, y_test, epsilon=0.5)).figure
