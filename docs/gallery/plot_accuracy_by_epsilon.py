"""Accuracy against epsilon

How much accuracy a budget buys, on the survey that comes with statsmodels: means over three random splits, with a band of
one standard error. Look for the smallest epsilon at which a curve comes close to the dashed line, the recipe ``auto``
without privacy. At the dotted line a model is no better than always guessing the commonest class.
"""

import math

from sklearn.model_selection import train_test_split

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.plots import accuracy_by_epsilon

X, y, schema = load_survey()
splits = [train_test_split(X, y, test_size=0.3, random_state=number) for number in range(3)]


def scores(epsilon, recipe):
    """Accuracy on the test part of each split."""
    models = [
        DPForestClassifier(schema, epsilon=epsilon, recipe=recipe).fit(train, labels) for train, _, labels, _ in splits
    ]
    return [model.score(test, labels) for model, (_, test, _, labels) in zip(models, splits, strict=True)]


recipes = ["auto", "consul-2020"]
ax = accuracy_by_epsilon(
    {recipe: {epsilon: scores(epsilon, recipe) for epsilon in (0.03, 0.1, 0.3, 1, 3)} for recipe in recipes},
    no_privacy=scores(math.inf, "auto"),
    majority=[labels.value_counts(normalize=True).max() for *_, labels in splits],
)
figure = ax.figure
