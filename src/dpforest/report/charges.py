"""The ledger as a picture and as a table. Public values only.

A block stands for a charge, a leak or a scope. Scopes that are alike are drawn once, with their number.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from dpforest.privacy.accountants import Accountant
from dpforest.privacy.ledger import Book, Charge, Leak, Ledger, Scope

Block = dict[str, Any]

MOST_PARTS = 60  # that are drawn inside one block
MOST_BLOCKS = 2000  # in the whole picture
# What a charge was for, in words; the level is written as #.
PURPOSES = {
    "number of rows": "How many rows there are",
    "range of the target": "Where the target lies",
    "first look": "How the classes lie in each feature",
    "first look: pairs": "How the classes lie in pairs of features",
    "splits of level #": "Which question each node asks",
    "splits of level #: feature": "Which question each node asks: the feature",
    "splits of level #: split": "Which question each node asks: the split",
    "splits of level #: median": "Which question each node asks: the most even split of a feature",
    "splits of level #: class means": "Which question each node asks: class means",
    "splits of level #: noisy counts": "Which question each node asks: noisy counts",
    "splits of level #: centres": "Which question each node asks: the centre",
    "counts of level #": "How many records inner nodes hold",
    "leaves": "What the leaves hold",
}


def picture(ledger: Ledger) -> Block:
    """The whole ledger as nested blocks, each with the share of the loss that its width shows."""
    books = [_book_block(book, place + 1) for place, book in enumerate(ledger.books) if book.root.children]
    whole = _block("The whole model", "sequential", ledger.spent, "epsilon", children=books)
    if len(books) == 1:
        whole["children"], whole["inner_unit"] = books[0]["children"], books[0]["inner_unit"]
    _share(whole, 1.0)
    drawn = _drawn(whole)
    # The deepest levels go first where there is too much to draw.
    levels = [[drawn]]
    while levels[-1] and sum(map(len, levels)) <= MOST_BLOCKS:
        levels.append([part for block in levels[-1] for part in block["children"]])
    if levels[-1]:
        for block in levels[-2]:
            block["children"] = []
    return drawn


def _block(label: str, kind: str, cost: float, unit: str, **more: Any) -> Block:
    return {"label": label, "kind": kind, "cost": cost, "unit": unit, "count": 1, "copies": 1, "children": []} | more


def _book_block(book: Book, number: int) -> Block:
    accountant = book.accountant
    spent = accountant.epsilon_of(book.total)
    way = "pure epsilon" if accountant.unit == "epsilon" else f"zCDP, stated at delta = {accountant.delta:.3g}"
    parts = _blocks(book.root, accountant)
    return _block(f"Book {number}: {way}", "book", spent, "epsilon", children=parts, inner_unit=accountant.unit)


def _blocks(scope: Scope, accountant: Accountant) -> list[Block]:
    """The parts of a scope; scopes that are alike become one."""
    alike: dict[Any, Block] = {}
    for place, entry in enumerate(scope.children):
        block = _entry_block(entry, accountant)
        key = _likeness(block) if isinstance(entry, Scope) else place
        if key in alike:
            alike[key]["count"] += 1
            alike[key]["last"] = block["label"]
        else:
            alike[key] = block
    return list(alike.values())


def _entry_block(entry: Charge | Leak | Scope, accountant: Accountant) -> Block:
    unit = accountant.unit
    if isinstance(entry, Leak):
        return _block(entry.label, "leak", math.inf, unit, mechanism="none", reason=entry.reason)
    if isinstance(entry, Charge):
        return _block(entry.label, "charge", entry.amount, unit, mechanism=entry.mechanism)
    parts = _blocks(entry, accountant)
    return _block(entry.label, entry.kind, _cost(entry, parts, accountant), unit, copies=entry.copies, children=parts)


def _cost(scope: Scope, parts: list[Block], accountant: Accountant) -> float:
    costs = [part["cost"] for part in parts]
    if scope.kind == "parallel":
        return max(costs, default=0.0)
    total = math.fsum(part["cost"] * part["count"] for part in parts)
    if scope.kind == "bootstrap" and math.isfinite(total):
        total = accountant.bootstrap(total)
    return scope.copies * total


def _likeness(block: Block) -> tuple[Any, ...]:
    """Equal for blocks that differ by their number only."""
    label = re.sub(r"\d+", "#", block["label"])
    parts = tuple(_likeness(part) for part in block["children"])
    return label, block["kind"], block.get("mechanism"), f"{block['cost']:.6g}", block["copies"], block["count"], parts


def _share(block: Block, share: float) -> None:
    """Give each part the share of its block that it has of the costs; equal shares where costs have no end."""
    block["share"] = share
    costs = [part["cost"] * part["count"] for part in block["children"]]
    total = math.fsum(costs) if all(map(math.isfinite, costs)) else math.inf
    for part, cost in zip(block["children"], costs, strict=True):
        _share(part, share * cost / total if 0 < total < math.inf else share / len(costs))


def _drawn(block: Block) -> Block:
    """The block with no more parts than a picture can show."""
    parts = [_drawn(part) for part in block["children"]]
    if len(parts) > MOST_PARTS:
        rest = parts[MOST_PARTS - 1 :]
        others = _block(f"{len(rest)} more parts", "rest", sum(part["cost"] for part in rest), rest[0]["unit"])
        parts = [*parts[: MOST_PARTS - 1], others | {"share": sum(part["share"] for part in rest)}]
    return block | {"children": parts}


def grouped_charges(ledger: Ledger) -> list[dict[str, Any]]:
    """What the loss was spent on: a row for each purpose and mechanism."""
    books = [_book_block(book, 1) for book in ledger.books if book.root.children]
    whole = _block("", "sequential", ledger.spent, "epsilon", children=books)
    _share(whole, 1.0)
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for block, times, bootstrap in _leaves(whole, 1, False):
        label = re.sub(r"(level) \d+", r"\1 #", block["label"])
        reason = block.get("reason", "")
        row = rows.setdefault(
            (label, block["mechanism"], block["unit"], reason),
            {
                "label": label, "purpose": PURPOSES.get(label, label), "mechanism": block["mechanism"],
                "unit": block["unit"], "charges": 0, "least": math.inf, "most": 0.0, "share": 0.0, "levels": [],
                "in_bootstrap": bootstrap, "leak": block["kind"] == "leak", "reason": reason,
            },
        )  # fmt: skip
        row["charges"] += times
        row["least"], row["most"] = min(row["least"], block["cost"]), max(row["most"], block["cost"])
        row["share"] += block["share"]
        row["levels"] = sorted({*row["levels"], *map(int, re.findall(r"level (\d+)", block["label"]))})
    return [row | {"share": row["share"] if math.isfinite(ledger.spent) else None} for row in rows.values()]


def _leaves(block: Block, times: int, bootstrap: bool) -> Iterator[tuple[Block, int, bool]]:
    times *= block["count"] * block["copies"]
    bootstrap = bootstrap or block["kind"] == "bootstrap"
    if block["kind"] in ("charge", "leak"):
        yield block, times, bootstrap
    for part in block["children"]:
        yield from _leaves(part, times, bootstrap)


def ways_to_compose(block: Block) -> set[str]:
    """The kinds of scopes below a block, parallel ones only if several parts run beside each other."""
    kinds = set().union(*(ways_to_compose(part) for part in block["children"])) if block["children"] else set()
    beside = block["kind"] == "parallel" and len(block["children"]) > 1
    return kinds | ({"parallel"} if beside else set()) | ({"bootstrap"} if block["kind"] == "bootstrap" else set())
