"""Makes the page on the papers from rows: tables side by side, plots, and which printed figures are reached."""

import re
from pathlib import Path
from statistics import median

from benchmarks.core.figures import Figure
from benchmarks.core.figures import shown_figure as shown
from benchmarks.core.page import Entries, could_not_run, folded, page_text, section, table_text, write_page
from benchmarks.core.results import finished, missing, read_rows
from benchmarks.papers.base import Table
from benchmarks.papers.lines import COLUMNS, HEADS, MORE_IS_BETTER, UNITS, Line, lines_of
from benchmarks.papers.plots import parameters_shown, plot, varying
from benchmarks.papers.run import QUESTIONS, printed
from benchmarks.papers.sentences import said
from benchmarks.papers.sources import NAMES, SHOWN

# Longer tables are folded away.
MOST_OPEN_LINES = 24
QUOTATION = re.compile(r'\[([^\]]+)\]\(papers\.md#([\w-]+) "([^"]+)"\)')


def shown_figure(metric: str, figure: Figure | None) -> str:
    """A figure in the unit of its metric, with its spread."""
    factor, digits, _ = UNITS[metric]
    return shown(figure, digits, factor)


def cells_shown(table: Table, line: Line) -> dict[str, str]:
    """A line as text, by the heads of its columns."""
    of_the_paper = None if line.value is None else Figure(line.value, None, 1)
    entry = {
        "data": line.cell.dataset,
        "system": line.cell.system,
        "parameters": parameters_shown(line.cell, varying(table.cells)),
        "paper": shown_figure(line.metric, of_the_paper),
    }
    own = ("published", "private", "no privacy")
    for column in COLUMNS:
        if column in own or column in table.columns:
            entry[HEADS.get(column, column)] = shown_figure(line.metric, line.figures.get(column))
    return entry | {"always the same answer": shown_figure(line.metric, line.guess), "splits": str(line.n_splits)}


def side_by_side(results: Path) -> Entries:
    """Every line that was run as text, for printing: the title of its table and the columns of the page."""
    rows = finished(read_rows(results)).values()
    return [
        {"experiment": f"{question.name}: {table.title}", "unit": f"{table.metric}, {UNITS[table.metric][2]}"}
        | cells_shown(table, line)
        for question in QUESTIONS
        for table in question.tables
        for line in lines_of(question, table, rows)
    ]


def misquoted(text: str, results: Path) -> list[str]:
    """Figures that a text quotes of the page and that are not there.

    A quotation is a link, [figure](papers.md#experiment "data; system; parameters; column"), in the words of the page; the
    figure may have fewer digits.
    """
    rows = finished(read_rows(results)).values()
    figures: dict[tuple[str, str], str] = {}
    for question in QUESTIONS:
        for table in question.tables:
            for line in lines_of(question, table, rows) if f"papers.md#{table.name} " in text else ():
                entry = cells_shown(table, line)
                words = "; ".join((entry["data"], entry["system"], entry["parameters"]))
                figures |= {(table.name, f"{words}; {head}"): figure for head, figure in entry.items()}
    wrong = []
    for figure, table_name, cell in QUOTATION.findall(text):
        found = figures.get((table_name, cell), "nothing")
        if not _is_rounded(figure, found.partition(" ±")[0]):
            wrong.append(f"{figure} is quoted of {table_name}, {cell}; there is {found}")
    return wrong


def _is_rounded(quoted: str, figure: str) -> bool:
    try:
        return quoted == f"{float(figure):.{len(quoted.partition('.')[2])}f}"
    except ValueError:  # not a number
        return False


def write(results: Path, folder: Path) -> Path:
    """Write ``papers.md`` and its plots into a folder, from the rows of a results file."""
    folder.mkdir(parents=True, exist_ok=True)
    every = read_rows(results)
    rows = finished(every).values()
    found = {
        table: lines for question in QUESTIONS for table in question.tables if (lines := lines_of(question, table, rows))
    }
    text = [_INTRODUCTION.format(n_rows=len(rows)), *_reached(found), *_words(found)]
    for question in QUESTIONS:
        tables = [table for table in question.tables if table in found]
        if tables:
            text += [f"## {question.title}\n", f"{question.note}\n", f"{question.why}\n"]
        for table in tables:
            text += _section(table, found[table], folder)
    text += [*_sources({table.name for table in found}), *could_not_run(missing(every), "system", "variant")]
    return write_page(folder, "papers.md", page_text(text))


_INTRODUCTION = """# The papers' experiments, run again

Made by `python -m benchmarks papers` from {n_rows} measured rows; nothing here is written by hand. Columns:

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
    figures = table_text([cells_shown(table, line) for line in lines])
    if len(lines) > MOST_OPEN_LINES:
        figures = folded(f"{len(lines)} lines", figures)
    return [*text, figures, *_charges(table, lines)]


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
    return _anchored(
        "reached",
        "Which printed figures are reached",
        entries,
        "Reached means: within two points of the printed accuracy or error, or within a tenth of a squared error, or "
        "better; bold where all are. In brackets the median distance to the printed figure, + for better. Printed figures "
        "without privacy do not count. Squared errors in 10⁻³, all else in %.\n",
    )


def _anchored(anchor: str, title: str, entries: Entries, introduction: str = "") -> list[str]:
    return [f'<a id="{anchor}"></a>\n', *section(title, entries, introduction)] if entries else []


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
    return _anchored(
        "words",
        "What the papers say in words",
        entries,
        "Most figures are pictures. What their texts say of them is asked of our rows, with all systems as printed, and "
        "with all systems private: of how many places (data sets, budgets, curves) it is true, or the number itself. A "
        "curve rises if its last point is better than its first. No more is asked of differences within the spread of "
        "splits than of others.\n",
    )


def _sources(found: set[str]) -> list[str]:
    entries = []
    for source in SHOWN:
        where = ", ".join(_link(name) if name in found else name for name in source.tables)
        entries.append(
            {
                "source": f"{source.source}, {NAMES[source.source]}",
                "number": source.number,
                "what it shows": source.what,
                "run again in": where or "not run",
                "what is not, and why": source.why or "-",
            }
        )
    return _anchored("sources", "Every table and figure of the sources", entries)


def _charges(table: Table, lines: list[Line]) -> list[str]:
    """The printed budget of one query beside the smallest charge of the private ledger."""
    entries = []
    for row in printed():
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
    return ["Table 1: the budget of one query.\n", table_text(entries)] if entries else []
