"""Draws the importances of features as bars. Released values only."""

from typing import Any

import numpy as np

from dpforest.common.text import in_brackets, share_words
from dpforest.errors import ParameterError, shown
from dpforest.model.importances import importance_rows
from dpforest.privacy.accountants import is_whole
from dpforest.show.plots.canvas import AS_IS, BLUE, GREY, axes, drawable, in_percent
from dpforest.show.plots.given import check_forest

LONGEST = 32


def importances(model: Any, *, ax: Any = None, most: int = 20) -> Any:
    """Draw bars of ``model.feature_importances_`` with 95 % bands, the largest first; of at most ``most`` columns.

    An importance is the column's share in what the model has learnt, without what noise alone would give: of trees that add
    up in the variance of the score, of trees that vote in the decrease of impurity.
    """
    check_forest(model)
    if not is_whole(most) or most < 1:
        raise ParameterError(f"most must be a whole number of at least 1, not {shown(most)}.")
    every = importance_rows(model.forest_, model.ledger_)
    rows = every[:most]
    ax = axes(ax, 6.4, 1.0 + 0.28 * len(rows))
    values, bands = (np.array([row[name] or 0.0 for row in rows]) for name in ("share", "band"))
    ends = np.minimum(values + bands, 1)
    around = np.stack([np.minimum(bands, values), ends - values])
    ax.barh(range(len(rows)), values, color=BLUE, xerr=around, error_kw={"ecolor": GREY, "elinewidth": 1, "capsize": 2})
    for index, (row, end) in enumerate(zip(rows, ends, strict=True)):
        low, high = (None, None) if not row["band"] else (max(row["share"] - row["band"], 0.0), end)
        words = in_brackets(share_words(row["share"], low, high))
        style = {"textcoords": "offset points", "va": "center", "color": GREY, "fontsize": "small"}
        ax.annotate(words if row["asked"] else "not asked", (end, index), (5, 0), annotation_clip=False, **style, **AS_IS)
    ax.set_yticks(range(len(rows)), [drawable(row["feature"], LONGEST) for row in rows], **AS_IS)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, min(1.25 * float(ends.max()), 1) or 1))
    in_percent(ax.xaxis)
    what = "the decrease of impurity" if model.forest_.link == "shares" else "the variance of the score"
    ax.set_xlabel(f"share in {what}" + (", with 95 % bands" if bands.any() else ""), **AS_IS)
    if len(rows) < len(every):
        ax.set_title(f"the {len(rows)} largest of {len(every)} columns", loc="left", fontsize="small", color=GREY, **AS_IS)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
