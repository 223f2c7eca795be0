"""The entries of a store as a chain of hashes, and what they add up to. Public values only.

An entry is a line of JSON that holds the hash of the one before; its own hash is the SHA-256 of the line. Kinds:

    create   a data set begins: its name, cap and unit
    reserve  a release begins: what it is, and every loss that it may end with
    settle   a release has ended: the entry that it settles, and its loss
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpforest.budget.totals import Account, Cap, Loss
from dpforest.errors import AccountingError, BudgetDamagedError, BudgetStoreError, ParameterError

FIRST = "0" * 64  # stands for the hash before the first entry
UNITS = ("record", "person")
MOST_OUTCOMES = 64
# Clocks are set back a little all the time.
SECONDS_BEHIND = 5.0


@dataclass
class DataSet:
    """What the entries say of one data set: who is protected, and its account."""

    fingerprint: str  # the hash of its first entry
    unit: str
    account: Account


def losses_to_json(losses: Sequence[Loss]) -> list[list[str]]:
    """Losses as texts, epsilon and rho, and a divergence if one is known.

    They are texts since the accounting reads floats as the decimals that are written.
    """
    return [
        [repr(float(x)) for x in (loss.epsilon, loss.rho, *([] if math.isinf(loss.divergence) else [loss.divergence]))]
        for loss in losses
    ]


def losses_from_json(content: Any) -> tuple[Loss, ...]:
    if not all(isinstance(value, str) for pair in content for value in pair):
        raise ValueError("not an amount")
    return tuple(Loss(*map(float, pair)) for pair in content)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("not a number")
    return float(value)


class Chain:
    """The entries so far: their number, the last hash, and the account of each data set."""

    def __init__(self) -> None:
        self.number, self.head, self.time = 0, FIRST, ""
        self.datasets: dict[str, DataSet] = {}
        self._open: dict[int, str] = {}  # the data set of each open reservation

    def next_entry(self, content: dict[str, Any], *, late: bool = False) -> tuple[int, str, str]:
        """The number, text and hash of an entry that would come next; it is not added yet.

        A clock that is behind the last entry is refused. An entry that comes ``late`` ends what is reserved: it must not be
        lost to a clock, and its time is that of the entry before, since how long a fit took tells of its rows.
        """
        now = datetime.fromisoformat(self.time) if late else datetime.now(UTC)
        if self.time and (datetime.fromisoformat(self.time) - now).total_seconds() > SECONDS_BEHIND:
            raise BudgetStoreError(
                f"The clock of this machine says {now.isoformat(timespec='seconds')}, but the budget's last entry is of "
                f"{self.time}. Set the clock; nothing was released."
            )
        time = max(self.time, now.isoformat(timespec="microseconds"))
        entry = {"number": self.number + 1, "previous": self.head, "time": time, **content}
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return self.number + 1, text, hash_of(text)

    def add(self, number: Any, text: Any, found: Any) -> dict[str, Any]:
        """The content of one more entry, which is checked and added."""
        try:
            if hash_of(text) != found:
                raise ValueError("its hash is not that of its text")
            entry = json.loads(text)
            if (number, entry["number"], entry["previous"]) != (self.number + 1, self.number + 1, self.head):
                raise ValueError("it does not follow the entry before")
            if datetime.fromisoformat(entry["time"]).tzinfo is None or entry["time"] < self.time:
                raise ValueError("its time is before that of the entry before")
            self.count(entry, found)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            why = str(error) if type(error) is ValueError and len(str(error)) < 60 else "it cannot be read"
            raise BudgetDamagedError(
                f"Entry {self.number + 1} of the budget is not as it was written: {why}. Nothing is released on it; restore "
                "a copy that holds all entries, and find out who changed this one."
            ) from None
        self.number, self.head, self.time = self.number + 1, found, entry["time"]
        return dict(entry)

    def count(self, entry: dict[str, Any], found: str) -> None:
        """Add an entry that was checked to the account of its data set."""
        {"create": self._create, "reserve": self._reserve, "settle": self._settle}[entry["kind"]](entry, found)

    def _create(self, entry: dict[str, Any], found: str) -> None:
        name, unit = entry["dataset"], entry["unit"]
        if not isinstance(name, str) or name in self.datasets or unit not in UNITS:
            raise ValueError("it begins a data set that is there")
        cap = Cap(_number(entry["epsilon"]), _number(entry["delta"]))
        self.datasets[name] = DataSet(found, unit, Account(cap))

    def _reserve(self, entry: dict[str, Any], found: str) -> None:
        outcomes = losses_from_json(entry["outcomes"])
        check_outcomes(outcomes)
        if not isinstance(entry["what"], str):
            raise ValueError("it does not say what for")
        self.datasets[entry["dataset"]].account.reserve(entry["number"], outcomes)
        self._open[entry["number"]] = entry["dataset"]

    def _settle(self, entry: dict[str, Any], found: str) -> None:
        (loss,) = losses_from_json([entry["loss"]])
        self.datasets[self._open.pop(entry["reserve"])].account.settle(entry["reserve"], loss)


def check_outcomes(outcomes: Sequence[Loss]) -> None:
    """Raise unless a release can end with these losses."""
    if not 0 < len(outcomes) <= MOST_OUTCOMES or any(math.isinf(loss.rho) for loss in outcomes):
        raise AccountingError(f"A release has 1 to {MOST_OUTCOMES} outcomes, each of them with a finite rho.")


def check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise ParameterError(f"The unit of a budget is one of {UNITS}, not {unit!r}.")


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
