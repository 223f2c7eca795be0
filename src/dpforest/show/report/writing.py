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
from dpforest.show.report.evaluations import checked
from dpforest.show.report.html import evaluation_page, page
from dpforest.show.report.registry import deployment

FORMAT, VERSION = "dpforest-report", 1


def write_report(
    model: Any,
    path: str | Path,
    audit: dict[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    evaluation: Any = None,
) -> None:
    """Write the page to ``path`` and its twin beside it, with the ending ``.json``.

    ``audit`` is what ``dpforest audit --json`` prints, ``about`` what people say of the release (see ``about.FIELDS``),
    ``evaluation`` an ``Evaluation`` of this model, or what ``dpforest evaluate --json`` prints.
    """
    path = Path(path)
    twin = twin_of(path)
    effects = effects_of(model.forest_, model.ledger_)
    content = report_content(model, audit, about, budget, effects, evaluation) | {"effects": effects_content(effects)}
    drawing = Drawing(Signal.of(model.forest_, model.ledger_)).to_dict()
    _write({twin: twin_text(model, content), path: page(content, drawing, effects, twin.name)})


def write_evaluation(evaluation: Any, path: str | Path) -> None:
    """Write the page of an evaluation to ``path``, and beside it, with the ending ``.json``, what a report can show."""
    path = Path(path)
    twin, content = twin_of(path), checked(evaluation)
    _write({twin: to_json(content, indent=1) + "\n", path: evaluation_page(content, twin.name)})


def twin_of(path: Path) -> Path:
    """Where the JSON twin of a page goes."""
    twin = path.with_suffix(".json")
    if twin == path:
        raise OutputError(f"{path} is where the JSON twin of the page goes. Give the page another ending, such as .html.")
    return twin


def _write(files: dict[Path, str]) -> None:
    """Write some files, each of which was made before the first is written."""
    for file in files:
        check_writable(file)
    for file, text in files.items():
        write_whole(file, text.encode())


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
