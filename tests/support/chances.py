"""How many hits a sound sampler has, all but once in a million runs, and a seed for coins that would be fresh."""

from types import SimpleNamespace

import numpy as np
from scipy.stats import binom

from dpforest.mechanisms import entropy

FAILURE = 1e-6


def at_most(n_trials, share, failure=FAILURE):
    """The number of hits that is passed with at most the given chance, if each of so many trials hits with this share."""
    return int(binom.isf(failure, n_trials, share))


def at_least(n_trials, share, failure=FAILURE):
    """The number of hits that is missed with at most the given chance."""
    return n_trials - at_most(n_trials, 1 - share, failure)


def seed_coins(monkeypatch, seed=0):
    """What the library would ask of the operating system comes from a seed: a test then passes always or never.

    Others in this process still ask the system, such as numba when it keeps what it has compiled.
    """
    monkeypatch.setattr(entropy, "os", SimpleNamespace(urandom=np.random.RandomState(seed).bytes))
