"""The page of proofs: every ``Privacy:`` section of the sources."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs_references import cite
from docs_text import labelled, prose

# In the order in which data flow; what is not named comes last.
ORDER = ("privacy", "mechanisms", "schema", "records", "parts", "growing", "pipeline", "forest")
SECTION = re.compile(r"Privacy:(?:[ \t]*\n((?:[ \t]+.*\n?|\n)+)|(.*?)(?:\n\n|\Z))", re.DOTALL)
INTRO = """# Proofs

What each part claims, why it holds, and what it assumes: the `Privacy:` sections that stand beside the code, collected
from it when this page is built. A check of the sources fails when a private part has no such section, and tests try to
break each claim. *A record* is one row; neighbours differ by adding or removing one."""
Node = ast.Module | ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Proof:
    """One section, and whose it is."""

    path: Path
    name: str
    summary: str
    status: str
    text: str


def proof_page(package: Path, entries: dict[str, str]) -> str:
    found = [proof for path in sorted(package.rglob("*.py")) for proof in proofs(path)]
    rooms: dict[str, list[Proof]] = {}
    for proof in found:
        rooms.setdefault(proof.path.relative_to(package).parts[0].removesuffix(".py"), []).append(proof)
    lines = [INTRO]
    for room in sorted(rooms, key=lambda room: (ORDER.index(room) if room in ORDER else len(ORDER), room)):
        lines += [f"## {room.capitalize()}", prose(summary(package, room))]
        for proof in rooms[room]:
            lines += section(proof, package, entries)
    return "\n\n".join(lines)


def summary(package: Path, room: str) -> str:
    """What the package or module says of itself in its first paragraph."""
    folder = package / room
    path = folder / "__init__.py" if folder.is_dir() else package / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0]


def proofs(path: Path) -> Iterator[Proof]:
    """The sections of one file, outer names first."""

    def visit(node: Node, name: str) -> Iterator[Proof]:
        docstring = ast.get_docstring(node) or ""
        match = SECTION.search(docstring)
        if match:
            summary = "" if isinstance(node, ast.Module) else docstring.split("\n\n")[0]
            summary = "" if "Privacy:" in summary else summary
            yield Proof(path, name, summary, status(node), match[1] or match[2])
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef):
                yield from visit(inner, inner.name if isinstance(node, ast.Module) else f"{name}.{inner.name}")

    return visit(ast.parse(path.read_text("utf-8")), path.stem)


def status(node: Node) -> str:
    """The value of a class attribute of that name, if there is one."""
    values = [
        item.value.value
        for item in node.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant) and ast.unparse(item.targets[0]) == "status"
    ]
    return str(values[0]) if values else ""


def section(proof: Proof, package: Path, entries: dict[str, str]) -> list[str]:
    place = f"`{proof.path.relative_to(package.parents[1])}`" + (f" · {proof.status}" if proof.status else "")
    pieces = labelled(proof.text, ("Claim", "Because", "Assumes"))
    text = [
        f"**{label}:** {cite(piece, entries)}" if label else f"**Privacy:** {cite(piece, entries)}"
        for label, piece in pieces
    ]
    return [f"### {proof.name}", place, *([cite(proof.summary, entries)] if proof.summary else []), *text]
