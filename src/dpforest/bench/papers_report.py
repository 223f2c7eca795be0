"""Makes the page on the papers from rows: tables side by side, plots, and which printed figures are reached."""

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from dpforest.bench import papers
from dpforest.bench.harness import Row, finished, key, read_rows
from dpforest.bench.papers.base import Table
from dpforest.bench.papers.lines import COLUMNS, HEADS, MORE_IS_BETTER, UNITS, Figure, Line, lines_of
from dpforest.bench.papers.plots import parameters_shown, plot, varying
from dpforest.bench.papers.sentences import said
from dpforest.bench.papers.sources import NAMES, SHOWN

__all__ = ["Figure", "misquoted", "side_by_side", "write"]

# Longer tables are folded away.
MOST_OPEN_LINES = 24
QUOTATION = re.compile(r'\[([^\]]+)\]\(papers\.md#([\w-]+) "([^"]+)"\)')


def shown_figure(metric: str, figure: Figure | None) -> str:
    """A figure in the unit of its metric, with its spread."""
    if figure is None:
        return "-"
    factor, digits, _ = UNITS[metric]
    spread = "" if figure.spread is None else f" ± {factor * figure.spread:.{digits}f}"
    return f"{factor * figure.mean:.{digits}f}{spread}"


def cells_shown(table: Table, line: Line) -> dict[str, str]:
    """A line as text, by the heads of its columns."""
    printed = None if line.value is None else Figure(line.value, None, 1)
    shown = {
        "data": line.cell.dataset,
        "system": line.cell.system,
        "parameters": parameters_shown(line.cell, varying(table.cells)),
        "paper": shown_figure(line.metric, printed),
    }
    own = ("published", "private", "no privacy")
    for column in COLUMNS:
        if column in own or column in table.columns:
            shown[HEADS.get(column, column)] = shown_figure(line.metric, line.figures.get(column))
    return shown | {"always the same answer": shown_figure(line.metric, line.guess), "splits": str(line.n_splits)}


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


def misquoted(text: str, results: Path) -> list[str]:
    """Figures that a text quotes of the page and that are not there.

    A quotation is a link, [figure](papers.md#experiment "data; system; parameters; column"), in the words of the page; the
    figure may have fewer digits.
    """
    rows = list(finished(read_rows(Path(results))).values())
    shown: dict[tuple[str, str], str] = {}
    for question in papers.QUESTIONS:
        for table in question.tables:
            for line in lines_of(question, table, rows) if f"papers.md#{table.name} " in text else ():
                entry = cells_shown(table, line)
                place = "; ".join((entry["data"], entry["system"], entry["parameters"]))
                shown |= {(table.name, f"{place}; {head}"): figure for head, figure in entry.items()}
    wrong = []
    for figure, table_name, place in QUOTATION.findall(text):
        found = shown.get((table_name, place), "nothing")
        if not _is_rounded(figure, found.partition(" ±")[0]):
            wrong.append(f"{figure} is quoted of {table_name}, {place}; there is {found}")
    return wrong


def _is_rounded(quoted: str, figure: str) -> bool:
    try:
        return quoted == f"{float(figure):.{len(quoted.partition('.')[2])}f}"
    except ValueError:  # not a number
        return False


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
    text = [_INTRODUCTION.format(n_rows=len(rows)), *_reached(found), *_words(found)]
    for question in papers.QUESTIONS:
        tables = [table for table in question.tables if table in found]
        if tables:
            text += [f"## {question.title}\n", f"{question.note}\n", f"{question.why}\n"]
        for table in tables:
            text += _section(table, found[table], folder)
    text += [*_sources({table.name for table in found}), *_absent(row for row in every if key(row) not in done)]
    page = folder / "papers.md"
    page.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    return page


_INTRODUCTION = """# The papers' experiments, run again

Made by `dpforest bench papers` from {n_rows} measured rows; nothing here is written by hand. Columns:

- **paper**: the printed number, where the paper has it as text. Pictures are not read off; what the texts say of them
  [in words](#words) is compared instead. [Every table and figure of the sources](#sources) is listed at the end.
- **as printed**: exactly what the paper prints (`variant="published"`). Not private, but for DP-ERT with classes.
- **private**: the recipe of the catalogue, ε-DP for one record more or less; **private at 2ε** at twice the budget.
- **auto**: the default recipe at the budget of the line.
- **no privacy, same system**: the recipe at ε = ∞. **no privacy, random forest** and **extra trees**: scikit-learn's, of
  the same shape.
- **always the same answer**: the commonest class, or the mean. Who is not better has learnt nothing.

Means over splits ± standard deviation. Splits are fixed, noise is fresh. Lines marked "no privacy" are the paper's own
references; where they name a recipe, "as printed" is the printed form at ε = ∞. Depth is levels of splits: a paper that
counts layers, with the leaves, has one more.
"""


def _section(table: Table, lines: list[Line], folder: Path) -> list[str]:
    unit = UNITS[table.metric][2]
    better = "more is better" if table.metric in MORE_IS_BETTER else "less is better"
    text = [f'<a id="{table.name}"></a>\n', f"### {table.title}\n", f"{table.note} Figures in {unit}, {better}.\n"]
    if drawn := plot(table, lines, folder):
        text += [f"![{table.title}]({drawn.name})\n"]
    shown = _markdown([cells_shown(table, line) for line in lines])
    if len(lines) > MOST_OPEN_LINES:
        shown = f"<details><summary>{len(lines)} lines</summary>\n\n{shown}\n</details>\n"
    return [*text, shown, *_charges(table, lines)]


def _markdown(entries: list[dict[str, str]]) -> str:
    heads = list(entries[0])
    body = ["| " + " | ".join(entry[head] for head in heads) + " |" for entry in entries]
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *body]) + "\n"


def _link(table: str) -> str:
    return f"[{table}](#{table})"


def _reached(found: dict[Table, list[Line]]) -> list[str]:
    """For each system on each data set, how many of its printed figures each column reaches, and the median distance."""
    entries = []
    for table, lines in found.items():
        headlines: dict[tuple[str, str], list[Line]] = {}
        for line in lines:
            if line.value is not None and line.cell.epsilon is not None:
                headlines.setdefault((line.cell.dataset, line.cell.system), []).append(line)
        for (dataset, system), compared in headlines.items():
            entry = {"experiment": _link(table.name), "data": dataset, "system": system, "printed": _range(compared)}
            entries.append(entry | {HEADS.get(column, column): _count(compared, column) for column in COLUMNS[:4]})
    if not entries:
        return []
    return [
        '<a id="reached"></a>\n',
        "## Which printed figures are reached\n",
        "Reached means: within two points of the printed accuracy or error, or within a tenth of a squared error, or "
        "better; bold where all are. In brackets the median distance to the printed figure, + for better. Printed figures "
        "without privacy do not count. Squared errors in 10⁻³, all else in %.\n",
        _markdown(entries),
    ]


def _range(lines: list[Line]) -> str:
    values = sorted(line.value for line in lines if line.value is not None)
    low, high = (shown_figure(lines[0].metric, Figure(value, None, 1)) for value in (values[0], values[-1]))
    return low if low == high else f"{low} to {high}"


def _count(lines: list[Line], column: str) -> str:
    compared = [line for line in lines if column in line.figures]
    if not compared:
        return "-"
    n_reached = sum(line.is_reached(column) for line in compared)
    factor, digits, _ = UNITS[lines[0].metric]
    count = f"{n_reached} of {len(compared)}"
    count = f"**{count}**" if n_reached == len(compared) else count
    return f"{count} ({factor * median(line.gain(column) for line in compared):+.{digits}f})"


def _words(found: dict[Table, list[Line]]) -> list[str]:
    """What the papers say in words, and at how many of the places where it can be looked at it holds."""
    tables = {table.name: lines for table, lines in found.items()}
    entries = [{"experiment": _link(table.name)} | entry for table in found for entry in said(table, tables)]
    if not entries:
        return []
    return [
        '<a id="words"></a>\n',
        "## What the papers say in words\n",
        "Most figures are pictures. What their texts say of them is asked of our rows, with all systems as printed, and "
        "with all systems private: of how many places (data sets, budgets, curves) it is true, or the number itself. A "
        "curve rises if its last point is better than its first. No more is asked of differences within the spread of "
        "splits than of others.\n",
        _markdown(entries),
    ]


def _sources(found: set[str]) -> list[str]:
    entries = []
    for shown in SHOWN:
        where = ", ".join(_link(name) if name in found else name for name in shown.tables)
        entries.append(
            {
                "source": f"{shown.source}, {NAMES[shown.source]}",
                "number": shown.number,
                "what it shows": shown.what,
                "run again in": where or "not run",
                "what is not, and why": shown.why or "-",
            }
        )
    return ['<a id="sources"></a>\n', "## Every table and figure of the sources\n", _markdown(entries)]


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
