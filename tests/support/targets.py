"""Targets by their number of classes, and a bounded one."""

from dpforest import Bounded, Classes

NUMBER = Bounded(0, 1)


def classes(n_classes):
    return Classes(list(range(n_classes)))
