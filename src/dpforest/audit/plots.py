"""Draws the results of audits for people who do not know the field. Sees results, no rows.

Needs matplotlib (``dpforest[plots]``).
"""

import importlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.audit.attack import FALSE_POSITIVES, Attack, most_allowed
from dpforest.errors import MissingExtraError

# Told apart by people with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
GREY = "#666666"
# Rates below this are beyond what some hundreds of fits can show.
LEAST_RATE = 1e-3
TICKS = {0.001: "0.1 %", 0.01: "1 %", 0.1: "10 %", 1.0: "100 %"}
RATES = np.unique(np.concatenate([np.geomspace(LEAST_RATE / 10, 1, 400), np.linspace(0, 1, 400)]))
MOST_TOLD = 0.99  # a limit above it says nothing
LONG_NAME = 20  # letters of a name that leaves no room beside it
HOW_TO_READ = (
    "Solid: what the attack reaches. Dashed: the most that any attack can reach if the promise of ε is kept; "
    "beyond is shaded. Bars: 99.9 % limits."
)
VERDICTS = {"within claim": COLOURS[0], "above claim": COLOURS[1]}


def draw_trade_off(attacks: Sequence[Attack], path: str | Path) -> None:
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
    _write_findings(whole, attacks, colours)
    _write_limits(close, attacks, colours)
    _draw_bars(close, attacks, colours)
    title = "Can someone who sees the model tell whether one record was in the table?"
    figure.suptitle(f"{title}\n", fontsize=13, fontweight="bold")
    figure.text(0.5, 0.925, _in_common(attacks), ha="center", color=GREY)
    figure.supxlabel(HOW_TO_READ, fontsize="small", color=GREY)
    figure.savefig(path, dpi=150)


def _draw_attack(panel: Any, attack: Attack, colour: str) -> None:
    limit = most_allowed(RATES, attack.epsilon, attack.delta)
    if limit[0] < 1:
        panel.plot(RATES, limit, color=colour, linewidth=1.2, linestyle=(0, (5, 2)))
        panel.fill_between(RATES, limit, 2, color=colour, alpha=0.06, linewidth=0)
    # A logarithm has no place for 0, and the way there would be drawn.
    some = attack.tpr > 0
    panel.plot(np.maximum(attack.fpr[some], LEAST_RATE / 10), attack.tpr[some], color=colour, linewidth=2)


def _write_findings(panel: Any, attacks: Sequence[Attack], colours: Sequence[str]) -> None:
    """Write what each attack finds at 1 % false alarms, in the corner below chance, where no curve comes."""
    names = _names(attacks)
    is_long = max(map(len, names)) > LONG_NAME
    between, size, step = ("\n", "small", 0.085) if is_long else (" ", "medium", 0.055)
    style = {"ha": "right", "transform": panel.transAxes, "fontsize": size, "in_layout": False}
    for index, (name, attack, colour) in enumerate(reversed([*zip(names, attacks, colours, strict=True)])):
        told = f", {_percent(attack.allowed)} allowed" if attack.allowed < MOST_TOLD else ""
        line = f"{name}:{between}{_percent(attack.tpr_at_1_percent)} hits{told}"
        panel.text(0.985, 0.03 + step * index, line, color=colour, fontweight="bold", **style)
    panel.text(0.985, 0.04 + step * len(attacks), "At 1 % false alarms", color=GREY, **style)
    panel.text(0.79, 0.725, "guessing", color=GREY, rotation=45, rotation_mode="anchor")


def _write_limits(panel: Any, attacks: Sequence[Attack], colours: Sequence[str]) -> None:
    """Write the claim at each limit that can be seen; attacks on the same claim share one."""
    claims = {_claim(attack): (attack, colour) for attack, colour in zip(attacks, colours, strict=True)}
    for claim, (attack, colour) in claims.items():
        limit = float(most_allowed(LEAST_RATE, attack.epsilon, attack.delta))
        if limit < 0.1:
            style = {"fontsize": "small", "rotation": 45, "rotation_mode": "anchor"}
            panel.text(1.15 * LEAST_RATE, 1.3 * limit, f"ruled out by {claim}", color=colour, **style)


def _draw_bars(panel: Any, attacks: Sequence[Attack], colours: Sequence[str]) -> None:
    """Draw the confidence limits of the hits at 1 %, side by side so that bars do not hide one another."""
    panel.axvline(FALSE_POSITIVES, color=GREY, linewidth=0.7)
    for index, (attack, colour) in enumerate(zip(attacks, colours, strict=True)):
        at = FALSE_POSITIVES * 1.1 ** (index - (len(attacks) - 1) / 2)
        rate, low, high = np.maximum([attack.tpr_at_1_percent, attack.tpr_low, attack.tpr_high], LEAST_RATE)
        panel.plot([at, at], [low, high], color=colour, linewidth=1.4)
        panel.plot(at, rate, "o", color=colour, markersize=5, markeredgecolor="white", clip_on=False)


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %" if rate < 1 else "100 %"


def _claim(attack: Attack) -> str:
    if math.isinf(attack.epsilon):
        return "no privacy"
    return f"ε = {attack.epsilon:g}" + (f", δ = {attack.delta:g}" if attack.delta else "")


def _names(attacks: Sequence[Attack]) -> list[str]:
    """The name of each attack: its claim, and whatever else differs between them."""
    parts = [(_table(attack), _recipe(attack)) for attack in attacks]
    differ = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    return [
        ", ".join([*(part for part, shown in zip(own, differ, strict=True) if shown), _claim(attack)])
        for own, attack in zip(parts, attacks, strict=True)
    ]


def _in_common(attacks: Sequence[Attack]) -> str:
    columns = ([_recipe(attack) for attack in attacks], [_table(attack) for attack in attacks])
    return ", ".join(column[0] for column in columns if len(set(column)) == 1)


def _table(attack: Attack) -> str:
    return f"{attack.table} ({attack.n_rows:,} rows)"


def _recipe(attack: Attack) -> str:
    return attack.recipe if attack.variant == "private" else f"{attack.recipe} (as printed)"


def draw_evidence(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw to ``path`` the epsilon that each audit has shown to be lost at least, beside the claim.

    ``rows`` have a "name", the "claimed" epsilon, its "lower_bound" and a "verdict": "within claim" or "above claim".
    """
    figure = _figure(8, 1.6 + 0.27 * len(rows))
    panel = figure.subplots()
    heights = np.arange(len(rows))
    bounds = np.array([row["lower_bound"] for row in rows])
    claims = np.array([row["claimed"] for row in rows])
    panel.hlines(heights, 0, bounds, color="#bbbbbb", linewidth=1)
    style = {"linestyle": "", "clip_on": False}
    handles = panel.plot(claims, heights, marker="|", color="black", ms=12, mew=2, label="claimed", **style)
    for verdict, colour in VERDICTS.items():
        chosen = np.array([row["verdict"] == verdict for row in rows])
        if chosen.any():
            label = f"shown at least, {verdict}"
            handles += panel.plot(bounds[chosen], heights[chosen], marker="o", color=colour, label=label, **style)
    column = {"xycoords": ("axes fraction", "data"), "va": "center", "ha": "right"}
    for index, row in enumerate(rows):
        panel.annotate(f"{row['lower_bound']:.2f}", (1.07, index), color=VERDICTS[row["verdict"]], **column)
    panel.set_yticks(heights, [row["name"] for row in rows])
    panel.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.05 * max(bounds.max(), claims.max())), xlabel="privacy loss ε")
    panel.grid(axis="x", color="#eeeeee")
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0, pad=8)
    panel.spines[["top", "right", "left"]].set_visible(False)
    figure.suptitle("Privacy loss that the audit could show, beside the claim", fontweight="bold")
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=150)


def _figure(width: float, height: float) -> Any:
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("A picture", "plots")
    # Loaded by name: it is an optional library.
    return importlib.import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
