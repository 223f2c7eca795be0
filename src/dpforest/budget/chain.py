"""The entries of a store as a chain of hashes, and what they add up to. Public values only.

An entry is a line of JSON that holds the hash of the one before; its own hash is the SHA-256 of the line. Kinds:

    create       a data set begins: its name, cap and unit
    create-part  a data set begins that belongs to another: also the name of that one
    reserve      a release begins: what it is, and every loss that it may end with
    settle       a release has ended: the entry that it settles, and its loss

Entries are in order by their numbers; times are what a clock said, and count for nothing.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpforest.budget.totals import Account, Cap, Loss, left_with_delta
from dpforest.errors import AccountingError, BudgetDamagedError

FIRST = "0" * 64  # stands for the hash before the first entry
UNITS = ("record", "person")
MOST_OUTCOMES = 64
MOST_ABOVE = 8  # data sets that one belongs to, each to the next
MOST_CHARACTERS_OF_A_TIME = 40


@dataclass
class DataSet:
    """What the entries say of one data set: who is protected, its account, and the data set that it belongs to."""

    name: str
    fingerprint: str  # the hash of its first entry
    unit: str
    account: Account
    parent: "DataSet | None" = None

    @property
    def line(self) -> "list[DataSet]":
        """The data set, its parent, and so on: all accounts of a release from it."""
        return [self] if self.parent is None else [self, *self.parent.line]

    @property
    def left(self) -> float:
        """The largest epsilon of one more release without delta that all of them admit."""
        return min(charged.account.left for charged in self.line)

    @property
    def left_with_delta(self) -> float:
        """The largest epsilon of one more release at the delta of the cap that all of them admit."""
        return left_with_delta([charged.account for charged in self.line])


def losses_to_json(losses: Sequence[Loss]) -> list[list[str]]:
    """Losses as texts, for their decimals count: epsilon and rho and, if one is known, a divergence and its order."""
    known = ([] if math.isinf(loss.divergence) else [loss.divergence, loss.order] for loss in losses)
    return [[repr(float(x)) for x in (loss.epsilon, loss.rho, *own)] for loss, own in zip(losses, known, strict=True)]


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
        self.open: dict[int, str] = {}  # the data set of each open reservation

    def next_entry(self, content: dict[str, Any]) -> tuple[int, str, str]:
        """The number, text and hash of an entry that would come next; it is not added yet.

        One that settles has the time of the entry before: how long a fit took tells of its rows.
        """
        time = self.time if content["kind"] == "settle" else datetime.now(UTC).isoformat(timespec="microseconds")
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
            if datetime.fromisoformat(entry["time"]).tzinfo is None or len(entry["time"]) > MOST_CHARACTERS_OF_A_TIME:
                raise ValueError("its time is none, or has no zone")
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
        """Add a checked entry to the accounts of its data set and of all parents."""
        kinds = {"create": self._create, "create-part": self._create, "reserve": self._reserve, "settle": self._settle}
        kinds[entry["kind"]](entry, found)

    def _create(self, entry: dict[str, Any], found: str) -> None:
        name, unit = entry["dataset"], entry["unit"]
        if not isinstance(name, str) or name in self.datasets or unit not in UNITS:
            raise ValueError("it begins a data set that is there")
        parent = self.datasets[entry["belongs_to"]] if entry["kind"] == "create-part" else None
        if parent is not None and (parent.unit != unit or len(parent.line) > MOST_ABOVE):
            raise ValueError("it belongs to what it cannot")
        cap = Cap(_number(entry["epsilon"]), _number(entry["delta"]))
        self.datasets[name] = DataSet(name, found, unit, Account(cap), parent)

    def _reserve(self, entry: dict[str, Any], found: str) -> None:
        outcomes = losses_from_json(entry["outcomes"])
        check_outcomes(outcomes)
        if not isinstance(entry["what"], str):
            raise ValueError("it does not say what for")
        for charged in self.datasets[entry["dataset"]].line:
            charged.account.reserve(entry["number"], outcomes)
        self.open[entry["number"]] = entry["dataset"]

    def _settle(self, entry: dict[str, Any], found: str) -> None:
        (loss,) = losses_from_json([entry["loss"]])
        for charged in self.datasets[self.open.pop(entry["reserve"])].line:
            charged.account.settle(entry["reserve"], loss)


def check_outcomes(outcomes: Sequence[Loss]) -> None:
    """Raise unless a release can end with these losses."""
    if not 0 < len(outcomes) <= MOST_OUTCOMES or any(math.isinf(loss.rho) for loss in outcomes):
        raise AccountingError(f"A release has 1 to {MOST_OUTCOMES} outcomes, each of them with a finite rho.")


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def releases_of(entries: Sequence[dict[str, Any]], dataset: str) -> tuple[Chain, list[dict[str, Any]]]:
    """What the entries add up to, and the releases that a data set is charged, each with what was spent by then."""
    chain, releases = Chain(), {}
    for entry in entries:
        chain.count(entry, entry["hash"])
        kind, number = entry["kind"], entry["number"]
        if kind == "reserve" and dataset in (charged.name for charged in chain.datasets[entry["dataset"]].line):
            worst = losses_from_json(entry["outcomes"])
            about = {name: entry[name] for name in ("number", "time", "what", "dataset")}
            releases[number] = about | {"state": "reserved", "outcomes": worst, "loss": None}
        elif kind == "settle" and entry["reserve"] in releases:
            number = entry["reserve"]
            (loss,) = losses_from_json([entry["loss"]])
            releases[number] |= {"state": "settled", "loss": loss}
        else:
            continue
        releases[number]["spent"] = chain.datasets[dataset].account.spent
    return chain, list(releases.values())


def position_of(found: DataSet) -> dict[str, Any]:
    """Cap, what is spent and what all admit, and the same of the data set that it belongs to, and so on."""
    cap = found.account.cap
    return {
        "dataset": found.name, "unit": found.unit, "epsilon": cap.epsilon, "delta": cap.delta, "spent": found.account.spent,
        "left": found.left, "left_with_delta": found.left_with_delta,
        "belongs_to": None if found.parent is None else position_of(found.parent),
    }  # fmt: skip
