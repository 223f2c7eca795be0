"""``Budget``, which estimators and searches are given: the budget of a data set in a file. Sees charges only."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpforest.budget.chain import Chain, DataSet, check_outcomes, check_unit, losses_from_json, losses_to_json
from dpforest.budget.store import Store
from dpforest.budget.totals import Cap, Loss
from dpforest.common.text import shortened
from dpforest.errors import (
    AccountingError,
    BudgetDamagedError,
    BudgetError,
    BudgetStoreError,
    ParameterError,
    shown,
)

MOST_CHARACTERS_OF_A_NAME = 1_000
MOST_CHARACTERS_OF_WHAT = 200
T = TypeVar("T")


@dataclass(frozen=True)
class Reservation:
    """A release that may begin: its entry in the store, and the losses that it may end with."""

    number: int
    outcomes: tuple[Loss, ...]


@dataclass(frozen=True, repr=False)
class Budget:
    """The budget of a data set: a cap on what all releases from it cost together, kept in a file.

    Get one with ``Budget.open`` and give it to estimators: ``DPForestClassifier(..., budget=budget)``. It names the store
    and holds nothing of it, so copies, clones, pickles and other processes all lead to the same entries.

    Privacy:
        Claim: all releases that reserve here first are together (epsilon, delta)-DP for the cap of the data set.
        Because: a release begins only if every loss that it may end with, on top of all that is settled and the worst
            of what is reserved, is within the cap (see ``Cap``); check and reservation are one transaction, on the disk
            before the release begins; what is never settled stands in full.
        Assumes: releases charge what they cost; nobody deletes the file or sets it back (``verify`` with an anchor
            tells); nothing is released from these records elsewhere.
    """

    path: str
    dataset: str
    fingerprint: str

    @classmethod
    def open(
        cls,
        path: str | Path,
        dataset: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: str = "record",
    ) -> "Budget":
        """The budget of ``dataset`` in the file ``path``, which may hold several data sets.

        With ``epsilon`` it is made if it is not there, and must have this cap and ``unit`` ("record" or "person") if it is.
        Without, it must be there. A cap is never changed.
        """
        _check_name(dataset)
        store = Store(_absolute(path))
        if epsilon is not None:
            cap = Cap(epsilon, delta)
            check_unit(unit)
            store.begin()
            _begin_dataset(store, dataset, cap, unit)
        with store.reading() as chain:
            found = _find(chain, dataset, store.path)
            if epsilon is not None and (found.account.cap, found.unit) != (cap, unit):
                raise ParameterError(
                    f"The budget of {shortened(dataset)!r} has a cap of {_words(found.account.cap)} for the unit "
                    f"{found.unit!r}, not {_words(cap)} for {unit!r}. A cap is never changed; leave epsilon out to open it."
                )
            return cls(store.path, dataset, found.fingerprint)

    @classmethod
    def open_all(cls, path: str | Path) -> "list[Budget]":
        """The budgets of all data sets in a file, in the order in which they were made."""
        store = Store(_absolute(path))
        with store.reading() as chain:
            return [cls(store.path, name, found.fingerprint) for name, found in chain.datasets.items()]

    @property
    def cap(self) -> Cap:
        """The most that all releases may cost together."""
        return self._read(lambda found: found.account.cap)

    @property
    def unit(self) -> str:
        """Who is protected: "record" or "person"."""
        return self._read(lambda found: found.unit)

    @property
    def spent(self) -> float:
        """Epsilon, at the delta of the cap, of all that is settled and the worst of what is reserved; rounded up."""
        return self._read(lambda found: found.account.spent)

    @property
    def left(self) -> float:
        """The largest epsilon that one more release with delta = 0 may have; with delta > 0 it may be less."""
        return self._read(lambda found: found.account.left)

    @property
    def left_with_delta(self) -> float:
        """The largest epsilon that one more release at the delta of the cap may have; 0 if the cap has none."""
        return self._read(lambda found: found.account.left_with_delta)

    def reserve(self, what: str, *, outcomes: Sequence[Loss]) -> Reservation:
        """The reservation of a release that ends with one of the losses ``outcomes``; ``what`` says to readers what it is.

        Raises ``BudgetError``, and enters nothing, if one of them would pass the cap.
        """
        check_outcomes(outcomes)
        with self._store.appending() as (chain, append):
            account = self._of(chain).account
            if not account.admits(outcomes):
                asked = max(account.cap.stated(account.cap.sums(loss)) for loss in outcomes)
                left = account.left, account.left_with_delta
                raise BudgetError.capped(shortened(str(what)), shortened(self.dataset), asked, left, account.cap)
            content = {"kind": "reserve", "dataset": self.dataset, "what": str(what)[:MOST_CHARACTERS_OF_WHAT]}
            number = append({**content, "outcomes": losses_to_json(outcomes)})
        return Reservation(number, tuple(outcomes))

    def settle(self, reservation: Reservation, loss: Loss) -> None:
        """Enter what a release has cost, in place of what was reserved for it."""
        with self._store.appending() as (chain, append):
            if reservation.number not in self._of(chain).account.open:
                raise AccountingError(f"Entry {reservation.number} is no open reservation of this budget.")
            (content,) = losses_to_json([loss])
            append({"kind": "settle", "reserve": reservation.number, "loss": content})
        if not any(loss.within(outcome) for outcome in reservation.outcomes):
            raise AccountingError(
                f"A release has cost {loss}, which is none of the losses that it reserved. It is entered in full."
            )

    def history(self) -> list[dict[str, Any]]:
        """Every release, in order: entry number, time, what, state ("settled" or "reserved"), losses, epsilon so far."""
        return self._replay(self._store.entries())[1]

    def position(self) -> dict[str, Any]:
        """Cap, what is spent and left, every release and the head, all of one moment; entries are read and checked anew.

        ``reserved`` counts the releases that are not settled; ``spent`` has them at their worst.
        """
        entries = self._store.entries()
        chain, releases = self._replay(entries)
        found = self._of(chain)
        account, cap = found.account, found.account.cap
        return {
            "dataset": self.dataset, "unit": found.unit, "epsilon": cap.epsilon, "delta": cap.delta,
            "spent": account.spent, "left": account.left, "left_with_delta": account.left_with_delta,
            "reserved": sum(release["state"] == "reserved" for release in releases),
            "releases": releases, "head": str(entries[-1]["hash"]),
        }  # fmt: skip

    def verify(self, anchor: str | None = None) -> str:
        """Check every entry of the file against its hash and the one before; returns the last hash, the head.

        Raises ``BudgetDamagedError`` if one was changed, or if ``anchor``, a head that was kept elsewhere, is no longer
        among the entries: then the file was set back or written anew.
        """
        entries = self._store.entries()
        hashes = {entry["hash"] for entry in entries}
        if self.fingerprint not in hashes:
            raise self._replaced()
        if anchor is not None and not re.fullmatch("[0-9a-f]{64}", anchor):
            raise ParameterError(f"An anchor is a whole hash, 64 digits of 0-9 and a-f, not {shown(anchor)}.")
        if anchor is not None and anchor not in hashes:
            raise BudgetDamagedError(
                f"No entry of the budget {self.path} has the hash {shown(anchor)}: the file was set back or written anew."
            )
        return str(entries[-1]["hash"])

    def export(self) -> dict[str, Any]:
        """Every entry of the file with its hash, checked, ready for JSON."""
        entries = self._store.entries()
        return {"format": "dpforest-budget", "version": 1, "head": entries[-1]["hash"], "entries": entries}

    def __repr__(self) -> str:
        return f"Budget(dataset={shortened(self.dataset)!r}, file={shortened(Path(self.path).name)!r})"

    @property
    def _store(self) -> Store:
        return Store(self.path)

    def _read(self, value: Callable[[DataSet], T]) -> T:
        with self._store.reading() as chain:
            return value(self._of(chain))

    def _of(self, chain: Chain) -> DataSet:
        found = _find(chain, self.dataset, self.path)
        if found.fingerprint != self.fingerprint:
            raise self._replaced()
        return found

    def _replaced(self) -> BudgetDamagedError:
        return BudgetDamagedError(
            f"The file {self.path} is not the one that this budget of {shortened(self.dataset)!r} was opened with: it was "
            "replaced. Nothing is released on it; restore the file that holds all entries."
        )

    def _replay(self, entries: list[dict[str, Any]]) -> tuple[Chain, list[dict[str, Any]]]:
        """What the entries add up to, and the releases of this data set, each with what was spent once it was entered."""
        chain, releases = Chain(), {}
        for entry in entries:
            chain.count(entry, entry["hash"])
            kind, number = entry["kind"], entry["number"]
            if kind == "reserve" and entry["dataset"] == self.dataset:
                worst = losses_from_json(entry["outcomes"])
                about = {"number": number, "time": entry["time"], "what": entry["what"], "state": "reserved"}
                releases[number] = about | {"outcomes": worst, "loss": None}
            elif kind == "settle" and entry["reserve"] in releases:
                number = entry["reserve"]
                (loss,) = losses_from_json([entry["loss"]])
                releases[number] |= {"state": "settled", "loss": loss}
            else:
                continue
            releases[number]["spent"] = chain.datasets[self.dataset].account.spent
        return chain, list(releases.values())


def _absolute(path: str | Path) -> str:
    """The path with its folder resolved, so that all ways to the folder lead to one name; a link is refused later."""
    try:
        text = os.fspath(path)
        if not isinstance(text, str) or "\0" in text or not Path(text).name:
            raise TypeError
        return str(Path(text).parent.resolve() / Path(text).name)
    except (TypeError, OSError, RuntimeError):
        raise ParameterError(f"A budget is in a file; {shown(path)} names none.") from None


def _check_name(dataset: Any) -> None:
    if not isinstance(dataset, str) or not 0 < len(dataset) <= MOST_CHARACTERS_OF_A_NAME:
        raise ParameterError(
            f"A data set is named by a text of 1 to {MOST_CHARACTERS_OF_A_NAME} characters, not by {shown(dataset)}."
        )


def _begin_dataset(store: Store, dataset: str, cap: Cap, unit: str) -> None:
    with store.appending() as (chain, append):
        if dataset not in chain.datasets:
            content = {"kind": "create", "dataset": dataset, "unit": unit}
            append({**content, "epsilon": float(cap.epsilon), "delta": float(cap.delta)})


def _find(chain: Chain, dataset: str, path: str) -> DataSet:
    if dataset not in chain.datasets:
        names = ", ".join(repr(shortened(name)) for name in list(chain.datasets)[:10]) or "none"
        raise BudgetStoreError(
            f"There is no budget of {shortened(dataset)!r} in {path}; it has {names}. Give an epsilon to make one, or use "
            "'dpforest budget create'."
        )
    return chain.datasets[dataset]


def _words(cap: Cap) -> str:
    return f"epsilon = {cap.epsilon:g}" + (f", delta = {cap.delta:g}" if cap.delta else "")
