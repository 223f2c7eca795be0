"""The statement and the ledger as HTML, for notebooks. Public values only."""

import math
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from dpforest.common.html import panel, paragraph, table
from dpforest.common.text import counted, figure, share_figure
from dpforest.privacy.walk import entries, shared

if TYPE_CHECKING:
    from dpforest.privacy.ledger import Ledger
    from dpforest.privacy.statement import Statement


def statement_html(statement: "Statement") -> str:
    """The promise of a model in a sentence, the notes on it, and its figures."""
    title = "the guarantee holds" if not statement.outside else "as declared, not proved by the library"
    rows = [
        ("epsilon", figure(statement.epsilon)),
        ("delta", figure(statement.delta)),
        ("protects", f"one {statement.unit} ({statement.adjacency})"),
        ("recipe", f"{statement.recipe} ({statement.variant})"),
    ]
    title = title if statement.holds else "NO guarantee holds"
    notes = [paragraph(f"Note: {note.removesuffix('.')}.") for note in statement.notes]
    parts = paragraph(statement.sentence), *notes, table((), rows)
    return panel(f"Privacy: {title}", *parts, is_alarm=not statement.holds)


def ledger_html(ledger: "Ledger") -> str:
    """What the loss was spent on, one row for each purpose and mechanism, with its share of the whole loss."""
    shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    charges: dict[tuple[str, str], int] = defaultdict(int)
    has_shares = math.isfinite(ledger.spent)
    roots = shared([(book.root, book.accountant) for book in ledger.books], counted=True)
    for book, root in zip(ledger.books, roots, strict=True):
        parts = root.shares if root.cost and has_shares else [Fraction(0)] * sum(1 for _ in entries(book.root))
        for (_, entry), share in zip(entries(book.root), parts, strict=True):
            key = (entry.purpose.kind, entry.mechanism.name)
            shares[key] += share
            charges[key] += 1
    rows = [
        (purpose, mechanism, f"{charges[purpose, mechanism]:,}", share_figure(float(share)) if has_shares else "no bound")
        for (purpose, mechanism), share in shares.items()
    ]
    at = f" at delta = {figure(ledger.delta)}" if ledger.delta else ""
    spent = f"Spent: epsilon = {figure(ledger.spent)}{at}, of {figure(ledger.epsilon)} that were allowed."
    leaks = [paragraph(f"{counted(len(ledger.leaks), 'exact value')} opened without protection.")] if ledger.leaks else []
    head = ("For", "Mechanism", "Charges", "Share of the loss")
    title = f"Ledger: {counted(ledger.n_entries, 'charge')}" + ("" if has_shares else ", NO bound on the loss")
    return panel(title, paragraph(spent), *leaks, table(head, rows), is_alarm=not has_shares)
