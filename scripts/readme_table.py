"""Writes the tables of README.md between their marks. ``--check`` only says whether they are current."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from dpforest.bench.harness import finished
from dpforest.bench.utility_figures import METRICS, MODES, Figures, metrics_of
from dpforest.recipes.catalogue import describe_recipes

ROOT = Path(__file__).parents[1]
EPSILON = 1.0


def recipes() -> str:
    lines = ["| recipe | paper | tasks | splits on | budget | published claim |", "|---|---|---|---|---|---|"]
    keys = ("name", "paper", "tasks", "splits", "budget", "claim")
    lines += ["| " + " | ".join(str(row[key]) for key in keys) + " |" for row in describe_recipes()]
    return "\n".join(lines)


def comparison() -> str:
    """From the rows of ``dpforest bench utility``, every table that it has."""
    with gzip.open(ROOT / "docs" / "bench" / "utility.jsonl.gz", "rt", encoding="utf-8") as rows:
        figures = Figures.of(finished([json.loads(row) for row in rows]).values())
    modes = [head for mode in MODES.values() for head in (f"best peer, {mode}", f"**dpforest, {mode}**")]
    lines = [_line("table", "score", "guess", *modes, "no privacy"), "|---" * (4 + len(modes)) + "|"]
    for table in figures.tables():
        metric = metrics_of(table)[0]
        cells = [_mean(figures.figure(table.name, "guess", metric))]
        for delta in MODES:
            best = figures.best_peer(table.name, metric, EPSILON, delta)
            own = figures.figure(table.name, "auto", metric, EPSILON, delta)
            cells += [_mean(best.figure if best else None), f"**{_mean(own)}**"]
        cells.append(_mean(figures.figure(table.name, "random-forest", metric)))
        lines.append(_line(table.name, METRICS[metric], *cells))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _mean(figure: Any) -> str:
    """A share, or an R², which is below 0 where guessing the mean is better."""
    if figure is None:
        return "-"
    return f"{figure.mean:.3f}" if figure.mean > -0.001 else "below 0"


def with_tables(text: str) -> str:
    for name, make in (("recipes", recipes), ("comparison", comparison)):
        begin, end = f"<!-- {name}: made by scripts/readme_table.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    path = ROOT / "README.md"
    text = path.read_text("utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if with_tables(text) == text else "README.md is not current: run python scripts/readme_table.py")
    path.write_text(with_tables(text), "utf-8")
