"""The report as one HTML page that needs nothing else. Released values only."""

import base64
import hashlib
import math
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from dpforest.common import text as texts
from dpforest.common.jsonable import to_json
from dpforest.common.text import figure, percent, share_figure, shortened, visible
from dpforest.errors import shown_down, shown_up
from dpforest.model.effect_values import Effects
from dpforest.show.report import about
from dpforest.show.report.effects import effects_section
from dpforest.show.report.evaluations import evaluation_section

# How much of a long list is on the page; the twin has all.
MOST_FEATURES, MOST_CATEGORIES, MOST_CLASSES, MOST_LINES = 150, 12, 40, 40
# The sections in their order, by name: what the list of sections calls them, and their titles.
SECTIONS = {
    "guarantee": ("What could someone learn?", "What could someone learn about me?"),
    "release": ("This release", "About this release"),
    "limits": ("Not covered", "What is not covered"),
    "inputs": ("Assumed public", "What was assumed to be public"),
    "budget": ("Budget", "The budget of the data set"),
    "ledger": ("Where the loss went", "Where the loss went"),
    "making": ("How it was made", "How it was made"),
    "audit": ("Audit", "Audit"),
    "evaluation": ("How good it is", "How good the model is"),
    "forest": ("The forest", "The forest"),
    "effects": ("What it learnt", "What the model learnt"),
    "twin": ("For programs", "For programs and registries"),
}
SHORTEST = 16  # characters of a label on a page that is full
# What a parser of HTML could act on inside a script element.
ACTIVE = {character: f"\\u{ord(character):04x}" for character in "<>&"}
UNITS = {"epsilon": "ε", "rho": "\N{GREEK SMALL LETTER RHO}"}


def script_json(value: Any) -> Markup:
    """A value as JSON that can stand inside a script element, with hidden characters made visible: its script draws it."""
    text = visible(to_json(value, ensure_ascii=False, separators=(",", ":")))
    return Markup(re.sub("[<>&]", lambda found: ACTIVE[found[0]], text))


class LabelWriter:
    """Writes labels as HTML: isolated from the direction of the text around, and cut if long.

    The rest of a cut label opens on demand, as long as such rests have room on the page. When all labels together have used
    up theirs, later ones are cut to a few characters.
    """

    def __init__(self, room: int = 350_000, room_for_rests: int = 100_000, longest: int = 12_000) -> None:
        self._room, self._room_for_rests, self._longest = room, room_for_rests, longest

    def __call__(self, value: Any, most: int = 80) -> Markup:
        text = str(value)
        short = Markup("<bdi>{}</bdi>").format(shortened(text, most if self._room > 0 else min(most, SHORTEST), visible))
        self._room -= len(short.encode())
        if len(text) <= most or self._room <= 0:
            return short
        rest = Markup("<bdi>{}</bdi>").format(visible(text[: self._longest]))
        size = len(rest.encode())
        if size > self._room_for_rests:
            return short + Markup(' <span class="small">({:,} characters)</span>').format(len(text))
        self._room_for_rests -= size
        opened = Markup('<details class="whole"><summary>{:,} characters</summary>{}</details>')
        return short + Markup(" ") + opened.format(len(text), rest)


def page(content: dict[str, Any], drawing: dict[str, Any], effects: Effects, twin: str) -> str:
    """The HTML of the report; ``drawing`` is what its script draws, ``twin`` the name of the file that has everything."""
    style = part("style.css") + part("effects.css")
    script = part("script.js") + part("scrolling.js") + part("effects.js")
    data: dict[str, Any] = {"ledger": _labelled(content["ledger"]["picture"]), "forest": drawing}
    data["bounded"] = math.isfinite(content["ledger"]["spent"])
    data["declared"] = bool(content["guarantee"]["outside"])
    return template("template.html").render(
        content | effects_section(effects) | evaluation_section(content["evaluation"]),
        text=LabelWriter(),
        short=short_label,
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
        data=script_json(data),
        unsaid=about.unsaid(content["about"]),
        drawing=drawing,
        twin=twin,
        ledger_words=_charge_words(content["ledger"]["groups"]),
        histogram=_histogram(content["forest"]["reliability"]),
    )


def evaluation_page(content: dict[str, Any], twin: str) -> str:
    """The HTML of the page of one evaluation, given as plain values; ``twin`` is the name of the file that has them."""
    style, script = part("style.css") + part("effects.css"), part("scrolling.js")
    return template("evaluation_page.html").render(
        evaluation_section(content),
        evaluation=content,
        text=LabelWriter(),
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
        twin=twin,
    )


@cache
def part(name: str) -> str:
    """The text of one of the files that pages are made of."""
    return (files("dpforest.show.report") / name).read_text("utf-8")


@cache
def template(name: str) -> Template:
    """A page of the report or of budgets, with the words and numbers that all of them use."""
    environment = Environment(
        loader=FunctionLoader(part), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # whatever a file calls it, it is seen
    )  # fmt: skip
    environment.filters |= {"figure": figure, "figure_up": _figure_up, "figure_down": _figure_down}
    environment.filters |= {"percent": percent, "share": share_figure}
    environment.globals |= {
        "most_features": MOST_FEATURES,
        "most_categories": MOST_CATEGORIES,
        "most_classes": MOST_CLASSES,
        "most_lines": MOST_LINES,
        "units": UNITS,
        "sections": SECTIONS,
        "about_fields": about.FIELDS,
        "about_options": about.OPTIONS,
        "band_means": texts.BAND_MEANS,
        "bins_mean": texts.BINS_MEAN,
        "by_weight": texts.BY_WEIGHT,
    }
    spoken = (texts.count_words, texts.counted, texts.in_brackets, texts.mean_words, texts.share_words)
    environment.globals |= {words.__name__: words for words in spoken}
    return environment.get_template(name)


def short_label(value: Any, most: int = 15) -> str:
    """A label in a picture, where there is room for a few characters."""
    return shortened(value, most, visible)


def _figure_up(value: float) -> str:
    """A number with three digits, rounded up, so that it can stand after "at most"."""
    return figure(float(shown_up(value, 3)), 3)


def _figure_down(value: float) -> str:
    """A number with four digits, rounded down, as what is left may be shown."""
    return figure(float(shown_down(value, 4)))


def policy(style: str, script: str) -> str:
    """The content security policy of the page: its own style and script, nothing from elsewhere."""
    allowed = [_hash(style), _hash(script)]
    return f"default-src 'none'; style-src '{allowed[0]}'; script-src '{allowed[1]}'; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _labelled(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the ledger as the script gets it: labels cut, amounts as text."""
    kept: dict[str, Any] = {name: block[name] for name in ("kind", "count", "copies", "share", "purpose") if name in block}
    longest = {"label": 60, "last": 60, "mechanism": 60, "reason": 400}
    kept |= {name: shortened(block[name], most, visible) for name, most in longest.items() if name in block}
    kept["amount"] = f"{UNITS[block['unit']]} = {figure(float(block['cost']))}"
    return kept | {"children": [_labelled(part) for part in block["children"]]}


def _charge_words(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table of charges, with levels and amounts in words."""
    return [
        group
        | {
            "levels": _levels(group["levels"]),
            "each": UNITS[group["unit"]]
            + " = "
            + (
                figure(group["most"])
                if math.isclose(group["least"], group["most"], rel_tol=1e-6) or math.isinf(group["most"])
                else f"{figure(group['least'])} to {figure(group['most'])}"
            ),
        }
        for group in groups
    ]


def _levels(levels: list[int]) -> str:
    if not levels:
        return ""
    return f"level {levels[0]}" if len(levels) == 1 else f"levels {levels[0]} to {levels[-1]}"


def _histogram(reliability: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The bars of the histogram of leaves by signal against noise, with heights as parts of the highest."""
    if reliability is None:
        return []
    highest = max((group["share"] for group in reliability["bins"]), default=0.0) or 1.0
    return [
        {
            "label": f"{group['from']:g} to {group['to']:g}" if math.isfinite(group["to"]) else f"over {group['from']:g}",
            "share": max(group["share"], 0.0),
            "leaves": group["leaves"],
            "height": max(group["share"], 0.0) / highest,
            "out": group["from"] >= reliability["threshold"],
        }
        for group in reliability["bins"]
    ]
