"""An entry that was written while the clock was far ahead: two people repair it, and nothing is given back."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.budget.stores import become_older, forge, forget, spend
from tests.cli.command import done

from dpforest import Budget
from dpforest.budget import Loss, chain, handle
from dpforest.errors import BudgetDamagedError, BudgetError, BudgetStoreError, ParameterError

AHEAD = timedelta(days=70 * 365)


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock of this machine ahead, or back."""

    def set_ahead(by=timedelta(0)):
        class Wrong(datetime):
            @classmethod
            def now(cls, zone=None):
                return datetime.now(zone) + by

        for module in (chain, handle):
            monkeypatch.setattr(module, "datetime", Wrong)

    return set_ahead


@pytest.fixture
def stuck(budget, clock):
    """A budget whose last entries are of a time long after now: a release, and one that is not settled."""
    spend(budget, 0.5, "before")
    clock(AHEAD)
    spend(budget, 0.5, "ahead")
    budget.reserve("open", outcomes=[Loss.pure(0.25)])
    clock()
    return budget


def repaired(budget):
    budget.confirm_clock_repair("Ben Okri", budget.request_clock_repair("Ana Sousa"))
    return budget


def test_nothing_is_released_until_a_second_person_confirms(stuck):
    for _ in range(2):
        with pytest.raises(BudgetStoreError, match="repair-clock"):
            stuck.reserve("fit", outcomes=[Loss.pure(0.1)])
        stuck.request_clock_repair("Ana Sousa")
    with pytest.raises(BudgetStoreError, match="clock"):
        Budget.open(stuck.path, "other", epsilon=1.0)
    repaired(stuck)
    spend(stuck, 0.125, "after")
    assert stuck.verify()


def test_a_repair_gives_nothing_back_and_says_who_and_when(stuck):
    before, spent, left, anchor = stuck.export()["entries"], stuck.spent, stuck.left, stuck.verify()
    (repair,) = repaired(stuck).position()["repairs"]
    assert (stuck.spent, stuck.left) == (spent, left) == (1.25, 1.75)
    assert stuck.export()["entries"][: len(before)] == before
    assert stuck.verify(anchor) != anchor
    with pytest.raises(BudgetError, match=r"1\.75"):
        stuck.reserve("fit", outcomes=[Loss.pure(1.8)])
    assert (repair["asked_by"], repair["confirmed_by"]) == ("Ana Sousa", "Ben Okri")
    now = datetime.now(UTC)
    assert timedelta(0) <= now - datetime.fromisoformat(repair["time"]) < timedelta(minutes=10)
    assert datetime.fromisoformat(repair["time_before"]) - now > AHEAD / 2
    asked, confirmed = stuck.export()["entries"][-2:]
    assert (asked["kind"], confirmed["kind"], confirmed["asked"]) == ("ask-clock", "set-clock", asked["number"])
    forget()
    spend(stuck, 0.125)
    assert stuck.export()["entries"][-1]["time"] >= repair["time"]


@pytest.mark.parametrize("same", ["Ana Sousa", " ana  sousa ", "ANA SOUSA"])
def test_who_asks_cannot_confirm(stuck, same):
    code = stuck.request_clock_repair("Ana Sousa")
    with pytest.raises(ParameterError, match="somebody else"):
        stuck.confirm_clock_repair(same, code)
    with pytest.raises(BudgetStoreError):
        stuck.reserve("fit", outcomes=[Loss.pure(0.1)])


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, None, 7])
def test_people_have_names(stuck, name):
    with pytest.raises(ParameterError, match="named by a text"):
        stuck.request_clock_repair(name)
    with pytest.raises(ParameterError, match="named by a text"):
        stuck.confirm_clock_repair(name, "0" * 12)


def test_only_what_was_asked_last_is_confirmed_and_once(stuck):
    with pytest.raises(ParameterError, match="waits to be confirmed"):
        stuck.confirm_clock_repair("Ben", "0" * 12)
    first, second = stuck.request_clock_repair("Ana"), stuck.request_clock_repair("Eva")
    assert first != second
    with pytest.raises(ParameterError, match="waits to be confirmed"):
        stuck.confirm_clock_repair("Ben", first)
    stuck.confirm_clock_repair("Ana", second)
    n_entries = len(stuck.export()["entries"])
    with pytest.raises(BudgetStoreError, match="nothing to repair"):
        stuck.confirm_clock_repair("Ana", second)
    with pytest.raises(BudgetStoreError, match="nothing to repair"):
        stuck.request_clock_repair("Ana")
    assert len(stuck.export()["entries"]) == n_entries


def test_a_request_ends_when_the_clock_is_right_again(stuck, clock):
    code = stuck.request_clock_repair("Ana")
    clock(AHEAD + timedelta(hours=1))
    spend(stuck, 0.125)
    clock()
    with pytest.raises(ParameterError, match="waits to be confirmed"):
        stuck.confirm_clock_repair("Ben", code)


def test_a_release_that_ends_between_the_two_is_settled(stuck):
    code = stuck.request_clock_repair("Ana")
    stuck.settle(handle.Reservation(stuck.history()[-1]["number"], (Loss.pure(0.25),)), Loss.pure(0.25))
    stuck.confirm_clock_repair("Ben", code)
    assert stuck.spent == 1.25
    assert stuck.verify()


def test_a_confirmation_by_a_clock_behind_that_of_the_request_is_refused(stuck, clock):
    code = stuck.request_clock_repair("Ana")
    clock(timedelta(hours=-1))
    with pytest.raises(BudgetStoreError, match="Set the clock"):
        stuck.confirm_clock_repair("Ben", code)


@pytest.mark.parametrize(
    "wrong", [{"by": "ana sousa"}, {"asked": 1}, {"by": ""}, {"time": "1999-01-01T00:00:00+00:00"}, {"kind": "reserve"}]
)
def test_a_forged_confirmation_is_found(stuck, wrong):
    forge(stuck, repaired(stuck).export()["entries"][-1]["number"], **wrong)
    with pytest.raises(BudgetDamagedError):
        stuck.verify()


def test_an_entry_that_goes_back_in_time_without_a_request_is_found(stuck):
    """The confirmation alone may be earlier than the entry before it."""
    entries = repaired(stuck).export()["entries"]
    (number,) = [entry["number"] for entry in entries if entry["kind"] == "ask-clock"]
    forge(stuck, number, time=entries[0]["time"])
    with pytest.raises(BudgetDamagedError, match=f"Entry {number} "):
        stuck.verify()


def test_a_version_that_does_not_know_of_repairs_refuses_the_file(path, stuck, monkeypatch):
    number = repaired(stuck).export()["entries"][-2]["number"]
    become_older(monkeypatch)
    with pytest.raises(BudgetDamagedError, match=f"Entry {number} .*cannot be read"):
        Budget.open(path, "ward-7")


def test_the_command_takes_two_people_and_all_commands_show_it(path, stuck):
    asked = done("budget", "repair-clock", path, "--by", "Ana [bold]Sousa")
    code = asked.split("--confirm ")[1].split()[0]
    done("budget", "repair-clock", path, "--by", "Ben Okri", "--confirm", code)
    for words in (("verify", path), ("history", f"{path}::ward-7")):
        shown = " ".join(done("budget", *words).replace("│", " ").replace("┃", " ").split())
        for name in ("[bold]Sousa", "Okri"):
            assert name in shown
    listed = json.loads(done("budget", "history", f"{path}::ward-7", "--json"))
    assert [entry["state"] for entry in listed] == ["settled", "settled", "reserved", "clock repaired"]
