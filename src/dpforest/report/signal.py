"""How far released counts stand out of their noise. Public values only.

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

from dpforest.privacy.ledger import Ledger
from dpforest.schema import Bounded, Classes
from dpforest.tree import Forest

NORMAL_95 = 1.96
STANDS_OUT = 3.0
EDGES = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, math.inf)


def leaf_release(forest: Forest, ledger: Ledger) -> str:
    """What the leaves released: see the top of the module."""
    if ledger.leaks:
        return "printed"
    mechanisms = {entry["mechanism"] for entry in ledger.entries() if entry["label"] == "leaves"}
    if "exact" in mechanisms or not forest.variances.any():
        return "labels" if mechanisms & {"permute-and-flip", "exponential"} else "exact"
    in_rho = any(book.accountant.unit == "rho" for book in ledger.books)
    return "lead" if forest.link == "softmax" or (forest.link == "sum" and in_rho) else "counts"


@dataclass(frozen=True)
class Signal:
    """Sizes of nodes, what stands out in them and the standard deviation of its noise."""

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
        """Records of each node, by weight in later trees of a sequence; at least 0."""
        return np.maximum(self.forest.counts.sum(axis=1), 0)

    @cached_property
    def heights(self) -> np.ndarray:
        """What stands out: the size of a node, or the lead of its first class."""
        if self.release != "lead" or isinstance(self.forest.target, Bounded):
            return self.sizes
        counts, n = self.forest.counts, self.forest.target.n_values
        return np.maximum((n * counts.max(axis=1) - counts.sum(axis=1)) / max(n - 1, 1), 0)

    @cached_property
    def deviations(self) -> np.ndarray:
        """Standard deviation of the noise in ``heights``.

        A sum of n independent counts has n times the variance of one. For a lead the forest keeps half of its variance.
        """
        columns = 2 if self.release == "lead" else self.forest.counts.shape[1]
        return np.sqrt(columns * np.maximum(self.forest.variances, 0))

    @cached_property
    def ratios(self) -> np.ndarray:
        """Signal against noise; 0 where the width of the noise is not known."""
        found = np.zeros(len(self.heights))
        return np.divide(self.heights, self.deviations, out=found, where=self.deviations > 0)

    def reliability(self) -> dict[str, Any] | None:
        """Leaves by how far they stand out: their number and their part of the records; None where noise is not known."""
        leaves = self.forest.is_leaf
        sizes, ratios = self.sizes[leaves], self.ratios[leaves]
        total = float(sizes.sum())
        if not self.has_noise or total <= 0:
            return None
        bins = []
        for low, high in pairwise(EDGES):
            inside = (ratios >= low) & (ratios < high)
            share = float(sizes[inside].sum()) / total
            bins.append({"from": low, "to": high, "leaves": int(inside.sum()), "share": share})
        return {
            "standing_out": float(sizes[ratios > STANDS_OUT].sum()) / total,
            "threshold": STANDS_OUT,
            "leaves": len(ratios),
            "leaves_standing_out": int((ratios > STANDS_OUT).sum()),
            "bins": bins,
        }

    def balance(self) -> dict[str, Any] | None:
        """Classes (or the mean) among the records of the first tree, from its root; None if no counts were released."""
        counts, size = np.maximum(self.forest.counts[0], 0), float(self.sizes[0])
        if self.release == "labels" or size <= 0:
            return None
        variance = float(self.forest.variances[0])
        content: dict[str, Any] = {"size": size, "size_band": None, "lead": None, "lead_band": None}
        if self.release == "counts":
            content["size_band"] = NORMAL_95 * float(self.deviations[0])
        if self.release == "lead" and isinstance(self.forest.target, Classes):
            content |= {"lead": float(self.heights[0]), "lead_band": NORMAL_95 * float(self.deviations[0])}
        shares = counts / max(float(counts.sum()), 1e-300)
        bands = _share_bands(shares, variance, size) if self.release == "counts" else None
        return content | self._described(shares, bands)

    def _described(self, shares: np.ndarray, bands: np.ndarray | None) -> dict[str, Any]:
        target = self.forest.target
        if isinstance(target, Bounded):
            width = target.upper - target.lower
            band = None if bands is None else width * float(bands[1])
            return {
                "mean": float(target.mean_of(shares[1])),
                "mean_band": band,
                "lower": target.lower,
                "upper": target.upper,
            }
        rows = [
            {"label": label, "share": float(share), "band": None if bands is None else float(bands[place])}
            for place, (label, share) in enumerate(zip(target.labels, shares, strict=True))
        ]
        return {"classes": rows, "leader": target.labels[int(shares.argmax())]}


def _share_bands(shares: np.ndarray, variance: float, size: float) -> np.ndarray:
    """Half the width of a 95 % band of each share: to first order, (noise of its count - share * noise of all) / size."""
    n = len(shares)
    return NORMAL_95 * np.sqrt(variance * ((1 - shares) ** 2 + (n - 1) * shares**2)) / size
