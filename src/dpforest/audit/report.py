"""Writes and draws the results of audits for people who decide, not for people who prove. Sees results, no rows."""

import base64
import math
import platform
from collections.abc import Sequence
from datetime import date
from html import escape
from importlib.metadata import version
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dpforest.audit.attack import FALSE_POSITIVES, most_allowed
from dpforest.common.files import write_whole
from dpforest.show.plots.canvas import COLOURS, load

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

GREY = "#666666"
# Rates below this are beyond what some hundreds of fits can show.
LEAST_RATE = 1e-3
TICKS = {0.001: "0.1 %", 0.01: "1 %", 0.1: "10 %", 1.0: "100 %"}
RATES = np.unique(np.concatenate([np.geomspace(LEAST_RATE / 10, 1, 400), np.linspace(0, 1, 400)]))
MOST_TOLD = 0.99  # a limit above it says nothing
LONG_NAME = 20  # letters of a name that leaves no room beside it
LEGEND = (
    "Solid: what the attack reaches. Dashed: the most that any attack can reach if the promise of ε is kept; "
    "beyond is shaded. Bars: 99.9 % limits."
)
VERDICTS = {"within claim": COLOURS[0], "above claim": COLOURS[1]}  # of a lower bound
# What ``Audit.to_dict`` or ``Attack.to_dict`` gives, also from a file, where an infinite epsilon is a text.
Content = dict[str, Any]


def cells(audit: Content) -> tuple[str, ...]:
    """The cells of an audit in the table of results, under ``HEAD``."""
    replays, bound = audit["replay"], audit["lower_bound"]
    claim = audit["epsilon"] if bound is None else bound["claimed"]
    return (
        name_of(audit),
        _loss(claim, audit["delta"]),
        "" if bound is None else f"{bound['epsilon']:.2f}",
        "" if replays is None else f"{replays['n_pairs']:,}",
        "" if replays is None else str(len(replays["findings"])),
        "" if replays is None or replays["findings"] else f"{replays['closest']:.0%}",
        audit["verdict"],
    )


def _loss(epsilon: float, delta: float) -> str:
    return f"{epsilon:g}" + (f", δ = {delta:g}" if delta else "")


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
    rows = ""
    for audit in audits:
        columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells(audit))
        rows += f"<tr{' class=broken' if found_in(audit) else ''}>{columns}</tr>"
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


def _pictures(audits: Sequence[Content], attacks: Sequence[Content]) -> str:
    """The pictures of all results, as parts of the page."""
    if find_spec("matplotlib") is None:
        return "<p class='small'>Pictures need matplotlib: pip install 'dpforest[plots]'.</p>"
    found, bounded = "", [audit for audit in audits if audit["lower_bound"] is not None]
    drawn = (draw_evidence, bounded, "Claimed and found epsilon"), (draw_trade_off, attacks, "Trade-off curves")
    for draw, results, title in drawn:
        if results:
            picture = BytesIO()
            draw(results, picture)
            data = base64.b64encode(picture.getvalue()).decode()
            found += f"<p><img alt='{title}' src='data:image/png;base64,{data}'></p>"
    return found


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


def draw_trade_off(attacks: Sequence[Content], path: str | Path | BinaryIO) -> None:
    """Draw to ``path`` how many members each attack finds for how many false alarms, beside the most that its claim allows.

    The left panel shows all rates, the right one rare false alarms, with the 99.9 % limits at 1 %.
    """
    figure = _figure(11, 5.85)
    whole, close = figure.subplots(1, 2)
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(attacks))]
    for panel in (whole, close):
        panel.set_xlabel("False alarms: models without the record that are said to have it")
        panel.set_ylabel("Hits: models with the record that are said to have it")
        panel.plot(RATES, RATES, color=GREY, linewidth=1, linestyle=":")
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_box_aspect(1)
        for attack, colour in zip(attacks, colours, strict=True):
            _draw_attack(panel, attack, colour)
    whole.set(xlim=(0, 1), ylim=(0, 1.004))
    quarters = np.linspace(0, 1, 5)
    for ticks in (whole.set_xticks, whole.set_yticks):
        ticks(quarters, [f"{100 * tick:.0f} %" for tick in quarters])
    close.set(xscale="log", yscale="log", xlim=(LEAST_RATE, 1), ylim=(LEAST_RATE, 1.03))
    for ticks in (close.set_xticks, close.set_yticks):
        ticks(list(TICKS), TICKS.values())
    names, in_common = _names(attacks)
    _write_findings(whole, names, attacks, colours)
    _draw_limits(close, attacks, colours)
    title = "Can someone who sees the model tell whether one record was in the table?"
    figure.suptitle(f"{title}\n", fontsize=13, fontweight="bold")
    figure.text(0.5, 0.925, in_common, ha="center", color=GREY)
    figure.supxlabel(LEGEND, fontsize="small", color=GREY)
    figure.savefig(path, dpi=150)


def _draw_attack(panel: Any, attack: Content, colour: str) -> None:
    limit = most_allowed(RATES, float(attack["epsilon"]), attack["delta"])
    if limit[0] < 1:
        panel.plot(RATES, limit, color=colour, linewidth=1.2, linestyle=(0, (5, 2)))
        panel.fill_between(RATES, limit, 2, color=colour, alpha=0.06, linewidth=0)
    # A logarithm has no place for 0, and the way there would be drawn.
    fpr, tpr = np.array(attack["fpr"]), np.array(attack["tpr"])
    panel.plot(np.maximum(fpr[tpr > 0], LEAST_RATE / 10), tpr[tpr > 0], color=colour, linewidth=2)


def _write_findings(panel: Any, names: Sequence[str], attacks: Sequence[Content], colours: Sequence[str]) -> None:
    """Write what each attack finds at 1 % false alarms, in the corner below chance, where no curve comes."""
    is_long = max(map(len, names)) > LONG_NAME
    between, size, step = ("\n", "small", 0.085) if is_long else (" ", "medium", 0.055)
    style = {"ha": "right", "transform": panel.transAxes, "fontsize": size, "in_layout": False}
    for index, (name, attack, colour) in enumerate(reversed([*zip(names, attacks, colours, strict=True)])):
        told = f", {_percent(attack['allowed'])} allowed" if attack["allowed"] < MOST_TOLD else ""
        line = f"{name}:{between}{_percent(attack['tpr_at_1_percent'])} hits{told}"
        panel.text(0.985, 0.03 + step * index, line, color=colour, fontweight="bold", **style)
    panel.text(0.985, 0.04 + step * len(attacks), "At 1 % false alarms", color=GREY, **style)
    panel.text(0.79, 0.725, "guessing", color=GREY, rotation=45, rotation_mode="anchor")


def _draw_limits(panel: Any, attacks: Sequence[Content], colours: Sequence[str]) -> None:
    """Write the claim at each limit that can be seen, and draw the confidence limits of the hits at 1 %."""
    claims = {_claim(attack): (attack, colour) for attack, colour in zip(attacks, colours, strict=True)}
    for claim, (attack, colour) in claims.items():
        limit = float(most_allowed(LEAST_RATE, float(attack["epsilon"]), attack["delta"]))
        if limit < 0.1:
            style = {"fontsize": "small", "rotation": 45, "rotation_mode": "anchor"}
            panel.text(1.15 * LEAST_RATE, 1.3 * limit, f"ruled out by {claim}", color=colour, **style)
    panel.axvline(FALSE_POSITIVES, color=GREY, linewidth=0.7)
    for index, (attack, colour) in enumerate(zip(attacks, colours, strict=True)):
        at = FALSE_POSITIVES * 1.1 ** (index - (len(attacks) - 1) / 2)  # side by side, so that none hides another
        rate, low, high = np.maximum([attack["tpr_at_1_percent"], attack["tpr_low"], attack["tpr_high"]], LEAST_RATE)
        panel.plot([at, at], [low, high], color=colour, linewidth=1.4)
        panel.plot(at, rate, "o", color=colour, markersize=5, markeredgecolor="white", clip_on=False)


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %" if rate < 1 else "100 %"


def _claim(attack: Content) -> str:
    epsilon = float(attack["epsilon"])
    return "no privacy" if math.isinf(epsilon) else f"ε = {_loss(epsilon, attack['delta'])}"


def _names(attacks: Sequence[Content]) -> tuple[list[str], str]:
    """The name of each attack, its claim and whatever else differs between them; and what they have in common."""
    tables = [f"{attack['table']} ({attack['n_rows']:,} rows)" for attack in attacks]
    recipes = [attack["recipe"] + " (as printed)" * (attack["variant"] == "published") for attack in attacks]
    differ = [column for column in (tables, recipes) if len(set(column)) > 1]
    names = [", ".join(parts) for parts in zip(*differ, map(_claim, attacks), strict=True)]
    return names, ", ".join(column[0] for column in (recipes, tables) if column not in differ)


def draw_evidence(audits: Sequence[Content], path: str | Path | BinaryIO) -> None:
    """Draw to ``path`` the epsilon that each audit with a lower bound has shown to be lost at least, beside the claim."""
    rows = [(name_of(audit), audit["lower_bound"]) for audit in audits if audit["lower_bound"] is not None]
    verdicts = np.array(["above claim" if bound["exceeds"] else "within claim" for _, bound in rows])
    bounds = np.array([bound["epsilon"] for _, bound in rows])
    claims = np.array([bound["claimed"] for _, bound in rows])
    figure, heights = _figure(8, 1.6 + 0.27 * len(rows)), np.arange(len(rows))
    panel = figure.subplots()
    panel.hlines(heights, 0, bounds, color="#bbbbbb", linewidth=1)
    style = {"linestyle": "", "clip_on": False}
    handles = panel.plot(claims, heights, marker="|", color="black", ms=12, mew=2, label="claimed", **style)
    for verdict, colour in VERDICTS.items():
        chosen = verdicts == verdict
        if chosen.any():
            label = f"shown at least, {verdict}"
            handles += panel.plot(bounds[chosen], heights[chosen], marker="o", color=colour, label=label, **style)
    column = {"xycoords": ("axes fraction", "data"), "va": "center", "ha": "right"}
    for index, (bound, verdict) in enumerate(zip(bounds, verdicts, strict=True)):
        panel.annotate(f"{bound:.2f}", (1.07, index), color=VERDICTS[verdict], **column)
    panel.set_yticks(heights, [name for name, _ in rows])
    panel.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.05 * max(bounds.max(), claims.max())), xlabel="privacy loss ε")
    panel.grid(axis="x", color="#eeeeee")
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0, pad=8)
    panel.spines[["top", "right", "left"]].set_visible(False)
    figure.suptitle("Privacy loss that the audit could show, beside the claim", fontweight="bold")
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=150)


def _figure(width: float, height: float) -> Any:
    return load("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
