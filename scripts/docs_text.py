"""Markdown from plain text: tables, and docstrings as prose."""

import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
SPECIAL = re.compile(r"([\\*_\[\]#|~])")


def prose(text: str) -> str:
    """One line of Markdown that reads as the text does; what is in backquotes stays code."""
    pieces = CODE.split(" ".join(text.split()))
    return "".join(
        piece if place % 2 else SPECIAL.sub(r"\\\1", piece).replace("<", "&lt;") for place, piece in enumerate(pieces)
    )


def labelled(text: str, labels: Sequence[str]) -> list[tuple[str, str]]:
    """The text cut at lines that begin with one of the labels; the label of what stands before is empty."""
    pieces = re.split(rf"^\s*({'|'.join(labels)}):\s", text, flags=re.MULTILINE)
    pairs = [("", pieces[0]), *zip(pieces[1::2], pieces[2::2], strict=True)]
    return [(label, piece) for label, piece in pairs if piece.strip()]


def code(value: object) -> str:
    """The value as code that may stand in a table."""
    text = " ".join(str(value).split()).replace("|", "&#124;").replace("<", "&lt;")
    return f"<code>{text}</code>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
