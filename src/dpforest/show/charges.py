"""The ledger of a model as a picture and as a table, and what was spent on what a schema lacks. Sees charges only.

A block stands for a charge, a leak or a scope. Scopes that are alike are drawn once, with their number.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpforest.common.text import percent
from dpforest.privacy.composition import Priced, divided, entries, priced, shared
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, Charge, Leak, Purpose, Scope
from dpforest.privacy.ledger import Book, Ledger
from dpforest.schema import Schema
from dpforest.schema.words import Unknown, unknowns

Block = dict[str, Any]

MOST_PARTS = 60  # that are drawn inside one block
MOST_BLOCKS = 2000  # in the whole picture
# What a charge was for, in words.
PURPOSES = {
    Purpose("number of rows"): "How many rows there are",
    Purpose("earlier model"): "Whether the earlier model helps",
    Purpose("earlier model", "range"): "Whether the target still lies within the earlier range",
    Purpose("linear", "first look"): "Which way all features lean, together",
    Purpose("linear", "second look"): "Which way all features lean, once more",
    Purpose("linear", "order"): "Which way all features lean from the commonest class to the others",
    Purpose("linear", "even look"): "How far from their middle numbers lie in each class",
    Purpose("linear", "slope"): "How much this score counts",
    Purpose("splits", "labelled"): "Which rule gets most records right",
    Purpose("lead of the rule"): "How many records the rule gets right",
    Purpose("location of the target"): "Around which value the target lies",
    Purpose("spread of the target"): "How far the target spreads",
    Purpose("range of the target"): "Between which values the target lies",
    Purpose("grid", "middle"): "Around which values numbers lie",
    Purpose("grid", "quarters"): "How far numbers spread",
    Purpose("first look"): "How the classes lie in each feature",
    Purpose("first look", "pairs"): "How the classes lie in pairs of features",
    Purpose(SPLITS): "Which question each node asks",
    Purpose(SPLITS, "feature"): "Which question each node asks: the feature",
    Purpose(SPLITS, "split"): "Which question each node asks: the split",
    Purpose(SPLITS, "median"): "Which question each node asks: the most even split of a feature",
    Purpose(SPLITS, "class means"): "Which question each node asks: class means",
    Purpose(SPLITS, "noisy counts"): "Which question each node asks: noisy counts",
    Purpose(SPLITS, "centres"): "Which question each node asks: the centre",
    Purpose(COUNTS): "How many records inner nodes hold",
    Purpose(LEAVES): "What the leaves hold",
}


class Charged(NamedTuple):
    """A charge or leak, with the scopes around it and its share of the loss of the whole ledger."""

    book: Book
    root: Priced
    scopes: tuple[Scope, ...]
    entry: Charge | Leak
    share: Fraction


def charged(ledger: Ledger, counted: bool = False) -> Iterator[Charged]:
    """Every charge and leak of a ledger; for ``counted`` see ``shared``."""
    books = [book for book in ledger.books if book.root.children]
    for book, root in zip(books, shared([(book.root, book.accountant) for book in books], counted), strict=True):
        for (scopes, entry), share in zip(entries(book.root), root.shares, strict=True):
            yield Charged(book, root, scopes, entry, share)


def grouped_charges(ledger: Ledger) -> list[dict[str, Any]]:
    """The rows of the table of what the loss was spent on: one for each purpose and mechanism."""
    groups: dict[tuple[str, ...], list[Charged]] = {}
    for each in charged(ledger):
        purpose, reason = each.entry.purpose, each.entry.reason if isinstance(each.entry, Leak) else ""
        label = purpose.words(None if purpose.level is None else "#")
        groups.setdefault((label, each.entry.mechanism.name, each.book.accountant.unit, reason), []).append(each)
    bounded = math.isfinite(ledger.spent)
    return [
        {
            "label": label,
            "purpose": PURPOSES.get(group[0].entry.purpose.without_numbers, label),
            "mechanism": mechanism,
            "unit": unit,
            "charges": sum(math.prod(scope.copies for scope in each.scopes) for each in group),
            "least": min(each.entry.amount for each in group),
            "most": max(each.entry.amount for each in group),
            "share": float(sum(each.share for each in group)) if bounded else None,
            "levels": sorted({each.entry.purpose.level for each in group if each.entry.purpose.level is not None}),
            "in_bootstrap": any(scope.kind == "bootstrap" for scope in group[0].scopes),
            "leak": isinstance(group[0].entry, Leak),
            "reason": reason,
        }
        for (label, mechanism, unit, reason), group in groups.items()
    ]


def picture(ledger: Ledger) -> Block:
    """The whole ledger as nested blocks, each with the share of the loss that its width shows."""
    books = [_book_block(book, number) for number, book in enumerate(ledger.books, 1) if book.root.children]
    whole = _block("The whole model", "sequential", ledger.spent, "epsilon", children=books)
    if len(books) == 1 and ledger.sample_share == 1:
        whole["children"], whole["inner_unit"] = books[0]["children"], books[0]["inner_unit"]
    _share(whole, Fraction(1))
    # The deepest levels go first where there is too much to draw.
    levels = [[whole]]
    while levels[-1] and sum(map(len, levels)) <= MOST_BLOCKS:
        levels.append([part for block in levels[-1] for part in block["children"]])
    for block in levels[-2] if levels[-1] else []:
        block["children"] = []
    return whole


def _block(label: str, kind: str, cost: float, unit: str, **more: Any) -> Block:
    return {"label": label, "kind": kind, "cost": cost, "unit": unit, "count": 1, "copies": 1, "children": []} | more


def _book_block(book: Book, number: int) -> Block:
    accountant = book.accountant
    way = "pure epsilon" if accountant.unit == "epsilon" else f"zCDP, stated at delta = {accountant.noise_delta:.3g}"
    way += f", with delta = {accountant.threshold_delta:.3g} for lists" if accountant.threshold_delta else ""
    way += f", on a secret sample of {float(accountant.share):.3g} of the records" if accountant.share < 1 else ""
    parts = _blocks(priced(book.root, accountant), accountant.unit)
    spent = accountant.epsilon_of(book.total)
    return _block(f"Book {number}: {way}", "book", spent, "epsilon", children=parts, inner_unit=accountant.unit)


def _blocks(scope: Priced, unit: str) -> list[Block]:
    """A block for each part of a scope; scopes that are alike share one."""
    alike: dict[Any, list[Priced]] = {}
    for index, part in enumerate(scope.parts):
        alike.setdefault(_likeness(part) if isinstance(part.entry, Scope) else index, []).append(part)
    return [_part_block(parts, unit) for parts in alike.values()]


def _part_block(parts: list[Priced], unit: str) -> Block:
    """The block of a charge, of a leak, or of scopes that are alike."""
    entry, cost = parts[0].entry, float(parts[0].cost)
    if isinstance(entry, Scope):
        own: Block = {"copies": entry.copies, "children": _blocks(parts[0], unit), "count": len(parts)}
        own |= {"last": parts[-1].entry.label} if len(parts) > 1 else {}
        return _block(entry.label, entry.kind, cost, unit, **own)
    if isinstance(entry, Leak):
        return _block(entry.label, "leak", cost, unit, mechanism="none", reason=entry.reason)
    return _block(entry.label, "charge", cost, unit, mechanism=entry.mechanism.name, purpose=entry.purpose.kind)


def _likeness(part: Priced) -> tuple[Any, ...]:
    """A key of parts, equal where they differ by the numbers of trees and levels alone."""
    entry = part.entry
    same = (entry.kind, entry.copies) if isinstance(entry, Scope) else (entry.mechanism.name,)
    return entry.purpose.without_numbers, f"{float(part.cost):.6g}", same, *map(_likeness, part.parts)


def _share(block: Block, share: Fraction) -> None:
    """Enter in each block the share that it, and those like it, have of the loss; join parts beyond what can be drawn."""
    block["share"] = float(share)
    costs = [part["cost"] * part["count"] for part in block["children"]]
    for part, own in zip(block["children"], divided(share, costs), strict=True):
        _share(part, own)
    if len(block["children"]) > MOST_PARTS:
        shown, rest = block["children"][: MOST_PARTS - 1], block["children"][MOST_PARTS - 1 :]
        cost, part = (sum(each[name] for each in rest) for name in ("cost", "share"))
        block["children"] = [*shown, _block(f"{len(rest)} more parts", "rest", cost, rest[0]["unit"], share=part)]


def ways_to_compose(block: Block) -> set[str]:
    """The kinds of scopes below a block, parallel ones only if several parts run beside each other."""
    is_way = block["kind"] == "bootstrap" or (block["kind"] == "parallel" and len(block["children"]) > 1)
    return ({block["kind"]} if is_way else set()).union(*map(ways_to_compose, block["children"]))


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

    def to_dict(self) -> dict[str, Any]:
        lacking = {"lacks": self.unknown.lacks, "columns": list(self.unknown.columns)}
        return lacking | {"share": self.share, "words": self.sentences}


def gaps(schema: Schema, ledger: Ledger) -> list[Gap]:
    """What a schema lacks, each with its share of what the ledger spends."""
    found = unknowns(schema)
    if not found or math.isinf(ledger.spent):
        return [Gap(each, None) for each in found]
    shares = shares_by_kind(ledger)
    return [Gap(each, sum(shares[kind] for kind in each.paid_for)) for each in found]


def shares_by_kind(ledger: Ledger) -> dict[str, float]:
    """The share of the loss that charges of each kind of purpose have; 0 for all other kinds."""
    shares: dict[str, float] = defaultdict(float)
    for each in charged(ledger):
        shares[each.entry.purpose.kind] += float(each.share)
    return shares
