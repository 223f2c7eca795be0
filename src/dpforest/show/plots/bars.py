"""Draws the importances of features as bars. Released values only."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpforest.errors import ParameterError, shown
from dpforest.model.signal import Signal
from dpforest.privacy.accountants import is_whole
from dpforest.show.plots.canvas import AS_IS, BLUE, GREY, axes, drawable, in_percent

LONGEST = 32


def importances(model: Any, *, ax: Any = None, most: int = 20) -> Any:
    """Draw bars of ``model.feature_importances_`` with 95 % bands, the largest first; of at most ``most`` features.

    An importance is the feature's share in the decrease of impurity, without what noise and chance alone would give.
    """
    check_is_fitted(model, "forest_")
    if not is_whole(most) or most < 1:
        raise ParameterError(f"most must be a whole number of at least 1, not {shown(most)}.")
    every = Signal.of(model.forest_, model.ledger_).importances()
    rows = every[:most]
    ax = axes(ax, 6.4, 1.0 + 0.28 * len(rows))
    values, bands = (np.array([row[name] or 0.0 for row in rows]) for name in ("share", "band"))
    ends = np.minimum(values + bands, 1)
    around = np.stack([np.minimum(bands, values), ends - values])
    ax.barh(range(len(rows)), values, color=BLUE, xerr=around, error_kw={"ecolor": GREY, "elinewidth": 1, "capsize": 2})
    for index, (row, end) in enumerate(zip(rows, ends, strict=True)):
        words = f"{row['share']:.1%}" + (f" ± {row['band']:.1%}" if row["band"] else "")
        style = {"textcoords": "offset points", "va": "center", "color": GREY, "fontsize": "small"}
        ax.annotate(words if row["asked"] else "not asked", (end, index), (5, 0), annotation_clip=False, **style, **AS_IS)
    ax.set_yticks(range(len(rows)), [drawable(row["feature"], LONGEST) for row in rows], **AS_IS)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.25 * float(ends.max()) or 1))
    in_percent(ax.xaxis)
    ax.set_xlabel("share in the decrease of impurity" + (", with 95 % bands" if bands.any() else ""), **AS_IS)
    if len(rows) < len(every):
        ax.set_title(f"the {len(rows)} largest of {len(every)} features", loc="left", fontsize="small", color=GREY, **AS_IS)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
