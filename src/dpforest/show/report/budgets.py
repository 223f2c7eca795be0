"""What the report says of the budget of the data set that is attached to it. Sees charges only.

Entries of a budget name no model. Which of them is that of a model is told by what it was, what it cost and its day.
"""

from datetime import date
from fractions import Fraction
from typing import Any

from dpforest.budget import Budget, Cap, Loss
from dpforest.budget.fits import loss_of_search, what_a_fit_is, what_a_search_is
from dpforest.budget.handle import MOST_CHARACTERS_OF_WHAT
from dpforest.errors import ParameterError, shown
from dpforest.mechanisms import Logarithmic


def budget_content(budget: Budget | None, model: Any) -> dict[str, Any] | None:
    """The position of a budget, and whether one of its releases is the model's; None without a budget."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise ParameterError(f"budget must be what Budget.open gives, or None, not {shown(budget)}.")
    position, cap, charged = budget.position(), budget.cap, _charged(model, budget.order)
    releases = [
        shown_release(release, cap)
        | {
            "spent": release["spent"],
            "is_alike": (release["what"], release["loss"]) == charged and _is_of_the_day(release, model.trained_on_),
        }
        for release in position["releases"]
    ]
    return position | {"releases": releases, "alike": sum(release["is_alike"] for release in releases)}


def shown_release(release: dict[str, Any], cap: Cap) -> dict[str, Any]:
    """What pages say of a release in the history of a budget: its day, what it was, and what it cost or may cost at most."""
    loss = release["loss"]
    return {name: release[name] for name in ("number", "what", "dataset")} | {
        "day": release["time"][:10],
        "settled": loss is not None,
        "epsilon": None if loss is None else loss.epsilon,
        "rho": None if loss is None else loss.rho,
        "divergence": None if loss is None else loss.divergence,
        "at_most": max(cap.stated(cap.sums(outcome)) for outcome in release["outcomes"]),
    }


def _is_of_the_day(release: dict[str, Any], began: str | None) -> bool:
    """Whether a release may be of a fit that began on a day, if that is known."""
    if began is None:
        return True
    # Rows are sealed between the beginning of a fit and its entry, which may then be of the next day.
    return 0 <= (date.fromisoformat(release["time"][:10]) - date.fromisoformat(began)).days <= 1


def _charged(model: Any, order: float) -> tuple[str, Loss]:
    """What a budget is charged for a model, as a fit or as a search does it; see ``Budget.order``."""
    statement, ledger = model.privacy_, model.ledger_
    if ledger.selection is not None:
        # Ledgers of earlier versions have no gamma, and no delta, without which the loss does not depend on it.
        law = Logarithmic(ledger.selection.mechanism.parameters.get("gamma", Fraction(1)))
        return what_a_search_is(statement.own_recipe), loss_of_search(law, ledger.epsilon, ledger.delta, order)
    return what_a_fit_is(statement.recipe, statement.own_recipe)[:MOST_CHARACTERS_OF_WHAT], Loss.of_ledger(ledger)
