"""What people attach to a report: what only they know of the release, an audit, a budget; and the page of budgets.

Sees results of audits, the statement and charges, no rows. Entries of a budget name no model. Which of them is that of a
model is told by what it was, what it cost and its day. A release is drawn when it began, with what it cost in the end:
when it ended tells how long it took, and so of its rows.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from dpforest.budget import Budget, Cap, Loss
from dpforest.budget.chain import position_of, releases_of
from dpforest.budget.fits import loss_of_search, what_a_fit_is, what_a_search_is
from dpforest.budget.handle import MOST_CHARACTERS_OF_WHAT
from dpforest.budget.totals import Account
from dpforest.common.text import counted
from dpforest.errors import ParameterError, shown
from dpforest.mechanisms import Logarithmic
from dpforest.privacy.statement import Statement
from dpforest.recipes import get_recipe
from dpforest.recipes.catalogue import fingerprint

# What may be said, in the order of the page, and its name there.
FIELDS = {
    "name": "Name of the release",
    "description": "Description",
    "dataset": "Data set",
    "dataset_version": "Version of the data set",
    "data_subjects": "Whom the records are about",
    "data_curator": "Who keeps the data",
    "purpose": "Purpose",
    "intended_use": "Intended use",
    "access": "Who gets the model",
    "release_date": "Day of release",
    "contact": "Contact",
}
# Those that have an option of the command; the page has a line for each, also if it is not stated.
OPTIONS = ("dataset", "dataset_version", "purpose", "contact")
# Those that a registry asks for.
FROM_A_PERSON = tuple(name for name in FIELDS if name != "purpose")
MOST_CHARACTERS = 10_000
# How to audit a recipe that the command does not know by name.
OWN = 'model.save_report(path, {"audits": [audit(Subject(recipe)).to_dict()]})'
WANTED = "audit must be what `dpforest audit --json` prints: a dictionary with the entries 'audits' and 'attacks'"
WIDTH, HEIGHT = 1000, 300  # of the picture of a budget, which is stretched to its place


def about_content(about: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Every field with what is said in it as text, or None where nothing is; raises if ``about`` has anything else."""
    if not isinstance(about, Mapping | None):
        raise ParameterError(f"about must map fields to texts, such as {{'purpose': '…'}}; it is {shown(about)}.")
    for name in about or {}:
        if name not in FIELDS:
            raise ParameterError(f"about has no field {shown(name)}. Known are: {', '.join(FIELDS)}.")
    return {name: _said(name, (about or {}).get(name)) for name in FIELDS}


def unsaid(said: dict[str, str | None]) -> list[str]:
    """The fields that are still open; a model is for its purpose if no other use is named."""
    return [name for name, text in said.items() if text is None and not (name == "intended_use" and said["purpose"])]


def _said(name: str, value: Any) -> str | None:
    """The text of one field; None if it is blank, as in a file that is not filled in yet."""
    # A file may have a version without quotes: a number or a date.
    if isinstance(value, bool) or not isinstance(value, str | int | float | date | None):
        raise ParameterError(f"{name!r} must be a text, not {shown(value)}.")
    text = "" if value is None else str(value).strip()
    if len(text) > MOST_CHARACTERS:
        raise ParameterError(f"{name!r} has {len(text):,} characters; a text of a report has at most {MOST_CHARACTERS:,}.")
    if text and name == "release_date":
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ParameterError(f"'release_date' must be a date such as 2026-07-25, not {shown(text)}.") from None
    return text or None


def audit_content(audit: dict[str, Any] | None, statement: Statement) -> dict[str, Any]:
    """What the report says of an audit: its entries about this recipe and variant, and the names of the others.

    What an audit says of a recipe of the catalogue says nothing of an own one by the same name, nor of other parts under it.
    """
    entries, others, attacks, by_name_only, found = [], [], [], False, "none was attached"
    if audit is not None:
        if not isinstance(audit, dict) or not isinstance(audit.get("audits"), list):
            raise ParameterError(f"{WANTED}.")
        try:
            own = [entry for entry in audit["audits"] if _is_about(entry, statement)]
            entries = [_entry(entry) for entry in own]
            by_name_only = any(not (entry.get("fingerprint") and statement.fingerprint) for entry in own)
            others = [_other(entry, statement) for entry in audit["audits"] if not _is_about(entry, statement)]
            attacks = [_attack(attack) for attack in audit.get("attacks") or [] if _is_about(attack, statement)]
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            raise ParameterError(f"{WANTED}; an entry of this one is incomplete.") from None
        found = _in_words(entries)
    return {
        "attached": audit is not None, "command": _command(statement), "entries": entries, "others": others,
        "attacks": attacks, "by_name_only": by_name_only, "found": found,
        "broken": any(entry["broken"] for entry in entries),
    }  # fmt: skip


def _is_about(entry: dict[str, Any], statement: Statement) -> bool:
    """Whether an entry is about the algorithm of a model: by its name, and by its fingerprint where both have one."""
    found = entry.get("fingerprint")
    return _is_named(entry, statement) and (not found or statement.fingerprint in ("", found))


def _is_named(entry: dict[str, Any], statement: Statement) -> bool:
    wanted = (statement.recipe, statement.variant, _is_own(statement))
    return (entry["recipe"], entry["variant"], bool(entry.get("own"))) == wanted


def _is_own(statement: Statement) -> bool:
    return statement.own_recipe or bool(statement.outside)


def _other(entry: dict[str, Any], statement: Statement) -> dict[str, str]:
    """The name of another algorithm, and what beside it tells this one from that of the model."""
    which = "the library's" if entry["recipe"] == statement.recipe else ""
    if _is_named(entry, statement):
        which = "with other parts"
    elif entry["variant"] == "published":
        which = "as printed"
    elif entry.get("own"):
        which = "own recipe"
    return {"recipe": str(entry["recipe"]), "variant": str(entry["variant"]), "which": which}


def _command(statement: Statement) -> str:
    """The command that audits the algorithm, or a call in Python if the catalogue does not have it as it ran."""
    try:
        is_known = statement.fingerprint in ("", fingerprint(get_recipe(statement.recipe)))
    except ParameterError:
        is_known = False
    if _is_own(statement) or not is_known:
        return OWN
    variant = " --variant published" if statement.variant == "published" else ""
    return f"dpforest audit --recipe {statement.recipe}{variant} --json"


def _in_words(entries: list[dict[str, Any]]) -> str:
    """What an attached audit found about this recipe, as the end of a sentence."""
    if not entries:
        return "the one that was attached is about other algorithms"
    if any(entry["broken"] for entry in entries):
        return f"it broke the claim, with {counted(sum(len(entry['findings']) for entry in entries), 'finding')}"
    return "it found nothing, which does not prove the claim"


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with values of the kinds that the page expects; raises if it has others, or lacks some."""
    replay, bound = entry["replay"], entry["lower_bound"]
    findings = [str(finding["words"]) for finding in (replay or {}).get("findings", [])]
    findings += [str(bound["words"])] if bound is not None and bound["exceeds"] else []
    return {
        "verdict": str(entry["verdict"]), "broken": entry["verdict"] != "nothing found",
        "claimed": float(entry["epsilon"] if bound is None else bound["claimed"]),
        "epsilon": float(entry["epsilon"]), "delta": float(entry["delta"]),
        "lower_bound": None if bound is None else float(bound["epsilon"]),
        "confidence": None if bound is None else float(bound["confidence"]),
        "fits": None if bound is None else int(bound["n_tested"]),
        "pairs": None if replay is None else int(replay["n_pairs"]),
        "closest": None if replay is None or findings else float(replay["closest"]),
        "findings": findings,
    }  # fmt: skip


def _attack(attack: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": str(attack["table"]), "n_rows": int(attack["n_rows"]), "epsilon": float(attack["epsilon"]),
        "delta": float(attack["delta"]), "found": float(attack["tpr_at_1_percent"]), "allowed": float(attack["allowed"]),
    }  # fmt: skip


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
    """A release in the history of a budget, as pages show it: its day, name and (largest possible) cost."""
    loss = release["loss"]
    return {name: release[name] for name in ("number", "what", "dataset")} | {
        "day": release["time"][:10],
        "settled": loss is not None,
        **{name: None if loss is None else getattr(loss, name) for name in ("epsilon", "rho", "divergence")},
        "at_most": max(cap.stated(cap.sums(outcome)) for outcome in release["outcomes"]),
    }


def _is_of_the_day(release: dict[str, Any], began: str | None) -> bool:
    """Whether a release may be of a fit that began on a known day."""
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
