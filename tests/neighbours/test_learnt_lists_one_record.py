"""One record with any value moves one count of a column that is to have a list, by one, and nothing else that is seen."""

import sqlite3
from contextlib import closing

import pandas as pd
from tests.neighbours.odd_values import OBJECTS
from tests.records.holders import objects

from dpforest import Categorical, Classes, Schema
from dpforest.records.doors import seal_elsewhere
from dpforest.records.vault import Vault

SCHEMA = Schema({"town": Categorical(learn=True)}, Classes([0, 1]), n_rows=40)
TOWNS = ["a", "b", 1, None] * 10


def table(more=(), label=1):
    return pd.DataFrame({"town": objects([*TOWNS, *more])}), [0, 1] * 20 + [label] * len(more)


def counts(more=()):
    return Vault.seal(*table(more), SCHEMA).count_texts("town")._value


def test_an_odd_value_adds_one_to_one_count_at_most():
    before = counts()
    assert before == {"a": 10, "b": 10, "1": 10} == Vault.seal(*table(["a"], label=7), SCHEMA).count_texts("town")._value
    for name, odd in OBJECTS.items():
        after = counts([odd])
        moved = {text: after[text] - before.get(text, 0) for text in after}
        assert before.keys() <= after.keys(), name
        assert sorted(moved.values())[-2:-1] in ([0], []), name
        assert sum(moved.values()) in (0, 1), name


def test_a_collation_does_not_name_texts_after_that_of_one_record(tmp_path):
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
        connection.execute("CREATE TABLE t (town TEXT COLLATE NOCASE, target INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [("ROME", 0), *[("rome", 1)] * 39])
    with closing(seal_elsewhere(f"sqlite:///{tmp_path}/t.db::t", SCHEMA, 1)) as vault:
        assert vault.count_texts("town")._value == {"ROME": 1, "rome": 39}
