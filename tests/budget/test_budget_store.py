"""The store: entries that stay, are checked, and cannot be changed unseen."""

import copy
import math
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from tests.budget.stores import ONE, forge, forget, joined, raw, rewrite, spend

from dpforest import Budget
from dpforest.budget import Loss, chain, store
from dpforest.budget.chain import hash_of
from dpforest.errors import AccountingError, BudgetDamagedError, BudgetError, BudgetStoreError, ParameterError


def test_an_entry_that_was_half_counted_when_somebody_pressed_control_c_counts_once(budget, monkeypatch):
    count = chain.Chain.count

    def interrupted(self, entry, found):
        count(self, entry, found)
        raise KeyboardInterrupt

    joined(lambda: budget.reserve("x", outcomes=ONE))
    monkeypatch.setattr(chain.Chain, "count", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = budget.spent
    monkeypatch.setattr(chain.Chain, "count", count)
    assert budget.spent == 1.0


def test_reserved_and_settled_entries_are_there_after_reopening(path, budget):
    spend(budget, 0.5, "first")
    budget.reserve("second", outcomes=[Loss.pure(0.25)])
    forget()
    again = Budget.open(path, dataset="ward-7")
    assert again == budget
    assert again.spent == 0.75
    assert [(item["what"], item["state"], item["spent"]) for item in again.history()] == [
        ("first", "settled", 0.5), ("second", "reserved", 0.75),
    ]  # fmt: skip


def test_a_release_that_would_pass_the_cap_is_refused_with_asked_left_and_cap(budget):
    spend(budget, 2.5)
    with pytest.raises(
        BudgetError, match=r"'fit' asks the budget of 'ward-7' for epsilon = 1 .*0\.5 .*is left of a cap of 3"
    ):
        budget.reserve("fit", outcomes=ONE)
    assert len(budget.history()) == 1


def test_a_reservation_that_is_never_settled_stands(budget):
    for _ in range(3):
        budget.reserve("killed", outcomes=ONE)
    forget()
    assert budget.spent == 3.0
    with pytest.raises(BudgetError):
        budget.reserve("fit", outcomes=[Loss.pure(0.01)])


def test_a_reservation_is_settled_once_and_a_greater_loss_is_entered_in_full(budget):
    reservation, other = budget.reserve("fit", outcomes=ONE), budget.reserve("fit", outcomes=ONE)
    budget.settle(reservation, Loss.pure(0.5))
    with pytest.raises(AccountingError, match="no open reservation"):
        budget.settle(reservation, Loss.pure(0.0))
    with pytest.raises(AccountingError, match="entered in full"):
        budget.settle(other, Loss.pure(2.0))
    assert budget.spent == 2.5


def test_two_data_sets_in_one_file_have_totals_of_their_own(path, budget):
    other = Budget.open(path, dataset="ward-8", epsilon=1.0)
    reservation = other.reserve("fit", outcomes=ONE)
    with pytest.raises(AccountingError):
        budget.settle(reservation, Loss.pure(0.0))
    spend(budget, 2.0)
    other.settle(reservation, Loss.pure(0.25))
    assert (budget.spent, other.spent) == (2.0, 0.25)
    assert [item.dataset for item in Budget.open_all(path)] == ["ward-7", "ward-8"]
    assert len(budget.history()) == len(other.history()) == 1
    assert budget.verify() == other.verify()


def test_copies_pickles_forks_and_new_processes_lead_to_the_same_entries(budget):
    others = [copy.copy(budget), copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))]
    assert all(other == budget for other in others)
    spend(budget, 0.25)  # so that the children begin with a connection of their parent
    joined(*[lambda other=other: spend(other, 0.25) for other in others])
    for other in (budget, *others):
        spend(other, 0.25)
    assert budget.spent == 2.0
    code = "import pickle,sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).spent)"
    command = [sys.executable, "-c", code, pickle.dumps(budget).hex()]
    assert float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == 2.0
    budget.verify()


def test_a_relative_path_stays_the_same_file_and_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget = Budget.open("budget.db", dataset="a", epsilon=1.0)
    monkeypatch.chdir("/")
    assert budget.spent == 0.0
    assert repr(budget) == "Budget(dataset='a', file='budget.db')"


def test_threads_of_one_process_never_overspend(budget):
    refused = []

    def run():
        for _ in range(5):
            try:
                spend(budget, 0.25)
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (budget.spent, len(refused)) == (3.0, 8)


def test_a_store_is_made_only_if_asked(path):
    with pytest.raises(BudgetStoreError, match="no budget at"):
        Budget.open(path, dataset="ward-7")
    assert not path.exists()
    Budget.open(path, dataset="ward-7", epsilon=1.0)
    with pytest.raises(BudgetStoreError, match=r"no budget of 'ward-8'.*'ward-7'"):
        Budget.open(path, dataset="ward-8")


@pytest.mark.parametrize(
    "other", [{"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 3.0}, {"epsilon": 3.0, "delta": 1e-6, "unit": "person"}]
)
def test_a_cap_that_differs_from_the_stored_one_is_refused(path, budget, other):
    with pytest.raises(ParameterError, match="cap"):
        Budget.open(path, dataset="ward-7", **other)
    assert Budget.open(path, dataset="ward-7", epsilon=3.0, delta=1e-6) == budget


@pytest.mark.parametrize(
    ("place", "name"),
    [*((None, name) for name in ("", "x" * 1001, None, 7, b"x", ("a",))), ("", "a"), ("\0", "a"), (5, "a")],
)
def test_data_sets_have_names_of_reasonable_length_in_files(path, place, name):
    with pytest.raises(ParameterError):
        Budget.open(path if place is None else place, dataset=name, epsilon=1.0)


@pytest.mark.parametrize("outcomes", [[], [Loss(math.inf, math.inf)], [Loss.pure(0.001)] * 65])
def test_a_release_has_outcomes_that_can_be_added_up(budget, outcomes):
    with pytest.raises(AccountingError):
        budget.reserve("fit", outcomes=outcomes)


def test_a_zcdp_release_on_a_cap_without_delta_says_what_to_do(path):
    budget = Budget.open(path, dataset="pure", epsilon=1.0)
    with pytest.raises(BudgetError, match="delta = 0"):
        budget.reserve("fit", outcomes=[Loss(math.inf, 1e-6)])


# Changed files


@pytest.fixture
def filled(path, budget):
    """Five entries: create, and two releases."""
    spend(budget, 1.0)
    spend(budget, 0.5)
    return budget


@pytest.mark.parametrize(
    "statement",
    ["UPDATE entries SET text = '{}'", "DELETE FROM entries", "REPLACE INTO entries VALUES (2, '', '')",
     "INSERT INTO entries VALUES (9, '', '')"],
)  # fmt: skip
def test_the_file_itself_refuses_changes(path, filled, statement):
    connection = raw(path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    connection.close()
    filled.verify()


# That the last entry was changed with its hash is seen by an anchor alone; see below.
@pytest.mark.parametrize(
    ("number", "how"),
    [*product(range(1, 6), ["changed", "missing"]), *((number, "changed with its hash") for number in range(1, 5))],
)
def test_an_entry_that_was_changed_or_is_missing_is_found(path, filled, number, how):
    anchor = filled.verify()
    connection = raw(path)
    ((text,),) = connection.execute("SELECT text FROM entries WHERE number = ?", (number,)).fetchall()
    if how == "missing":
        connection.execute("DROP TRIGGER never_delete")
        connection.execute("DELETE FROM entries WHERE number = ?", (number,))
        connection.execute(store.SCHEMA[3])
    connection.close()
    if how != "missing":
        new = text.replace('"time":"20', '"time":"19')
        assert new != text
        rewrite(path, number, new, hash_of(new) if "hash" in how else None)
        with pytest.raises(BudgetDamagedError):
            filled.reserve("fit", outcomes=[Loss.pure(0.1)])
    with pytest.raises(BudgetDamagedError):
        filled.verify(anchor if how == "missing" else None)


def test_a_last_entry_written_anew_is_found_by_an_anchor_or_a_process_that_saw_it(filled):
    anchor = filled.verify()
    kept = copy.copy(store._kept[filled.path])
    forge(filled, 5, loss=["0.0", "0.0"])
    assert filled.verify() != anchor
    with pytest.raises(BudgetDamagedError, match="set back or written anew"):
        filled.verify(anchor)
    assert filled.spent == 1.0
    store._kept[filled.path].chain, store._kept[filled.path].seen = kept.chain, kept.seen
    with pytest.raises(BudgetDamagedError, match="lacks entry 5"):
        filled.reserve("fit", outcomes=[Loss.pure(0.1)])


def test_an_older_copy_in_place_of_the_file_is_refused_by_who_saw_the_newer(path, budget, tmp_path):
    forget()
    shutil.copy(path, tmp_path / "old.db")
    spend(budget, 2.0)
    anchor = budget.verify()
    os.replace(tmp_path / "old.db", path)
    with pytest.raises(BudgetDamagedError, match="lacks entry"):
        budget.reserve("fit", outcomes=ONE)
    forget()
    with pytest.raises(BudgetDamagedError, match="set back"):
        budget.verify(anchor)


def test_another_file_of_the_same_name_is_not_this_budget(path, budget):
    spend(budget, 2.0)
    forget()
    path.unlink()
    with pytest.raises(BudgetStoreError, match="no budget at"):
        budget.reserve("fit", outcomes=ONE)
    assert not path.exists()
    Budget.open(path, dataset="ward-7", epsilon=3.0, delta=1e-6)
    with pytest.raises(BudgetDamagedError, match="replaced"):
        budget.reserve("fit", outcomes=ONE)


@pytest.mark.parametrize(
    "extra",
    ["TABLE more (x)", "VIEW more AS SELECT 1", "INDEX more ON entries (hash)",
     "TRIGGER more AFTER INSERT ON entries BEGIN SELECT 1; END"],
)  # fmt: skip
def test_a_file_with_anything_more_than_a_budget_is_refused(path, filled, extra):
    raw(path).execute(f"CREATE {extra}")
    with pytest.raises(BudgetDamagedError, match="other tables or triggers"):
        filled.reserve("fit", outcomes=[Loss.pure(0.1)])


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + b"\xff" * 5000, b"\0" * 10000])
def test_what_is_no_budget_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(BudgetStoreError):
        Budget.open(path, dataset="ward-7")


def test_folders_links_and_second_names_are_refused(tmp_path, path, budget):
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "folder").mkdir()
    for wrong in (tmp_path / "link.db", tmp_path / "folder", tmp_path, "/dev/null", tmp_path / "none" / "b.db"):
        for epsilon in (None, 3.0):
            with pytest.raises((BudgetStoreError, ParameterError)):
                Budget.open(wrong, dataset="ward-7", epsilon=epsilon, delta=1e-6)
    os.link(path, tmp_path / "second.db")
    with pytest.raises(BudgetStoreError, match="one name"):
        budget.reserve("fit", outcomes=ONE)


@pytest.mark.parametrize("hours", [-1, 10**6])
def test_entries_are_in_order_by_number_whatever_a_clock_says(budget, monkeypatch, hours):
    reservation, moment = budget.reserve("fit", outcomes=ONE), datetime.now(UTC)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return moment + timedelta(hours=hours)

    monkeypatch.setattr(chain, "datetime", Wrong)
    budget.reserve("by a wrong clock", outcomes=ONE)
    budget.settle(reservation, Loss.pure(0.5))
    monkeypatch.undo()
    budget.reserve("after it", outcomes=ONE)
    budget.verify()
    entries = budget.export()["entries"]
    assert [entry["number"] for entry in entries] == [*range(1, len(entries) + 1)]
    assert entries[-2]["time"] == entries[-3]["time"]  # how long a release took is told by nothing
    assert budget.spent == 0.5 + 2 * ONE[0].epsilon


def test_a_full_disk_refuses_the_release(budget):
    spend(budget, 0.1)
    connection = store._kept[budget.path].connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill():
        for _ in range(200):
            budget.reserve("x" * 200, outcomes=[Loss.pure(2.0**-20)])

    with pytest.raises(BudgetStoreError, match="full"):
        fill()
    budget.verify()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_refuses_the_release(path, budget):
    forget()
    path.chmod(stat.S_IRUSR)
    with pytest.raises(BudgetStoreError):
        budget.reserve("fit", outcomes=ONE)


def test_a_file_of_immense_size_is_refused(path, budget):
    forget()
    os.truncate(path, store.MOST_BYTES + 1)
    with pytest.raises(BudgetStoreError, match="larger"):
        budget.reserve("fit", outcomes=ONE)


@pytest.mark.slow
def test_cost_per_release_does_not_grow_with_the_history(path, monkeypatch):
    """Counted in calls of functions and steps of SQLite's machine, which are the same on every machine."""
    done, connect = Counter(), store.Store._connect

    def watched(self, mode):
        connection = connect(self, mode)
        connection.set_progress_handler(lambda: done.update(steps=1), 1)
        return connection

    def cost_of_one_release():
        done.clear()
        sys.setprofile(lambda frame, event, argument: done.update(calls=event in ("call", "c_call")))
        try:
            spend(pickle.loads(pickle.dumps(budget)))
        finally:
            sys.setprofile(None)
        return dict(done)

    monkeypatch.setattr(store.Store, "_connect", watched)
    budget = Budget.open(path, dataset="busy", epsilon=1e6)
    costs = []
    for n_releases in (20, 200):
        for _ in range(n_releases):
            spend(budget)
        costs.append(cost_of_one_release())
    few, many = costs
    # Less than one for each of the 180 releases between.
    assert many["steps"] < few["steps"] + 100
    assert many["calls"] < few["calls"] + 100
