"""Writes the tables of README.md between their marks. ``--check`` only says whether they are current."""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.core.results import finished
from benchmarks.utility.figures import METRICS, MODES, Figures, metrics_of
from benchmarks.utility.run import WITHOUT_NOISE
from dpforest.recipes.catalogue import describe_recipes

ROOT = Path(__file__).parents[1]
EPSILON = 1.0
# The tables that README.md shows: the census table that every paper has, and all tables from medicine.
SHOWN = (
    "adult", "mammographic", "breast_cancer_wisconsin", "pima", "heart_cleveland", "heart_hungarian", "parkinsons_total",
    "parkinsons_motor",
)  # fmt: skip


def recipes() -> str:
    """Every algorithm of the catalogue, with its paper and whether the printed one keeps what it claims."""
    lines = [_line("recipe", "paper", "published claim"), "|---|---|---|"]
    lines += [_line(*(str(row[key]) for key in ("name", "paper", "claim"))) for row in describe_recipes()]
    return "\n".join(lines)


def comparison() -> str:
    """How often the default recipe is ahead at epsilon = 1, and the figures of the tables named in ``SHOWN``."""
    with gzip.open(ROOT / "docs" / "bench" / "utility.jsonl.gz", "rt", encoding="utf-8") as rows:
        figures = Figures.of(finished([json.loads(row) for row in rows]).values())
    return f"{_verdicts(figures)}\n\n{_short_table(figures)}"


def _verdicts(figures: Figures) -> str:
    """One sentence for each mode: on how many of all tables the default is above, like and below the best peer."""
    cells = [cell for metric in ("accuracy", "r2") for cell in figures.cells(metric) if cell.epsilon == EPSILON]
    said = []
    for delta, mode in MODES.items():
        found = Counter(cell.verdict for cell in cells if cell.delta == delta)
        said.append(
            f"With {mode}, `auto` is above the best peer on {found['above']} of {found.total()} tables, within 0.3 points "
            f"of it on {found['alike']}, and below it on {found['below']}."
        )
    return "\n".join(said)


def _short_table(figures: Figures) -> str:
    modes = [head for mode in MODES.values() for head in (f"best peer, {mode}", f"dpforest, {mode}")]
    heads = ("table", "score", "guess", *modes, "dpforest, ε = ∞", "boosting, no privacy")
    lines = [_line(*heads), "|---" * len(heads) + "|"]
    for table in figures.tables():
        if table.name not in SHOWN:
            continue
        metric = metrics_of(table)[0]
        cells = [_mean(figures.figure(table.name, "guess", metric))]
        for delta in MODES:
            best = figures.best_peer(table.name, metric, EPSILON, delta)
            own = figures.figure(table.name, "auto", metric, EPSILON, delta)
            cells += _bold_best(best.figure if best else None, own)
        cells += [_mean(figures.figure(table.name, system, metric)) for system in (WITHOUT_NOISE, "boosting")]
        lines.append(_line(table.name, METRICS[metric], *cells))
    return "\n".join(lines)


def _bold_best(*figures: Any) -> list[str]:
    """Figures as they are printed, the best of them in bold; those that are printed alike tie."""
    printed = [_mean(figure) for figure in figures]
    best = _mean(max((figure for figure in figures if figure is not None), key=lambda figure: figure.mean, default=None))
    return [f"**{text}**" if text == best else text for text in printed]


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
        sys.exit(0 if with_tables(text) == text else "README.md is not current: run python -m scripts.readme_table")
    path.write_text(with_tables(text), "utf-8")
