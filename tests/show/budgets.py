"""Budgets to show: two data sets, one with a hostile name that belongs to the other, and a clock that was ahead."""

from datetime import UTC, datetime, timedelta
from unittest import mock

from tests.budget.stores import spend
from tests.support.fitted import SCRIPT

from dpforest import Budget
from dpforest.budget import Loss, chain

BEGIN = datetime.now(UTC) - timedelta(days=100)


def at(moment, work):
    """What ``work`` gives while the clock says ``moment``."""

    class Clock(datetime):
        @classmethod
        def now(cls, zone=None):
            return moment

    with mock.patch.object(chain, "datetime", Clock):
        return work()


def page_budgets(path):
    """Half of 4 is settled and a quarter reserved, 2 of 3 releases from a part; the last one began by a clock far ahead."""
    house = at(BEGIN, lambda: Budget.open(path, "hospital", epsilon=4.0))
    ward = at(BEGIN, lambda: Budget.open(path, f"{SCRIPT} ward", epsilon=3.0, belongs_to="hospital"))
    at(BEGIN + timedelta(days=25), lambda: spend(ward, 0.5, SCRIPT))
    at(BEGIN + timedelta(days=50), lambda: ward.reserve("fit of which nobody knows", outcomes=[Loss.pure(1.0)]))
    at(datetime(2099, 1, 1, tzinfo=UTC), lambda: spend(house, 1.5))
    at(BEGIN + timedelta(days=75), lambda: spend(house, 0.0, "fit by a clock that is right"))
    return [house, ward]
