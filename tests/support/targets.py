"""Targets by their number of classes, and a bounded one."""

from dpforest import Bounded, Classes
from dpforest.growing.target import ScalePlan

NUMBER = Bounded(0, 1)


def classes(n_classes):
    return Classes(list(range(n_classes)))


def share_of_range(part, facts):
    """The share of the budget that a target's range costs if its location and spread are chosen once."""
    plan = ScalePlan.of(facts)
    return 1 - (1 - plan.location - plan.spread) * (1 - part.share)
