"""Importances of features as bars. Released values only."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpforest.bands import NORMAL_95
from dpforest.errors import ParameterError, shown
from dpforest.plots.canvas import AS_IS, BLUE, GREY, axes, drawable, in_percent
from dpforest.signal import Signal

LONGEST = 32


def importances(model: Any, *, ax: Any = None, most: int = 20) -> Any:
    """Bars of ``model.feature_importances_`` with 95 % bands, the largest first; of at most ``most`` features.

    An importance is the feature's share in the decrease of impurity, without what noise and chance alone would give.
    """
    check_is_fitted(model, "forest_")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ParameterError(f"most must be a whole number of at least 1, not {shown(most)}.")
    values = np.asarray(model.feature_importances_)
    names = list(getattr(model, "feature_names_in_", model.schema_.features))
    estimates = dict(zip(model.schema_.features, model.forest_.importance_estimates(), strict=True))
    bands = np.array([min(NORMAL_95 * estimates[str(name)].deviation, 1.0) for name in names])
    if Signal.of(model.forest_, model.ledger_).release == "printed":
        bands = np.zeros(len(names))  # how wide the noise of printed algorithms is was not recorded
    order = np.argsort(-values, kind="stable")[:most]
    ax = axes(ax, 6.4, 1.0 + 0.28 * len(order))
    ends = np.minimum(values + bands, 1)
    around = np.stack([np.minimum(bands, values), ends - values])[:, order]
    ax.barh(
        range(len(order)), values[order], color=BLUE, xerr=around, error_kw={"ecolor": GREY, "elinewidth": 1, "capsize": 2}
    )
    asked = dict(zip(model.schema_.features, model.forest_.asked, strict=True))
    for row, place in enumerate(order):
        words = f"{values[place]:.1%}" + (f" ± {bands[place]:.1%}" if bands[place] else "")
        words = words if asked[str(names[place])] else "not asked"
        style = {"textcoords": "offset points", "va": "center", "color": GREY, "fontsize": "small"}
        ax.annotate(words, (ends[place], row), (5, 0), annotation_clip=False, **style, **AS_IS)
    ax.set_yticks(range(len(order)), [drawable(names[place], LONGEST) for place in order], **AS_IS)
    ax.set(ylim=(len(order) - 0.4, -0.6), xlim=(0, 1.25 * float(ends[order].max()) or 1))
    in_percent(ax.xaxis)
    ax.set_xlabel("share in the decrease of impurity" + (", with 95 % bands" if bands.any() else ""), **AS_IS)
    if len(order) < len(values):
        ax.set_title(
            f"the {len(order)} largest of {len(values)} features", loc="left", fontsize="small", color=GREY, **AS_IS
        )
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
