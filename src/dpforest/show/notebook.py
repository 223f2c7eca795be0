"""Schemas, statements and ledgers as HTML for notebooks: a panel with tables, nothing from elsewhere. Public values only.

Names can hold any character, so every text is escaped here, and hidden characters are made visible. Colours are those of the
notebook around, so that a panel is read on light and on dark ground.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import singledispatch
from html import escape

from dpforest.common.text import counted, figure, share_figure, shortened, visible
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.schema import Categorical, Classes, Date, Schema
from dpforest.schema.kinds import Feature, Target
from dpforest.schema.words import in_words, unit_words
from dpforest.show.charges import charged

LONGEST, MOST_ROWS, MOST_LISTED = 80, 40, 8
STYLE = (
    ".dpforest-panel{border:1px solid rgba(128,128,128,.5);padding:.6em 1em;max-width:60em;text-align:left;"
    "overflow-wrap:break-word}"
    ".dpforest-panel .dpforest-scroll{overflow-x:auto}"
    ".dpforest-panel table{border-collapse:collapse;margin:.4em 0}"
    ".dpforest-panel th,.dpforest-panel td{text-align:left!important;vertical-align:top;padding:.15em 1.2em .15em 0;"
    "overflow-wrap:normal;background:none;border-bottom:1px solid rgba(128,128,128,.3);font-weight:normal}"
    ".dpforest-panel thead th{opacity:.75}.dpforest-panel p{margin:.3em 0}"
)
# White on red, on light and on dark ground.
ALARM = (
    ".dpforest-panel .dpforest-alarm{display:block;margin:0 0 .4em;padding:.5em .8em;background:#b3261e;color:#fff;"
    "font-size:1.3em;font-weight:bold}"
)


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
    listed = table(("Column", "Kind", "Values"), [(name, _kind(part), _values(part)) for name, part in columns])
    return panel(title, listed, *map(paragraph, facts), is_alarm=is_read)


@as_html.register
def _(statement: Statement) -> str:
    title = "the guarantee holds" if not statement.outside else "as declared, not proved by the library"
    rows = [
        ("epsilon", figure(statement.epsilon)), ("delta", figure(statement.delta)),
        ("protects", f"one {statement.unit} ({statement.adjacency})"),
        ("recipe", f"{statement.recipe} ({statement.variant})"),
    ]  # fmt: skip
    texts = [statement.sentence, *(f"Note: {note.removesuffix('.')}." for note in statement.notes)]
    title = f"Privacy: {title if statement.holds else 'NO guarantee holds'}"
    return panel(title, *map(paragraph, texts), table((), rows), is_alarm=not statement.holds)


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
    texts = [f"Spent: epsilon = {figure(ledger.spent)}{at}, of {figure(ledger.epsilon)} that were allowed."]
    texts += [f"{counted(len(ledger.leaks), 'exact value')} opened without protection."] if ledger.leaks else []
    title = f"Ledger: {counted(ledger.n_entries, 'charge')}" + ("" if has_shares else ", NO bound on the loss")
    listed = table(("For", "Mechanism", "Charges", "Share of the loss"), rows)
    return panel(title, *map(paragraph, texts), listed, is_alarm=not has_shares)


def _kind(part: Feature | Target) -> str:
    if isinstance(part, Date):
        return "point in time" if part.time else "date"
    if isinstance(part, Categorical | Classes):
        return "category" if isinstance(part, Categorical) else "class"
    return "whole number" if getattr(part, "integer", False) else "number"


def _values(part: Feature | Target) -> str:
    listed = part.categories if isinstance(part, Categorical) else part.labels if isinstance(part, Classes) else ()
    if not listed:
        return in_words(part)
    more = f" and {len(listed) - MOST_LISTED:,} more" if len(listed) > MOST_LISTED else ""
    return ", ".join(str(value)[:40] for value in listed[:MOST_LISTED]) + more


def written(value: object, most: int = LONGEST) -> str:
    """A value as escaped HTML: isolated from the direction of the text around it, and cut if it is long."""
    return f"<bdi>{escape(shortened(value, most, visible))}</bdi>"


def panel(title: str, *parts: str, is_alarm: bool = False) -> str:
    """A panel with a title, which is the loudest of all if it is an alarm; the parts are HTML, such as ``table`` gives."""
    style, loud = (STYLE + ALARM, ' class="dpforest-alarm"') if is_alarm else (STYLE, "")
    head = f"<style>{style}</style><strong{loud}>{escape(title)}</strong>"
    return f'<div class="dpforest-panel">{head}{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{written(text, 2000)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts, without a head if that is empty; of many rows the first ones, and how many more there are."""
    rows = list(rows)
    body = "".join(
        f'<tr><th scope="row">{written(first)}</th>{"".join(f"<td>{written(value)}</td>" for value in rest)}</tr>'
        for first, *rest in rows[:MOST_ROWS]
    )
    left = f"<p>and {len(rows) - MOST_ROWS:,} more</p>" if len(rows) > MOST_ROWS else ""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if names else ""
    return f'<div class="dpforest-scroll"><table>{top}<tbody>{body}</tbody></table></div>{left}'
