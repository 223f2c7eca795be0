"""dpforest rules: what a model has learnt, as sentences or as a table."""

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import say
from dpforest.cli.options import AsJson, Model, check_ending
from dpforest.common.jsonable import to_json


def rules(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="Write a table (.csv, .json) or text (.txt) instead of printing.")] = None,
    leaves: Annotated[bool, typer.Option("--leaves", help="Only rules that end at a leaf.")] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="Only rules whose class has at least this share of the records, from 0 to 1.")
    ] = None,
    min_support: Annotated[float | None, typer.Option(help="Only rules about at least so many records.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print every root-to-node rule with its class, released confidence and support.

    Tables also have the released count and share of each class, and count trees from 0; the text counts them from 1.
    A value without noise lies within its band (± or "a to b") with a probability of about 95 %.
    Choosing rules costs nothing: all of it was released.

    Example: [bold]dpforest rules adult.dpf --out rules.csv --min-confidence 0.9 --min-support 500[/bold]
    """
    from dpforest.common.files import check_writable, write_whole
    from dpforest.estimators import load_model

    kind = out.suffix if out else ".json" if as_json else ".txt"
    if out is not None and kind:
        check_ending(out, "Rules are written", ".csv", ".json", ".txt")
    if out is not None:
        check_writable(out, model)
    forest = load_model(model).forest_
    if kind in (".csv", ".json"):
        rows = [
            rule | {"class": rule.get("class")}
            for rule in forest.rules(min_confidence, min_support)
            if rule["leaf"] or not leaves
        ]
        text = _csv(rows) if kind == ".csv" else to_json(rows, indent=1 if out else 2)
    else:
        text = forest.rules_text(leaves, min_confidence, min_support)
    if out is not None:
        write_whole(out, text.encode("utf-8"))
        say(f"Rules: {out}")
    else:
        say(text or "No rule has that confidence and support.")


def _csv(rows: list[dict[str, Any]]) -> str:
    """Rules as CSV, with the class distribution as JSON in one column, since labels that differ may look alike as names."""
    import csv

    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "conditions"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names or ["tree", "node", "leaf", "rule", "support"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(row | {"distribution": to_json(row.get("distribution"))} for row in rows)
    return stream.getvalue()
