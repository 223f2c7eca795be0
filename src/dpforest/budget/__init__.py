"""The budget of a data set: what all its releases may cost together, kept in a store that outlives them."""

from dpforest.budget.handle import Budget, Reservation
from dpforest.budget.totals import Cap, Loss

__all__ = ["Budget", "Cap", "Loss", "Reservation"]
