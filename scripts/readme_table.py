"""Writes the table of recipes into README.md, between its two marks. ``--check`` only says whether it is current."""

import sys
from pathlib import Path

from dpforest.recipes.catalogue import describe_recipes

BEGIN, END = "<!-- recipes: made by scripts/readme_table.py -->", "<!-- end of recipes -->"


def table() -> str:
    lines = ["| recipe | paper | tasks | splits on | budget | published claim |", "|---|---|---|---|---|---|"]
    keys = ("name", "paper", "tasks", "splits", "budget", "claim")
    lines += ["| " + " | ".join(str(row[key]) for key in keys) + " |" for row in describe_recipes()]
    return "\n".join(lines)


def with_table(text: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "README.md"
    text = path.read_text("utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if with_table(text) == text else "README.md is not current: run python scripts/readme_table.py")
    path.write_text(with_table(text), "utf-8")
