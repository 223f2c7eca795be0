"""Budgets of data sets: what the report says of the one attached to it, and their own page with its twin. Sees charges only.

Entries of a budget name no model. Which of them is that of a model is told by what it was, what it cost and its day. A
release is drawn when it began, with what it cost in the end: when it ended tells how long it took, and so of its rows.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from dpforest.budget import Budget, Cap, Loss
from dpforest.budget.chain import position_of, releases_of
from dpforest.budget.fits import loss_of_search, what_a_fit_is, what_a_search_is
from dpforest.budget.handle import MOST_CHARACTERS_OF_WHAT
from dpforest.budget.totals import Account
from dpforest.errors import ParameterError, shown
from dpforest.mechanisms import Logarithmic

WIDTH, HEIGHT = 1000, 300  # of a picture, which is stretched to its place


def budget_content(budget: Budget | None, model: Any) -> dict[str, Any] | None:
    """The position of a budget, and whether one of its releases is the model's; None without a budget."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise ParameterError(f"budget must be what Budget.open gives, or None, not {shown(budget)}.")
    position, charged = budget.position(), _charged(model, budget.order)
    releases = []
    for release in position["releases"]:
        is_alike = (release["what"], release["loss"]) == charged and _is_of_the_day(release, model.trained_on_)
        releases.append(_shown(release, budget.cap) | {"spent": release["spent"], "is_alike": is_alike})
    return position | {"releases": releases, "alike": sum(release["is_alike"] for release in releases)}


def _shown(release: dict[str, Any], cap: Cap) -> dict[str, Any]:
    """What pages say of a release in the history of a budget: its day, what it was, and what it cost or may cost at most."""
    loss = release["loss"]
    return {name: release[name] for name in ("number", "what", "dataset")} | {
        "day": release["time"][:10],
        "settled": loss is not None,
        **{name: None if loss is None else getattr(loss, name) for name in ("epsilon", "rho", "divergence")},
        "at_most": max(cap.stated(cap.sums(outcome)) for outcome in release["outcomes"]),
    }


def _is_of_the_day(release: dict[str, Any], began: str | None) -> bool:
    """Whether a release may be of a fit that began on a day, if that is known."""
    # Rows are sealed between the beginning of a fit and its entry, which may then be of the next day.
    return began is None or 0 <= (date.fromisoformat(release["time"][:10]) - date.fromisoformat(began)).days <= 1


def _charged(model: Any, order: float) -> tuple[str, Loss]:
    """What a budget is charged for a model, as a fit or as a search does it; see ``Budget.order``."""
    statement, ledger = model.privacy_, model.ledger_
    if ledger.selection is not None:
        # Ledgers of earlier versions have no gamma, and no delta, without which the loss does not depend on it.
        law = Logarithmic(ledger.selection.mechanism.parameters.get("gamma", Fraction(1)))
        return what_a_search_is(statement.own_recipe), loss_of_search(law, ledger.epsilon, ledger.delta, order)
    return what_a_fit_is(statement.recipe, statement.own_recipe)[:MOST_CHARACTERS_OF_WHAT], Loss.of_ledger(ledger)


def budget_page_content(budgets: Sequence[Budget]) -> dict[str, Any]:
    """What the page says of budgets of one file, all of one moment; entries are read and checked anew."""
    entries = budgets[0].export()["entries"]
    begins = _begins(entries)
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "entries": len(entries),
        "head": entries[-1]["hash"],
        "datasets": [_dataset(entries, begins, budget.dataset) for budget in budgets],
    }


def _begins(entries: list[dict[str, Any]]) -> dict[int, str]:
    """When each entry was made: what its clock said if that fits in with most others, else what the next right one says."""
    times, ends, before = [entry["time"] for entry in entries], list[int](), list[int]()
    for place, time in enumerate(times):  # the longest series of times that do not go back
        length = bisect_right(ends, time, key=times.__getitem__)
        before.append(ends[length - 1] if length else -1)
        ends[length : length + 1] = [place]
    begins, right, begin = dict[int, str](), ends[-1], times[ends[-1]]
    for place in reversed(range(len(times))):
        if place == right:
            begin, right = times[place], before[place]
        begins[entries[place]["number"]] = begin
    return begins


def _dataset(entries: list[dict[str, Any]], begins: dict[int, str], name: str) -> dict[str, Any]:
    """The position of a data set and its releases, each with what those until then have cost in the end."""
    chain, releases = releases_of(entries, name)
    found = chain.datasets[name]
    cap, account, rows = found.account.cap, Account(found.account.cap), []
    for release in releases:
        number, loss = release["number"], release["loss"]
        account.reserve(number, release["outcomes"])
        if loss is not None:
            account.settle(number, loss)
        began = {"began": begins[number], "is_clock_wrong": release["time"] != begins[number]}
        so_far = {"settled_so_far": cap.stated(account.settled), "spent_so_far": account.spent}
        rows.append(_shown(release, cap) | began | so_far)
    created = next(entry["number"] for entry in entries if entry["hash"] == found.fingerprint)
    parts = [other.name for other in chain.datasets.values() if other.parent is found]
    return position_of(found) | {"created": begins[created], "parts": parts, "releases": rows}


def curve_of(found: dict[str, Any], written: str) -> dict[str, Any]:
    """The picture of a data set: two lines of steps as paths of SVG, and words for the ends of the axis of time."""
    rows, begin = found["releases"], datetime.fromisoformat(found["created"])
    begun = [datetime.fromisoformat(row["began"]) for row in rows]
    span = max(max(datetime.fromisoformat(written), *begun, begin) - begin, timedelta(minutes=1))

    def steps(name: str) -> str:
        # Of steps that are drawn at one place the last counts, so that long histories stay small.
        values = {round((at - begin) / span * WIDTH): row[name] for at, row in zip(begun, rows, strict=True)}
        heights = ((place, HEIGHT * (1 - min(value / found["epsilon"], 1.0))) for place, value in values.items())
        return f"M0 {HEIGHT}" + "".join(f"H{place}V{height:.1f}" for place, height in heights) + f"H{WIDTH}"

    letters = 10 if span > timedelta(days=3) else 16
    times = [(begin + share * span).isoformat()[:letters].replace("T", " ") for share in (0.0, 0.5, 1.0)]
    lines = {name: steps(f"{name}_so_far") for name in ("settled", "spent")}
    return lines | {"times": times, "width": WIDTH, "height": HEIGHT}
