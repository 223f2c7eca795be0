"""Pages that need nothing else, each with a twin in JSON, and panels for notebooks. Released values only."""

import base64
import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cache, singledispatch
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dpforest.budget import Budget
from dpforest.common import text as texts
from dpforest.common.files import check_writable, write_whole
from dpforest.common.text import counted, figure, percent, share_figure, shortened, to_json, visible
from dpforest.errors import OutputError, shown_down, shown_up
from dpforest.model.effects import effects_of
from dpforest.model.signal import Signal
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.schema import Categorical, Classes, Schema
from dpforest.schema.kinds import Feature, Target
from dpforest.schema.words import in_words, unit_words
from dpforest.show.charges import charged
from dpforest.show.export.json import forest_to_dict
from dpforest.show.report import attached
from dpforest.show.report.attached import budget_page_content, curve_of
from dpforest.show.report.content import kind_of, report_content
from dpforest.show.report.drawing import Drawing, effects_section, script_json
from dpforest.show.report.evaluations import checked, evaluation_section

REPORT, OF_BUDGETS = ({"format": name, "version": 1} for name in ("dpforest-report", "dpforest-budget-report"))
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
UNITS = {"epsilon": "ε", "rho": "\N{GREEK SMALL LETTER RHO}"}
# What templates use. Of long lists a page has so many; its twin has all.
GLOBALS = {
    "most_features": 150, "most_categories": 12, "most_classes": 40, "most_lines": 40, "units": UNITS, "sections": SECTIONS,
    "about_fields": attached.FIELDS, "about_options": attached.OPTIONS, "from_a_person": attached.FROM_A_PERSON,
    "band_means": texts.BAND_MEANS, "bins_mean": texts.BINS_MEAN, "by_weight": texts.BY_WEIGHT, "counted": texts.counted,
    "count_words": texts.count_words, "in_brackets": texts.in_brackets, "mean_words": texts.mean_words,
    "share_words": texts.share_words, "short": lambda value, most=15: shortened(value, most, visible),
}  # fmt: skip
FILTERS = {
    "figure": figure, "percent": percent, "share": share_figure, "json": lambda value: Markup(to_json(value)),
    "figure_up": lambda value: figure(float(shown_up(value, 3)), 3),  # can stand after "at most"
    "figure_down": lambda value: figure(float(shown_down(value, 4))),  # what is left
}  # fmt: skip
SHORTEST = 16  # characters of a label on a page that is full
MOST_LISTED = 8  # values in a cell of a panel


class LabelWriter:
    """Writes labels as HTML: isolated from the direction of the text around, and cut if long.

    The rest of a cut label opens on demand, as long as such rests have room on the page. When all labels together have used
    up theirs, later ones are cut to a few characters.
    """

    def __init__(self, room: int = 350_000, room_for_rests: int = 100_000, longest: int = 12_000) -> None:
        self._room, self._room_for_rests, self._longest = room, room_for_rests, longest

    def __call__(self, value: Any, most: int = 80) -> Markup:
        text, isolated = str(value), Markup("<bdi>{}</bdi>").format
        short = isolated(shortened(text, most if self._room > 0 else min(most, SHORTEST), visible))
        self._room -= len(short.encode())
        if len(text) <= most or self._room <= 0:
            return short
        rest = isolated(visible(text[: self._longest]))
        size = len(rest.encode())
        if size > self._room_for_rests:
            return short + Markup(' <span class="small">({:,} characters)</span>').format(len(text))
        self._room_for_rests -= size
        opened = Markup(' <details class="whole"><summary>{:,} characters</summary>{}</details>')
        return short + opened.format(len(text), rest)


@cache
def environment() -> Environment:
    """The templates of all pages, with the words and numbers that they use."""
    made = Environment(
        loader=FunctionLoader(_part), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # whatever a file calls it, it is seen
    )  # fmt: skip
    made.filters |= FILTERS
    made.globals |= GLOBALS
    return made


def rendered(name: str, script: str, twin: str, content: dict[str, Any]) -> str:
    """A page from its template, with one style and one script, and a policy that lets a browser load nothing else."""
    style = _part("style.css")
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script))
    of_style, of_script = (f"'sha256-{found}'" for found in hashes)
    policy = f"default-src 'none'; style-src {of_style}; script-src {of_script}; base-uri 'none'; form-action 'none'"
    page = {"style": Markup(style), "script": Markup(script), "policy": policy, "text": LabelWriter(), "twin": twin}
    return environment().get_template(name).render(page | content)


def _part(name: str) -> str:
    return (files("dpforest.show.report") / name).read_text("utf-8")


def write_report(
    model: Any,
    path: str | Path,
    audit: dict[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    evaluation: Any = None,
) -> None:
    """Write the page to ``path`` and its twin beside it, with the ending ``.json``.

    ``audit`` is what ``dpforest audit --json`` prints, ``about`` what people say of the release (see ``attached.FIELDS``),
    ``evaluation`` an ``Evaluation`` of this model, or what ``dpforest evaluate --json`` prints.
    """
    twin, effects = twin_of(path), effects_of(model.forest_, model.ledger_)
    content = report_content(model, audit, about, budget, effects, evaluation) | {"effects": asdict(effects)}
    drawing, ledger = Drawing(Signal.of(model.forest_, model.ledger_)).to_dict(), content["ledger"]
    data = {
        "ledger": _labelled(ledger["picture"]), "forest": drawing, "bounded": math.isfinite(ledger["spent"]),
        "declared": bool(content["guarantee"]["outside"]),
    }  # fmt: skip
    found = content | effects_section(effects) | evaluation_section(content["evaluation"])
    script = "".join(map(_part, ("script.js", "scrolling.js", "effects.js")))
    more = {"data": script_json(data), "unsaid": attached.unsaid(content["about"]), "drawing": drawing}
    write_pair(path, rendered("template.html", script, twin.name, found | more), _twin_text(model, content))


def write_evaluation(evaluation: Any, path: str | Path) -> None:
    """Write the page of an evaluation to ``path``, and beside it, with the ending ``.json``, what a report can show."""
    content = checked(evaluation)
    write_pair(path, evaluation_page(content, twin_of(path).name), to_json(content, indent=1) + "\n")


def evaluation_page(content: dict[str, Any], twin: str) -> str:
    """The HTML of the page of one evaluation, given as plain values; ``twin`` is the name of the file that has them."""
    return rendered(
        "evaluation_page.html", _part("scrolling.js"), twin, evaluation_section(content) | {"evaluation": content}
    )


def write_budget_page(budgets: Sequence[Budget], path: str | Path) -> None:
    """Write the page of budgets of one file to ``path``, and its twin beside it, with the ending ``.json``."""
    content = budget_page_content(budgets)
    curves = [curve_of(found, content["written"]) for found in content["datasets"]]
    page = rendered("budget_page.html", _part("scrolling.js"), twin_of(path).name, content | {"curves": curves})
    write_pair(path, page, to_json(OF_BUDGETS | content, indent=1))


def twin_of(path: str | Path) -> Path:
    """Where the JSON twin of a page goes."""
    twin = Path(path).with_suffix(".json")
    if twin == Path(path):
        raise OutputError(f"{path} is where the JSON twin of the page goes. Give the page another ending, such as .html.")
    return twin


def write_pair(path: str | Path, page: str, twin: str) -> None:
    """Write a page and its twin, both of which were made before the first is written."""
    pair = {twin_of(path): twin, Path(path): page}
    for file in pair:
        check_writable(file)
    for file, text in pair.items():
        write_whole(file, text.encode())


def _labelled(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the ledger as the script gets it: labels cut, amounts as text."""
    kept: dict[str, Any] = {name: block[name] for name in ("kind", "count", "copies", "share", "purpose") if name in block}
    longest = {"label": 60, "last": 60, "mechanism": 60, "reason": 400}
    kept |= {name: shortened(block[name], most, visible) for name, most in longest.items() if name in block}
    kept["amount"] = f"{UNITS[block['unit']]} = {figure(float(block['cost']))}"
    return kept | {"children": [_labelled(part) for part in block["children"]]}


def _twin_text(model: Any, content: dict[str, Any]) -> str:
    """The twin as JSON text: the content of the page, the whole ledger, every tree and the draft of a registry entry."""
    deployment = environment().get_template("registry.json").render(content)
    whole = {
        **REPORT, **content, "deployment": json.loads(deployment),
        "schema": model.schema_.to_dict(), "whole_ledger": model.ledger_.to_dict(),
    }  # fmt: skip
    # Trees are for programs: without line breaks they take half the room.
    parts, trees = to_json(whole, indent=1), to_json(forest_to_dict(model.forest_))
    return f'{parts.rstrip().removesuffix("}").rstrip()},\n "trees": {trees}\n}}\n'


@singledispatch
def as_html(value: object) -> str:
    """A schema, statement or ledger as a panel."""
    raise TypeError(f"{type(value).__name__} has no panel.")


@as_html.register
def _(schema: Schema) -> str:
    columns = [(f"{schema.target.name} (target)", schema.target), *schema.features.items()]
    rows = "not declared, so it stays protected" if schema.n_rows is None else f"{schema.n_rows:,}, declared public"
    facts = [f"Number of rows: {rows}.", f"{unit_words(schema)}."]
    facts += [f"Vouched for by: {schema.vouched_by}"] if schema.vouched_by else []
    is_read = schema.source == "assume-public"
    title = "read off the rows themselves, and only assumed to be public; NO guarantee holds"
    title = f"Schema: {title if is_read else 'what is public about the table'}"
    return panel(title, facts, [(name, kind_of(part), _values(part)) for name, part in columns],
                 ("Column", "Kind", "Values"), is_alarm=is_read)  # fmt: skip


@as_html.register
def _(statement: Statement) -> str:
    title = "the guarantee holds" if not statement.outside else "as declared, not proved by the library"
    facts = [statement.sentence, *(f"Note: {note.removesuffix('.')}." for note in statement.notes)]
    rows = [
        ("epsilon", figure(statement.epsilon)), ("delta", figure(statement.delta)),
        ("protects", f"one {statement.unit} ({statement.adjacency})"),
        ("recipe", f"{statement.recipe} ({statement.variant})"),
    ]  # fmt: skip
    title = f"Privacy: {title if statement.holds else 'NO guarantee holds'}"
    return panel(title, facts, rows, is_alarm=not statement.holds)


@as_html.register
def _(ledger: Ledger) -> str:
    shares: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
    for each in charged(ledger, counted=True):
        shares[each.entry.purpose.kind, each.entry.mechanism.name].append(each.share)
    has_shares = ledger.spent < float("inf")
    rows = [
        (*key, f"{len(own):,}", share_figure(float(sum(own))) if has_shares else "no bound") for key, own in shares.items()
    ]
    at = f" at delta = {figure(ledger.delta)}" if ledger.delta else ""
    facts = [f"Spent: epsilon = {figure(ledger.spent)}{at}, of {figure(ledger.epsilon)} that were allowed."]
    facts += [f"{counted(len(ledger.leaks), 'exact value')} opened without protection."] if ledger.leaks else []
    title = f"Ledger: {counted(ledger.n_entries, 'charge')}" + ("" if has_shares else ", NO bound on the loss")
    return panel(title, facts, rows, ("For", "Mechanism", "Charges", "Share of the loss"), is_alarm=not has_shares)


def _values(part: Feature | Target) -> str:
    listed = part.categories if isinstance(part, Categorical) else part.labels if isinstance(part, Classes) else ()
    if not listed:
        return in_words(part)
    more = f" and {len(listed) - MOST_LISTED:,} more" if len(listed) > MOST_LISTED else ""
    return ", ".join(str(value)[:40] for value in listed[:MOST_LISTED]) + more


def panel(
    title: str, facts: Iterable[str], rows: Sequence[Sequence[str]], head: Sequence[str] = (), is_alarm: bool = False
) -> str:
    """A title (the loudest if it is an alarm), some facts, and a table, without a head if that is empty."""
    content = {"title": title, "facts": facts, "rows": rows, "head": head, "is_alarm": is_alarm}
    return environment().get_template("panel.html").render(content)
