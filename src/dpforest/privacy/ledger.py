"""The ledger: books of charges, each a tree of scopes. Public values only.

A book has an accountant, and so a unit of loss; most ledgers have one book. Losses of books add up by basic composition. The
charges of a book may be about a secret sample; its loss is then the smaller one of the table. A scope says how the charges
inside it add up:

    sequential   the sum (several steps on the same records)
    parallel     the largest (each child is about other records)
    bootstrap    exp(sum) - 1 (a step on a Poisson(1) bootstrap of the records)

and all of it times its ``copies`` (equal steps on the same records); see ``composition``.

Charges are for adding or removing one of the records that are used. ``epsilon`` and ``spent`` are about the protected unit,
of which at most ``rows`` records are used.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpforest.common.text import as_html, jsonable
from dpforest.errors import AccountingError, BudgetError
from dpforest.privacy import composition
from dpforest.privacy.accountants import Accountant, make_accountant
from dpforest.privacy.amounts import exact, sum_up
from dpforest.privacy.events import (
    FORMAT,
    KINDS,
    SELECTION,
    THRESHOLD_DELTA,
    Charge,
    Leak,
    Mechanism,
    Purpose,
    Scope,
    as_purpose,
    scope_from_dict,
    to_dict,
)


@dataclass
class Book:
    """Charges that one accountant adds up, in its unit of loss."""

    accountant: Accountant
    root: Scope = field(default_factory=lambda: Scope(Purpose("fit")))

    @property
    def total(self) -> float:
        """What all charges cost a record together, in the accountant's unit; rounded up."""
        return composition.rounded(composition.priced(self.root, self.accountant).cost)


class Ledger:
    """Every charge of one fit, checked against the budget before it is made.

    Privacy:
        Claim: what was charged covers what was released, and never passes the budget.
        Because: the gate charges before it draws; amounts are the decimals of floats, which mechanisms run at
            (``amounts.exact``), and their sums exact fractions; a charge that would
            pass the budget raises ``BudgetError`` and is not entered. Parallel scopes are opened by
            samplings and stages, which prove that their children are about different records.
            Books: whatever was released before, a book's releases are (e, d)-DP for its own e and d, so together they
            are (sum of e, sum of d)-DP; which accountant a later book has may depend on earlier releases, since
            each outcome of those leads to a book within what was left. A pure book leaves what it did not spend: its loss is
            bounded for each outcome. One with delta takes all that it may spend. The deltas of lists of values add up
            within a book (a union of events, see ``Gate.name_frequent``), and stay within its ``threshold_delta``.
        Assumes: nothing is released but through the gate.
    """

    def __init__(self, accountant: Accountant) -> None:
        self.epsilon, self.delta, self.rows = accountant.epsilon, accountant.delta, accountant.rows
        self.books: list[Book] = []
        self.n_charges = 0  # charges that were entered through this object, not read from a file
        self.is_old = False  # whether it was read from a file of an earlier version; it is written so again, for its digest
        self.proof = ""  # a sentence that says who proved that the charges cover what is released
        self._open_book(Book(accountant))

    def _open_book(self, book: Book) -> None:
        self.books.append(book)
        self._open = [book.root]

    def begin(self, accountant: Accountant) -> None:
        """Open a new book for all later charges, within what the other books have left.

        A book without charges is dropped. Raises ``BudgetError`` if too little is left.
        """
        if len(self._open) > 1:
            raise AccountingError(f"A new book cannot begin inside the scope {self._open[-1].label!r}.")
        if any(book.accountant.share < 1 for book in self.books):
            raise AccountingError(
                "A book about a sample is the last one: what else the sample gave would have to be added to it."
            )
        if accountant.rows != self.rows:
            raise AccountingError(f"A new book is about {accountant.rows} rows of a person, the ledger about {self.rows}.")
        books = [book for book in self.books if book.root.children]
        for unit, taken, asked, most in (
            ("epsilon", sum(map(_taken, books), Fraction(0)), accountant.epsilon, self.epsilon),
            ("delta", sum((exact(book.accountant.delta) for book in books), Fraction(0)), accountant.delta, self.delta),
        ):
            if taken + exact(asked) > exact(most):
                raise BudgetError.over("a new book", asked, float(exact(most) - taken), most, unit)
        self.books = books
        self._open_book(Book(accountant))

    @property
    def accountant(self) -> Accountant:
        """The accountant of the open book, in whose unit charges are made."""
        return self.books[-1].accountant

    @property
    def root(self) -> Scope:
        """The outermost scope of the open book."""
        return self.books[-1].root

    @property
    def open_scopes(self) -> tuple[Scope, ...]:
        """The open scopes, from the root of the open book to the scope of the next charge."""
        return tuple(self._open)

    @property
    def unit(self) -> str:
        """The unit of loss of the open book: ``epsilon`` or ``rho``."""
        return self.accountant.unit

    @property
    def total(self) -> float:
        """What all charges of the open book cost a record together, in its unit; rounded up."""
        return self.books[-1].total

    @property
    def spent(self) -> float:
        """The total loss of the protected unit as epsilon, at the ledger's delta; rounded up."""
        return sum_up([book.accountant.epsilon_of(book.total) for book in self.books])

    @property
    def sample_share(self) -> Fraction:
        """The share of the secret sample that the trees were grown from; 1 if they were grown from all records."""
        return min(book.accountant.share for book in self.books)

    @property
    def selection(self) -> Charge | None:
        """The charge for releasing the best of several runs, which is the last one, if this is a search's ledger."""
        last = self.root.children[-1:]
        return next((entry for entry in last if isinstance(entry, Charge) and entry.mechanism.name == SELECTION), None)

    @property
    def leaks(self) -> list[Leak]:
        """All exact values that were opened without a mechanism."""
        return [entry for book in self.books for _, entry in composition.entries(book.root) if isinstance(entry, Leak)]

    @property
    def n_entries(self) -> int:
        """The number of charges and leaks in all books."""
        return sum(1 for book in self.books for _ in composition.entries(book.root))

    def entries(self) -> list[dict[str, Any]]:
        """One dictionary for each charge or leak: label, mechanism, epsilon or rho of a record, and scope."""
        return [
            {
                "label": entry.label,
                "mechanism": entry.mechanism.name,
                book.accountant.unit: entry.amount,
                "scope": " / ".join(scope.label for scope in scopes),
            }
            for book in self.books
            for scopes, entry in composition.entries(book.root)
        ]

    @contextmanager
    def scope(self, purpose: Purpose | str, kind: str = "sequential", copies: int = 1) -> Iterator[Scope]:
        """Open a new scope, in which charges are entered while the block runs; they stay when the block fails."""
        if kind not in KINDS or copies < 1:
            raise AccountingError(f"A scope is one of {KINDS} with at least 1 copy, not {kind!r} with {copies}.")
        scope = Scope(as_purpose(purpose), kind, copies)
        self._open[-1].children.append(scope)
        self._open.append(scope)
        try:
            yield scope
        finally:
            self._open.pop()
            scope.known = composition.charged(scope, self.accountant)
            composition.settle(self._open[-1], self.accountant)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Open a scope of this ledger again, in which charges are entered while the block runs."""
        if not any(found is scope for found in composition.scopes(self.root)):
            raise AccountingError(f"The scope {scope.label!r} is not in this ledger; its charges would count nowhere.")
        for found in composition.scopes(self.root):
            found.known, found.settled, found.n_settled = None, Fraction(0), 0
        self._open.append(scope)
        try:
            yield
        finally:
            self._open.pop()

    def charge(self, purpose: Purpose | str, mechanism: Mechanism | str, amount: float) -> None:
        """Enter a charge, or raise ``BudgetError`` and enter nothing."""
        if not amount >= 0:
            raise AccountingError(f"'{purpose}' asks for {self.unit} = {amount!r}; an amount is at least 0.")
        children, budget = self._open[-1].children, self.accountant.budget
        ran = mechanism if isinstance(mechanism, Mechanism) else Mechanism(mechanism)
        children.append(Charge(as_purpose(purpose), ran, amount))
        try:
            self._check_thresholds(ran)
            fits = math.isinf(budget) or self._charged() <= exact(budget)
        except Exception:
            children.pop()
            raise
        if not fits:
            children.pop()
            left = exact(budget) - Fraction(self._charged())
            raise BudgetError.over(str(purpose), amount, float(left), budget, self.unit)
        self.n_charges += 1
        composition.settle(self._open[-1], self.accountant)

    def _check_thresholds(self, mechanism: Mechanism) -> None:
        """Raise if the deltas of all released lists exceed the book's, after a charge for a list."""
        if THRESHOLD_DELTA not in mechanism.parameters:
            return
        if len(self._open) > 1:
            raise AccountingError(f"A list of values cannot be released inside the scope {self._open[-1].label!r}.")
        asked, most = mechanism.parameters[THRESHOLD_DELTA], exact(self.accountant.threshold_delta)
        taken = sum(
            (entry.mechanism.parameters.get(THRESHOLD_DELTA, 0) for _, entry in composition.entries(self.root)), Fraction(0)
        )
        if taken > most:
            left = float(most - taken + asked)
            raise BudgetError.over("a list of values", float(asked), left, float(most), "delta")

    def _charged(self) -> Fraction | float:
        """The exact cost of all charges of the open book as a fraction, without (infinite) leaks."""
        return composition.charged(self.root, self.accountant)

    def leak(self, purpose: Purpose | str, reason: str) -> None:
        """Enter a leak, for an exact value that is opened without a mechanism: the total becomes infinite."""
        self._open[-1].children.append(Leak(as_purpose(purpose), reason))

    def __eq__(self, other: object) -> bool:
        names = ("epsilon", "delta", "rows", "books", "proof")
        return isinstance(other, Ledger) and all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ledger(spent={self.spent:.6g}, charges={len(self.entries())})"

    _repr_html_ = as_html

    def to_dict(self) -> dict[str, Any]:
        """The ledger as plain values, ready for JSON; infinity is the text "inf"."""
        return {
            **({} if self.is_old else {"format": FORMAT}),
            "epsilon": jsonable(self.epsilon),
            "delta": self.delta,
            "rows_of_unit": self.rows,
            "spent": jsonable(self.spent),
            "proof": self.proof,
            "books": [
                {
                    "epsilon": jsonable(book.accountant.epsilon),
                    "delta": book.accountant.delta,
                    "unit": book.accountant.unit,
                    **({"threshold_delta": listed} if (listed := book.accountant.threshold_delta) else {}),
                    **({"sample_share": float(share)} if (share := book.accountant.share) < 1 else {}),
                    "root": to_dict(book.root, self.is_old),
                }
                for book in self.books
            ],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Ledger":
        """The ledger written by ``to_dict``; earlier versions have a text for each purpose, and no format."""
        rows = content.get("rows_of_unit", 1)
        ledger = cls(make_accountant(float(content["epsilon"]), content["delta"], rows))
        ledger.books, ledger.proof, ledger.is_old = [], content.get("proof", ""), "format" not in content
        for book in content["books"]:
            listed, part = book.get("threshold_delta", 0.0), book.get("sample_share", 1.0)
            if type(part) is not float or (ledger.books[-1:] and ledger.sample_share < 1):
                raise ValueError("The share of a sample is a number, and its book the last one.")
            share = Fraction(part)
            accountant = make_accountant(float(book["epsilon"]), book["delta"], rows, listed, share)
            ledger._open_book(Book(accountant, scope_from_dict(book["root"], ledger.is_old)))
        if not ledger.books:
            raise ValueError("A ledger has at least one book.")
        return ledger

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        return cls.from_dict(json.loads(text))


def _taken(book: Book) -> Fraction:
    """The epsilon unavailable to later books: what a pure book spent, or all that one with delta may spend."""
    accountant = book.accountant
    return exact(accountant.epsilon if accountant.delta else accountant.epsilon_of(book.total))
