"""Charges releases to a budget: the worst case is reserved before one begins, then settled. Sees charges only."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from dpforest.budget.handle import Budget
from dpforest.budget.totals import Loss
from dpforest.errors import DPForestError, ParameterError, shown
from dpforest.growing.target import with_range
from dpforest.mechanisms import Logarithmic
from dpforest.parts.recipe import Recipe
from dpforest.privacy.accountants import zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import divide, exact, round_down, round_up
from dpforest.privacy.best_of_runs import concentrated, epsilon_of_one_run
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Schema

# Covers roundings where the rho of a fit follows from an epsilon that is itself a remainder.
MARGIN = 2.0**-40


def check_budget(budget: Budget | None, unit: str, broken: Sequence[str], takes_groups: bool = True) -> None:
    """Raise unless a release for this unit can be charged to the budget; ``broken`` says why it would not be private.

    ``takes_groups`` says whether a release of its kind can protect persons.
    """
    if budget is None:
        return
    if not isinstance(budget, Budget):
        raise ParameterError(f"budget must be what Budget.open gives, or None, not {shown(budget)}.")
    if broken:
        raise ParameterError(f"A budget is for private releases only, and this one is not: {'; '.join(broken)}.")
    if budget.unit != unit:
        instead = "It cannot protect persons: "
        if takes_groups:
            remedy = "Leave out" if unit == "person" else "To protect persons, set"
            instead = f"{remedy} groups and max_rows_per_person, or "
        raise ParameterError(
            f"The budget is for the unit {budget.unit!r}, and this release protects a {unit}. {instead}charge it to a "
            f"budget for the unit {unit!r}."
        )


def what_a_fit_is(recipe: str, is_own: bool) -> str:
    """What the entries of a budget call a fit."""
    return f"fit own recipe {recipe}" if is_own else f"fit {recipe}"


def what_a_search_is(is_own: bool) -> str:
    """What the entries of a budget call a search, also one that may choose a recipe from outside the catalogue."""
    return "search with own recipes" if is_own else "search"


def loss_of_search(law: Logarithmic, epsilon: float, delta: float, order: float) -> Loss:
    """What a search of (epsilon, delta) costs; with delta by its Rényi divergence of an order (``Budget.order``).

    Without a delta a cap adds up no divergences and has the order 0, so it refuses a search with one.
    """
    if delta == 0:
        return Loss.pure(epsilon)
    rho = zcdp_rho(epsilon_of_one_run(law, epsilon, delta), delta)
    return Loss(math.inf, concentrated(law, rho), law.divergence(order, rho) if order else math.inf, order)


def outcomes_of_fit(
    recipe: Recipe, schema: Schema, epsilon: float, delta: float, n_trees: int | None, max_depth: int | None
) -> list[Loss]:
    """The losses that a fit may end with, each at its largest.

    With delta it is charged as zCDP, but for a noisy number of rows, which may lead to a plan without delta (see
    ``pipeline.fit_forest``).
    """
    if delta == 0:
        return [Loss.pure(epsilon)]
    own, rho = 0.0, zcdp_rho(epsilon, delta)
    if schema.n_rows is None and with_range(recipe, schema.target).shaped(n_trees, max_depth).needs_rows:
        own = divide(epsilon, [recipe.n_rows_share, 1 - recipe.n_rows_share])[0]
        rho = zcdp_rho(round_down(exact(epsilon) - exact(own)), delta) * (1 + MARGIN)
    with_delta = Loss.pure(own) + Loss(math.inf, rho)
    may_be_pure = recipe.planner is not None or recipe.without_delta
    return [Loss.pure(epsilon), with_delta] if may_be_pure else [with_delta]


def row_epsilon(outcomes: Sequence[Loss], delta: float, rows: int, may_sample: bool) -> float | None:
    """The epsilon, at delta, of one row more or less of a person in a fit that protects persons; None if it is not known.

    Privacy:
        Claim: holds for a fit that may end with any of ``outcomes``, losses of a person of whom ``rows`` rows are used.
        Because: a used row has 1 / rows of an epsilon, and 1 / rows**2 of a rho; a row of a person who stays is two of these
            (``People``). On a secret sample, of share s, two rows or more cost at most epsilon = log(1 - s + sE): P is
            (1-s)P0 + sP' and Q is (1-s)P0 + sP'', where P0 is without the person, and P' is at most E times P0 and P''.
            Then e**epsilon Q - P is at least s(1-s)(E-1)(P0 - P'/E), which is not below 0. One row costs two persons.
        Assumes: rows are drawn as ``People`` does; no list of values is learnt.
    """
    if may_sample:
        return None if delta else max(loss.epsilon for loss in outcomes) * (2 if rows == 1 else 1)
    # Above 2 the rho of a part without delta may be its epsilon, which does not fall with rows**2 (``Loss.pure``).
    if any(math.isinf(loss.epsilon) and 2 < loss.rho < math.inf for loss in outcomes):
        return None

    def of_row(loss: Loss) -> float:
        if math.isfinite(loss.epsilon):
            return round_up(2 * exact(loss.epsilon) / rows)
        return zcdp_epsilon(round_up(4 * exact(loss.rho) / rows**2), delta) if math.isfinite(loss.rho) else math.inf

    return max(map(of_row, outcomes))


@contextmanager
def charged(budget: Budget | None, what: str, outcomes: Sequence[Loss], ledger: Ledger) -> Iterator[None]:
    """Reserve ``outcomes``, run the block, and settle what its ledger says, also if the block fails."""
    if budget is None:
        yield
        return
    reservation = budget.reserve(what, outcomes=outcomes)
    try:
        yield
    except BaseException:
        # What cannot be settled stands in full; the reason to know of is why the block failed.
        with suppress(DPForestError):
            budget.settle(reservation, Loss.of_ledger(ledger))
        raise
    budget.settle(reservation, Loss.of_ledger(ledger))
