"""What a data set has spent and what is reserved, against its cap. Sees charges only."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from dpforest.budget.totals import NOTHING, Cap, Exact, Loss, Sums
from dpforest.privacy.accountants import SMALLEST, zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import exact, round_down

CLOSE = 1e-9


class _Worst(NamedTuple):
    """The largest sums that a reservation can end with.

    ``finite`` is over outcomes with a finite epsilon and ``any`` over all; ``drop`` is by how much outcomes with an infinite
    epsilon stay below ``any``. None stands for no such outcome.
    """

    finite: Sums | None
    any: Sums
    drop: Sums | None


NO_MORE = _Worst(NOTHING, NOTHING, None)


class _Least:
    """The least of values that come and go. Asking for it costs the same however many there are."""

    def __init__(self) -> None:
        self._values: dict[int, Exact] = {}
        self._heap: list[tuple[Exact, int]] = []  # may hold some that are gone, never on top

    def add(self, number: int, value: Exact) -> None:
        self._values[number] = value
        heappush(self._heap, (value, number))

    def remove(self, number: int) -> None:
        del self._values[number]
        while self._heap and self._heap[0][1] not in self._values:
            heappop(self._heap)
        if len(self._heap) > 2 * len(self._values) + 8:
            self._heap = [(value, number) for number, value in self._values.items()]
            heapify(self._heap)

    def get(self) -> Exact | None:
        return self._heap[0][0] if self._heap else None


class Account:
    """What a data set has spent and what is reserved, and whether one more release is within its cap.

    What a verdict needs of the open reservations is kept as they come and go, so it costs the same for any number of them.
    """

    def __init__(self, cap: Cap) -> None:
        self.cap = cap
        self.settled = NOTHING
        self.open: dict[int, _Worst] = {}
        self._finite = self._any = NOTHING
        self._n_never_pure = 0  # open reservations without an outcome of finite epsilon
        self._drops = _Least(), _Least()  # of rho and of divergence

    def reserve(self, number: int, outcomes: Sequence[Loss]) -> None:
        worst = self.open[number] = self._worst_of(outcomes)
        self._finite, self._any = self._finite.plus(worst.finite or NOTHING), self._any.plus(worst.any)
        self._n_never_pure += worst.finite is None
        if worst.drop is not None:
            for column, drop in zip(self._drops, worst.drop[1:], strict=True):
                column.add(number, drop)

    def settle(self, number: int, loss: Loss) -> None:
        worst = self.open.pop(number)
        self._finite, self._any = self._finite.minus(worst.finite or NOTHING), self._any.minus(worst.any)
        self._n_never_pure -= worst.finite is None
        if worst.drop is not None:
            for column in self._drops:
                column.remove(number)
        self.settled = self.settled.plus(self.cap.sums(loss))

    def admits(self, outcomes: Sequence[Loss]) -> bool:
        """Whether a release may begin that ends with any one of these losses."""
        return all(map(self.cap.admits, self._ends(self._worst_of(outcomes))))

    @property
    def spent(self) -> float:
        """One epsilon for all that is settled and the worst of what is reserved."""
        return max(map(self.cap.stated, self._ends()))

    @property
    def left(self) -> float:
        """The largest epsilon that one more release without delta may have, rounded down; 0 if it is too little for any."""
        cap = exact(self.cap.epsilon)
        taken = [end.epsilon for end in self._ends() if end.epsilon <= cap]
        plain = round_down(cap - Fraction(max(taken))) if taken else 0.0
        left = max(plain if self.admits([Loss.pure(plain)]) else 0.0, self._largest(Loss.pure, self.cap.epsilon))
        return left if left >= SMALLEST["epsilon"] else 0.0

    @property
    def rho_left(self) -> float:
        """The largest rho that one more zCDP release may have, rounded down; 0 without a delta."""
        if not self.cap.delta:
            return 0.0
        return self._largest(lambda rho: Loss(math.inf, rho), zcdp_rho(self.cap.epsilon, self.cap.delta))

    def _largest(self, loss: Callable[[float], Loss], most: float) -> float:
        """The largest amount whose loss fits, rounded down to a part in a billion of ``most``."""
        if self.admits([loss(most)]):
            return most
        low, high = 0.0, most
        while high - low > CLOSE * most:
            middle = (low + high) / 2
            low, high = (middle, high) if self.admits([loss(middle)]) else (low, middle)
        return low

    def _ends(self, more: _Worst = NO_MORE) -> list[Sums]:
        """The largest sums that the open reservations and one more can end with: all pure, and with one that is not.

        Sums are at most these at every end, so the cap admits every end if it admits these.
        """
        ends = []
        if more.finite is not None and not self._n_never_pure:
            ends.append(self.settled.plus(self._finite).plus(more.finite))
        # Each column by itself: the least drop of all that may turn out not to be pure.
        new = (None, None) if more.drop is None else more.drop[1:]
        drops = [[x for x in (column.get(), drop) if x is not None] for column, drop in zip(self._drops, new, strict=True)]
        if all(drops):
            rho, divergence = map(min, drops)
            rest = self.settled.plus(self._any).plus(more.any)
            ends.append(Sums(math.inf, rest.rho - rho, rest.divergence - divergence))
        return ends

    def _worst_of(self, outcomes: Sequence[Loss]) -> _Worst:
        sums = [self.cap.sums(loss) for loss in outcomes]
        finite = [item for item in sums if item.epsilon < math.inf]
        # Of the others the epsilon is known to be infinite, and is left out of the sums.
        others = [item._replace(epsilon=Fraction(0)) for item in sums if item.epsilon == math.inf]
        largest = _largest([*finite, *others])
        return _Worst(_largest(finite) if finite else None, largest, largest.minus(_largest(others)) if others else None)


def left_with_delta(accounts: Sequence[Account]) -> float:
    """The largest epsilon of one more release, pure or zCDP, at the delta of the first cap, that all admit; rounded down."""
    cap, rho = accounts[0].cap, min(account.rho_left for account in accounts)
    if rho < SMALLEST["rho"]:
        return 0.0
    return min(*(account.left for account in accounts), cap.epsilon, zcdp_epsilon(rho, cap.delta) * (1 - CLOSE))


def _largest(sums: list[Sums]) -> Sums:
    return Sums(*(max(column) for column in zip(*sums, strict=True)))
