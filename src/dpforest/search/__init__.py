"""Private search for hyper-parameters: the best of a random number of runs, for one (epsilon, delta) that covers them."""

from dpforest.search.estimator import DPSearchCV

__all__ = ["DPSearchCV"]
