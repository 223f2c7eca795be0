"""ROC curve

How many of those who say yes are found, and how many others are taken for them, at every threshold. A curve on private
rows is a release: here it costs them an epsilon of 0.5, and the bars around its points are what the noise may do.
"""

from sklearn.model_selection import train_test_split

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.evaluation import evaluate_privately
from dpforest.plots import roc

X, y, schema = load_survey()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = DPForestClassifier(schema, epsilon=1).fit(X_train, y_train)
figure = roc(evaluate_privately(model, X_test, y_test, epsilon=0.5)).figure
