"""dpforest report: the page for whoever decides whether a model may be published."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.budget import open_budget
from dpforest.cli.console import say, steps
from dpforest.cli.options import Model, check_page
from dpforest.common.entries import read_entries
from dpforest.common.files import read_whole
from dpforest.errors import OutputError, ParameterError

MOST_BYTES_ABOUT, MOST_BYTES, MOST_LEVELS = 1 << 20, 1 << 25, 32


def report(
    model: Model,
    out: Annotated[Path, typer.Option(help="Where to write the page, .html; the same as JSON goes beside it.")],
    dataset: Annotated[str | None, typer.Option(help="The name of the data set.")] = None,
    dataset_version: Annotated[str | None, typer.Option(help="The version of the data set, or its day.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What the model is for.")] = None,
    contact: Annotated[str | None, typer.Option(help="Who answers questions.")] = None,
    about: Annotated[
        Path | None, typer.Option(help="A file, .toml or .json, with these and what a public registry asks for.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Show the budget of the data set, FILE::DATASET; it stays as it is.")
    ] = None,
    audit: Annotated[Path | None, typer.Option(help="What 'dpforest audit --json' printed, to be shown too.")] = None,
    evaluation: Annotated[
        Path | None, typer.Option(help="What 'dpforest evaluate' wrote beside its page, to be shown too.")
    ] = None,
) -> None:
    """Write the privacy report of a model: one page that needs no network, and the same as JSON.

    What is not stated stays open on the page. Options count before the entries of a file.

    Example: [bold]dpforest report adult.dpf --out report.html --dataset "Adult census" --purpose "Teaching"[/bold]
    """
    from dpforest.estimators import load_model

    twin = check_page(out, "A report is written", model, audit, about, evaluation)
    options = {"dataset": dataset, "dataset_version": dataset_version, "purpose": purpose, "contact": contact}
    said = ({} if about is None else _about(about)) | {name: text for name, text in options.items() if text is not None}
    found, charged_to = None if audit is None else _audit(audit), open_budget(budget)
    scores = None if evaluation is None else _read_json(evaluation, "evaluation")
    with steps("Report") as progress:
        progress("reading the model")
        forest = load_model(model)
        progress("writing the page")
        forest.save_report(out, found, said, charged_to, scores)
    say(f"Report: {out}\nAs JSON: {twin}")


def _about(path: Path) -> dict[str, Any]:
    """The entries of the file in which people describe a release."""
    content = read_entries(path, "description", MOST_BYTES_ABOUT, ParameterError)
    if not isinstance(content, dict):
        raise ParameterError(f'{path} must map fields to texts, such as {{"purpose": "…"}}.')
    return content


def _audit(path: Path) -> dict[str, object]:
    content = _read_json(path, "audit")
    if not isinstance(content, dict) or not isinstance(content.get("audits"), list):
        raise ParameterError(f"{path} is not what 'dpforest audit --json' prints.")
    return content


def _read_json(path: Path, what: str) -> Any:
    """What a file of JSON holds; an empty text if it is none, or too deep, which no reader of it takes."""
    try:
        content = json.loads(read_whole(path, MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise ParameterError(f"The {what} {path} cannot be read: {error.strerror}.") from None
    except OutputError as error:
        raise ParameterError(f"The {what} cannot be read: {error}") from None
    except (ValueError, RecursionError):
        return ""
    return content if _is_within(content, MOST_LEVELS) else ""


def _is_within(value: Any, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_within(item, levels - 1) for item in inside)
