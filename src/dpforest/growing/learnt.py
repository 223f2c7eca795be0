"""What is learnt of columns before they are encoded: lists of frequent values, cuts of numbers. Sees sealed counts."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.growing.target import median_scores, quantile_bound
from dpforest.parts.part import Part
from dpforest.privacy.amounts import divide, divide_evenly, exact, round_down
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import SealedTable
from dpforest.schema import Date, Numeric, Schema
from dpforest.schema.domain import MOST_LISTED, Domain, can_list
from dpforest.schema.grid import CENTRE, N_BINS, anchor, bin_of, inside, just_above, middle_of

# The share of a fit's amount, by its unit, and of its delta that buy all its lists together. A tenth of rho is worth a
# twentieth of epsilon; it matters where values are many, and elsewhere the trees do not miss it.
SHARES, DELTA_SHARE = {"rho": 0.1, "epsilon": 0.05}, 0.1
# Below this delta there is no threshold, once columns have had their shares; see ``mechanisms.thresholds``.
LEAST_DELTA = 1e-200
PURPOSE = "list of values"
INSTEAD = "Or list the categories, if they are public, or leave out learn=True: values then fall into buckets."


def threshold_delta(delta: float, pure: bool) -> float:
    """The part of delta that lists take: all of it if the other releases are ``pure``, and so have no use for it."""
    return delta if pure else round_down(exact(delta) * exact(DELTA_SHARE))


def check_delta(schema: Schema, epsilon: float, delta: float) -> None:
    """Raise if the schema asks for lists, and delta has nothing to buy them with."""
    if schema.learnt and delta < LEAST_DELTA and not math.isinf(epsilon):
        raise ParameterError(
            f"Column {schema.learnt[0]!r} is declared Categorical(learn=True). To name values that nobody declared has no "
            f"pure-epsilon guarantee, and delta is {delta:g}. Set delta > 0, far below 1 / rows. {INSTEAD}"
        )


def learn_lists(
    vault: SealedTable, amount: float, gate: Gate, progress: Callable[[str], None] = lambda step: None
) -> tuple[dict[str, list[str]], float]:
    """The released list of values for each column that learns one, and the rest of ``amount``.

    A list has the values that occur often enough, the most frequent first; it may be empty.

    Privacy:
        Claim: costs a share of the amount (``SHARES``), and the book's ``threshold_delta``.
        Because: a record has one text or none in each column; amounts and deltas of columns add up
            (``Gate.name_frequent``). How many values are kept, and which of them no list can hold, is decided by what was
            released.
        Assumes: which columns have lists is public; the text of a value follows from that value alone.
    """
    names, share = vault.schema.learnt, SHARES[gate.ledger.unit]
    own, rest = divide(amount, [share, 1 - share])
    delta = divide_evenly(gate.ledger.accountant.threshold_delta, len(names))
    lists = {}
    for name in names:
        found = gate.name_frequent(vault.count_texts(name), divide_evenly(own, len(names)), delta, Purpose(PURPOSE, name))
        lists[name] = [text for text in found if can_list(text)][:MOST_LISTED]
        progress(f"list of {name!r} learnt")
    return lists, rest


# The most that may be spent, of a budget with delta and of one without; and the least, since most values may be at zero.
MOST_SHARE, MOST_PURE_SHARE, LEAST_SHARE = 0.1, 0.05, 0.005
# By number of zooms: the signal from which they are made if the most is spent, and the signal that is enough. Three zooms
# find values that spread by 1 at a distance of 100,000 from zero, one those that spread by a twentieth of it. Without delta
# choices share the budget in full, so there must be enough.
ZOOMS = {3: (50.0, 160.0), 1: (25.0, 100.0)}
# The most that is spent where only values far from zero are looked for, and the distance from it, in spreads, that is far.
MOST_SHARE_FOR_FAR, FAR = 0.03, 8
# Columns whose choices are made at once: scores of all bins of many columns would fill the memory.
COLUMNS_AT_ONCE = 64
Parts = tuple[tuple[int, int], ...]  # ranges of bins
# A quarter that is this many times as wide as the other: most records have one value, or there are few of them.
MOST_UNEVEN = 8


@dataclass(frozen=True)
class Zooms:
    """The number of times that a fit zooms in on the middles of features, and its share of the budget."""

    number: int
    share: float


@dataclass(frozen=True)
class LearnedGrid(Part):
    """Cuts that follow the values of each numeric feature, where the signal pays for finding them.

    A zoom chooses the bin that holds the middle record, of bins without a scale around the last choice; the first zoom is
    around 0. After some zooms the middle is known to a small part of the spread. One more choice finds the middle of each
    half, and cuts are laid through these quarters and beyond. The candidates are bins and not cuts, because all cuts outside
    of the values score alike. Values at the anchor (0, mostly), where many records may lie, take no part.

    Privacy:
        Claim: costs ``share`` of the amount, and nothing if the plan has no zooms.
        Because: a bin's score moves within ``quantile_bound``. A record without a value, or at the anchor, changes
            nothing. Records below and above the released middle are different
            ones, so both quarters cost one choice. Choices of features and zooms add up. Cuts and later bins are functions
            of released values.
        Assumes: bins are public or released; records count once.
    """

    zooms: Zooms | None = None  # None: as many as the signal pays for
    far_only: bool = False  # whether features keep their public cuts if these tell their values apart

    def plan(self, n_features: int, n_rows: float, amount: float, unit: str) -> Zooms:
        """The zooms on this many features that an amount pays for; none at all if the signal is too small."""
        if not n_features:
            return Zooms(0, 0.0)
        if math.isinf(amount):
            return Zooms(max(ZOOMS), 1.0)
        if self.zooms is not None or n_rows <= 0:
            return self.zooms or Zooms(0, 0.0)

        def share(signal: float) -> float:
            """The share at which the choices of a feature together have this strength times the number of rows."""
            strength = signal / n_rows
            return n_features * (strength / amount if unit == "epsilon" else strength**2 / (8 * amount))

        most = MOST_SHARE_FOR_FAR if self.far_only else MOST_SHARE if unit == "rho" else MOST_PURE_SHARE
        for number, (least, enough) in ZOOMS.items():
            if share(least if unit == "rho" else enough) <= most:
                return Zooms(number, min(most, max(share(enough), LEAST_SHARE)))
            if unit == "epsilon":
                break
        return Zooms(0, 0.0)

    def release(
        self, source: SealedTable, domain: Domain, bins: int, n_rows: float, amount: float, gate: Gate
    ) -> tuple[Domain, float]:
        """The domain with learnt cuts, and what is left of ``amount``."""
        features = wide(domain, bins)
        zooms = self.plan(len(features), n_rows, amount, gate.ledger.unit)
        if not zooms.number:
            return domain, amount
        own, rest = (amount, amount) if math.isinf(amount) else divide(amount, [zooms.share, 1 - zooms.share])
        each = divide_evenly(own, (zooms.number + 1) * len(features))
        zeros = {feature: anchor(*domain.number(feature).range) for feature in features}
        middles = dict(zeros)

        def chosen_bins(parts: Parts, step: str) -> list[list[int]]:
            """The bin of the middle record of each part, for each feature, around the middles so far."""
            counts = source.count_around(domain, middles)
            left_out = [bin_of(zeros[feature], middles[feature]) for feature in features]
            return _chosen_bins(counts, left_out, parts, each, gate, Purpose("grid", step))

        for _ in range(zooms.number):
            for feature, (index,) in zip(features, chosen_bins(((0, N_BINS),), "middle"), strict=True):
                middles[feature] = _value(index, middles[feature], domain.number(feature))
        cuts = list(domain.cuts)
        quarters = chosen_bins(((0, CENTRE), (CENTRE + 1, N_BINS)), "quarters")
        for feature, chosen in zip(features, quarters, strict=True):
            middle, part = middles[feature], domain.number(feature)
            low, high = (_value(index, middle, part) for index in chosen)
            is_even = max(high - middle, middle - low) <= MOST_UNEVEN * min(high - middle, middle - low)
            if is_even and not (self.far_only and abs(middle - zeros[feature]) < FAR * (high - low)):
                cuts[feature] = quarter_cuts(low, middle, high, bins, part)
        return replace(domain, cuts=tuple(cuts)), rest


def wide(domain: Domain, bins: int) -> list[int]:
    """The numbers whose cuts are worth learning: those without a bin for each whole number. Dates have the calendar's."""
    return [
        feature
        for feature, each in enumerate(domain.derived)
        if each.of == "value" and isinstance(each.part, Numeric) and not (each.part.integer and each.part.span < bins)
    ]


def middle_scores(first_row: int, left_out: list[int], parts: Parts, counts: np.ndarray) -> np.ndarray:
    """Scores ``(n_rows * n_parts, n_bins)`` of the bins of each part, by distance from its middle record.

    ``counts`` has a row for each feature: the records in each bin, and last those without a value; these, and those in the
    bin of the feature in ``left_out``, take no part. Bins of other parts have 0.
    """
    own = counts[first_row : first_row + len(left_out), :-1].copy()
    own[np.arange(len(own)), left_out] = 0
    scores = np.zeros((len(own), len(parts), own.shape[1]), dtype=np.int64)
    for index, (first, end) in enumerate(parts):
        scores[:, index, first:end] = median_scores(own[:, first:end])
    return scores.reshape(-1, own.shape[1])


def _chosen_bins(
    counts: Sealed[np.ndarray], left_out: list[int], parts: Parts, each: float, gate: Gate, purpose: Purpose
) -> list[list[int]]:
    """The bin that is chosen in each part, for each feature; a feature costs ``each``, and features add up."""
    bins, ends = np.arange(N_BINS), np.array(parts)
    offered = (ends[:, :1] <= bins) & (bins < ends[:, 1:])
    found: list[list[int]] = []
    for first in range(0, len(left_out), COLUMNS_AT_ONCE):
        some = left_out[first : first + COLUMNS_AT_ONCE]
        scores = counts.map(partial(middle_scores, first, some, parts))
        with gate.ledger.scope(Purpose("grid", "each column"), copies=len(some)):
            chosen = gate.select(scores, np.tile(offered, (len(some), 1)), quantile_bound(), each, purpose)
        found += chosen.reshape(-1, len(parts)).tolist()
    return found


def _value(index: int, centre: float, part: Numeric | Date) -> float:
    """The middle of a chosen bin, within the bounds of the feature, and whole if its values are."""
    low, high = part.range
    value = min(max(middle_of(index, centre), low), high)
    return float(math.ceil(value)) if part.integer else value


def quarter_cuts(low: float, middle: float, high: float, bins: int, part: Numeric | Date) -> np.ndarray:
    """Cuts through the quarters of a feature: half of the bins between them, a quarter in each tail, then doubling."""
    zero, (lower, upper) = anchor(*part.range), part.range
    n_tail = max(3, bins // 4)
    cuts = [np.interp(np.linspace(0, 2, bins // 2 + 1), [0, 1, 2], [low, middle, high])]
    for end, side, width in ((high, 1, high - middle), (low, -1, middle - low)):
        width = max(width, (high - low) / 4)
        cuts.append(end + side * width * np.append(np.arange(1, n_tail + 1) * 2 / n_tail, [4, 8]))
    if part.integer and high - low < bins / 2:
        centre = math.floor((low + high) / 2)
        cuts.append(np.arange(centre - bins // 2, centre + bins // 2, dtype=float))
    cuts.append(np.array([zero, just_above(zero, upper - lower)]))
    found = np.concatenate(cuts)
    return inside(np.ceil(found) if part.integer else found, lower, upper)
