"""Whether what the papers say in words is true of what was measured."""

from benchmarks.core.results import Row
from benchmarks.papers.base import Table
from benchmarks.papers.lines import Line
from benchmarks.papers.rules import Pick, Reader, Tables
from benchmarks.papers.run import printed


def said(table: Table, tables: Tables) -> list[dict[str, str]]:
    """The sentences of a table, each with the places where it holds as printed and privately."""
    entries = [_lead(row, tables[table.name]) for row in printed() if row["table"] == table.name]
    for sentence in table.sentences:
        found = {}
        for column in ("published", "private"):
            holds = sentence.rule.places(Reader(tables, table.name, column))
            found[column] = f"{sum(holds)} of {len(holds)}" if holds else "-"
        entries.append((sentence.source, sentence.says, found))
    return [
        {"where": where, "what it says": says, "holds as printed": found["published"], "holds privately": found["private"]}
        for entry in entries
        if entry is not None
        for where, says, found in (entry,)
        if set(found.values()) != {"-"}
    ]


def _lead(row: Row, lines: list[Line]) -> tuple[str, str, dict[str, str]] | None:
    """A printed difference between systems, and ours at each budget; both systems in the same column."""
    side, _, against = row["metric"].removeprefix("accuracy ").partition(" ")
    if side not in ("above", "below"):
        return None
    one = Pick(row["system"], (row["dataset"],), tuple(row["parameters"].items()))
    is_forest = against == "random-forest"
    other = Pick(row["system"] if is_forest else against, column="random forest" if is_forest else None)
    sign = 100 if side == "above" else -100
    found = {}
    for column in ("published", "private"):
        reader = Reader({"": lines}, "", column)
        leads = {a.cell.epsilon: reader.value(a, one) - reader.value(b, other) for a, b in reader.pairs(one, other)}
        found[column] = ", ".join(f"{sign * lead:.1f} at ε = {epsilon:g}" for epsilon, lead in leads.items()) or "-"
    says = f"{row['dataset']}: {row['printed_as']} lies {100 * row['value']:.0f} points {side} {against} ({row['note']})"
    return row["source"].removeprefix("read off the text, "), says, found
