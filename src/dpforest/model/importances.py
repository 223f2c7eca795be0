"""Which columns matter: the share of each in what a released forest has learnt, with its noise. Released values only.

Trees that vote for themselves lower impurity, and a column's importance is its share in that (``Forest.decreases``). Trees
that add up say what they have learnt together: later ones count records by weight, and a linear release counts none. There
an importance follows what effects say: it is the share of the variance of the score that comes from the column.
"""

import math
from typing import Any

import numpy as np

from dpforest.forest.bands import NORMAL_95
from dpforest.forest.tree import Estimate, Forest, shares_of
from dpforest.model.effects import MOST_BANDS, Effect, Effects, Interaction, effects_of
from dpforest.model.signal import leaf_release
from dpforest.privacy.ledger import Ledger

# The part of an interaction's variance that is added to those of its columns when it is divided among them.
EVENLY = 0.05


def importances_of(forest: Forest, ledger: Ledger, found: Effects | None = None) -> list[Estimate]:
    """The importance of each column with its standard deviation, in the order of the columns; they sum to 1, or are all 0.

    ``found`` are the effects of the forest, if they are known already.
    """
    if forest.link == "shares":
        return forest.decreases()
    return _of_effects(forest, found or effects_of(forest, ledger), leaf_release(forest, ledger) == "exact")


@np.errstate(over="ignore", invalid="ignore")  # fourth powers of what a file may hold
def _of_effects(forest: Forest, found: Effects, is_exact: bool) -> list[Estimate]:
    """The share of each column in the variance of the effects, and of the interactions that it takes part in.

    An interaction is divided among its two columns by their own effects, evenly where these are small beside it: a tree that
    asks for one column on one side of a meaningless split on another makes the two interact, too.

    The variance of its noise is taken off each effect, and one that does not stand out of it counts as 0. Squares of normal
    noise vary most if it is one draw for all values, so this is what is assumed. An effect whose noise is not known may be
    nothing but noise, and bands say so; beyond the strongest effects, whose noise is not worked out, effects count as 0.
    """
    column_of = dict(zip(forest.domain.names, forest.domain.columns.tolist(), strict=True))
    sure, unsure, doubts = np.zeros((3, len(forest.domain.column_names)))
    told: tuple[Effect | Interaction, ...] = (*found.features[:MOST_BANDS], *found.pairs)
    scale = max((each.strength for each in told), default=0.0) or 1.0
    alone = {each.feature: (each.strength / scale) ** 2 for each in found.features if each.stands_out or is_exact}
    for each in told:
        names = each.features if isinstance(each, Interaction) else (each.feature,)
        columns = [column_of[name] for name in names]
        variance, noise = (each.strength / scale) ** 2, _noise(each) / scale**2
        weights = np.array([alone.get(name, 0.0) + EVENLY * variance for name in names])
        parts = weights / weights.sum() if weights.any() else weights
        if each.stands_out is not False:
            (sure if each.stands_out or is_exact else unsure)[columns] += parts * max(variance - noise, 0)
        doubts[columns] += np.square(parts * (2 * np.sqrt(variance * noise) + np.sqrt(2) * noise))
    for effect in found.features[MOST_BANDS:]:
        doubts[column_of[effect.feature]] += (effect.strength / scale) ** 4
    estimates = shares_of(sure + unsure, doubts)
    if not unsure.any():
        return estimates
    if not sure.any():
        return [Estimate(each.value, float(asked)) for each, asked in zip(estimates, forest.asked, strict=True)]
    without = shares_of(sure, doubts)
    moved = [math.hypot(each.deviation, each.value - other.value) for each, other in zip(estimates, without, strict=True)]
    return [Estimate(each.value, deviation) for each, deviation in zip(estimates, moved, strict=True)]


def _noise(effect: Effect | Interaction) -> float:
    """The variance of the noise in an effect, on average over the records; 0 where it is not known."""
    if effect.stands_out is None:
        return 0.0
    if isinstance(effect, Interaction):
        rows, columns = (np.array([part.share for part in parts]) for parts in effect.parts)
        weights, bands = np.outer(rows, columns), np.asarray(effect.bands)
    else:
        weights, bands = (np.array([getattr(part, name) for part in effect.parts]) for name in ("share", "bands"))
    return float((weights[..., None] * np.square(bands / NORMAL_95)).sum() / weights.sum() / bands.shape[-1])


def importance_rows(forest: Forest, ledger: Ledger, found: Effects | None = None) -> list[dict[str, Any]]:
    """The importance of each column, the largest first, with half the width of its band.

    The band is None where the width of the noise was not recorded; "asked" says whether some split asks for the column.
    """
    estimates, known = importances_of(forest, ledger, found), leaf_release(forest, ledger) != "printed"
    rows = [
        {
            "feature": name,
            "share": each.value,
            "band": min(each.band, 1.0) if known else None,
            "asked": bool(asked),
        }
        for name, each, asked in zip(forest.domain.column_names, estimates, forest.asked, strict=True)
    ]
    return sorted(rows, key=lambda row: -row["share"])
