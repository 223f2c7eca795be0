"""dpforest rules: what a model has learnt, as sentences or as a table."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import say, steps
from dpforest.cli.options import AsJson, Model, RawText, check_ending
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
    raw_text: RawText = False,
) -> None:
    """Print every root-to-node rule with its class, released confidence and support.

    On the screen a tree that counts nothing, a score of one column, is one line with its strongest rules.
    Tables also have the released count and share of each class. Trees are counted from 1, as in the report.
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
    with steps("Rules"):
        forest = load_model(model).forest_
        chosen = [rule for rule in forest.rules(min_confidence, min_support) if rule["leaf"] or not leaves]
        if kind in (".csv", ".json"):
            rows = [rule | {"tree": rule["tree"] + 1, "class": rule.get("class")} for rule in chosen]
            text = _csv(rows, raw_text) if kind == ".csv" else to_json(rows, indent=1 if out else 2)
        elif out is not None:
            text = "\n".join(map(forest.rule_line, chosen))
        else:
            text = "\n".join(_folded(chosen, forest.rule_line))
    if out is not None:
        write_whole(out, text.encode("utf-8", "backslashreplace"))  # half a character has no UTF-8
        say(f"Rules: {out}")
    else:
        say(text or "No rule has that confidence and support.")


def _folded(rules: list[dict[str, Any]], line: Callable[[dict[str, Any]], str]) -> Iterator[str]:
    """Lines of rules to print: of a tree in which nothing is counted, a score of a column, one with its strongest rules."""
    trees: dict[int, list[dict[str, Any]]] = {}
    for rule in rules:
        trees.setdefault(rule["tree"], []).append(rule)
    scores = {tree: own for tree, own in trees.items() if len(own) > 1 and not any(map(_counts, own))}
    for rule in rules:
        own = scores.get(rule["tree"])
        if own is None:
            yield line(rule)
        elif rule is own[0]:
            yield _score_line(own)
    if scores:
        yield "Trees that count nothing have one line each. All of their rules: --out rules.txt, .csv or .json."


def _counts(rule: dict[str, Any]) -> bool:
    """Whether a rule has a count, or is one of a forest whose trees are not added up."""
    return "adds" not in rule or rule["support"] > 0 or rule["support_band"] is not None


def _score_line(rules: list[dict[str, Any]]) -> str:
    """The strongest rule of a tree for each class, or up and down."""
    from dpforest.common.text import one_line
    from dpforest.forest.tree import said_words

    strongest: dict[Any, dict[str, Any]] = {}
    for rule in sorted(rules, key=lambda rule: -abs(rule["adds"])):
        strongest.setdefault(rule.get("class", rule["adds"] > 0), rule)
    words = "; ".join(f"{said_words(rule)} if {rule['rule']}" for rule in strongest.values())
    return one_line(f"tree {rules[0]['tree'] + 1}: {len(rules)} rules without counts; the strongest: {words}")


def _csv(rows: list[dict[str, Any]], raw_text: bool) -> str:
    """Rules as CSV, with the class distribution as JSON in one column, since labels that differ may look alike as names."""
    import csv

    from dpforest.common.text import cell

    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "conditions"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names or ["tree", "node", "leaf", "rule", "support"], extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        written = row | {"distribution": to_json(row.get("distribution"))}
        writer.writerow({name: cell(x) if isinstance(x, str) and not raw_text else x for name, x in written.items()})
    return stream.getvalue()
