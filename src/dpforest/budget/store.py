"""The file that holds the entries of budgets: SQLite, append-only, durable. Data, never code; public values only.

Every entry is on the disk, in the one file, before whoever wrote it goes on. While an entry is written the pages that it
changes are kept in a journal beside the file; it is deleted when the entry is there.
"""

import os
import random
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpforest.budget.chain import Chain
from dpforest.errors import BudgetDamagedError, BudgetStoreError

SECONDS_TO_WAIT = 60.0
MOST_BYTES = 1 << 28
MOST_BYTES_OF_AN_ENTRY = 1 << 16
SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, text TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER only_append BEFORE INSERT ON entries WHEN NEW.number IS NOT "
    "(SELECT coalesce(max(number), 0) + 1 FROM entries) BEGIN SELECT RAISE(ABORT, 'entries follow each other'); END",
    "CREATE TRIGGER never_change BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries never change'); END",
    "CREATE TRIGGER never_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END",
)
# A file may come from anywhere: nothing in it is run, and its pages are not trusted. An entry is on the disk, and so is that
# its journal is gone, when it is entered. A file of an earlier version may have entries in a log beside it: they are put in
# the file, and the log goes.
PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "synchronous = EXTRA", "journal_mode = DELETE")
Append = Callable[[dict[str, Any]], tuple[int, str]]


@dataclass
class _Kept:
    """What this process knows of a file: which one it is, its checked entries, and a connection to it."""

    identity: tuple[int, int]
    chain: Chain = field(default_factory=Chain)
    seen: tuple[int, str] = (0, "")  # number and hash of the last entry that was checked
    connection: sqlite3.Connection | None = None


# All handles of a process share what it has checked, so that a clone does not check all entries again.
_kept: dict[str, _Kept] = {}
_lock = threading.RLock()


def _before_fork() -> None:
    """Close all connections before a fork: none may cross it, both sides open their own."""
    _lock.acquire()
    for kept in _kept.values():
        _close(kept)


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)


class Store:
    """The entries in one file. Names the file and holds nothing of it."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def is_absent(self) -> bool:
        """Whether there is nothing at the path; an empty file is one that was never begun."""
        try:
            return os.lstat(self.path).st_size == 0
        except FileNotFoundError:
            return True
        except OSError as error:
            raise BudgetStoreError(f"The budget {self.path} cannot be reached: {error.strerror}.") from None

    def begin(self) -> None:
        """Make the file unless it is there; somebody else may do the same at the same time."""
        with _lock, self._errors():
            if not self.is_absent:
                self._identity()
            elif (kept := _kept.pop(self.path, None)) is not None:
                _close(kept)
            connection = self._connect("rwc")
            try:
                connection.execute("BEGIN IMMEDIATE")
                # Whoever made the file may have been stopped before there was a table in it.
                is_new = not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
                for statement in SCHEMA if is_new else ():
                    connection.execute(statement)
                connection.execute("COMMIT")
            finally:
                connection.close()
            if is_new:  # the name of a new file is on the disk only when its folder is
                folder = os.open(Path(self.path).parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)

    @contextmanager
    def reading(self) -> Iterator[Chain]:
        """The chain of entries as they are now, checked."""
        with self._transaction("BEGIN") as (kept, _):
            yield kept.chain

    @contextmanager
    def appending(self) -> Iterator[tuple[Chain, Append]]:
        """The chain of entries as they are now, and a function that adds one and gives its number and hash.

        While the block runs nobody else adds any. What it adds is on the disk when it has ended well, and else not there.
        """
        with self._transaction("BEGIN IMMEDIATE") as (kept, connection):

            def append(content: dict[str, Any]) -> tuple[int, str]:
                number, text, found = kept.chain.next_entry(content)
                if len(text) > MOST_BYTES_OF_AN_ENTRY // 2:
                    raise BudgetStoreError(f"An entry of a budget has at most {MOST_BYTES_OF_AN_ENTRY // 2} characters.")
                connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, found))
                return number, found

            yield kept.chain, append

    def entries(self) -> list[dict[str, Any]]:
        """Every entry, read from the file and checked anew, with its hash."""
        with self._transaction("BEGIN") as (_, connection):
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise BudgetDamagedError(f"The budget {self.path} is damaged: its pages do not fit together.")
            chain = Chain()
            rows = connection.execute("SELECT number, text, hash FROM entries ORDER BY number")
            return [{**chain.add(*row), "hash": row[2]} for row in rows]

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[tuple[_Kept, sqlite3.Connection]]:
        with _lock, self._errors():
            kept = self._open()
            connection = kept.connection
            assert connection is not None
            connection.execute(begin)
            try:
                self._catch_up(connection, kept)
                yield kept, connection
                # An entry in a file that is no longer at its path would be lost.
                self._check_file(kept.identity)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            self._check_file(kept.identity)

    def _open(self) -> _Kept:
        identity = self._identity()
        kept = _kept.get(self.path)
        if kept is not None and kept.identity != identity:
            _close(kept)
            # What was read of the old file must be in the new one too: see ``_catch_up``.
            kept.identity = identity
        if kept is None:
            if _is_mounted(self.path, identity[0]):
                raise BudgetStoreError(
                    f"{self.path} is mounted as a file of its own: its journal would be elsewhere, and undo what others "
                    "have written. Mount its folder."
                )
            kept = _Kept(identity)
        if kept.connection is None:
            kept.connection = self._connect("rw")
        _kept[self.path] = kept
        return kept

    def _catch_up(self, connection: sqlite3.Connection, kept: _Kept) -> None:
        """Check the entries that are new since the last time, and add them to the chain."""
        # Pages that this process remembers would hide that the file was overwritten.
        connection.execute("PRAGMA shrink_memory")
        statements = connection.execute("SELECT sql FROM sqlite_schema ORDER BY rowid LIMIT 9").fetchall()
        if statements != [(statement,) for statement in SCHEMA]:
            raise BudgetDamagedError(f"{self.path} is no budget: it holds other tables or triggers than a budget has.")
        number, head = kept.seen
        if number and connection.execute("SELECT hash FROM entries WHERE number = ?", (number,)).fetchone() != (head,):
            raise BudgetDamagedError(
                f"The budget {self.path} lacks entry {number}, which was there before: it was replaced or set back. "
                "Nothing is released on it; restore the file that holds all entries."
            )
        try:
            newer = "SELECT number, text, hash FROM entries WHERE number > ? ORDER BY number"
            for row in connection.execute(newer, (kept.chain.number,)):
                kept.chain.add(*row)
        except BaseException:
            kept.chain = Chain()  # an entry may be half counted
            raise
        kept.seen = kept.chain.number, kept.chain.head

    def _identity(self) -> tuple[int, int]:
        """Device and number of the file at the path; refuses what is no ordinary file of its own."""
        try:
            found = os.lstat(self.path)
        except OSError as error:
            raise BudgetStoreError(
                f"There is no budget at {self.path} ({error.strerror}). Nothing was released. Make one with an epsilon, or "
                "restore the file if there was one."
            ) from None
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise BudgetStoreError(f"{self.path} is a folder, a link or no ordinary file; a budget is a file with one name.")
        if found.st_size > MOST_BYTES:
            raise BudgetStoreError(f"{self.path} is larger than {MOST_BYTES} bytes, which no budget is.")
        if found.st_size == 0:
            raise BudgetDamagedError(f"{self.path} is empty: no budget, or one that was wiped. Restore it.")
        return found.st_dev, found.st_ino

    def _check_file(self, identity: tuple[int, int]) -> None:
        if self._identity() != identity:
            raise BudgetStoreError(f"The budget {self.path} was replaced while it was written to. Nothing was released.")

    def _connect(self, mode: str) -> sqlite3.Connection:
        end = time.monotonic() + SECONDS_TO_WAIT
        while True:
            connection = sqlite3.connect(
                f"{Path(self.path).as_uri()}?mode={mode}",
                uri=True, isolation_level=None, timeout=SECONDS_TO_WAIT, check_same_thread=False,
            )  # fmt: skip
            try:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_AN_ENTRY)
                for pragma in PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
                return connection
            except sqlite3.Error as error:
                connection.close()
                # SQLite does not wait where a log is to be put in the file and others use it.
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                    raise
                time.sleep(random.uniform(0.01, 0.05))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what goes wrong in SQLite as an error in words; after it the connection is not used again."""
        try:
            yield
        except (sqlite3.Error, UnicodeError, OSError) as error:
            kept = _kept.get(self.path)
            if kept is not None:
                _close(kept)
            name = getattr(error, "sqlite_errorname", "")
            for start, reason in REASONS.items():
                if name.startswith(start):
                    raise BudgetStoreError(f"The budget {self.path} {reason} Nothing was released.") from None
            raise BudgetDamagedError(
                f"The budget {self.path} is damaged or is none ({name or type(error).__name__}). Nothing was released; "
                "restore a copy that holds all entries."
            ) from None


REASONS = {
    "SQLITE_BUSY": f"was in use by others for {SECONDS_TO_WAIT:.0f} seconds. Try again.",
    "SQLITE_LOCKED": f"was in use by others for {SECONDS_TO_WAIT:.0f} seconds. Try again.",
    "SQLITE_FULL": "cannot be written to: the disk is full. Make room.",
    "SQLITE_READONLY": "cannot be written to: it, or its folder, is read-only. Ask for the right to write.",
    "SQLITE_CANTOPEN": "cannot be opened: its folder is not there, or nothing can be written to it.",
    "SQLITE_PERM": "cannot be opened: this user may not.",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error. Make room, or use another disk.",
}


def _is_mounted(path: str, device: int) -> bool:
    """Whether a file is mounted alone, such as into a container: others then see it, but not the journal beside it."""
    if device != os.stat(os.path.dirname(path)).st_dev:
        return True
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return False  # a system without such a list
    # Blanks in a path are written as \040.
    mounted = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in mounts.splitlines())
    return path in mounted


def _close(kept: _Kept) -> None:
    if kept.connection is not None:
        with suppress(sqlite3.Error):
            kept.connection.close()
        kept.connection = None
