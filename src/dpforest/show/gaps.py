"""What a schema does not know, what a budget spends because of it, and what knowing it would buy. Public values only."""

import math
from collections import defaultdict
from dataclasses import dataclass

from dpforest.common.text import percent
from dpforest.privacy.composition import entries, shared
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Schema
from dpforest.schema.words import Unknown, unknowns


@dataclass(frozen=True)
class Gap:
    """What a schema lacks, and the share of the loss that is spent because of it; None if the loss is infinite."""

    unknown: Unknown
    share: float | None

    @property
    def sentences(self) -> str:
        """What was spent, and what knowing more would buy, without the names of columns."""
        spent = f"{percent(self.share)} of the loss was spent {self.unknown.cost}" if self.share else self.unknown.without
        return " ".join(f"{words[0].upper()}{words[1:]}." for words in (spent, self.unknown.gain))


def gaps(schema: Schema, ledger: Ledger) -> list[Gap]:
    """What a schema lacks, each with its share of what the ledger spends."""
    found = unknowns(schema)
    if not found or math.isinf(ledger.spent):
        return [Gap(each, None) for each in found]
    shares = shares_by_kind(ledger)
    return [Gap(each, sum(shares[kind] for kind in each.paid_for)) for each in found]


def shares_by_kind(ledger: Ledger) -> dict[str, float]:
    """The share of the loss that charges of each kind of purpose have; 0 for all other kinds."""
    books = [book for book in ledger.books if book.root.children]
    shares: dict[str, float] = defaultdict(float)
    for book, root in zip(books, shared((book.root, book.accountant) for book in books), strict=True):
        for (_, entry), share in zip(entries(book.root), root.shares, strict=True):
            shares[entry.purpose.kind] += float(share)
    return shares
