"""Accountants: at which strength a mechanism may run for a given loss, and what losses add up to. Public values only.

An accountant knows one unit of loss (epsilon, or rho of zCDP), the mechanisms that have a proof in
that unit, and how the total is stated as (epsilon, delta). It refuses whatever it does not know.

Mechanisms and amounts are about adding or removing one of the records that are used. What is stated is about one protected
unit: a record, or a person of whom at most ``rows`` records are used. Between the two stands group privacy, here and in the
thresholds of lists, and nowhere else. docs/neighbours.md has all units, with proofs.

A book may be about a secret sample of the units, each of which takes part with probability ``share``. Then mechanisms and
amounts are about a record of the sample, and what is stated is about the table (``amplification``).

Where lists of values are released, ``threshold_delta`` is the part of delta for what makes them fail: that a value is named
which only the records of one unit have.
"""

import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from dpforest.errors import AccountingError, ParameterError, shown
from dpforest.privacy.amounts import (
    as_written,
    divide_evenly,
    exact,
    float_above,
    float_below,
    round_down,
    round_up,
    round_up_short,
)
from dpforest.privacy.amplification import SHARE_STEPS, inside_sample, outside_sample

WHOLE = Fraction(1)  # the share of a sample that is the table
MOST_DELTA = 0.01  # on a sample: delta over its share could come near 1, where it would promise nothing
# Below these budgets no sampler could run: noise would not fit 64-bit integers once levels and trees have had their shares.
SMALLEST = {"epsilon": 2.0**-30, "rho": 2.0**-26}
MOST_ORDER = 1e150  # its square is a float; any order gives a valid delta
LARGEST = 1e100  # beyond it a finite epsilon is none, and sums and squares on the way to its rho could overflow
MOST_WHOLE = 1 << 20  # trees, levels, or rows of a person: beyond it no memory holds what is planned for each
# More than the relative error of a term of the conversion: a few roundings of 2**-53 each, one of them since a float stands
# for its decimal.
ROUNDING = 2.0**-48


def zcdp_log_delta(rho: float, epsilon: float) -> float:
    """Logarithm of the delta for which rho-zCDP implies (epsilon, delta)-DP.

    The tight formula [canonne2020, Proposition 12]: the least over alpha > 1 of
    exp((alpha-1)(alpha rho - epsilon)) / (alpha-1) * (1 - 1/alpha)**alpha. Every alpha gives a valid
    delta, so an inexact minimum is only a little loose, never wrong. Rounded up by more than the error of the arithmetic.
    """
    if rho == 0:
        return -math.inf
    return min(0.0, *(log_delta_at(alpha, rho, epsilon) for alpha in best_orders(rho, epsilon)))


def log_delta_at(alpha: float, rho: float, epsilon: float) -> float:
    """Logarithm of the delta that a Rényi divergence of alpha * rho, of order alpha, has at epsilon; rounded up."""
    terms = ((alpha - 1) * alpha * rho, -(alpha - 1) * epsilon, (alpha - 1) * math.log1p(-1 / alpha), -math.log(alpha))
    return math.fsum(terms) + ROUNDING * math.fsum(map(abs, terms))


def best_orders(rho: float, epsilon: float) -> tuple[float, float]:
    """Two neighbouring floats; between them lies the order alpha that gives the least delta for rho-zCDP at epsilon."""
    low, high = 1 + 1e-9, min((epsilon + 1) / (2 * rho) + 2, MOST_ORDER)
    for _ in range(200):
        middle = (low + high) / 2
        # Sign of the derivative in alpha.
        if (2 * middle - 1) * rho - epsilon + math.log1p(-1 / middle) < 0:
            low = middle
        else:
            high = middle
    return low, high


@lru_cache
def zcdp_epsilon(rho: float, delta: float) -> float:
    """The least epsilon for which rho-zCDP implies (epsilon, delta)-DP, rounded up."""
    log_delta = log_of(delta)
    low, high = 0.0, rho + 2 * math.sqrt(rho * -log_delta) + 1e-300
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if zcdp_log_delta(rho, middle) <= log_delta else (middle, high)
    return high


@lru_cache
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP implies (epsilon, delta)-DP, rounded down."""
    log_delta = log_of(delta)
    low, high = 0.0, epsilon + 1.0
    while zcdp_log_delta(high, epsilon) <= log_delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_log_delta(middle, epsilon) <= log_delta else (low, middle)
    return low


def log_of(delta: float) -> float:
    """Logarithm of the decimal that ``delta`` is written as, rounded down apart from the rounding of the logarithm."""
    return math.log(float_below(delta))


@dataclass(frozen=True)
class Pure:
    """The accountant for delta = 0: losses in epsilon add up.

    Choices are made by permute-and-flip, counts have two-sided geometric noise, and many sums together K-norm noise.

    Privacy:
        Claim: mechanisms run at the strengths given here for amounts that sum to ``budget`` are
            together ``epsilon``-DP for adding or removing up to ``rows`` records at once.
        Because: basic adaptive composition; the strength of a choice and of geometric or K-norm noise is its
            epsilon (see the mechanisms). A group of ``rows`` records is as many steps to a neighbour, each of
            which changes probabilities by a factor of at most exp(budget), and ``rows * budget <= epsilon``.
            It is attained: ``rows`` equal records move a count by ``rows``. Amounts, ``budget`` and ``epsilon`` are the
            decimals of floats (``amounts.exact``), and strengths are exactly these. With lists of values it is
            (``epsilon``, ``threshold_delta``)-DP: but for an event of probability ``threshold_delta`` on the larger table
            the above holds (``Gate.name_frequent``). On a sample the same holds for ``inside``, which is ``epsilon`` on the
            table (``amplification``).
        Assumes: amounts are public or depend on released values only.
    """

    epsilon: float
    rows: int = 1
    threshold_delta: float = 0.0
    share: Fraction = WHOLE
    unit = "epsilon"
    noise_delta = 0.0
    choice, noise = "permute-and-flip", "geometric"

    @property
    def delta(self) -> float:
        """The delta of all released lists of values together."""
        return self.threshold_delta

    @cached_property
    def inside(self) -> float:
        """The epsilon that the protected unit may lose if it is in the sample, rounded down."""
        return inside_sample(self.epsilon, self.share)

    @cached_property
    def budget(self) -> float:
        """The epsilon that one record may lose in all releases together, rounded down."""
        return divide_evenly(self.inside, self.rows)

    @property
    def record_epsilon(self) -> float:
        """The epsilon of one record, by which a planner chooses sizes; here the same as ``budget``."""
        return self.budget

    def of_unit(self, amount: float) -> float:
        """The epsilon that the protected unit loses when a record loses ``amount``.

        It is rounded up, but not above the stated epsilon if the amount is within the budget.
        """
        if math.isinf(amount):
            return amount
        loss = outside_sample(round_up_short(exact(amount) * self.rows), self.share)
        return min(loss, self.epsilon) if amount <= self.budget else loss

    def strength(self, mechanism: str, amount: float) -> Fraction:
        """How strongly a mechanism may run at a cost of ``amount``.

        For a choice it is the rate times the width of the scores, for geometric noise the rate times the L1 sensitivity.
        """
        if mechanism not in ("permute-and-flip", "exponential", "geometric", "k-norm"):
            raise AccountingError(f"'{mechanism}' has no pure-epsilon guarantee. Set delta > 0, or use another mechanism.")
        return exact(amount)

    def bootstrap(self, amount: float) -> float:
        """The epsilon of a step that runs on a Poisson(1) bootstrap and costs ``amount`` for one copy of a record.

        A record is drawn k ~ Poisson(1) times, so output probabilities change by at most
        E[exp(k amount)] = exp(exp(amount) - 1). Rounded up.
        """
        if amount >= 700:
            return math.inf
        return math.nextafter(math.nextafter(math.expm1(float_above(amount)), math.inf), math.inf)

    def inside_bootstrap(self, amount: float) -> float:
        """The inverse of ``bootstrap``: what a step may cost for one copy to cost ``amount`` in all; rounded down."""
        inside = math.log1p(amount)
        while self.bootstrap(inside) > amount:
            inside = math.nextafter(inside, 0)
        return inside

    def epsilon_of(self, amount: float) -> float:
        """The epsilon that the protected unit loses when a record loses ``amount``; rounded up."""
        return self.of_unit(amount)


@dataclass(frozen=True)
class ZCDP:
    """The accountant for delta > 0: losses in rho of zCDP add up, and the sum is converted to epsilon once.

    Choices are made by the exponential mechanism, and counts have discrete Gaussian noise.

    Privacy:
        Claim: mechanisms run at the strengths given here for amounts that sum to ``budget`` are
            together (``epsilon``, ``delta``)-DP for adding or removing up to ``rows`` records at once.
        Because: rho adds under adaptive composition [bun2016]; an exponential-mechanism choice of
            strength s costs s**2/8 [cesar2021]; any e-DP step costs e**2/2 [bun2016]; Gaussian noise
            costs l2**2/(2 sigma2); a group of k records costs k**2 times the rho of one [bun2016, Proposition 1.9], which
            k equal records attain, with Gaussian noise and with choices; the conversion is ``zcdp_log_delta``, of the
            group's rho. All amounts are the decimals of floats (``amounts.exact``): ``ROUNDING`` is more than the
            difference. With lists of values the above holds for the rest of delta but for an event of probability
            ``threshold_delta`` on the larger table, and both parts of delta add up (``Gate.name_frequent``). On a sample the
            same holds for ``inside`` and at most delta over its share, which are ``epsilon`` and ``delta`` on the table
            (``amplification``).
        Assumes: amounts are public or depend on released values only.
    """

    epsilon: float
    delta: float
    rows: int = 1
    threshold_delta: float = 0.0
    share: Fraction = WHOLE
    unit = "rho"
    choice, noise = "exponential", "gaussian"

    @cached_property
    def inside(self) -> float:
        """The epsilon that the protected unit may lose if it is in the sample, rounded down."""
        return inside_sample(self.epsilon, self.share)

    @cached_property
    def noise_delta(self) -> float:
        """The delta at which rho is stated as epsilon, on the sample: what lists of values leave, rounded down."""
        whole = exact(self.delta)
        if self.share < 1:
            whole = max(whole, min(whole / self.share, exact(MOST_DELTA)))
        return round_down(whole - exact(self.threshold_delta))

    @cached_property
    def budget(self) -> float:
        """The rho that one record may lose in all releases together, rounded down."""
        return divide_evenly(zcdp_rho(self.inside, self.noise_delta), self.rows**2)

    @property
    def record_epsilon(self) -> float:
        """The epsilon of one record at the same delta, by which a planner chooses sizes."""
        return self.inside if self.rows == 1 else zcdp_epsilon(self.budget, self.noise_delta)

    def of_unit(self, amount: float) -> float:
        """The rho that the protected unit loses, on the sample, when a record loses ``amount``; rounded up."""
        return amount if math.isinf(amount) else round_up(exact(amount) * self.rows**2)

    def strength(self, mechanism: str, amount: float) -> Fraction:
        """How strongly a mechanism may run at a cost of ``amount``.

        It is the same product as in ``Pure.strength``; for Gaussian noise, the squared L2 sensitivity over the variance.
        """
        if mechanism == "gaussian":
            return 2 * exact(amount)
        factors = {"exponential": 8, "permute-and-flip": 2, "geometric": 2}
        if mechanism not in factors:
            raise AccountingError(f"'{mechanism}' has no zCDP guarantee here. Use another mechanism, or delta = 0.")
        root = math.sqrt(factors[mechanism] * float_below(amount))
        # math.sqrt rounds to nearest; one step down keeps the square below the amount.
        return Fraction(math.nextafter(root, 0))

    def bootstrap(self, amount: float) -> float:
        raise AccountingError(
            "A Poisson bootstrap has no zCDP analysis here. Set delta = 0, or use a recipe that gives all records "
            "to each tree or deals them to disjoint trees."
        )

    inside_bootstrap = bootstrap

    def epsilon_of(self, amount: float) -> float:
        """The epsilon that the protected unit loses at ``delta`` when a record loses ``amount``; rounded up."""
        if amount <= 0 or math.isinf(amount):
            return max(amount, 0.0)
        loss = outside_sample(zcdp_epsilon(self.of_unit(amount), self.noise_delta), self.share)
        return min(loss, self.epsilon) if amount <= self.budget else loss


Accountant = Pure | ZCDP


def make_accountant(
    epsilon: float, delta: float, rows: int = 1, threshold_delta: float = 0.0, share: Fraction = WHOLE
) -> Accountant:
    """The accountant for a total (epsilon, delta) per record, or per person with at most ``rows`` records.

    ``threshold_delta`` is the part of delta that lists of values take; if it is all of delta, other releases are pure.
    ``share`` is the probability with which a unit takes part, by a secret coin of its own.
    An infinite epsilon means no privacy at all. Raises ``ParameterError`` for numbers that are no budget.
    """
    loss, failure = _as_written(epsilon), _as_written(delta)
    if not (0 < loss <= LARGEST or loss == math.inf):
        raise ParameterError(
            f"epsilon must be a positive number of at most {LARGEST:g} (or inf for no privacy), not {shown(epsilon)}."
        )
    if not 0 <= failure < 1:
        raise ParameterError(f"delta must be a number in [0, 1), not {shown(delta)}.")
    if not is_whole(rows) or rows < 1:
        raise ParameterError(f"The most rows of a person must be a whole number of at least 1, not {shown(rows)}.")
    listed = _as_written(threshold_delta)
    if not 0 <= listed <= failure:
        raise ParameterError(f"The delta of lists must lie in 0 .. {failure:.3g}, not {shown(threshold_delta)}.")
    if not 0 < share <= 1 or SHARE_STEPS % share.denominator:
        raise ParameterError(f"The share of a sample must be a multiple of 1 / {SHARE_STEPS:,} in (0, 1], not {share}.")
    rows = int(rows)
    accountant: Accountant
    if loss == math.inf:
        accountant = Pure(loss, rows)
    else:
        accountant = Pure(loss, rows, listed, share) if listed == failure else ZCDP(loss, failure, rows, listed, share)
    if accountant.budget < SMALLEST[accountant.unit]:
        of_each, remedy = (f" of each of a person's {rows} rows", ", or allow a person fewer rows") if rows > 1 else ("", "")
        raise ParameterError(
            f"epsilon = {loss:.3g} gives {accountant.unit} = {accountant.budget:.3g} for all releases{of_each}, "
            f"too little for noise that fits 64 bits (least: {SMALLEST[accountant.unit]:.3g}). Raise epsilon{remedy}."
        )
    return accountant


def _as_written(value: Any) -> float:
    """A number of any type as the float that it is written as; ``nan`` for anything else."""
    try:
        return as_written(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of Python or numpy."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_whole(name: str, value: Any, or_what: str = "", least: int = 1, most: int = MOST_WHOLE) -> None:
    """Raise unless a parameter is None or a whole number from ``least`` to ``most``."""
    if value is not None and (not is_whole(value) or not least <= value <= most):
        raise ParameterError(f"{name} must be a whole number from {least} to {most:,}{or_what}, not {shown(value)}.")
