"""Importances of features as bars. Released values only."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpforest.errors import ParameterError, shown
from dpforest.plots.canvas import AS_IS, BLUE, GREY, axes, in_percent, plain

LONGEST = 32


def importances(model: Any, *, ax: Any = None, most: int = 20) -> Any:
    """Bars of ``model.feature_importances_``, the largest first; of at most ``most`` features.

    An importance is the feature's share in the decrease of impurity, from released counts, so it is as noisy as they are.
    """
    check_is_fitted(model, "forest_")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ParameterError(f"most must be a whole number of at least 1, not {shown(most)}.")
    values = np.asarray(model.feature_importances_)
    names = list(getattr(model, "feature_names_in_", model.schema_.features))
    order = np.argsort(-values, kind="stable")[:most]
    ax = axes(ax, 6.4, 1.0 + 0.28 * len(order))
    bars = ax.barh(range(len(order)), values[order], color=BLUE)
    ax.bar_label(bars, [f"{value:.1%}" for value in values[order]], padding=3, color=GREY, fontsize="small", **AS_IS)
    ax.set_yticks(range(len(order)), [plain(names[place], LONGEST) for place in order], **AS_IS)
    ax.set(ylim=(len(order) - 0.4, -0.6), xlim=(0, 1.15 * values.max() or 1))
    in_percent(ax.xaxis)
    ax.set_xlabel("share in the decrease of impurity", **AS_IS)
    if len(order) < len(values):
        ax.set_title(
            f"the {len(order)} largest of {len(values)} features", loc="left", fontsize="small", color=GREY, **AS_IS
        )
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
