"""How far released counts stand out of their noise: the one definition, for all that people see. Released values only.

    ratio = height / standard deviation of the noise in that height

The height is what a leaf says most precisely: its size or, where leads are released precisely and sizes roughly, the lead of
its first class. A size is the sum of all C counts, so the variance of its noise is C * var, whatever C is; see ``Bands``.

What the noise of a node is about depends on what its leaves released:

    counts    a count for each class; the size of a node is their sum
    lead      by how much a class leads, precisely, and the size, roughly (additive trees)
    labels    one label for each leaf and no count
    exact     counts without noise (epsilon is infinite)
    printed   whatever the paper prints; how wide its noise is was not recorded
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.forest.bands import NORMAL_95, STANDS_OUT, ratio_band
from dpforest.forest.tree import Forest
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Bounded, Classes

EDGES = (0.0, 1.0, 2.0, STANDS_OUT, 5.0, 10.0, 30.0, math.inf)


def leaf_release(forest: Forest, ledger: Ledger) -> str:
    """What the leaves released, by its name at the top of the module: "counts", "lead", "labels", "exact" or "printed"."""
    if ledger.leaks:
        return "printed"
    if forest.variances.any():
        return "lead" if isinstance(forest.target, Classes) and (forest.factors[:, 2] > 0).any() else "counts"
    # With privacy only a choice among labels has no variance; without it, a label counts as one record.
    ones = (forest.bands.sizes[forest.is_leaf] == 1).all()
    return "labels" if math.isfinite(ledger.spent) or ones else "exact"


@dataclass(frozen=True)
class Signal:
    """For each node of a forest its size, what should stand out of the noise, and the standard deviation of that noise."""

    forest: Forest
    release: str

    @classmethod
    def of(cls, forest: Forest, ledger: Ledger) -> "Signal":
        return cls(forest, leaf_release(forest, ledger))

    @property
    def has_noise(self) -> bool:
        """Whether the width of the noise is known and not 0."""
        return self.release in ("counts", "lead")

    @cached_property
    def sizes(self) -> np.ndarray:
        """The released number of records of each node, by weight in later trees of a sequence; at least 0."""
        return np.maximum(self.forest.bands.sizes, 0)

    @cached_property
    def heights(self) -> np.ndarray:
        """What should stand out of the noise at each node: its size, or the lead of its first class."""
        return np.maximum(self.forest.bands.leads, 0) if self.release == "lead" else self.sizes

    @cached_property
    def deviations(self) -> np.ndarray:
        """The standard deviation of the noise in ``heights``."""
        return self.forest.bands.lead_deviations if self.release == "lead" else self.forest.bands.size_deviations

    @cached_property
    def ratios(self) -> np.ndarray:
        """``heights`` over ``deviations``, for each node; 0 where the width of the noise is not known."""
        found = np.zeros(len(self.heights))
        return np.divide(self.heights, self.deviations, out=found, where=self.deviations > 0)

    def reliability(self) -> dict[str, Any] | None:
        """How many leaves, and which share of the records, stand out how far; None where the noise is not known.

        Shares are of sizes as released, so that those of nothing but noise may be a little below 0.
        """
        leaves, bands = self.forest.is_leaf, self.forest.bands
        sizes, variances, ratios = bands.sizes[leaves], bands.size_variances[leaves], self.ratios[leaves]
        total = float(sizes.sum())
        if not self.has_noise or total <= 0:
            return None
        bins = []
        for low, high in pairwise(EDGES):
            inside = (ratios >= low) & (ratios < high)
            share = float(sizes[inside].sum()) / total
            bins.append({"from": low, "to": high, "leaves": int(inside.sum()), "share": share})
        clear = ratios >= STANDS_OUT
        part, of_part = sizes[clear].sum(), variances[clear].sum()
        low_end, high_end = ratio_band(part, np.asarray(total), of_part, of_part, variances.sum())
        return {
            "standing_out": float(np.clip(part / total, 0, 1)),
            "low": float(low_end),
            "high": float(high_end),
            "threshold": STANDS_OUT,
            "leaves": len(ratios),
            "leaves_standing_out": int(clear.sum()),
            "bins": bins,
        }

    def balance(self) -> dict[str, Any] | None:
        """Classes (or the mean) among the records that the trees hold together; None if no counts of them were released.

        Bands are None where the noise is not known; a share that may be anything has the band 0 .. 1.
        """
        held = self.forest.held
        size = float(held.sizes[0])
        if self.release == "labels" or size <= 0 or self.forest.n_earlier:
            return None
        content: dict[str, Any] = {"size": size, "size_band": None, "lead": None, "lead_band": None}
        if self.has_noise:
            content["size_band"] = NORMAL_95 * float(held.size_deviations[0])
        if self.release == "lead":
            content |= {"lead": max(float(held.leads[0]), 0.0), "lead_band": NORMAL_95 * float(held.lead_deviations[0])}
        ends = [end[0].tolist() if self.has_noise else [None] * held.n_values for end in held.shares]
        shares, target = np.clip(held.counts[0] / size, 0, 1).tolist(), self.forest.target
        if isinstance(target, Bounded):
            mean, low, high = (None if each[1] is None else float(target.mean_of(each[1])) for each in (shares, *ends))
            return content | {"mean": mean, "low": low, "high": high, "lower": target.lower, "upper": target.upper}
        names = ("label", "share", "low", "high")
        rows = [dict(zip(names, row, strict=True)) for row in zip(target.labels, shares, *ends, strict=True)]
        return content | {"classes": rows, "leader": target.labels[int(np.argmax(shares))]}
