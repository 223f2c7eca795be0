"""What tests of budgets do to a store: spend, forget what this process knows, and go around the library."""

import json
import multiprocessing
import sqlite3

from dpforest.budget import Loss, store
from dpforest.budget.chain import Chain, hash_of

ONE = [Loss.pure(1.0)]


def spend(budget, epsilon=1.0, what="fit"):
    budget.settle(budget.reserve(what, outcomes=[Loss.pure(epsilon)]), Loss.pure(epsilon))


def close_stores():
    """Close the connections to all stores; what was read of them is still known."""
    for kept in store._kept.values():
        store._close(kept)


def forget():
    """What a new process knows of stores: nothing."""
    close_stores()
    store._kept.clear()


def raw(path):
    """A connection of someone who goes around the library."""
    forget()
    return sqlite3.connect(path, isolation_level=None)


def joined(*works):
    """Wait for processes that were forked for these works, and that all end well."""
    children = [multiprocessing.get_context("fork").Process(target=work) for work in works]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * len(works)


def rewrite(path, number, text, digest=None):
    """Change an entry as someone would who knows SQLite."""
    connection = raw(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE entries SET text = ? WHERE number = ?", (text, number))
    if digest is not None:
        connection.execute("UPDATE entries SET hash = ? WHERE number = ?", (digest, number))
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def forge(budget, number, **wrong):
    """Write an entry anew with other values and the hash that belongs to them."""
    entry = {name: value for name, value in budget.export()["entries"][number - 1].items() if name != "hash"}
    text = json.dumps(entry | wrong, sort_keys=True, separators=(",", ":"))
    rewrite(budget.path, number, text, hash_of(text))


def become_older(monkeypatch):
    """Read as earlier versions do, which look the kind of an entry up among three."""

    def count(self, entry, found):
        {"create": self._create, "reserve": self._reserve, "settle": self._settle}[entry["kind"]](entry, found)

    forget()
    monkeypatch.setattr(Chain, "count", count)
