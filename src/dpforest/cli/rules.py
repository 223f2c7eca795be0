"""dpforest rules: what a model has learnt, as sentences or as a table."""

import io
import json
from pathlib import Path
from typing import Annotated

import typer

from dpforest.cli.console import print_json, say


def rules(
    model: Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write a table (.csv, .json) or text (.txt) instead of printing.")] = None,
    leaves: Annotated[bool, typer.Option("--leaves", help="Only rules that end at a leaf.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Print every root-to-node rule with its class, released confidence and support.

    Example: [bold]dpforest rules adult.dpf --out rules.csv[/bold]
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
        text = forest.rules_text(leaves=leaves)
    else:
        rows = [rule for rule in forest.rules() if rule["leaf"] or not leaves]
        text = writers[suffix]([rule | {"class": _plain(rule.get("class"))} for rule in rows])  # type: ignore[misc]
    if out is not None:
        write_whole(out, text.encode("utf-8"))
        say(f"Rules: {out}")
    elif as_json:
        print_json(json.loads(text))
    else:
        say(text)


def _plain(label: object) -> object:
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def _csv(rows: list[dict[str, object]]) -> str:
    import csv

    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "conditions"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
