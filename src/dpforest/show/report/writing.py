"""Writes the report to files: the page, and its twin in JSON. Released values only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpforest.budget import Budget
from dpforest.common.files import check_writable, write_whole
from dpforest.common.jsonable import to_json
from dpforest.errors import OutputError
from dpforest.model.effects import effects_of
from dpforest.model.signal import Signal
from dpforest.show.export.json import forest_to_dict
from dpforest.show.report.content import report_content
from dpforest.show.report.drawing import Drawing
from dpforest.show.report.effects import effects_content
from dpforest.show.report.html import page
from dpforest.show.report.registry import deployment

FORMAT, VERSION = "dpforest-report", 1


def write_report(
    model: Any,
    path: str | Path,
    audit: dict[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> None:
    """Write the page to ``path`` and its twin beside it, with the ending ``.json``.

    ``audit`` is what ``dpforest audit --json`` prints, ``about`` what people say of the release (see ``about.FIELDS``).
    Both files are made before the first is written.
    """
    path = Path(path)
    twin = path.with_suffix(".json")
    if twin == path:
        raise OutputError(f"{path} is where the JSON twin of the report goes. Give the page another ending, such as .html.")
    effects = effects_of(model.forest_, model.ledger_)
    content = report_content(model, audit, about, budget, effects) | {"effects": effects_content(effects)}
    drawing = Drawing(Signal.of(model.forest_, model.ledger_)).to_dict()
    files = {twin: twin_text(model, content).encode(), path: page(content, drawing, effects, twin.name).encode()}
    for file in files:
        check_writable(file)
    for file, text in files.items():
        write_whole(file, text)


def twin_text(model: Any, content: dict[str, Any]) -> str:
    """The twin as JSON text: the content of the page, the whole ledger, every tree and the draft of a registry entry."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        **content,
        "deployment": deployment(content),
        "schema": model.schema_.to_dict(),
        "whole_ledger": model.ledger_.to_dict(),
    }
    parts = to_json(whole, indent=1)
    # Trees are for programs: without line breaks they take half the room.
    trees = to_json(forest_to_dict(model.forest_))
    return f'{parts.rstrip().removesuffix("}").rstrip()},\n "trees": {trees}\n}}\n'
