"""Writes the results of audits as a page for people who decide, not for people who prove. Sees results, no rows."""

import base64
import platform
import tempfile
from collections.abc import Callable, Sequence
from datetime import date
from html import escape
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpforest.audit.attack import Attack
from dpforest.common.files import write_whole

HEAD = ("recipe", "claimed ε", "ε is at least", "pairs replayed", "findings", "closest", "verdict")

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number, th.number { text-align: right; }
tr.broken td { color: #a40000; font-weight: 600; }
img { max-width: 100%; }
li { margin: .4rem 0; overflow-wrap: anywhere; }
.small { color: #666; font-size: .9rem; }
"""

HOW_TO_READ = """
<p>A recipe claims that what it publishes changes little when one record is added to the table or taken out of it: the odds
of anything that someone concludes change by a factor of at most e<sup>ε</sup>. This page shows what was tried to break that
claim. <b>It can show that a claim is false. It cannot show that one is true</b>: that is what the proofs beside the code are
for.</p>
<ul>
<li><b>Pairs replayed, findings.</b> The recipe was trained on small tables that were generated to expose mistakes, and
again with one record more or less, while all random outcomes were held the same. Everything else then has to be the same
as well: questions, messages, files. A finding is a difference that was not paid for. There should be none.</li>
<li><b>Closest.</b> The largest part of the promised ε that one record was seen to use in these pairs. 100 % means that the
test reaches the limit; above it would be a finding.</li>
<li><b>ε is at least.</b> The recipe was trained thousands of times on two tables that differ by one record. From how well
the two can be told apart follows, with 99.9 % confidence, that no ε below this number can be true. It should not be above
the claimed ε.</li>
</ul>
"""

# What ``Audit.to_dict`` or ``Attack.to_dict`` gives, so that a page can be made from saved results.
Content = dict[str, Any]


def cells(audit: Content) -> tuple[str, ...]:
    """The cells of an audit in the table of results, under ``HEAD``."""
    replays, bound = audit["replay"], audit["lower_bound"]
    claim = audit["epsilon"] if bound is None else bound["claimed"]
    return (
        name_of(audit),
        f"{claim:g}" + (f", δ = {audit['delta']:g}" if audit["delta"] else ""),
        "" if bound is None else f"{bound['epsilon']:.2f}",
        "" if replays is None else f"{replays['n_pairs']:,}",
        "" if replays is None else str(len(replays["findings"])),
        "" if replays is None or replays["findings"] else f"{replays['closest']:.0%}",
        audit["verdict"],
    )


def name_of(audit: Content) -> str:
    own = " (own recipe)" if audit.get("own") else ""
    return audit["recipe"] + (" (as printed)" if audit["variant"] == "published" else own)


def found_in(audit: Content) -> list[str]:
    """Every finding of an audit in words, with its pair of tables."""
    lines = [finding["words"] for finding in (audit["replay"] or {}).get("findings", [])]
    bound = audit["lower_bound"]
    return [*lines, bound["words"]] if bound is not None and bound["exceeds"] else lines


def write_html(path: Path, audits: Sequence[Content], attacks: Sequence[Content]) -> None:
    """Write to ``path`` a page that needs nothing else: table, pictures, every finding with its pair of tables."""
    head = "".join(f"<th>{escape(name)}</th>" for name in HEAD)
    rows = "".join(_row(audit) for audit in audits)
    found = [(name_of(audit), line) for audit in audits for line in found_in(audit)]
    findings = "".join(f"<li><b>{escape(name)}</b>: {escape(line)}</li>" for name, line in found)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Privacy audit</title>",
        f"<style>{STYLE}</style><h1>Privacy audit</h1>",
        f"<p class='small'>dpforest {version('dpforest')}, Python {platform.python_version()}, {date.today():%d %B %Y}</p>",
        f"<h2>How to read this page</h2>{HOW_TO_READ}",
        f"<h2>What was found</h2><table><tr>{head}</tr>{rows}</table>",
        _pictures(audits, attacks),
        f"<h2>Membership attack</h2>{_attack_text(attacks)}" if attacks else "",
        f"<h2>Findings</h2><ul>{findings}</ul>" if findings else "<h2>Findings</h2><p>None.</p>",
        "</html>",
    ]
    write_whole(path, "\n".join(parts).encode())


def evidence(audits: Sequence[Content]) -> list[Content]:
    """For each audit that has a lower bound, what the picture of lower bounds shows."""
    bounds = [(name_of(audit), audit["lower_bound"]) for audit in audits if audit["lower_bound"] is not None]
    return [
        {
            "name": name,
            "claimed": bound["claimed"],
            "lower_bound": bound["epsilon"],
            "verdict": "above claim" if bound["exceeds"] else "within claim",
        }
        for name, bound in bounds
    ]


def _row(audit: Content) -> str:
    columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells(audit))
    return f"<tr{' class=broken' if found_in(audit) else ''}>{columns}</tr>"


def _pictures(audits: Sequence[Content], attacks: Sequence[Content]) -> str:
    if find_spec("matplotlib") is None:
        return "<p class='small'>Pictures need matplotlib: pip install 'dpforest[plots]'.</p>"
    from dpforest.audit.plots import draw_evidence, draw_trade_off

    rows = evidence(audits)
    pictures = _inline(lambda path: draw_evidence(rows, path), "Claimed and found epsilon") if rows else ""
    curves = [Attack.from_dict(attack) for attack in attacks]
    return pictures + (_inline(lambda path: draw_trade_off(curves, path), "Trade-off curves") if curves else "")


def _inline(draw: Callable[[Path], Any], title: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        draw(path)
        data = base64.b64encode(path.read_bytes()).decode()
    return f"<p><img alt='{escape(title)}' src='data:image/png;base64,{data}'></p>"


def _attack_text(attacks: Sequence[Content]) -> str:
    first = attacks[0]
    record = ", ".join(f"{name} = {value}" for name, value in first["canary"].items())
    lines = "".join(
        f"<li>ε = {attack['epsilon']}: {attack['tpr_at_1_percent']:.1%} (at most {attack['allowed']:.1%} is allowed)</li>"
        for attack in attacks
    )
    planted = f"{escape(first['table'])} ({first['n_rows']:,} rows): {escape(record)}"
    return (
        f"<p>A record was planted in the table {planted}. An attacker who knows all other records and the recipe, and "
        "who has trained many forests with and without it, decides from the published forest whether it was there. Of "
        f"forests that had it, at 1 % false alarms, this finds:</p><ul>{lines}</ul>"
    )
