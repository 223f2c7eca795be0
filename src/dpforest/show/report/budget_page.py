"""Budgets over time as one page that needs nothing else, and its twin in JSON. Sees charges only.

A release is drawn when it began, with what it cost in the end: when it ended tells how long it took, and so of its rows.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpforest.budget import Budget
from dpforest.budget.account import Account
from dpforest.budget.reading import position_of, releases_of
from dpforest.common.files import check_writable, write_whole
from dpforest.common.jsonable import to_json
from dpforest.show.report.budgets import shown_release
from dpforest.show.report.html import LabelWriter, part, policy, short_label, template

FORMAT, VERSION = "dpforest-budget-report", 1
WIDTH, HEIGHT = 1000, 300  # of a picture, which is stretched to its place


def write_budget_page(budgets: Sequence[Budget], path: str | Path) -> None:
    """Write the page of budgets of one file to ``path``, and its twin beside it, with the ending ``.json``."""
    path = Path(path)
    twin = path.with_suffix(".json")
    content = budget_page_content(budgets)
    whole = {"format": FORMAT, "version": VERSION, **content}
    style, script = part("style.css") + part("budget_page.css"), part("scrolling.js")
    page = template("budget_page.html").render(
        content, curves=[_curve(found, content["written"]) for found in content["datasets"]], twin=twin.name,
        text=LabelWriter(), short=short_label, style=Markup(style), script=Markup(script), policy=policy(style, script),
    )  # fmt: skip
    for file in (twin, path):
        check_writable(file)
    write_whole(twin, to_json(whole, indent=1).encode())
    write_whole(path, page.encode())


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
    times, latest, last, before = [entry["time"] for entry in entries], list[str](), list[int](), list[int]()
    for place, time in enumerate(times):  # the longest series of times that do not go back
        length = bisect_right(latest, time)
        before.append(last[length - 1] if length else -1)
        latest[length : length + 1], last[length : length + 1] = [time], [place]
    right, place = set[int](), last[-1]
    while place >= 0:
        right.add(place)
        place = before[place]
    begins, begin = dict[int, str](), times[max(right)]
    for place in reversed(range(len(times))):
        begin = begins[entries[place]["number"]] = times[place] if place in right else begin
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
        is_clock_wrong = release["time"] != begins[number]
        so_far = {"settled_so_far": cap.stated(account.settled), "spent_so_far": account.spent}
        rows.append(shown_release(release, cap) | {"began": begins[number], "is_clock_wrong": is_clock_wrong} | so_far)
    created = next(entry["number"] for entry in entries if entry["hash"] == found.fingerprint)
    parts = [other.name for other in chain.datasets.values() if other.parent is found]
    return position_of(found) | {"created": begins[created], "parts": parts, "releases": rows}


def _curve(found: dict[str, Any], written: str) -> dict[str, Any]:
    """The picture of a data set: two lines of steps as paths of SVG, and words for the ends of the axis of time."""
    rows, begin = found["releases"], datetime.fromisoformat(found["created"])
    end = max(datetime.fromisoformat(written), *(datetime.fromisoformat(row["began"]) for row in rows), begin)
    span = max(end - begin, timedelta(minutes=1))
    places = [(datetime.fromisoformat(row["began"]) - begin) / span * WIDTH for row in rows]
    top = found["epsilon"]

    def steps(name: str) -> str:
        # Of steps that are drawn at one place the last counts, so that long histories stay small.
        values = {round(place): row[name] for place, row in zip(places, rows, strict=True)}
        heights = {place: HEIGHT * (1 - min(value / top, 1.0)) for place, value in values.items()}
        return f"M0 {HEIGHT}" + "".join(f"H{place}V{height:.1f}" for place, height in heights.items()) + f"H{WIDTH}"

    letters = 10 if span > timedelta(days=3) else 16
    return {
        "settled": steps("settled_so_far"),
        "spent": steps("spent_so_far"),
        "times": [(begin + share * span).isoformat()[:letters].replace("T", " ") for share in (0.0, 0.5, 1.0)],
        "width": WIDTH, "height": HEIGHT,
    }  # fmt: skip
