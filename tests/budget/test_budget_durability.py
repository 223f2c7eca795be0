"""What was reserved is in the one file, whatever happens to the files beside it."""

import itertools
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.budget.stores import ONE, forget, joined
from tests.torture.samples import with_log

from dpforest import Budget
from dpforest.budget import Loss, store
from dpforest.errors import BudgetStoreError

pytestmark = pytest.mark.slow

PAGE = 4096


def copied(path, place, *endings):
    """A copy as a machine that lost its power may leave it: with these of the files beside it."""
    for ending in ("", *endings):
        shutil.copy(f"{path}{ending}", f"{place}{ending}")
    return Budget.open(place, dataset="ward-7")


def beside(path):
    return sorted(item.name for item in path.parent.iterdir() if item.name.startswith(path.name))


def test_a_release_is_in_the_one_file_when_it_begins_and_ends(path, budget, tmp_path):
    for before in (0.0, 0.5, 1.0):
        reservation = budget.reserve("fit", outcomes=ONE)
        assert beside(path) == [path.name]
        assert copied(path, tmp_path / f"begun-{before}.db").spent == before + 1
        budget.settle(reservation, Loss.pure(0.5))
        assert copied(path, tmp_path / f"ended-{before}.db").spent == before + 0.5


def test_every_connection_waits_for_the_disk_and_for_the_end_of_the_journal(budget):
    assert budget.spent == 0.0
    connection = store._kept[budget.path].connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


# Stores of earlier versions, with a log beside them


def test_a_store_with_a_log_is_taken_over_with_all_its_entries(path, tmp_path):
    with with_log():
        budget = Budget.open(path, dataset="ward-7", epsilon=3.0)
        budget.reserve("fit", outcomes=ONE)
        place = tmp_path / "taken.db"
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{place}{ending}")
    forget()
    taken = Budget.open(place, dataset="ward-7")
    assert taken.spent == 1.0
    taken.reserve("fit", outcomes=ONE)
    assert beside(place) == [place.name]
    assert copied(place, tmp_path / "copy.db").spent == 2.0
    taken.verify()


def test_a_log_that_others_use_is_waited_for(path, monkeypatch):
    with with_log():
        Budget.open(path, dataset="ward-7", epsilon=3.0).reserve("fit", outcomes=ONE)
    forget()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("SELECT * FROM entries").fetchall()
    monkeypatch.setattr(store, "SECONDS_TO_WAIT", 0.2)
    with pytest.raises(BudgetStoreError, match="in use by others"):
        Budget.open(path, dataset="ward-7")
    other.close()
    assert Budget.open(path, dataset="ward-7").spent == 1.0


def test_processes_that_take_over_at_once_all_succeed(path):
    with with_log():
        Budget.open(path, dataset="ward-7", epsilon=3.0).reserve("fit", outcomes=ONE)
        forget()
    joined(*[lambda: Budget.open(path, dataset="ward-7").reserve("fit", outcomes=[Loss.pure(0.25)])] * 4)
    assert Budget.open(path, dataset="ward-7").spent == 2.0


# Crashes while an entry is written


def written(budget):
    """The file before and after one more entry."""
    before = Path(budget.path).read_bytes()
    budget.reserve("x" * 180, outcomes=[Loss.pure(0.001)])
    return before, Path(budget.path).read_bytes()


@pytest.mark.parametrize("n_before", range(24))  # among them those where a page is full and another begins
def test_half_written_pages_without_their_journal_lose_no_entry(path, n_before, tmp_path):
    """Whatever part of the changed pages is on the disk: as before, with the new entry, or found to be damaged."""
    budget = Budget.open(path, dataset="ward-7", epsilon=3.0)
    for _ in range(n_before):
        written(budget)
    before, after = written(budget)
    starts = range(0, len(after), PAGE)
    pages = {k: after[k : k + PAGE] for k in starts if after[k : k + PAGE] != before[k : k + PAGE]}
    seen = set()
    for chosen in itertools.product([False, True], repeat=len(pages)):
        torn = bytearray(before)
        for (k, page), is_there in zip(pages.items(), chosen, strict=True):
            if is_there:
                torn.extend(bytes(max(0, k + PAGE - len(torn))))
                torn[k : k + PAGE] = page
        place = tmp_path / "torn.db"
        place.write_bytes(torn)
        forget()
        try:
            found = Budget.open(place, dataset="ward-7")
            n_entries = len(found.history())
            found.verify()
        except BudgetStoreError:
            seen.add("damaged")
            continue
        assert n_entries in (n_before, n_before + 1)
        seen.add(n_entries - n_before)
    assert {0, 1} <= seen


def test_a_transaction_that_was_cut_short_is_undone(path, budget, tmp_path):
    budget.reserve("fit", outcomes=ONE)
    forget()
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
    writer.execute("BEGIN IMMEDIATE")
    for number in range(3, 200):
        writer.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, "x" * 300, "y" * 64))
    assert Path(f"{path}-journal").stat().st_size > PAGE
    assert path.read_bytes() != b""
    place = tmp_path / "cut.db"
    cut = copied(path, place, "-journal")
    assert cut.spent == 1.0
    cut.verify()
    assert beside(place) == [place.name]
    writer.execute("ROLLBACK")
    writer.close()
