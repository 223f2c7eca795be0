"""Checks that every private part says what it claims and why, and that every cited key is in the bibliography.

A part is a public class with a method that the table below names. Exit code 1 lists what is missing.
"""

import ast
import re
import sys
from pathlib import Path

# The rooms of private parts, and the methods by which one is known.
PARTS = {
    "mechanisms": {"select", "draw", "run"},
    "schema": {"cuts"},
    "privacy": {"strength", "charge", "add_noise", "add_joint_noise", "name_frequent"},
    "parts": {"score", "assignment", "plan", "propose", "release", "may_split"},
    "growing": {"train", "narrow", "choose", "release"},
    "recipes": {"train", "narrow", "choose", "release"},
}
FUNCTIONS = {"growing": {"grow", "learn_lists"}, "parts": {"spread"}}
FREE = {"parts": {"refine"}}
PROOF = ("Privacy:", "Claim:", "Because:", "Assumes:")
CITED = re.compile(r"\[([a-z]+\d{4})[\],;]")


def parts(tree: ast.Module, methods: set[str]) -> list[ast.ClassDef]:
    """Classes with one of the main methods; protocols only describe parts."""
    return [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and not any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
        and methods & {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    ]


def missing(node: ast.ClassDef | ast.FunctionDef, words: tuple[str, ...]) -> list[str]:
    text = ast.get_docstring(node) or ""
    return [word for word in words if word not in text]


def check(root: Path, bibliography: Path) -> list[str]:
    """What is missing, one line each."""
    found = []
    for table, words in ((PARTS, PROOF), (FREE, ("Privacy:",))):
        for room, methods in table.items():
            for path in sorted((root / room).rglob("*.py")):
                for node in parts(ast.parse(path.read_text("utf-8")), methods):
                    found += [f"{path}: {node.name} has no '{word}'" for word in missing(node, words)]
    for room, names in FUNCTIONS.items():
        for path in sorted((root / room).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    found += [f"{path}: {node.name} has no '{word}'" for word in missing(node, PROOF)]
    known = set(re.findall(r"@\w+\{(\w+),", bibliography.read_text("utf-8")))
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                cited = set(CITED.findall(ast.get_docstring(node) or ""))
                found += [f"{path}: [{key}] is not in {bibliography}" for key in sorted(cited - known)]
    return found


if __name__ == "__main__":
    here = Path(__file__).parent.parent
    problems = check(here / "src" / "dpforest", here / "docs" / "references.bib")
    print("\n".join(problems) or "Every private part has its claim, every cited key its entry.")
    sys.exit(bool(problems))
