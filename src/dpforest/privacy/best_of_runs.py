"""What the best of a random number of runs costs, if runs are zCDP, as (epsilon, delta). Public values only.

Privacy:
    Claim: if a run is rho-zCDP, the best of k ~ ``Logarithmic`` runs is (epsilon, delta)-DP for the delta of
        ``log_delta_of_best``; a run that has ``epsilon_of_one_run`` at the same delta leaves it within that delta.
    Because: its Rényi divergences are at most ``Logarithmic.divergence``, and one of any order has the delta of
        ``log_delta_at`` [canonne2020, Proposition 12].
    Assumes: as ``Logarithmic``.
"""

import math
from functools import lru_cache

import numpy as np

from dpforest.errors import ParameterError
from dpforest.mechanisms import Logarithmic
from dpforest.privacy.accountants import SMALLEST, best_orders, log_delta_at, log_of, zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import exact, round_down
from dpforest.privacy.events import AT_DELTA, SELECTION, Mechanism
from dpforest.privacy.ledger import Ledger

# Orders that are tried, as parts of the one that is best for a single run; and how often intervals are halved.
PARTS, N_HALVES = np.geomspace(1 / 16, 2, 256), 50
CLOSE = 2.0**-40


def log_delta_of_best(law: Logarithmic, rho: float, epsilon: float) -> float:
    """Logarithm of the delta that the best of rho-zCDP runs has at epsilon, rounded up."""
    order = law.promising_order(rho, epsilon, 1 + (best_orders(rho, epsilon)[1] - 1) * PARTS)
    return min(0.0, log_delta_at(order, law.divergence(order, rho) / order, epsilon))


@lru_cache
def epsilon_of_one_run(law: Logarithmic, epsilon: float, delta: float) -> float:
    """The epsilon of a run, at the same delta, for which the best costs (epsilon, delta); rounded down.

    With delta = 0 a run is pure; else it is zCDP with the rho that ``ZCDP`` gives for it.
    """
    if delta == 0:
        return law.of_one_run(epsilon)
    low, high, most = 0.0, zcdp_rho(epsilon, delta), log_of(delta)
    for _ in range(N_HALVES):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta_of_best(law, middle, epsilon) <= most else (low, middle)
    if low <= zcdp_rho(SMALLEST["epsilon"], delta):
        raise ParameterError(
            f"epsilon = {epsilon:.3g} at delta = {delta:.3g} leaves a run of {law.mean:.3g} nothing to spend at that delta. "
            "Lower delta, raise epsilon, or make fewer runs."
        )
    inside, less = min(zcdp_epsilon(low, delta), epsilon), CLOSE
    while True:
        inside, less = inside * (1 - less), 2 * less
        if log_delta_of_best(law, zcdp_rho(inside, delta), epsilon) <= most:
            return inside


def concentrated(law: Logarithmic, rho: float) -> float:
    """A rho for which the best of rho-zCDP runs is zCDP itself, at all orders; rounded up, and large.

    Privacy:
        Claim: with l = log(1/gamma) and m the mean of k, R = a rho + 2 sqrt(l rho) + log(m) / (a - 1) does, for any a > 1.
        Because: u'/u is at most exp(2 sqrt(l rho)) and m gamma / u at most m, so the divergence of each order b is at
            most D(b) = b rho + 2 sqrt(l rho) + log(m) / (b - 1). For b >= a, D(b) / b is at most D(a) / a <= R;
            for b < a the divergence is at most that of order a, since it grows with its order: D(a) = R <= b R.
        Assumes: as ``Logarithmic``.
    """
    mean, far = law.mean, -math.log(law.gamma)
    above = math.sqrt(math.log(mean) / rho) + CLOSE
    return ((1 + above) * rho + 2 * math.sqrt(far * rho) + math.log(mean) / above) * (1 + CLOSE)


def charge_selection(ledger: Ledger, law: Logarithmic, of_run: float) -> None:
    """Charge the cost of releasing the best run beyond one run's ``of_run``, in the ledger's unit.

    With delta this is the difference of two rhos: of the one that has the search's epsilon at this delta, and of a run. The
    best is not zCDP with their sum at other deltas; so the charge says at which it holds.
    """
    accountant = ledger.accountant
    known = {"gamma": law.gamma, "of_one_run": exact(of_run)}
    if accountant.delta:
        known[AT_DELTA] = exact(accountant.delta)
    rest = round_down(exact(accountant.budget) - exact(of_run))
    ledger.charge("best of a random number of runs", Mechanism(SELECTION, known), rest)
