"""A smaller form of ``make torture``: kills, races, full and read-only disks, stores that vanish."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.budget.stores import close_stores
from tests.torture import victims

from dpforest import Budget
from dpforest.budget import Loss
from dpforest.errors import BudgetStoreError
from dpforest.privacy.gate import Gate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Forks need a process without threads of a test runner.
IN_A_PROCESS = """
import json
from tests.torture import victims
from tests.torture.victims import in_a_folder
print(json.dumps({
    "kills": in_a_folder(victims.kills, 20),
    "races": [in_a_folder(victims.race, 8, n, n_parts=parts) for n, parts in ((1, 0), (3, 0), (3, 2))],
    "grown": in_a_folder(victims.memory_of_fits, 30),
}))
"""


@pytest.fixture(scope="module")
def found():
    """What became of fits in processes that were killed, that raced, and that fitted again and again."""
    ended = subprocess.run([sys.executable, "-c", IN_A_PROCESS], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


def test_a_killed_fit_loses_no_charge_and_leaves_no_partial_model(found):
    assert found["kills"]["runs"] == 20
    assert found["kills"]["released"] > 0


def test_processes_that_race_for_the_last_epsilon_never_overspend(found):
    assert found["races"] == [1, 3, 3]


def test_many_fits_in_one_process_do_not_grow(found):
    assert found["grown"] < 10 << 20


@pytest.fixture
def releases(monkeypatch):
    """What passed the gate during a test."""
    seen = []
    for name, noted in victims.noted_releases(lambda: seen.append(1)).items():
        monkeypatch.setattr(Gate, name, noted)
    return seen


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("a disk can be mounted by root only, where the system lets it")
    yield place
    close_stores()
    subprocess.run(["umount", str(place)], check=True)


def fill(folder):
    with open(folder / "ballast", "wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            return


def test_a_full_disk_stops_fits_before_they_begin_and_loses_nothing(disk, releases):
    budget = Budget.open(disk / "b.db", dataset="ward-7", epsilon=1e6)
    victims.fit(budget)
    fill(disk)
    n_refused, n_fits = 0, 1
    for _ in range(40):
        before = len(releases)
        try:
            victims.fit(budget)
            n_fits += 1
        except BudgetStoreError as error:
            n_refused += "Make room" in str(error)
            # A reservation that fits and a settlement that does not: the charge stands, and nothing more is released.
            n_fits += len(releases) > before
    assert n_refused > 0
    (disk / "ballast").unlink()
    budget.verify()
    assert len(budget.history()) == n_fits
    victims.fit(budget)


def test_a_file_that_is_mounted_alone_is_refused(disk, tmp_path, releases):
    """Into a container, say: the journal would be written beside the mount, where nobody else sees it."""
    for name, folder in (("same", tmp_path), ("other", disk)):
        budget = Budget.open(folder / f"{name} one.db", dataset="ward-7", epsilon=1.0)
        close_stores()
        place = tmp_path / f"mounted {name}.db"
        place.touch()
        subprocess.run(["mount", "--bind", budget.path, str(place)], check=True)
        try:
            with pytest.raises(BudgetStoreError, match="Mount its folder"):
                victims.fit(Budget.open(place, dataset="ward-7"))
        finally:
            subprocess.run(["umount", str(place)], check=True)
    assert not releases


def test_a_read_only_disk_stops_fits_before_they_begin(disk, releases):
    budget = Budget.open(disk / "b.db", dataset="ward-7", epsilon=1e6)
    close_stores()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(BudgetStoreError, match=r"read-only|cannot be opened"):
        victims.fit(budget)
    with pytest.raises(BudgetStoreError):
        Budget.open(disk / "other.db", dataset="ward-7", epsilon=1.0)
    assert not releases
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    victims.fit(budget)
    assert len(budget.history()) == 1


def removed(path):
    for name in path.parent.glob(f"{path.name}*"):
        name.unlink()


def overwritten(path):
    path.write_bytes(b"\xa5" * path.stat().st_size)


def emptied(path):
    path.write_bytes(b"")


def set_back(path):
    close_stores()
    removed(path)
    shutil.copy(path.parent / "older", path)


def other_one(path):
    removed(path)
    Budget.open(path, dataset="ward-7", epsilon=1e6)


DAMAGE = {"deleted": removed, "emptied": emptied, "overwritten": overwritten, "set back": set_back, "another": other_one}


@pytest.fixture
def budget(tmp_path):
    budget = Budget.open(tmp_path / "b.db", dataset="ward-7", epsilon=1e6)
    budget.settle(budget.reserve("first", outcomes=[Loss.pure(1.0)]), Loss.pure(1.0))
    close_stores()
    shutil.copy(budget.path, tmp_path / "older")
    budget.settle(budget.reserve("second", outcomes=[Loss.pure(1.0)]), Loss.pure(1.0))
    return budget


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE)
def test_a_store_that_is_lost_in_the_middle_of_a_fit_is_told(budget, harm):
    steps = []

    def once(step):
        if not steps:
            harm(Path(budget.path))
        steps.append(step)

    with pytest.raises(BudgetStoreError):
        victims.fit(budget, progress=once)
    assert steps
    with pytest.raises(BudgetStoreError):
        victims.fit(budget)
