"""The gate: private fits open sealed values here alone, each charged to the ledger before its mechanism runs."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from dpforest.errors import AccountingError
from dpforest.mechanisms import Entropy, Exponential, Gaussian, GeometricNoise, KNorm, PermuteAndFlip, Rate
from dpforest.mechanisms.thresholds import threshold
from dpforest.privacy.accountants import Accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.bounds import Blocks, Bound, Sensitivity
from dpforest.privacy.events import THRESHOLD_DELTA, Mechanism, Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed

CHOICES: dict[str, PermuteAndFlip | Exponential] = {
    mechanism.name: mechanism for mechanism in (PermuteAndFlip(), Exponential())
}


class Gate:
    """Releases sealed values through mechanisms, each charged before it is drawn.

    Privacy:
        Claim: a released value has cost the ledger the stated amount before any coin was drawn.
        Because: each method charges first; rates are rounded down and variances up, so what runs
            is no stronger than what was charged.
        Assumes: ``bound`` and ``sensitivity`` hold for the sealed value (proved and brute-forced
            where the value is made); validity masks and shapes are public.
    """

    def __init__(self, ledger: Ledger, entropy: Entropy) -> None:
        self.ledger = ledger
        self.entropy = entropy

    def select(
        self,
        scores: Sealed[np.ndarray],
        valid: np.ndarray | None,
        bound: Bound,
        amount: float,
        purpose: Purpose | str,
        mechanism: str | None = None,
        distinct: np.ndarray | None = None,
    ) -> np.ndarray:
        """The released index of one candidate for each node, ``(n_nodes,)``; -1 where no candidate is valid.

        ``scores`` are sealed integers ``(n_nodes, n_candidates)``. Nodes must hold different records, so that all of them
        together cost ``amount`` once; or the open scope has as many copies as a record has nodes. ``valid`` is a public mask
        of the same shape; None means that all candidates are. ``distinct``, also of that shape, has the number of a group
        for each candidate. With it nodes choose one after the other, and a node takes no candidate of a group that an
        earlier node took from, unless it has no other: so the mask follows from released choices.
        """
        if valid is None:
            valid = np.ones(scores._value.shape, dtype=bool)
        accountant = self.ledger.accountant
        name = mechanism or accountant.choice
        if name not in CHOICES:
            raise AccountingError(f"'{name}' is not a choice mechanism. Known: {', '.join(CHOICES)}.")
        if math.isinf(amount):
            self.ledger.charge(purpose, "exact", amount)
            choose: Callable[..., np.ndarray] = _best
        else:
            rate, ran = _choice(accountant, name, amount, bound.width)
            self.ledger.charge(purpose, ran, amount)
            choose = partial(self._choose, name, rate)
        return choose(scores._value, valid) if distinct is None else _one_by_one(choose, scores._value, valid, distinct)

    def add_noise(
        self, values: Sealed[np.ndarray], sensitivity: Sensitivity, amount: float, purpose: Purpose | str
    ) -> tuple[np.ndarray, float]:
        """Released integers of the shape of ``values``, each with noise of its own, and the variance of that noise."""
        accountant = self.ledger.accountant
        if math.isinf(amount):
            self.ledger.charge(purpose, "exact", amount)
            return values._value.copy(), 0.0
        scale, ran = _noise(accountant, amount, sensitivity)
        self.ledger.charge(purpose, ran, amount)
        variance = GeometricNoise.variance(scale) if isinstance(scale, Rate) else float(scale)
        return self._add_noise(values._value, scale), variance

    def add_joint_noise(
        self, values: Sealed[np.ndarray], blocks: Blocks, amount: float, purpose: Purpose | str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Released integers ``(n_values,)`` with one joint draw of noise, and the variance of the noise in each.

        ``values`` are sealed integers ``(n_values,)``, the blocks one after the other.
        """
        accountant, sizes = self.ledger.accountant, blocks.sizes
        if math.isinf(amount):
            self.ledger.charge(purpose, "exact", amount)
            return values._value.copy(), np.zeros(blocks.n_values)
        scale, ran = _joint_noise(accountant, amount, blocks)
        self.ledger.charge(purpose, ran, amount)
        if isinstance(scale, Rate):
            return self._add_joint_noise(values._value, sizes, scale), KNorm.variances(sizes, scale)
        return self._add_noise(values._value, scale), np.full(blocks.n_values, float(scale))

    def name_frequent(
        self, counts: Sealed[dict[str, int]], amount: float, delta: float, purpose: Purpose | str
    ) -> list[str]:
        """The released values whose noisy counts reach a threshold, by falling noisy count and then by text.

        ``counts`` has the number of records of each value that occurs; a record has one value or none.

        Privacy:
            Claim: costs ``amount`` of a record, as noise of an L1 and L2 sensitivity of 1 does, and ``delta`` of the
                protected unit (a record, or a person with at most ``rows`` of them).
            Because: let D' be D and the records of one unit, and let E be the event, on D', that no value is named which
                does not occur in D. Noise is drawn for each value alone, so given E the values of D are named from noisy
                counts of D', and no other is: on D the same, from counts that differ by the unit's records. So what is
                released on D' given E, and whatever is released later from both tables, is as close to that on D as
                noisy counts are, such as P'(S|E) <= e**epsilon P(S) + d and the same the other way round. P'(not E) is
                at most ``delta`` (``thresholds.reach``). Hence P'(S) <= P'(S|E) P'(E) + delta <= e**epsilon P(S) + d +
                delta; and P(S) <= e**epsilon P'(S) / P'(E) + d, which times P'(E) >= 1 - delta gives
                P(S) <= e**epsilon P'(S) + d + delta. Of several lists the events unite, and their deltas add up. The idea is
                that of [korolova2009], the argument that of approximate zCDP [bun2016, section 8].
            Assumes: a record counts for one value; which one follows from that record alone.
        """
        accountant = self.ledger.accountant
        if math.isinf(amount):
            self.ledger.charge(purpose, "exact", amount)
            return _by_count(counts._value)
        strength = accountant.strength(accountant.noise, amount)
        part = exact(delta)
        scale: Rate | Fraction
        if accountant.noise == "gaussian":
            scale = Gaussian.rounded(1 / strength)
            known: dict[str, int | Rate | Fraction] = {"l2_squared": 1, "variance": scale}
        else:
            scale = Rate.below(strength)
            known = {"l1": 1, "rate": scale}
        least = threshold(scale, part, accountant.rows)
        ran = _ran(accountant.noise, **known, threshold=least, **{THRESHOLD_DELTA: part})
        self.ledger.charge(purpose, ran, amount)
        return _by_count(self._named(counts._value, scale, least))

    def _choose(self, name: str, rate: Rate, scores: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """The candidate ``(n_nodes,)`` that a choice mechanism takes by opened scores; call it after the charge."""
        return CHOICES[name].select(scores, valid, rate, self.entropy)

    def _add_noise(self, values: np.ndarray, scale: Rate | Fraction) -> np.ndarray:
        """Opened values with geometric noise of a rate, or Gaussian noise of a variance; call it after the charge."""
        if isinstance(scale, Rate):
            return values + GeometricNoise().draw(values.shape, scale, self.entropy)
        return values + Gaussian().draw(values.shape, scale, self.entropy)

    def _add_joint_noise(self, values: np.ndarray, sizes: tuple[int, ...], rate: Rate) -> np.ndarray:
        """Opened values with one draw of K-norm noise of a rate; call it after the charge."""
        return values + KNorm().draw(sizes, rate, self.entropy)

    def _named(self, counts: dict[str, int], scale: Rate | Fraction, least: int) -> dict[str, int]:
        """The noisy counts that are at least ``least``, by value; call it after the charge."""
        texts = sorted(counts)  # coins must not follow the order of rows
        noisy = self._add_noise(np.array([counts[text] for text in texts], dtype=np.int64), scale)
        return {texts[index]: int(noisy[index]) for index in np.flatnonzero(noisy >= least)}


def _ran(name: str, **parameters: int | Rate | Fraction) -> Mechanism:
    """The mechanism of this name, with the parameters that it will run at."""
    return Mechanism(name, {key: Fraction(value.numerator, value.denominator) for key, value in parameters.items()})


# Cached, as the next two: trees of a sequence ask for the same amounts, and exact fractions are slow.
@lru_cache(maxsize=1024)
def _choice(accountant: Accountant, name: str, amount: float, width: int) -> tuple[Rate, Mechanism]:
    """The rate at which a choice among scores of this width costs ``amount``, and its charge."""
    rate = Rate.below(accountant.strength(name, amount) / width)
    return rate, _ran(name, width=width, rate=rate)


@lru_cache(maxsize=1024)
def _noise(accountant: Accountant, amount: float, sensitivity: Sensitivity) -> tuple[Rate | Fraction, Mechanism]:
    """The rate of geometric noise, or variance of Gaussian noise, for ``amount``, and its charge."""
    strength = accountant.strength(accountant.noise, amount)
    if accountant.noise == "gaussian":
        variance = Gaussian.rounded(Fraction(sensitivity.l2_squared) / strength)
        return variance, _ran(accountant.noise, l2_squared=sensitivity.l2_squared, variance=variance)
    rate = Rate.below(strength / sensitivity.l1)
    return rate, _ran(accountant.noise, l1=sensitivity.l1, rate=rate)


@lru_cache(maxsize=1024)
def _joint_noise(accountant: Accountant, amount: float, blocks: Blocks) -> tuple[Rate | Fraction, Mechanism]:
    """The rate of K-norm noise, or variance of Gaussian noise, for ``amount``, and its charge."""
    if accountant.noise == "gaussian":
        variance = Gaussian.rounded(blocks.l2_squared / accountant.strength("gaussian", amount))
        return variance, _ran("gaussian", l2_squared=blocks.l2_squared, variance=variance)
    rate = KNorm.limited(Rate.below(accountant.strength(KNorm.name, amount) / blocks.l1), blocks.n_values)
    return rate, _ran(KNorm.name, l1=blocks.l1, rate=rate)


def _by_count(counts: dict[str, int]) -> list[str]:
    """The values by falling count, and then by text."""
    return sorted(counts, key=lambda text: (-counts[text], text))


def _best(scores: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The valid candidate with the largest score at each node, ``(n_nodes,)``; -1 where none is valid."""
    lowest = np.iinfo(np.int64).min
    best = np.where(valid, scores, lowest).argmax(axis=1)
    return np.where(valid.any(axis=1), best, -1)


def _one_by_one(
    choose: Callable[..., np.ndarray], scores: np.ndarray, valid: np.ndarray, distinct: np.ndarray
) -> np.ndarray:
    """The candidates ``(n_nodes,)`` of nodes that choose one after the other; see ``distinct`` in ``Gate.select``."""
    chosen = np.full(len(scores), -1)
    taken: list[int] = []
    for node in range(len(scores)):
        free = valid[node] & ~np.isin(distinct[node], taken)
        free = free if free.any() else valid[node]
        chosen[node] = choose(scores[node : node + 1], free[None])[0]
        if chosen[node] >= 0:
            taken.append(int(distinct[node, chosen[node]]))
    return chosen
