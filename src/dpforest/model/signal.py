"""How far released counts stand out of their noise, for all that people see, and what looks odd. Released values only.

    ratio = height / standard deviation of the noise in that height

The height is what a leaf says most precisely: its size or, where leads are released precisely and sizes roughly, the lead of
its first class. A size is the sum of all C counts, so the variance of its noise is C * var, whatever C is; see ``Bands``.

What the noise of a node is about depends on what its leaves released:

    counts    a count for each class; the size of a node is their sum
    lead      by how much a class leads, precisely, and the size, roughly (additive trees)
    labels    one label for each leaf and no count
    exact     counts without noise (epsilon is infinite)
    printed   whatever the paper prints; how wide its noise is was not recorded

Oddities are signs that schema and table do not fit. A fit may not say that no label matched, for that would tell rows apart.
What it released anyway may be looked at freely: a doubt is a function of released values, so it costs nothing.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.common.text import count_words
from dpforest.forest.bands import NORMAL_95, STANDS_OUT, ratio_band
from dpforest.forest.tree import Estimate, Forest
from dpforest.privacy import composition
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Bounded, Categorical, Classes, Date, Schema
from dpforest.schema.domain import Domain

EDGES = (0.0, 1.0, 2.0, STANDS_OUT, 5.0, 10.0, 30.0, math.inf)
# Where a table of this many rows would not stand out of the noise, that it does not stand out says nothing about labels.
ORDINARY_ROWS = 1000
# What is less than this part of what it should be is next to nothing.
NEXT_TO_NOTHING = 0.1
# Rows times strength of the choice of a target's location below which it may well be a bad one.
LEAST_SIGNAL = 24
CHECK = "'dpforest schema check --table' shows it to the holder of the table."


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


def released_doubts(forest: Forest, schema: Schema, ledger: Ledger) -> list[str]:
    """Sentences about what looks odd in a released forest, for a warning and the report."""
    return [*_few_records(forest, schema, ledger), *uncertain_range(forest, schema, ledger), *_idle_columns(forest)]


def uncertain_range(forest: Forest, schema: Schema, ledger: Ledger) -> list[str]:
    """A sentence in a list if a bound of the target is missing and the budget was too small to find where its values lie."""
    target = schema.target
    if not isinstance(target, Bounded) or target.has_bounds:
        return []
    n_rows = schema.n_rows if schema.n_rows is not None else 0.0 if forest.n_records is None else forest.n_records.value
    n_rows *= float(ledger.sample_share)
    charges = [entry for book in ledger.books for _, entry in composition.entries(book.root)]
    known = [charge.mechanism.parameters for charge in charges if charge.label == "location of the target"]
    if all(n_rows * each["rate"] * each["width"] >= LEAST_SIGNAL for each in known if "rate" in each):
        return []
    return [
        f"The budget is too small for this number of rows to find where the target {target.name!r} lies, so predictions may "
        "be far off. Declare bounds of the target that are known without the table, raise epsilon, or use more rows."
    ]


def too_small_to_tell(forest: Forest) -> bool:
    """Whether the number of records was measured, but even an ordinary table would be lost in its noise."""
    measured = forest.n_records
    return measured is not None and STANDS_OUT * measured.deviation > max(measured.value, ORDINARY_ROWS)


def measured_words(measured: Estimate) -> str:
    """The number of records that a fit measured, as a sentence."""
    return f"The fit measured {count_words(measured.value, measured.band, 'records with a known target')}."


def _few_records(forest: Forest, schema: Schema, ledger: Ledger) -> list[str]:
    why = f"Labels of the schema and of the table may differ (blanks, case, 0 against '0'). {CHECK}"
    measured, held = forest.n_records, _held(forest)
    if measured is not None and not too_small_to_tell(forest) and all(map(_may_be_none, (measured, held))):
        return [f"{measured_words(measured)} If the table has more, the model has learnt next to nothing. {why}"]
    if schema.n_rows is None or held is None:
        return []
    if held.value + STANDS_OUT * held.deviation >= NEXT_TO_NOTHING * schema.n_rows * ledger.sample_share:
        return []
    words = count_words(held.value, held.band, "records")
    return [f"The schema declares {schema.n_rows:,} rows, but the trees hold {words}. {why}"]


def _held(forest: Forest) -> Estimate | None:
    """The number of records in all trees together, an upper bound of the table's; None without counts."""
    if not forest.variances.any() or forest.n_earlier:  # whose counts are of other records
        return None
    return Estimate(max(float(forest.held.sizes[0]), 0.0), float(forest.held.size_deviations[0]))


def _may_be_none(estimate: Estimate | None) -> bool:
    return estimate is None or estimate.value <= estimate.band


def _idle_columns(forest: Forest) -> list[str]:
    """Sentences on columns of mostly missing or unknown values, by the splits of roots."""
    found = []
    roots = np.flatnonzero(~forest.is_leaf[: forest.n_trees])
    for feature in np.unique(forest.features[roots]).tolist():
        nodes = roots[forest.features[roots] == feature]
        for words, codes in _empty_codes(forest.domain, feature):
            if _holds_nearly_all(forest, nodes, codes):
                column = forest.domain.column_names[forest.domain.columns[feature]]
                found.append(f"Column {column!r}: nearly all values are {words}. {CHECK}")
                break
    return list(dict.fromkeys(found))  # of a date several features may say the same


def _holds_nearly_all(forest: Forest, nodes: np.ndarray, codes: list[int]) -> bool:
    """Whether nearly all records of some nodes are in children that only these codes of a feature lead to."""
    if not forest.variances[nodes].any():  # nothing was counted with noise, so nothing stands out of it
        return False
    sizes, variances = np.zeros(2), np.zeros(2)  # beside, within
    for node in nodes.tolist():
        routes = forest.route(node)
        children = forest.first_children[node] + np.arange(int(routes.max()) + 1)
        within, others = np.ones(len(children), dtype=bool), np.ones(len(routes), dtype=bool)
        others[codes] = False
        within[routes[others]] = False
        if not within.any():  # all records of this root are beside, so it cannot be nearly all
            return False
        sizes += np.bincount(within, forest.bands.sizes[children], 2)
        variances += np.bincount(within, forest.bands.size_variances[children], 2)
    noise = STANDS_OUT * np.sqrt(variances)
    beside = max(float(sizes[0]), 0) + float(noise[0])
    return bool(variances.any() and sizes[1] > noise[1] and beside < NEXT_TO_NOTHING * sizes[1])


def _empty_codes(domain: Domain, feature: int) -> list[tuple[str, list[int]]]:
    """The codes of a feature that stand for no known value, in groups, each with what it means in words."""
    last = int(domain.n_codes[feature]) - 1
    if isinstance(domain.features[feature], Date) or domain.derived[feature].of != "value":
        return [("missing, or no dates", [last])]
    if not isinstance(domain.features[feature], Categorical):
        return [("missing, or no numbers", [last])]
    return [
        ("missing", [last]),
        ("none of the categories of the schema", [last - 1]),
        ("missing or unknown", [last - 1, last]),
    ]
