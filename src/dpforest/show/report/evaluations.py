"""What the report says of an evaluation that is attached to it, and the page of an evaluation. Released values only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpforest.common.text import NOTHING, count_words, figure, loss_words, other_rows_words, with_band
from dpforest.errors import ParameterError
from dpforest.model.file import model_digest
from dpforest.privacy.accountants import is_whole
from dpforest.privacy.statement import UNITS
from dpforest.show.pictures import calibration_marks, roc_curve

WANTED = (
    "evaluation must be the JSON file that `dpforest evaluate --out PAGE.html` writes beside its page, what its --json "
    "prints, or what to_dict() of an Evaluation gives"
)
TOO_FEW = "too few records to say"
# The frame of a picture: left, right, top and bottom.
LEFT, RIGHT, TOP, BOTTOM = 46.0, 326.0, 10.0, 262.0
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_GROUPS, MOST_COLUMNS, MOST_SCORES, MOST_CONFUSED = 60, 6, 60, 12
# Why a figure may be off, beside noise; and how figures begin that are not on the page for a subgroup.
KINDS, LEFT_OUT = ("binning", "sampling"), ("F1 ", "precision ", "log ", "Brier ")
# The figures at a threshold that the page has a column for.
AT_THRESHOLD = ("accuracy", "recall", "specificity", "precision", "predicted")


def evaluation_content(evaluation: Any, model: Any) -> dict[str, Any] | None:
    """What an evaluation says, if it is one of this model; None without one. Raises if it is of another model."""
    if evaluation is None:
        return None
    content = checked(evaluation)
    digest = model_digest(model)
    if digest is None or content["model"] != digest:
        raise ParameterError(
            "The evaluation is not of this model: it carries the hash of another, or none. Evaluate the model that the "
            "report is about, as 'dpforest evaluate MODEL TABLE --out PAGE' does."
        )
    return content


def checked(evaluation: Any) -> dict[str, Any]:
    """The evaluation as plain values, if it can be shown; else raises."""
    content = evaluation.to_dict() if hasattr(evaluation, "to_dict") else evaluation
    if not isinstance(content, Mapping) or content.get("format") != "dpforest-evaluation":
        raise ParameterError(f"{WANTED}.")
    try:
        content = {**content, **_cost(content)}
        evaluation_section(content)
        _check_named(content)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise ParameterError(f"{WANTED}; some of its entries are missing or of another kind.") from None
    return content


def _cost(content: Mapping[str, Any]) -> dict[str, Any]:
    """Who pays, of how many rows at most, and the sentences on it; files from before persons are about records."""
    epsilon, unit, rows = float(content["epsilon"]), content.get("unit", "record"), content.get("rows", 1)
    if unit not in UNITS or not is_whole(rows) or rows < 1 or (rows > 1 and unit == "record"):
        raise ValueError("A record is one row; a person has at least one.")
    return {"unit": unit, "rows": rows, "loss": None if content["public"] else loss_words(epsilon, unit, rows)}


def _check_named(content: Mapping[str, Any]) -> None:
    """Raise, as Python does, unless what the page names by itself is there."""
    _ = [content[name] for name in ("model", "written", "target")]
    if content["task"] == "classes":
        _ = list(content["labels"])[1 if content.get("thresholds") else 0]
    else:
        _low, _high = map(float, content["range"])


def score_words(score: Mapping[str, Any]) -> str:
    """A figure with the band of its noise: ``0.852 ± 0.002``."""
    value, margin = score["value"], score["margin"]
    if value is None or np.isnan(float(value)):
        return TOO_FEW
    return with_band(float(value), float(margin)) if margin else f"{float(value):,.4f}"


def off_by(score: Mapping[str, Any], kind: str) -> str:
    """How far a figure may be off for a reason, "sampling" or "binning", in words for a table."""
    amount = score[kind]
    known = amount is not None and score["value"] is not None and float(amount) > 0
    return f"± {figure(float(amount), 2)}" if known else NOTHING


def evaluation_section(content: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the template of an evaluation is filled with, beside its content."""
    if content is None:
        return {"scored": None}
    found: dict[str, Any] = {
        "rows": _rows_in(content, "rows"),
        "scores": _table(content["scores"]),
        "other_rows": other_rows_words(content["unit"]),
        "has_bins": any(score["binning"] for score in content["scores"]),
        "roc": _roc(content.get("roc") or []),
        "calibration": _calibration(content.get("calibration") or []),
        "thresholds": [_threshold(row, content["threshold"]) for row in content.get("thresholds") or []],
        "confusion": _confusion(content),
        "groups": _groups(content.get("groups")),
        "comparison": None,
    }
    if comparison := content.get("comparison"):
        found["comparison"] = {"scores": _table(comparison["scores"]), "verdict": _verdict(comparison, content["task"])}
    return {"scored": found}


def _table(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [
        {"name": str(each["name"]), "value": score_words(each), **{kind: off_by(each, kind) for kind in KINDS}}
        for each in scores[:MOST_SCORES]
    ]


def _verdict(comparison: Mapping[str, Any], task: str) -> str:
    """Which of two models is better, if the difference stands out of noise and luck, as a sentence."""
    (score,) = (each for each in comparison["scores"] if each["name"] == comparison["difference"])
    value, margin, sampling = score["value"], score["margin"], score["sampling"]
    if value is None or abs(value) <= np.hypot(margin, sampling or 0.0):
        return "Which of the two is better cannot be told: the difference is within what noise and other rows can do."
    better = (value > 0) == (task == "classes")
    return f"{'This model' if better else 'The other model'} is better on such rows."


def _threshold(row: Mapping[str, Any], chosen: float) -> dict[str, Any]:
    words = {each["name"]: score_words(each) for each in row["scores"]}
    named = {name: words[name] for name in AT_THRESHOLD}
    return named | {"threshold": figure(float(row["threshold"]), 3), "is_chosen": row["threshold"] == chosen}


def _confusion(content: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    if not content.get("confusion"):
        return None
    if len(content["labels"]) > MOST_CONFUSED:
        raise ValueError("No evaluation has so many.")
    margins = [float(margin) for margin in content["confusion"]["margins"]]
    return [
        {"label": label, "cells": [count_words(float(n), margin or None) for n, margin in zip(row, margins, strict=True)]}
        for label, row in zip(content["labels"], content["confusion"]["counts"], strict=True)
    ]


def _groups(groups: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The table of subgroups: for each its rows and figures, or that they are too few, and a bar for a share."""
    if groups is None:
        return None
    names = [each["name"] for each in groups["rows"][0]["scores"] if not each["name"].startswith(LEFT_OUT)][:MOST_COLUMNS]
    rows = []
    for row in groups["rows"][:MOST_GROUPS]:
        scores = {each["name"]: each for each in row["scores"]}
        rows.append({
            "group": str(row["group"]), "rows": _rows_in(row), "enough": bool(row["enough"]),
            "words": [score_words(scores[name]) if name in scores else NOTHING for name in names],
            "sampling": off_by(scores[names[0]], "sampling") if names[0] in scores else NOTHING,
        })  # fmt: skip
    return {"column": groups["column"], "names": names, "rows": rows, "left": len(groups["rows"]) - len(rows)}


def _rows_in(part: Mapping[str, Any], what: str = "") -> str:
    return count_words(float(part["n_rows"]), float(part["n_rows_margin"]) or None, what)


def _x(share: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0), 1)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * min(max(share, 0.0), 1.0), 1)


def _frame() -> dict[str, Any]:
    along, across = ([(place(at), f"{at:g}") for at in TICKS] for place in (_x, _y))
    return {"along": along, "across": across, "left": LEFT, "right": RIGHT, "bottom": BOTTOM}


def _roc(points: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The curve as a path, and the outline of its band."""
    if not points:
        return None
    line, band = ([(_x(x), _y(y)) for x, y in outline.tolist()] for outline in roc_curve(points))
    paths = ["M" + "L".join(f"{x:g} {y:g}" for x, y in outline) for outline in (line, band)]
    return _frame() | {"line": paths[0], "band": f"{paths[1]}Z" if band else "", "marks": line[1:-1]}


def _calibration(points: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A mark for each bin with enough records, with the ends of its whisker; and a row of a table for each bin."""
    if not points:
        return None
    rows = [
        {
            "bin": f"{figure(float(point['low']), 3)} to {figure(float(point['high']), 3)}",
            "n_rows": _rows_in(point),
            "share": score_words({"value": point["share"], "margin": point["margin"]}),
        }
        for point in points
    ]
    marks = [
        (_x(middle), _y(share), _y(share - margin), _y(share + margin))
        for middle, share, margin in calibration_marks(points).tolist()
    ]
    return _frame() | {"marks": marks, "rows": rows}
