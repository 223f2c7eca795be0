"""Which rows of a person a cluster uses: drawn where ids come together, whatever partition and type they come in."""

import math
import os
import pickle
import signal
import time
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.conformance import times_in_trees
from tests.neighbours.odd_values import HOSTILE
from tests.records.dask.pretended import Pretended, computed
from tests.support.columns import objects
from typer.testing import CliRunner

from dpforest import DPForestClassifier, load_model
from dpforest.cli.main import commands
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees
from dpforest.records.dask import partitions
from dpforest.records.dask.frames import Frames, divide_frame, keep_rows, known
from dpforest.records.dask.partitions import Folder, encode_files
from dpforest.records.dask.people import Draw, Found, drawn, home_of, n_homes_for
from dpforest.records.dask.replayed import OTHER_ROWS
from dpforest.records.dask.tasks import Failure
from dpforest.records.dask.vault import DaskVault
from dpforest.records.people import People, read_ids
from dpforest.schema import Categorical, Classes, Schema
from dpforest.schema.domain import Domain, Grid

NAMES = [f"r{row}" for row in range(120)]
SCHEMA = Schema({"record": Categorical(NAMES)}, Classes([0, 1], name="y"))
DOMAIN = Domain.of(SCHEMA, Grid(bins=1))
KEY = b"k" * 32


def names_in(table):
    """The names of the records of all partitions of a table."""
    made = computed(table.partitions(DOMAIN))
    return [NAMES[code] for partition in made for code in partition._counter._codes[0]]


# The same three persons and a fourth one, in files of other types; None is nobody.
IDS = [
    pa.array([row % 4 for row in range(30)], pa.int32()),
    pa.array([float(row % 4) if row % 5 else float("nan") for row in range(30)], from_pandas=False),
    pa.array([None if row % 7 == 0 else Decimal(row % 4) for row in range(30)], pa.decimal128(9, 2)),
    pa.array([row % 4 == 1 for row in range(30)], pa.bool_()),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 12)
    for place, ids in enumerate(IDS):
        names = NAMES[30 * place : 30 * (place + 1)]
        y = [2 if row % 6 == 3 else row % 2 for row in range(30)]
        pq.write_table(pa.table({"person": ids, "record": names, "y": y}), tmp_path / f"{place}.parquet", row_group_size=4)
    return Folder.at(tmp_path, SCHEMA, 1, "person")


def persons_of_rows():
    """The person of each record that is usable, by its name."""
    values = [value for ids in IDS for value in ids.to_pylist()]
    known = {name: value for name, value in zip(NAMES, values, strict=True) if value is not None and value == value}
    return {name: int(value) for name, value in known.items() if int(name[1:]) % 30 % 6 != 3}


@pytest.mark.parametrize(
    ("most", "n_threads"),
    [(10, 3), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(1, 1), (10, 100), (1000, 3)])],
)
def test_of_each_person_as_many_rows_are_used_as_may_be_wherever_they_lie(folder, most, n_threads):
    used, persons = names_in(folder.drawn(Draw("person", most, KEY), Pretended(n_threads))), persons_of_rows()
    assert len(used) == len({*used})
    assert Counter(persons[name] for name in used) == {
        person: min(size, most) for person, size in Counter(persons.values()).items()
    }


@pytest.mark.slow
def test_rows_are_drawn_by_the_key_and_are_the_same_when_a_partition_is_read_again(folder):
    client, draw = Pretended(), Draw("person", 10, KEY)
    whole = folder.drawn(draw, client)
    used = names_in(whole)
    assert used == names_in(whole) == names_in(folder.drawn(draw, client))
    # That ten of some twenty rows of four persons are the same by another key has a chance of less than 1e-15.
    assert used != names_in(folder.drawn(Draw("person", 10, b"l" * 32), client))
    partition = encode_files(whole._pieces[0], DOMAIN, 0, whole._masks[0])
    codes = partition._counter._codes
    for other in (pickle.loads(pickle.dumps(partition)), partition.fork()):
        np.testing.assert_array_equal(other.encoded()._counter._codes, codes)
    assert sum(int(count[0]) for count in computed(whole.counts())) == len(used)


def dataframe(ids):
    frame = pd.DataFrame({"person": ids, "record": NAMES[: len(ids)], "y": np.arange(len(ids)) % 2})
    return dd.from_pandas(frame, npartitions=3, sort=False)


def test_partitions_of_a_dataframe_keep_the_rows_that_are_used():
    ids = [("a", "b", "c", None)[row % 4] for row in range(60)]
    frames = Frames(dataframe(ids), SCHEMA, 1, "person").drawn(Draw("person", 10, KEY), Pretended())
    used = names_in(frames)
    assert Counter(ids[int(name[1:])] for name in used) == {"a": 10, "b": 10, "c": 10}
    assert sum(len(frame) for frame in frames._kept) == 30
    assert used == names_in(frames)


def test_a_partition_of_a_dataframe_in_another_order_is_refused():
    frames = Frames(dataframe([0, 0, 0, 1, 1, 1]), SCHEMA, 1, "person")
    frame = pd.DataFrame({"person": [0, 1, 1], "record": NAMES[:3], "y": [0, 1, 1]})
    digest, places = frames._reading.persons(frame, "person").digest(), np.array([0, 2])
    assert keep_rows(frames._reading, "person", frame, digest, places)["record"].tolist() == ["r0", "r2"]
    for other in (frame[::-1], frame[:2], frame.assign(y=[0, 2, 1]), frame.assign(person=[0, 1, 2])):
        assert keep_rows(frames._reading, "person", other, digest, places) == Failure(OTHER_ROWS)
        assert known(divide_frame(frames._reading, "person", 2, other), digest) == Failure(OTHER_ROWS)


@pytest.mark.parametrize("groups", ["nobody", "record", "y", 3, "since"])
def test_a_column_that_cannot_hold_ids_is_refused_before_anything_is_read(folder, tmp_path, groups):
    frame = pd.DataFrame({"person": [1], "record": ["r1"], "y": [0], "since": pd.to_datetime(["2024-01-01"])})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "one.parquet")
    for table in (str(tmp_path / "one.parquet"), dd.from_pandas(frame, npartitions=1)):
        with pytest.raises(TableError, match="groups"):
            DaskVault.seal(table, SCHEMA, Pretended(), 1, groups, People(2, Entropy()))


def test_equal_ids_have_one_home_on_every_worker_and_homes_are_not_too_many():
    ones = [1, 1.0, True, Decimal("1.00"), Fraction(1), complex(1), np.longdouble(1)]
    assert len({home_of(one, 1009) for one in ones}) == 1
    # By a digest: every process hashes text in its own way.
    assert [home_of(own, 1009) for own in ("a", "é", ("bytes", "61"), "\ud800")] == [919, 913, 919, 944]
    assert len({home_of(UUID(int=n), 8) for n in range(100)}) == 8
    # No more messages than a scheduler can bear.
    assert [n_homes_for(*sizes) for sizes in ((1, 8), (5, 8), (50, 8), (10_000, 64), (100_000, 64))] == [1, 5, 8, 1, 1]


def rows_by_name(column, n_homes=4):
    """The rows that are used of a column of ids whose rows have targets, if of each person one is."""
    found = Found.of([column], np.ones(len(column), dtype=bool))
    assert found.digest() != Found([*found.ids, 0], found.index, found.usable).digest()
    parts = found.divided(n_homes)
    pickle.dumps(parts)
    tasks = drawn([parts], Draw("person", 1, KEY), n_homes)
    return sorted(int(row) for rows in computed(tasks[0]) for row in rows)


ODD = HOSTILE | {
    "none": None, "nan": float("nan"), "list": [1], "tuple": ("a", float("nan")), "long": "x" * 10**6, "half": "\ud800",
    "bytes": b"\xff", "large": 2**4000, "signalling": Decimal("sNaN"), "unwritable": 10**5000,
    "unwritable fraction": Fraction(10**5000, 7),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_id_changes_nobody_elses_rows(odd):
    others = ["a", 7, "b", "a", UUID(int=7), 7.0, "b", "a"]
    assert [row for row in rows_by_name(objects([*others, ODD[odd], ODD[odd]])) if row < 8] == rows_by_name(objects(others))


def test_text_that_is_not_utf_8_is_nobody():
    offsets, data = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32)), pa.py_buffer(b"a\xffa")
    texts = pa.StringArray.from_buffers(3, offsets, data)
    found = Found.of([read_ids(pa.chunked_array([texts]))], np.ones(3, dtype=bool))
    assert found.ids == ["a"]
    assert found.index.tolist() == [0, -1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["files", "dataframe"])
def test_the_same_rows_are_used_after_a_worker_is_lost(folder, tmp_path, client, form):
    ids = [("a", "b", "c", None)[row % 4] for row in range(120)]
    table = str(tmp_path) if form == "files" else dataframe(ids)
    vault = DaskVault.seal(table, SCHEMA, client, 1, "person", People(10, Entropy()))
    assert vault.count()._value == [40 if form == "files" else 30]
    before = times_used(vault)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    np.testing.assert_array_equal(times_used(vault), before)
    assert vault.count()._value == [before.sum()]
    exact = {"epsilon": math.inf, "recipe": "jagannathan-2009", "n_trees": 1, "max_depth": 1}
    model = DPForestClassifier(SCHEMA, **exact, max_rows_per_person=10).fit_dask(table, client, groups="person")
    assert model.forest_.counts[0].sum() == before.sum()
    assert (model.privacy_.unit, model.privacy_.rows) == ("person", 10)


@pytest.mark.slow
def test_rows_in_another_order_after_a_worker_is_lost_end_a_fit_of_persons(client):
    def shuffled(y):
        order = np.random.default_rng().permutation(120)
        return pd.DataFrame({"person": order, "record": [f"r{row}" for row in order], "y": y})

    table = dd.from_delayed([dask.delayed(shuffled)(y) for y in (0, 1)], meta=shuffled(0)[:0])
    vault = DaskVault.seal(table, SCHEMA, client, 1, "person", People(1, Entropy()))
    assert vault.count()._value == [120]
    (home,) = client.who_has(vault._table._kept[1:])[vault._table._kept[1].key]
    os.kill(client.run(os.getpid)[home], signal.SIGKILL)
    while home in client.nthreads():
        time.sleep(0.1)
    with pytest.raises(TableError, match=r"another order.* What was charged stays charged"):
        times_used(vault)


@pytest.mark.slow
def test_the_command_protects_persons_on_a_cluster(folder, tmp_path, client):
    schema, out = tmp_path / "s.json", tmp_path / "m.dpf"
    SCHEMA.to_file(schema)
    table = tmp_path / "table"
    table.mkdir()
    for file in tmp_path.glob("*.parquet"):
        file.rename(table / file.name)
    words = ["fit", table, "--schema", schema, "--epsilon", 1, "--out", out, "--scheduler", client.scheduler.address]
    persons = ["--groups", "person", "--max-rows-per-person", 10]
    run = CliRunner().invoke(commands, [str(word) for word in [*words, *persons]])
    assert run.exit_code == 0, run.output
    assert load_model(out).privacy_.rows == 10


def times_used(vault):
    counter = vault.encode(DOMAIN)
    counter.deal(AllTrees(1), Entropy())
    return times_in_trees(counter, 1, 0)[0]
