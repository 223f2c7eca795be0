"""dpforest rules: what a model has learnt, as sentences or as a table."""

import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import print_json, say


def rules(
    model: Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write a table (.csv, .json) or text (.txt) instead of printing.")] = None,
    leaves: Annotated[bool, typer.Option("--leaves", help="Only rules that end at a leaf.")] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="Only rules whose class has at least this share of the records, from 0 to 1.")
    ] = None,
    min_support: Annotated[float | None, typer.Option(help="Only rules about at least so many records.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Print every root-to-node rule with its class, released confidence and support.

    Tables also have the released count and share of each class. Choosing rules costs nothing: all of it was released.

    Example: [bold]dpforest rules adult.dpf --out rules.csv --min-confidence 0.9 --min-support 500[/bold]
    """
    from dpforest.errors import ParameterError
    from dpforest.estimators import load_model
    from dpforest.files import check_writable, write_whole

    writers = {".csv": _csv, ".json": lambda rows: json.dumps(rows, indent=1), ".txt": None, "": None}
    suffix = out.suffix if out else ".json" if as_json else ""
    if suffix not in writers:
        raise ParameterError(f"Rules are written to .csv, .json or .txt, not to {str(out)!r}.")
    if out is not None:
        check_writable(out, model)
    forest = load_model(model).forest_
    if suffix in (".txt", ""):
        text = forest.rules_text(leaves, min_confidence, min_support)
    else:
        rows = [_plain(rule) for rule in forest.rules(min_confidence, min_support) if rule["leaf"] or not leaves]
        text = writers[suffix](rows)  # type: ignore[misc]
    if out is not None:
        write_whole(out, text.encode("utf-8"))
        say(f"Rules: {out}")
    elif as_json:
        print_json(json.loads(text))
    else:
        say(text or "No rule has that confidence and support.")


def _plain(rule: dict[str, Any]) -> dict[str, Any]:
    """The rule with labels that JSON has."""
    rule = rule | {"class": _label(rule.get("class"))}
    if "distribution" in rule:
        rule["distribution"] = [part | {"class": _label(part["class"])} for part in rule["distribution"]]
    return rule


def _label(label: object) -> object:
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def _csv(rows: list[dict[str, Any]]) -> str:
    """A table with the class distribution as JSON in one column, since labels that differ may look alike as names."""
    import csv

    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "conditions"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names or ["tree", "node", "leaf", "rule", "support"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(row | {"distribution": json.dumps(row.get("distribution"))} for row in rows)
    return stream.getvalue()
