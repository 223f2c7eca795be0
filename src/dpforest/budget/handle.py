"""``Budget``, which estimators and searches are given: the budget of a data set in a file. Sees charges only."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpforest.budget.chain import MOST_ABOVE, UNITS, Chain, DataSet, check_outcomes, losses_to_json, position_of, releases_of
from dpforest.budget.store import Store
from dpforest.budget.totals import Cap, Loss, left_with_delta
from dpforest.common.text import shortened
from dpforest.errors import AccountingError, BudgetDamagedError, BudgetError, BudgetStoreError, ParameterError, shown

MOST_CHARACTERS_OF_WHAT, MOST_CHARACTERS_OF_A_NAME = 200, 1_000
T = TypeVar("T")


@dataclass(frozen=True)
class Reservation:
    """A release that may begin: its entry in the store, and its possible losses."""

    number: int
    outcomes: tuple[Loss, ...]


@dataclass(frozen=True, repr=False)
class Budget:
    """The budget of a data set: a cap on what all releases from it cost together, kept in a file.

    Get one with ``Budget.open`` and give it to estimators: ``DPForestClassifier(..., budget=budget)``. It names the store
    and holds nothing of it, so copies, clones, pickles and other processes all lead to the same entries.

    Privacy:
        Claim: all releases that reserve here first are together (epsilon, delta)-DP for the cap of the data set. So are,
            for the cap of a data set that others belong to, all releases from it and from those, whichever is chosen next.
        Because: a release begins only if every loss that it may end with, on top of all that is settled and the worst
            of what is reserved, is within the cap (see ``Cap``); check and reservation are one transaction, on the disk
            before the release begins; what is never settled stands in full. One entry charges a data set and all that it
            belongs to, so the sums of each have every release that a record of its own can be in, in the order in which
            they were chosen, and the same argument holds for its cap. A release that the record is not in costs it
            nothing and is counted all the same: parts are never taken to be disjoint.
        Assumes: releases charge what they cost; nobody deletes the file or sets it back (``verify`` with an anchor
            tells); nothing is released from these records elsewhere; a record (or person) of a data set is at most
            one in each that belongs to it.
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
        belongs_to: str | None = None,
    ) -> "Budget":
        """The budget of ``dataset`` in the file ``path``, which may hold several data sets.

        With ``epsilon`` it is made if it is not there, and must have this cap and ``unit`` ("record" or "person") if it is.
        Without, it must be there. A cap is never changed. With ``belongs_to``, another data set of the file, releases are
        charged to that one too, and to the one that it belongs to, and refused if they pass one of the caps.
        """
        check_name(dataset)
        store = Store(absolute(path))
        wanted = None if epsilon is None else (Cap(epsilon, delta), unit)
        if wanted is not None:
            make(store, dataset, *wanted, belongs_to)
        with store.reading() as chain:
            found = find(chain, dataset, store.path)
            check_stored(found, wanted, belongs_to)
            return cls(store.path, dataset, found.fingerprint)

    @classmethod
    def open_all(cls, path: str | Path) -> "list[Budget]":
        """The budgets of all data sets in a file, in the order in which they were made."""
        store = Store(absolute(path))
        with store.reading() as chain:
            return [cls(store.path, name, found.fingerprint) for name, found in chain.datasets.items()]

    @property
    def cap(self) -> Cap:
        """The most that all releases may cost together."""
        return self._read(lambda found: found.account.cap)

    @property
    def order(self) -> float:
        """The highest order of Rényi divergences added up for this data set or a parent."""
        return self._read(lambda found: max(charged.account.cap.order for charged in found.line))

    @property
    def unit(self) -> str:
        """Who is protected: "record" or "person"."""
        return self._read(lambda found: found.unit)

    @property
    def belongs_to(self) -> str | None:
        """The name of the data set whose budget is charged as well, if there is one."""
        return self._read(lambda found: None if found.parent is None else found.parent.name)

    @property
    def spent(self) -> float:
        """Epsilon, at the delta of the cap, of all that is settled and the worst of what is reserved; rounded up."""
        return self._read(lambda found: found.account.spent)

    @property
    def left(self) -> float:
        """The largest epsilon that one more release with delta = 0 may have; with delta > 0 it may be less."""
        return self._read(lambda found: found.left)

    @property
    def left_with_delta(self) -> float:
        """The largest epsilon that one more release at the delta of the cap may have; 0 if the cap has none."""
        return self._read(lambda found: found.left_with_delta)

    def reserve(self, what: str, *, outcomes: Sequence[Loss]) -> Reservation:
        """The reservation of a release that ends with one of the losses ``outcomes``; ``what`` says to readers what it is.

        Raises ``BudgetError``, and enters nothing, if one of them would pass the cap, or that of a data set to which this
        one belongs.
        """
        check_outcomes(outcomes)
        with self._store.appending() as (chain, append):
            for charged in self._of(chain).line:
                if not charged.account.admits(outcomes):
                    raise self._capped(what, outcomes, charged)
            content = {"kind": "reserve", "dataset": self.dataset, "what": str(what)[:MOST_CHARACTERS_OF_WHAT]}
            number, _ = append({**content, "outcomes": losses_to_json(outcomes)})
        return Reservation(number, tuple(outcomes))

    def settle(self, reservation: Reservation, loss: Loss) -> None:
        """Enter what a release has cost, in place of what was reserved for it."""
        with self._store.appending() as (chain, append):
            # Those of its parts are open in its account too, but settled where they were made.
            if chain.open.get(reservation.number) != self._of(chain).name:
                raise AccountingError(f"Entry {reservation.number} is no open reservation of this budget.")
            (content,) = losses_to_json([loss])
            append({"kind": "settle", "reserve": reservation.number, "loss": content})
        if not any(loss.within(outcome) for outcome in reservation.outcomes):
            raise AccountingError(
                f"A release has cost {loss}, which is none of the losses that it reserved. It is entered in full."
            )

    def history(self) -> list[dict[str, Any]]:
        """Every release, in order: entry number, time, what, state ("settled" or "reserved"), losses, epsilon so far.

        Releases from data sets that belong to this one are there too; ``dataset`` says which.
        """
        return releases_of(self._store.entries(), self.dataset)[1]

    def position(self) -> dict[str, Any]:
        """Cap, what is spent and left, every release and the head, all of one moment; entries are read and checked anew.

        ``reserved`` counts the releases that are not settled; ``spent`` has them at their worst. ``belongs_to`` has the cap
        and the rest for the data set that this one belongs to.
        """
        entries = self._store.entries()
        chain, releases = releases_of(entries, self.dataset)
        return position_of(self._of(chain)) | {
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
        found = find(chain, self.dataset, self.path)
        if found.fingerprint != self.fingerprint:
            raise self._replaced()
        return found

    def _replaced(self) -> BudgetDamagedError:
        return BudgetDamagedError(
            f"The file {self.path} is not the one that this budget of {shortened(self.dataset)!r} was opened with: it was "
            "replaced. Nothing is released on it; restore the file that holds all entries."
        )

    def _capped(self, what: str, outcomes: Sequence[Loss], charged: DataSet) -> BudgetError:
        cap, own = charged.account.cap, charged.account
        asked = max(cap.stated(cap.sums(loss)) for loss in outcomes)
        left = own.left, left_with_delta([own])
        error = BudgetError.capped(shortened(str(what)), shortened(charged.name), asked, left, cap)
        if charged.name == self.dataset:
            return error
        return BudgetError(f"{error} {shortened(self.dataset)!r} belongs to {shortened(charged.name)!r}.")


def absolute(path: str | Path) -> str:
    """The path with its folder resolved, so that all ways to the folder lead to one name; a link is refused later."""
    try:
        text = os.fspath(path)
        if not isinstance(text, str) or "\0" in text or not Path(text).name:
            raise TypeError
        return str(Path(text).parent.resolve() / Path(text).name)
    except (TypeError, OSError, RuntimeError):
        raise ParameterError(f"A budget is in a file; {shown(path)} names none.") from None


def check_name(dataset: Any) -> None:
    if not isinstance(dataset, str) or not 0 < len(dataset) <= MOST_CHARACTERS_OF_A_NAME:
        raise ParameterError(
            f"A data set is named by a text of 1 to {MOST_CHARACTERS_OF_A_NAME} characters, not by {shown(dataset)}."
        )


def make(store: Store, dataset: str, cap: Cap, unit: str, belongs_to: str | None) -> None:
    """Begin a data set unless it is there, and the file too, unless the data set belongs to one that must be there."""
    if unit not in UNITS:
        raise ParameterError(f"The unit of a budget is one of {UNITS}, not {unit!r}.")
    if belongs_to is None:
        store.begin()
    else:
        check_name(belongs_to)
    with store.appending() as (chain, append):
        if dataset in chain.datasets:
            return
        content = {"kind": "create", "dataset": dataset, "unit": unit}
        if belongs_to is not None:
            parent = find(chain, belongs_to, store.path)
            name = repr(shortened(belongs_to))
            if parent.unit != unit:
                raise ParameterError(f"{name} is for the unit {parent.unit!r}, so nothing for {unit!r} can belong to it.")
            if len(parent.line) > MOST_ABOVE:
                raise ParameterError(f"A data set has at most {MOST_ABOVE} above it, and {name} has that many.")
            content |= {"kind": "create-part", "belongs_to": belongs_to}
        append({**content, "epsilon": float(cap.epsilon), "delta": float(cap.delta)})


def check_stored(found: DataSet, wanted: tuple[Cap, str] | None, belongs_to: str | None) -> None:
    """Raise unless a data set has the cap, the unit and the owner that were asked for."""
    name = repr(shortened(found.name))
    if wanted is not None and wanted != (found.account.cap, found.unit):
        cap, unit = wanted
        raise ParameterError(
            f"The budget of {name} has a cap of {_words(found.account.cap)} for the unit {found.unit!r}, not "
            f"{_words(cap)} for {unit!r}. A cap is never changed; leave epsilon out to open it."
        )
    parent = None if found.parent is None else found.parent.name
    if parent != belongs_to and not (wanted is None and belongs_to is None):
        own, asked = ("no other" if owner is None else repr(shortened(owner)) for owner in (parent, belongs_to))
        raise ParameterError(
            f"The budget of {name} belongs to {own}, not to {asked}. That is never changed; leave epsilon and belongs_to "
            "out to open it."
        )


def find(chain: Chain, dataset: str, path: str) -> DataSet:
    if dataset not in chain.datasets:
        names = ", ".join(repr(shortened(name)) for name in list(chain.datasets)[:10]) or "none"
        raise BudgetStoreError(
            f"There is no budget of {shortened(dataset)!r} in {path}; it has {names}. Give an epsilon to make one, or use "
            "'dpforest budget create'."
        )
    return chain.datasets[dataset]


def _words(cap: Cap) -> str:
    return f"epsilon = {cap.epsilon:g}" + (f", delta = {cap.delta:g}" if cap.delta else "")
