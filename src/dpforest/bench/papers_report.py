"""Makes the page on the papers from rows: tables side by side, plots, and which printed figures are reached."""

import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from dpforest.bench import papers
from dpforest.bench.harness import Row, finished, group, key, read_rows
from dpforest.bench.papers import Cell, Question, Table

COLUMNS = ("published", "private", "private at 2ε", "auto", "no privacy", "random forest")
HEADS = {
    "published": "as printed",
    "no privacy": "no privacy, same system",
    "random forest": "no privacy, random forest",
}
# Factor, digits and unit in which a metric is shown.
UNITS = {"accuracy": (100, 1, "%"), "error": (100, 1, "%"), "mse_range": (1000, 2, "10⁻³")}
NAMES = {"epsilon": "ε", "n_trees": "trees", "depth": "depth"}
# A printed figure counts as reached within two points; a squared error within a tenth of it.
NEAR_POINTS, NEAR_SHARE = 0.02, 0.1
# Longer tables are folded away.
MOST_OPEN_LINES = 24
MOST_FULL_SERIES = 4

Groups = dict[str, list[Row]]  # rows of the same case on different splits


@dataclass(frozen=True)
class Figure:
    """A mean over splits."""

    mean: float
    spread: float | None
    n: int

    @classmethod
    def of(cls, values: list[float]) -> "Figure":
        return cls(mean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Line:
    """A cell with all that was measured and printed for it."""

    cell: Cell
    metric: str
    figures: dict[str, Figure]
    guess: Figure
    printed: Row | None
    least_charge: float | None

    @property
    def value(self) -> float | None:
        return None if self.printed is None else self.printed["value"]


def base(dataset: str) -> str:
    """The benchmark table of a view."""
    return dataset.partition(":")[0]


def lines_of(question: Question, table: Table, rows: Iterable[Row]) -> list[Line]:
    """The cells of a table that were run."""
    groups: Groups = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    printed = [row for row in papers.printed() if row["table"] == table.name]
    lines = (_line(question, table, cell, groups, printed) for cell in table.cells)
    return [line for line in lines if line is not None]


def _line(question: Question, table: Table, cell: Cell, groups: Groups, printed: list[Row]) -> Line | None:
    cases = papers.cases_of(question, table, cell, seed=0)
    found = {column: groups[place] for column, case in cases.items() if (place := group(case.to_dict())) in groups}
    own = found.get("private" if cell.epsilon is not None else "no privacy") or found.get("published")
    if not own:
        return None
    charges = [row["epsilon_least_charge"] for row in own if "epsilon_least_charge" in row]
    return Line(
        cell=cell,
        metric=table.metric,
        figures={column: Figure.of([row["metrics"][table.metric] for row in same]) for column, same in found.items()},
        guess=Figure(mean(row["guess"][table.metric] for row in own), None, len(own)),
        printed=next((row for row in printed if _is_printed_for(row, cell, table.metric)), None),
        least_charge=min(charges, default=None),
    )


def _is_printed_for(row: Row, cell: Cell, metric: str) -> bool:
    """A printed row says fewer parameters than a cell has, but privacy it must have or lack alike."""
    given = dict(cell.parameters)
    return (
        row["metric"] == metric
        and row["dataset"] == base(cell.dataset)
        and row["system"] == cell.system
        and ("epsilon" in row["parameters"]) == ("epsilon" in given)
        and all(given.get(name) == value for name, value in row["parameters"].items())
    )


def _shown(metric: str, figure: Figure | None) -> str:
    if figure is None:
        return "-"
    factor, digits, _ = UNITS[metric]
    spread = "" if figure.spread is None else f" ± {factor * figure.spread:.{digits}f}"
    return f"{factor * figure.mean:.{digits}f}{spread}"


def _varying(cells: Iterable[Cell]) -> list[str]:
    """Parameters that tell the cells of a table apart, the budget first."""
    values: dict[str, set[Any]] = {}
    for cell in cells:
        for name, value in cell.parameters:
            values.setdefault(name, set()).add(value)
    order = ("epsilon", "n_trees", "depth")
    names = [name for name, found in values.items() if len(found) > 1]
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _parameters(cell: Cell, names: Iterable[str]) -> str:
    given = dict(cell.parameters)
    shown = [f"{NAMES.get(name, name)} = {_number(given[name])}" for name in names if name in given]
    return ", ".join(shown) if cell.epsilon is not None else ", ".join(["no privacy", *shown])


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def cells_shown(table: Table, line: Line) -> dict[str, str]:
    """A line as text, by the heads of its columns."""
    printed = None if line.value is None else Figure(line.value, None, 1)
    shown = {
        "data": line.cell.dataset,
        "system": line.cell.system,
        "parameters": _parameters(line.cell, _varying(table.cells)),
        "paper": _shown(line.metric, printed),
    }
    for column in COLUMNS:
        if column != "private at 2ε" or table.twice:
            shown[HEADS.get(column, column)] = _shown(line.metric, line.figures.get(column))
    return shown | {"always the same answer": _shown(line.metric, line.guess), "splits": str(line.guess.n)}


def side_by_side(results: Path) -> list[dict[str, str]]:
    """Every line that was run as text, for printing: the title of its table and the columns of the page."""
    rows = list(finished(read_rows(Path(results))).values())
    return [
        {"experiment": f"{question.name}: {table.title}", "unit": f"{table.metric}, {UNITS[table.metric][2]}"}
        | cells_shown(table, line)
        for question in papers.QUESTIONS
        for table in question.tables
        for line in lines_of(question, table, rows)
    ]


def write(results: Path, folder: Path) -> Path:
    """Write ``papers.md`` and its plots into a folder, from the rows of a results file."""
    results, folder = Path(results), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    every = read_rows(results)
    done = finished(every)
    rows = list(done.values())
    found = {
        table: lines
        for question in papers.QUESTIONS
        for table in question.tables
        if (lines := lines_of(question, table, rows))
    }
    text = [_INTRODUCTION.format(n_rows=len(rows)), *_reached(found)]
    for question in papers.QUESTIONS:
        tables = [table for table in question.tables if table in found]
        if tables:
            text += [f"## {question.title}\n", f"{question.note}\n", f"{question.why}\n"]
        for table in tables:
            text += _section(table, found[table], folder)
    text += _absent(row for row in every if key(row) not in done)
    page = folder / "papers.md"
    page.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    return page


_INTRODUCTION = """# The papers' experiments, run again

Made by `dpforest bench papers` from {n_rows} measured rows; nothing here is written by hand. Columns:

- **paper**: the printed number, where the paper has it as text. Pictures are not read off.
- **as printed**: exactly what the paper prints (`variant="published"`). Not private, but for DP-ERT with classes.
- **private**: the recipe of the catalogue, ε-DP for one record more or less; **private at 2ε** at twice the budget.
- **auto**: the default recipe at the budget of the line.
- **no privacy, same system**: the recipe at ε = ∞. **no privacy, random forest**: scikit-learn's, of the same shape.
- **always the same answer**: the commonest class, or the mean. Who is not better has learnt nothing.

Means over splits ± standard deviation. Splits are fixed, noise is fresh. Lines marked "no privacy" are the paper's own
references; where they name a recipe, "as printed" is the printed form at ε = ∞.
"""


def _section(table: Table, lines: list[Line], folder: Path) -> list[str]:
    unit = UNITS[table.metric][2]
    better = "more is better" if table.metric == "accuracy" else "less is better"
    text = [f"### {table.title}\n", f"{table.note} Figures in {unit}, {better}.\n"]
    if plot := _plot(table, lines, folder):
        text += [f"![{table.title}]({plot.name})\n"]
    shown = _markdown([cells_shown(table, line) for line in lines])
    if len(lines) > MOST_OPEN_LINES:
        shown = f"<details><summary>{len(lines)} lines</summary>\n\n{shown}\n</details>\n"
    return [*text, shown, *_charges(table, lines), *_sentences(table, lines)]


def _markdown(entries: list[dict[str, str]]) -> str:
    heads = list(entries[0])
    body = ["| " + " | ".join(entry[head] for head in heads) + " |" for entry in entries]
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *body]) + "\n"


def _reached(found: dict[Table, list[Line]]) -> list[str]:
    """How many printed figures each column reaches, with the median distance to them."""
    entries = []
    for table, lines in found.items():
        compared = [line for line in lines if line.value is not None and line.cell.epsilon is not None]
        if not compared:
            continue
        entry = {"experiment": table.name, "printed figures": str(len(compared))}
        entry |= {HEADS.get(column, column): _count(compared, column) for column in COLUMNS}
        entries.append(entry)
    if not entries:
        return []
    return [
        "## Which printed figures are reached\n",
        "Reached means: within two points of the printed accuracy or error, or within a tenth of a squared error, or "
        "better. In brackets the median distance to the printed figure, + for better. Printed figures without privacy "
        "do not count.\n",
        _markdown(entries),
    ]


def _count(lines: list[Line], column: str) -> str:
    distances = [(line, _distance(line, column)) for line in lines if column in line.figures]
    if not distances:
        return "-"
    n_reached = sum(distance >= -_near(line) for line, distance in distances)
    factor, digits, _ = UNITS[lines[0].metric]
    return f"{n_reached} of {len(distances)} ({factor * median(distance for _, distance in distances):+.{digits}f})"


def _distance(line: Line, column: str) -> float:
    """How much better than printed."""
    assert line.value is not None
    difference = line.figures[column].mean - line.value
    return difference if line.metric == "accuracy" else -difference


def _near(line: Line) -> float:
    assert line.value is not None
    return NEAR_SHARE * line.value if line.metric.startswith("mse") else NEAR_POINTS


def _charges(table: Table, lines: list[Line]) -> list[str]:
    """The printed budget of one query beside the smallest charge of the private ledger."""
    entries = []
    for row in papers.printed():
        if row["table"] != table.name or row["metric"] != "epsilon per query":
            continue
        same = [
            line.least_charge
            for line in lines
            if line.cell.system == row["system"]
            and line.least_charge is not None
            and row["parameters"].items() <= dict(line.cell.parameters).items()
        ]
        if same:
            entries.append(
                {
                    "system": row["printed_as"],
                    "β": f"{row['parameters']['epsilon']:g}",
                    "paper": f"{row['value']:.3f}",
                    "ledger of the private form": f"{min(same):.3f}",
                }
            )
    return ["Table 1: the budget of one query.\n", _markdown(entries)] if entries else []


def _sentences(table: Table, lines: list[Line]) -> list[str]:
    """Printed differences between systems: the largest lead, or the smallest gap, over the budgets."""
    text = []
    for row in papers.printed():
        side, _, against = row["metric"].removeprefix("accuracy ").partition(" ")
        if row["table"] != table.name or side not in ("above", "below"):
            continue
        best = {}
        for column in ("published", "private"):
            leads = _leads(lines, row, against, column)
            if leads:
                best[column] = max(leads) if side == "above" else -max(leads)
        if best:
            ours = ", ".join(f"{100 * value:.1f} ({HEADS.get(column, column)})" for column, value in best.items())
            text.append(
                f"The paper ({row['source']}): on {row['dataset']}, {row['printed_as']} lies "
                f"{100 * row['value']:.0f} points {side} {against} at its best ({row['note']}). Here: {ours}.\n"
            )
    return text


def _leads(lines: list[Line], row: Row, against: str, column: str) -> list[float]:
    """Accuracy of a system above another at each budget."""
    leads = []
    for line in lines:
        is_meant = row["parameters"].items() <= dict(line.cell.parameters).items()
        if not (is_meant and line.cell.system == row["system"] and line.cell.dataset == row["dataset"]):
            continue
        if against == "random-forest":
            other = line.figures.get("random forest")
        else:
            other = next((o.figures.get("private") for o in lines if _beside(o.cell, line.cell, against)), None)
        if other is not None and column in line.figures:
            leads.append(line.figures[column].mean - other.mean)
    return leads


def _beside(cell: Cell, other: Cell, system: str) -> bool:
    return (cell.system, cell.dataset, cell.epsilon) == (system, other.dataset, other.epsilon)


def _absent(rows: Iterable[Row]) -> list[str]:
    reasons: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        reasons.setdefault((row["system"], row["variant"], row["absent"]), set()).add(row["dataset"])
    if not reasons:
        return []
    entries = [
        {"system": system, "variant": variant, "tables": ", ".join(sorted(tables)), "reason": reason.replace("|", "/")}
        for (system, variant, reason), tables in sorted(reasons.items())
    ]
    return ["## What could not be run\n", _markdown(entries)]


# Line style and marker of each column; where there are many series only the first two are drawn.
STYLES = {
    "private": ("-", "o"),
    "auto": ("-.", "."),
    "published": ("--", "s"),
    "no privacy": (":", ""),
    "random forest": ((0, (1, 4)), ""),
}
# What does not depend on the system has a colour of its own.
COLOURS = {"auto": "black", "random forest": "grey"}


def _plot(table: Table, lines: list[Line], folder: Path) -> Path | None:
    """One panel for each data set, all curves against ``table.x``; None without matplotlib or with a single point."""
    lines = [line for line in lines if table.x in dict(line.cell.parameters)]
    if len(_points(table, lines)) < 2 or importlib.util.find_spec("matplotlib") is None:
        return None
    datasets = list(dict.fromkeys(line.cell.dataset for line in lines))
    n_columns = min(3, len(datasets))
    n_rows = -(-len(datasets) // n_columns)
    # Loaded by name: it is an optional library.
    canvas = importlib.import_module("matplotlib.figure").Figure(layout="constrained")
    canvas.set_size_inches(4.6 * n_columns, 3.2 * n_rows + 1.2)
    panels = canvas.subplots(n_rows, n_columns, squeeze=False).ravel()
    legend: dict[str, Any] = {}
    for panel, dataset in zip(panels, datasets, strict=False):
        _draw(panel, table, [line for line in lines if line.cell.dataset == dataset], legend)
        panel.set(title=dataset, xlabel=NAMES.get(table.x, table.x), ylabel=f"{table.metric}, {UNITS[table.metric][2]}")
    for panel in panels[len(datasets) :]:
        panel.remove()
    n_legend = max(1, 3 * n_columns // 2)
    canvas.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=n_legend, fontsize="small")
    path = folder / f"papers-{table.name}.png"
    canvas.savefig(path, dpi=110)
    return path


def _draw(panel: Any, table: Table, lines: list[Line], legend: dict[str, Any]) -> None:
    """Colours are systems with parameters, line styles are columns; both go into the legend once."""
    names = [name for name in _varying(line.cell for line in lines) if name != table.x]
    series: dict[str, list[Line]] = {}
    for line in lines:
        parts = (line.cell.system, _parameters(line.cell, names))
        series.setdefault(", ".join(part for part in parts if part), []).append(line)
    columns = list(STYLES) if len(series) <= MOST_FULL_SERIES else list(STYLES)[:2]
    for place, title in enumerate(series):
        _remember(panel, legend, title, color=f"C{place}")
    for place, members in enumerate(series.values()):
        for column in columns:
            curve = _curve(table, [(m, m.figures[column].mean) for m in members if column in m.figures])
            if curve:
                style, marker = STYLES[column]
                colour = COLOURS.get(column, f"C{place}") if table.x == "epsilon" else f"C{place}"
                panel.plot(*zip(*curve, strict=True), linestyle=style, marker=marker, color=colour)
                shown = COLOURS.get(column, "grey")
                _remember(panel, legend, HEADS.get(column, column), linestyle=style, marker=marker, color=shown)
        printed = _curve(table, [(m, m.value) for m in members if m.value is not None])
        if printed:
            panel.plot(*zip(*printed, strict=True), "x", color=f"C{place}")
            _remember(panel, legend, "printed in the paper", linestyle="", marker="x", color="grey")
    points = _points(table, lines)
    if table.x == "epsilon":
        panel.set_xscale("log")
    panel.set_xticks(points, [f"{point:g}" for point in points], fontsize="small")
    panel.minorticks_off()


def _remember(panel: Any, legend: dict[str, Any], name: str, **style: Any) -> None:
    if name not in legend:
        (legend[name],) = panel.plot([], [], **style)


def _points(table: Table, lines: list[Line]) -> list[float]:
    return sorted({dict(line.cell.parameters)[table.x] for line in lines})


def _curve(table: Table, values: list[tuple[Line, float]]) -> tuple[tuple[float, float], ...]:
    factor = UNITS[table.metric][0]
    return tuple(sorted((dict(line.cell.parameters)[table.x], factor * value) for line, value in values))
