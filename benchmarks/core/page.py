"""Pages in Markdown: tables, sections, and what could not be run."""

from collections.abc import Iterable
from pathlib import Path

from benchmarks.core.results import Row
from dpforest.common.files import write_whole

Entries = list[dict[str, str]]


def table_text(entries: Entries) -> str:
    """A table in Markdown, its heads those of the first entry."""
    heads = list(entries[0])
    body = ["| " + " | ".join(entry[head] for head in heads) + " |" for entry in entries]
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *body]) + "\n"


def folded(title: str, text: str) -> str:
    """A text that is folded under its title until a reader opens it."""
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def section(title: str, entries: Entries, introduction: str = "") -> list[str]:
    """The parts of a section: its head, an introduction and a table; none without entries."""
    return [part for part in (f"## {title}\n", introduction, table_text(entries)) if part] if entries else []


def could_not_run(rows: Iterable[Row], *columns: str) -> list[str]:
    """The section on cases that were not run: each reason with the tables on which it came up, by these columns."""
    reasons: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        reasons.setdefault((*(row[column] for column in columns), row["absent"]), set()).add(row["dataset"])
    entries = [
        dict(zip(columns, named, strict=True))
        | {"tables": ", ".join(sorted(tables)), "reason": reason.replace("|", "/").replace("\n", " ")}
        for (*named, reason), tables in sorted(reasons.items())
    ]
    return section("What could not be run", entries)


def sections_shown(sections: dict[str, Entries]) -> Entries:
    """The lines of several tables, for printing; ``section`` says which table a line belongs to."""
    return [{"section": title} | line for title, lines in sections.items() for line in lines]


def page_text(parts: Iterable[str]) -> str:
    """A page made of the parts that are not empty."""
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def write_page(folder: Path, name: str, text: str) -> Path:
    """Write a page into a folder, which is made if it is not there; the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    write_whole(path, text.encode())
    return path
