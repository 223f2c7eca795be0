"""Schemas, statements and ledgers as panels of HTML for notebooks. Public values only."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import singledispatch

from dpforest.common.text import counted, figure, share_figure
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.schema import Categorical, Classes, Schema
from dpforest.schema.kinds import Feature, Target
from dpforest.schema.words import in_words, unit_words
from dpforest.show.charges import charged
from dpforest.show.report.content import kind_of
from dpforest.show.report.html import environment

MOST_LISTED = 8


@singledispatch
def as_html(value: object) -> str:
    """A schema, statement or ledger as a panel."""
    raise TypeError(f"{type(value).__name__} has no panel.")


@as_html.register
def _(schema: Schema) -> str:
    columns = [(f"{schema.target.name} (target)", schema.target), *schema.features.items()]
    rows = "not declared, so it stays protected" if schema.n_rows is None else f"{schema.n_rows:,}, declared public"
    facts = [f"Number of rows: {rows}.", f"{unit_words(schema)}."]
    facts += [f"Vouched for by: {schema.vouched_by}"] if schema.vouched_by else []
    is_read = schema.source == "assume-public"
    title = "read off the rows themselves, and only assumed to be public; NO guarantee holds"
    title = f"Schema: {title if is_read else 'what is public about the table'}"
    return panel(title, facts, [(name, kind_of(part), _values(part)) for name, part in columns],
                 ("Column", "Kind", "Values"), is_alarm=is_read)  # fmt: skip


@as_html.register
def _(statement: Statement) -> str:
    title = "the guarantee holds" if not statement.outside else "as declared, not proved by the library"
    facts = [statement.sentence, *(f"Note: {note.removesuffix('.')}." for note in statement.notes)]
    rows = [
        ("epsilon", figure(statement.epsilon)), ("delta", figure(statement.delta)),
        ("protects", f"one {statement.unit} ({statement.adjacency})"),
        ("recipe", f"{statement.recipe} ({statement.variant})"),
    ]  # fmt: skip
    title = f"Privacy: {title if statement.holds else 'NO guarantee holds'}"
    return panel(title, facts, rows, is_alarm=not statement.holds)


@as_html.register
def _(ledger: Ledger) -> str:
    shares: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
    for each in charged(ledger, counted=True):
        shares[each.entry.purpose.kind, each.entry.mechanism.name].append(each.share)
    has_shares = ledger.spent < float("inf")
    rows = [
        (*key, f"{len(own):,}", share_figure(float(sum(own))) if has_shares else "no bound") for key, own in shares.items()
    ]
    at = f" at delta = {figure(ledger.delta)}" if ledger.delta else ""
    facts = [f"Spent: epsilon = {figure(ledger.spent)}{at}, of {figure(ledger.epsilon)} that were allowed."]
    facts += [f"{counted(len(ledger.leaks), 'exact value')} opened without protection."] if ledger.leaks else []
    title = f"Ledger: {counted(ledger.n_entries, 'charge')}" + ("" if has_shares else ", NO bound on the loss")
    return panel(title, facts, rows, ("For", "Mechanism", "Charges", "Share of the loss"), is_alarm=not has_shares)


def _values(part: Feature | Target) -> str:
    listed = part.categories if isinstance(part, Categorical) else part.labels if isinstance(part, Classes) else ()
    if not listed:
        return in_words(part)
    more = f" and {len(listed) - MOST_LISTED:,} more" if len(listed) > MOST_LISTED else ""
    return ", ".join(str(value)[:40] for value in listed[:MOST_LISTED]) + more


def panel(
    title: str, facts: Iterable[str], rows: Sequence[Sequence[str]], head: Sequence[str] = (), is_alarm: bool = False
) -> str:
    """A title (the loudest if it is an alarm), some facts, and a table, without a head if that is empty."""
    content = {"title": title, "facts": facts, "rows": rows, "head": head, "is_alarm": is_alarm}
    return environment().get_template("panel.html").render(content)
