"""dpforest report: the page for whoever decides whether a model may be published."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dpforest.cli.console import say
from dpforest.cli.options import Model, check_ending


def report(
    model: Model,
    out: Annotated[Path, typer.Option(help="Where to write the page, .html; the same as JSON goes beside it.")],
    audit: Annotated[Path | None, typer.Option(help="What 'dpforest audit --json' printed, to be shown too.")] = None,
) -> None:
    """Write the privacy report of a model: one page that needs no network, and the same as JSON.

    Example: [bold]dpforest report adult.dpf --out report.html[/bold]
    """
    from dpforest.common.files import check_writable
    from dpforest.estimators import load_model

    check_ending(out, "A report is written", ".html", ".htm")
    twin = out.with_suffix(".json")
    for path in (out, twin):
        check_writable(path, model, *([] if audit is None else [audit]))
    load_model(model).save_report(out, None if audit is None else _audit(audit))
    say(f"Report: {out}\nAs JSON: {twin}")


def _audit(path: Path) -> dict[str, object]:
    from dpforest.errors import ParameterError

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"The audit {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("audits"), list):
        raise ParameterError(f"{path} is not what 'dpforest audit --json' prints.")
    return content
