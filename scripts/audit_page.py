"""Writes the table and the pictures of docs/guide/audit.md from docs/audit/results.json, which ``make audit`` makes.

``--check`` only says whether the table is current.
"""

import json
import sys
from pathlib import Path

from dpforest.audit.report import HEAD, cells, draw_evidence, draw_trade_off
from dpforest.common.text import counted

BEGIN, END = "<!-- results: made by scripts/audit_page.py -->", "<!-- end of results -->"
DOCS = Path(__file__).parents[1] / "docs"


def duration(seconds: float) -> str:
    """A time that is not known exactly: ``a moment``, ``about 20 seconds``, ``about 3 minutes``, ``about 2 hours``."""
    if seconds < 2:
        return "a moment"
    unit, size = ("second", 1) if seconds < 90 else ("minute", 60) if seconds < 90 * 60 else ("hour", 3600)
    return f"about {counted(round(seconds / size), unit)}"


def table(content: dict) -> str:
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [f"| {' | '.join(cells(audit))} |" for audit in content["audits"]]
    lines += ["", "| attack on the survey at | members found at 1 % false alarms | at most allowed |", "|---|---|---|"]
    lines += [
        f"| ε = {attack['epsilon']} | {attack['tpr_at_1_percent']:.1%} | {attack['allowed']:.1%} |"
        for attack in content["attacks"]
    ]
    seconds = [part["seconds"] for audit in content["audits"] for part in (audit["replay"], audit["lower_bound"]) if part]
    seconds += [attack["seconds"] for attack in content["attacks"]]
    lines += ["", f"All of this took {duration(sum(seconds))} on two cores."]
    lines += ["", "What told the tables apart where a printed algorithm broke its claim:", ""]
    lines += [f"* **{audit['recipe']}**: {told(audit)}" for audit in content["audits"] if audit["variant"] == "published"]
    return "\n".join(lines)


def told(audit: dict) -> str:
    """The event that breaks the claim; without one, why exact values were opened."""
    if audit["lower_bound"]["exceeds"]:
        return audit["lower_bound"]["words"]
    opened = [finding["what"] for finding in audit["replay"]["findings"] if finding["kind"] == "opened"]
    return f"no event of these fits. What the replay found: {'; '.join(opened)}."


def with_table(text: str, content: dict) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(content)}\n{END}{after}"


if __name__ == "__main__":
    page, content = DOCS / "guide" / "audit.md", json.loads((DOCS / "audit" / "results.json").read_text("utf-8"))
    text = page.read_text("utf-8")
    if "--check" in sys.argv:
        current = with_table(text, content) == text
        sys.exit(0 if current else "docs/guide/audit.md is not current: run python scripts/audit_page.py")
    page.write_text(with_table(text, content), "utf-8")
    draw_evidence(content["audits"], DOCS / "audit" / "evidence.png")
    draw_trade_off(content["attacks"], DOCS / "audit" / "trade-off.png")
