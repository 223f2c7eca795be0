"""What the entries of a store say of one data set. Public values only."""

from collections.abc import Sequence
from typing import Any

from dpforest.budget.account import left_with_delta
from dpforest.budget.chain import Chain, DataSet, losses_from_json

Entries = Sequence[dict[str, Any]]


def releases_of(entries: Entries, dataset: str) -> tuple[Chain, list[dict[str, Any]]]:
    """What the entries add up to, and the releases that a data set is charged, each with what was spent by then."""
    chain, releases = Chain(), {}
    for entry in entries:
        chain.count(entry, entry["hash"])
        kind, number = entry["kind"], entry["number"]
        if kind == "reserve" and dataset in (charged.name for charged in chain.datasets[entry["dataset"]].line):
            worst = losses_from_json(entry["outcomes"])
            about = {name: entry[name] for name in ("number", "time", "what", "dataset")}
            releases[number] = about | {"state": "reserved", "outcomes": worst, "loss": None}
        elif kind == "settle" and entry["reserve"] in releases:
            number = entry["reserve"]
            (loss,) = losses_from_json([entry["loss"]])
            releases[number] |= {"state": "settled", "loss": loss}
        else:
            continue
        releases[number]["spent"] = chain.datasets[dataset].account.spent
    return chain, list(releases.values())


def position_of(found: DataSet) -> dict[str, Any]:
    """Cap, what is spent and left, and the same of the data set that it belongs to, and so on.

    What is left is what all of them admit.
    """
    cap, line = found.account.cap, found.line
    above = [position_of(parent) for parent in line[1:2]]
    return {
        "dataset": found.name, "unit": found.unit, "epsilon": cap.epsilon, "delta": cap.delta, "spent": found.account.spent,
        "left": left_of(found), "left_with_delta": left_with_delta([charged.account for charged in line]),
        "belongs_to": above[0] if above else None,
    }  # fmt: skip


def left_of(found: DataSet) -> float:
    """The largest epsilon of one more release without delta that a data set and all that it belongs to admit."""
    return min(charged.account.left for charged in found.line)
