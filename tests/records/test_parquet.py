"""A forest from a Parquet file is the forest from the same table in memory, and a file that will not do is refused early."""

import errno
import os
import shutil
import tempfile
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from threading import current_thread

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.encoded import opened, rows_of
from tests.support.planted import assert_same_forest
from tests.support.strategies import MIXED, mixed_table, recipe_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import SchemaError, TableError
from dpforest.mechanisms import Entropy
from dpforest.parts.criteria import SquaredError
from dpforest.parts.leaves import TwoBinMean
from dpforest.records import scan
from dpforest.records.doors import seal_elsewhere
from dpforest.records.sources.arrow import File
from dpforest.records.vault import Vault
from dpforest.schema.domain import Domain, Grid

N_ROWS = 230
SECRET = "zebra-secret-value"
CLASSES = Schema(MIXED, Classes([0, 1]))
BOUNDED = Schema(MIXED, Bounded(0, 1))
SMALL = recipe_of(n_trees=3, depth=3)
SMALL_MEANS = recipe_of(n_trees=3, depth=3, criterion=SquaredError(), leaf=TwoBinMean())


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(scan, "BATCH_ROWS", 50)


def plain(schema=CLASSES, n_rows=N_ROWS):
    X, labels, means = mixed_table(n_rows, seed=7)
    target = labels if isinstance(schema.target, Classes) else means
    columns = {"x": X[:, 0].astype(float), "k": X[:, 1].astype(float), "c": X[:, 2].astype(str), "d": X[:, 3].astype(int)}
    return pa.table(columns | {schema.target.name: np.asarray(target)})


def changed(table, name, change):
    index = table.column_names.index(name)
    return table.set_column(index, name, change(table.column(index)))


def every_third_null(column):
    return pc.if_else(pa.array(np.arange(len(column)) % 3 == 0), pa.scalar(None, column.type), column.combine_chunks())


TABLES = {
    "plain": lambda: plain(),
    "null in every column": lambda: plain().from_arrays(
        [every_third_null(column) for column in plain().columns], names=plain().column_names
    ),
    "large text": lambda: changed(plain(), "c", lambda column: column.cast(pa.large_string())),
    "text by views": lambda: changed(plain(), "c", lambda column: column.cast(pa.string_view())),
    "nothing but missing": lambda: changed(plain(), "x", lambda column: pa.nulls(len(column))),
    "dictionaries": lambda: changed(plain(), "c", lambda column: column.combine_chunks().dictionary_encode()),
    "single precision": lambda: changed(plain(), "x", lambda column: column.cast(pa.float32())),
    "bytes for categories": lambda: changed(plain(), "d", lambda column: column.cast(pa.int8())),
    "booleans for categories": lambda: changed(plain(), "d", lambda column: column.cast(pa.bool_())),
    "unlisted categories": lambda: changed(plain(), "c", lambda column: pc.replace_substring(column, "b", "unlisted")),
    "unlisted labels": lambda: changed(plain(), "target", lambda column: pa.array(np.arange(len(column)) % 4)),
    "no listed label": lambda: changed(plain(), "target", lambda column: pa.array(np.full(len(column), 9))),
    "columns outside the schema": lambda: plain().append_column("id", pa.array([SECRET] * N_ROWS)),
    "columns in another order": lambda: plain().select(["d", "target", "c", "x", "k"]),
    "no rows": lambda: plain().slice(0, 0),
    "one row": lambda: plain().slice(0, 1),
}


def one_group(path, table):
    pq.write_table(table, path)


def many_groups(path, table):
    pq.write_table(table, path, row_group_size=37)


def empty_groups(path, table):
    with pq.ParquetWriter(path, table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 60), table.slice(0, 0), table.slice(60), table.slice(0, 0)):
            writer.write_table(part)


def folder(path, table):
    path.mkdir()
    edges = [0, 0, len(table) // 3, len(table)]
    for index, (start, stop) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(start, stop - start), path / f"part-{index}.parquet", row_group_size=41)


WRITERS = {"one row group": one_group, "many": many_groups, "some empty": empty_groups, "a folder": folder}


def written(tmp_path, table, write=many_groups):
    tmp_path.mkdir(exist_ok=True)
    write(tmp_path / "t.parquet", table)
    return tmp_path / "t.parquet"


def model_of(schema=CLASSES, **parameters):
    is_class = isinstance(schema.target, Classes)
    kind, recipe = (DPForestClassifier, SMALL) if is_class else (DPForestRegressor, SMALL_MEANS)
    return kind(schema, **({"epsilon": 3.0, "recipe": recipe, "random_state": 11} | parameters))


def in_memory_of(path, schema=CLASSES):
    table = pq.read_table(path, columns=[*schema.features, schema.target.name])
    return table.drop_columns([schema.target.name]), table.column(schema.target.name)


@pytest.mark.parametrize("table", ["plain", "null in every column", "unlisted labels", "dictionaries", "no rows"])
def test_a_printed_algorithm_gets_the_same_rows_from_a_file(tmp_path, table):
    path = written(tmp_path, TABLES[table]())
    rows = rows_of(seal_elsewhere(path, CLASSES, 1))
    X, y = in_memory_of(path)
    expected = rows_of(Vault.seal(X, y, CLASSES))
    np.testing.assert_array_equal(rows.target, expected.target)
    for column, own in zip(rows.columns, expected.columns, strict=True):
        np.testing.assert_array_equal(column, own)


def test_a_path_may_be_text_and_threads_do_not_matter(tmp_path):
    path = written(tmp_path, plain())
    for n_jobs in (1, 2):
        model = model_of(n_jobs=n_jobs).fit(str(path))
        assert_same_forest(model.forest_, model_of().fit(path).forest_)
        assert (model.n_features_in_, model.feature_names_in_.tolist()) == (4, [*MIXED])


def secret():
    return changed(plain(), "c", lambda column: pa.array([SECRET] * N_ROWS))


def with_column(name, change):
    """A file of which one column is another; ``change`` is a type, or the values."""
    cast = (lambda column: column.cast(change)) if isinstance(change, pa.DataType) else lambda column: pa.array(change)
    return lambda tmp: written(tmp, changed(secret(), name, cast))


def write_damaged(tmp_path):
    content = bytearray(written(tmp_path, secret()).read_bytes())
    content[-40:-8] = b"\xff" * 32  # in the footer
    (tmp_path / "t.parquet").write_bytes(bytes(content))
    return tmp_path / "t.parquet"


def in_folder(tmp_path, *tables):
    (tmp_path / "f").mkdir()
    for index, table in enumerate(tables):
        pq.write_table(table, tmp_path / "f" / f"{index}.parquet")
    return tmp_path / "f"


REFUSED = {
    "a missing feature": (lambda tmp: written(tmp, secret().drop_columns(["x"])), "'x'"),
    "a missing target": (lambda tmp: written(tmp, secret().drop_columns(["target"])), "'target'"),
    "text for numbers": (
        with_column("x", pa.string()), "'x' is declared numeric, but it was given as String. Convert the column",
    ),
    "a folder of which one file has text for numbers": (
        lambda tmp: in_folder(tmp, plain(), changed(secret(), "x", lambda column: column.cast(pa.string()))),
        "1.parquet: Column 'x' is declared numeric",
    ),
    "a folder of which one file lacks a column": (
        lambda tmp: in_folder(tmp, plain(), plain().drop_columns(["k"])), "'k' of the schema is missing from .*1.parquet",
    ),
    "a folder of which one file is none": (
        lambda tmp: (in_folder(tmp, plain()) / "notes.txt").write_text(SECRET) and tmp / "f", "cannot be read",
    ),
    "a folder of which one file has a column twice": (
        lambda tmp: in_folder(tmp, plain(), plain().append_column("x", plain().column("x"))),
        "'x' of the schema is more than once in",
    ),
    "numbers for text": (with_column("c", [987654.5] * N_ROWS), "'c' holds numbers"),
    "no such path": (lambda tmp: tmp / "none.parquet", "There is no file"),
    "an empty file": (lambda tmp: (tmp / "t.parquet").touch() or tmp / "t.parquet", "cannot be read"),
    "a damaged file": (write_damaged, "cannot be read"),
    "an empty folder": (lambda tmp: (tmp / "f").mkdir() or tmp / "f", "no Parquet file in"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_will_not_do_is_refused_before_anything_is_charged(tmp_path, make, words):
    model, path = model_of(recipe="auto"), make(tmp_path)
    with pytest.raises(TableError, match=words) as caught:
        model.fit(path)
    assert SECRET not in str(caught.value)
    assert "987654" not in str(caught.value)
    assert str(N_ROWS) not in str(caught.value).replace(str(tmp_path), "")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert not hasattr(model, "ledger_")
    assert not hasattr(model, "forest_")


def test_what_does_not_go_with_a_file_is_refused_before_anything_is_charged(tmp_path):
    dates, text = pa.array(np.zeros(N_ROWS, dtype="M8[s]")), pa.array(["0.5"] * N_ROWS)
    bounded = [changed(plain(BOUNDED), "target", lambda _, other=other: other) for other in (dates, text)]
    wrong = [(model_of(BOUNDED), table, None, TableError, "declared bounded") for table in bounded]
    wrong += [(model_of(), plain(), np.zeros(N_ROWS), ValueError, "pass y with a table in memory")]
    wrong += [(DPForestClassifier(schema), plain(), None, SchemaError, None) for schema in ("assume-public", None, BOUNDED)]
    for model, table, y, error, words in wrong:
        path = written(tmp_path, table)
        with pytest.raises(error, match=words):
            model.fit(path, y)
        assert not hasattr(model, "ledger_")


def broken_page(path, column):
    """Spoil the first page of a column, which only reading it shows."""
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 24] = b"\xff" * 24
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("column", [0, 4], ids=["feature", "target"])
def test_a_damaged_page_is_an_error_without_values_and_what_was_charged_stays(tmp_path, column):
    path = written(tmp_path, secret())
    broken_page(path, column)
    model = model_of(recipe="auto")
    with pytest.raises(TableError, match="damaged") as caught:
        model.fit(path)
    assert caught.value.__suppress_context__
    assert SECRET not in str(caught.value)
    assert not hasattr(model, "forest_")
    assert model.ledger_.n_entries == (1 if column == 0 else 0)  # the number of rows comes from the target alone


def touched(path):
    """Have a file seem written a second later, as it would after a second."""
    os.utime(path / "part-1.parquet", ns=(0, (path / "part-1.parquet").stat().st_mtime_ns + 10**9))


def turned(path):
    """Write the rows of a file in another order."""
    pq.write_table(pq.read_table(path / "part-1.parquet")[::-1], path / "part-1.parquet", row_group_size=41)
    touched(path)


def replaced(path):
    """Put another file in the place of one, of the same size and time."""
    shutil.copy2(path / "part-1.parquet", path.parent / "other")
    os.replace(path.parent / "other", path / "part-1.parquet")


def added(path):
    shutil.copy(path / "part-1.parquet", path / "part-9.parquet")


def taken(path):
    (path / "part-0.parquet").unlink()


@pytest.mark.parametrize("change", [turned, replaced, added, taken])
def test_a_table_that_changes_between_two_passes_ends_the_fit_and_what_was_charged_stays(tmp_path, monkeypatch, change):
    path, model, encode = written(tmp_path, secret(), folder), model_of(recipe="auto"), Vault.encode

    def late(vault, *arguments):
        change(path)
        return encode(vault, *arguments)

    monkeypatch.setattr(Vault, "encode", late)
    with pytest.raises(TableError, match=r"was changed while .* What was charged stays charged") as caught:
        model.fit(path)
    assert SECRET not in str(caught.value)
    assert model.ledger_.n_entries == 1


def test_a_table_that_changes_while_it_is_read_ends_the_fit(tmp_path):
    path = written(tmp_path, plain(), folder)
    with pytest.raises(TableError, match="was changed while"):
        model_of().fit(path, progress=lambda step: touched(path) if step.startswith("reading the table: 5 ") else None)


@pytest.fixture
def spill(tmp_path, monkeypatch):
    index = tmp_path / "spill"
    index.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(index))
    return index


def test_codes_are_spilled_to_a_file_without_a_name_and_are_gone_afterwards(tmp_path, spill):
    path, maps, seen = written(tmp_path, plain()), Path("/proc/self/maps"), []

    def look(step):
        assert not list(spill.iterdir())
        seen.append(maps.exists() and str(spill) in maps.read_text())

    model_of().fit(path, progress=look)
    assert not list(spill.iterdir())
    if maps.exists():
        assert any(seen)  # they were there
        assert str(spill) not in maps.read_text()


@pytest.mark.parametrize("when", ["reading the table: 5 %", "encoded", "level 2 of 3"])
def test_a_fit_that_fails_in_the_middle_leaves_no_file(tmp_path, spill, when):
    path = written(tmp_path, plain())

    def stop(step):
        if step == when:
            raise KeyboardInterrupt

    model = model_of()
    with pytest.raises(KeyboardInterrupt):
        model.fit(path, progress=stop)
    assert not list(spill.iterdir())
    assert not hasattr(model, "forest_")
    assert (model.ledger_.n_entries > 0) == when.startswith("level")


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path, spill, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    model = model_of()
    with pytest.raises(TableError, match=r"TMPDIR") as caught:
        model.fit(written(tmp_path, plain()))
    assert str(spill) in str(caught.value)
    assert caught.value.__suppress_context__
    assert model.ledger_.n_entries == 0
    assert not list(spill.iterdir())


@pytest.mark.parametrize("share", [1, Fraction(3, 8)], ids=["all rows", "a sample"])
def test_steps_of_progress_tell_neither_the_number_of_rows_nor_of_pieces(tmp_path, monkeypatch, share):
    told = set()
    for number, (table, write) in enumerate(product(("plain", "unlisted labels", "no rows"), WRITERS.values())):
        monkeypatch.setattr(scan, "MOST_HELD", [100, 1 << 20][number % 2])  # what is kept is in a file, and in memory
        path, steps = tmp_path / str(number), []
        path.mkdir()
        vault = seal_elsewhere(written(path, TABLES[table](), write), CLASSES, 1, progress=steps.append)
        vault = vault if share == 1 else vault.sampled(share, Entropy(5))
        vault.encode(Domain.of(CLASSES, Grid(9)))
        told.add(tuple((str(step), *map(partial(getattr, step), ("done", "total", "unit"), (0, 0, ""))) for step in steps))
    name = "reading the table"
    once = [(name, 0, 0, ""), *((f"{name}: {5 * k} %", k, 20, name) for k in range(1, 21))]
    assert told == {tuple(once * (1 if share == 1 else 2))}  # the file and, of a sample, what was kept of it


@pytest.mark.parametrize("n_codes", [256, 257])
def test_codes_of_one_and_two_bytes_are_spilled_alike(tmp_path, n_codes):
    schema = Schema({"x": Numeric(0, 1), "c": Categorical(range(n_codes - 2))}, Classes([0, 1]))
    table = pa.table({"x": np.linspace(0, 1, 400), "c": np.arange(400), "target": np.arange(400) % 3})
    path, domain = written(tmp_path, table), Domain.of(schema, Grid(9))
    counter = seal_elsewhere(path, schema, 1).encode(domain)
    expected = Vault.seal(*in_memory_of(path, schema), schema).encode(domain)
    assert counter._codes.dtype == expected._codes.dtype
    assert counter._codes.flags.c_contiguous
    assert counter._codes.tolist() == expected._codes.tolist()
    assert counter._target_codes.tolist() == expected._target_codes.tolist()


# --- threads ----------------------------------------------------------------------------------------------------------


def answers_of(path, n_jobs, domain):
    vault = seal_elsewhere(path, CLASSES, n_jobs)
    numbers = dict.fromkeys(np.flatnonzero(domain.is_numeric).tolist(), 0.5)
    counter, sample = vault.encode(domain), vault.sampled(Fraction(3, 8), Entropy(5)).encode(domain)
    assert opened(vault.count()) == counter._codes.shape[1]
    counts = opened(vault.count_around(domain, numbers))
    return counter._codes, counter._target_codes, counts, sample._codes, sample._target_codes


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_threads_that_read_row_groups_side_by_side_give_the_answers_of_one_and_of_memory(tmp_path, write):
    domain = Domain.of(CLASSES, Grid(bins=9))
    for table in TABLES:
        path = written(tmp_path / table, TABLES[table](), write)
        near = Vault.seal(*in_memory_of(path), CLASSES)
        one, *others = (answers_of(path, n_jobs, domain) for n_jobs in (1, 3))
        np.testing.assert_array_equal(one[0], near.encode(domain)._codes)
        np.testing.assert_array_equal(one[3], near.sampled(Fraction(3, 8), Entropy(5)).encode(domain)._codes)
        for other in others:
            for found, own in zip(one, other, strict=True):
                np.testing.assert_array_equal(found, own)


def test_progress_comes_from_the_thread_of_the_caller(tmp_path):
    threads, path = [], written(tmp_path, plain())
    vault = seal_elsewhere(path, CLASSES, 3, progress=lambda step: threads.append(current_thread()))
    vault.encode(Domain.of(CLASSES, Grid(9)))
    assert threads == 21 * [current_thread()]


@pytest.mark.parametrize("declared", [N_ROWS - 1, N_ROWS + 1])
def test_a_file_that_declares_another_number_of_rows_than_it_has_is_damaged(tmp_path, monkeypatch, declared):
    monkeypatch.setattr(File, "n_rows", declared)
    vault = seal_elsewhere(written(tmp_path, plain(), one_group), CLASSES, 1)
    domain = Domain.of(CLASSES, Grid(9))
    for ask in (vault.count, lambda: vault.encode(domain), lambda: vault.sampled(Fraction(1), Entropy())):
        with pytest.raises(TableError, match="damaged"):
            ask()
