"""Secret samples on every backend: each record by a coin of its own, and all answers about one sample.

Coins are fresh, so tests state chances: each fails about once in a million runs, if the samplers are sound.
"""

import itertools
import os
import pickle
import signal
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpforest.records.dask import partitions
from dpforest.records.dask.partitions import Folder, encode_files, keep
from dpforest.records.dask.tasks import Failure
from dpforest.records.dask.vault import DaskVault
from dpforest.records.parquet import ParquetVault
from dpforest.records.sql.vault import SqlVault
from tests.conformance.conformance import NAME, TwinSource, in_memory, times_in_trees, within
from tests.conformance.conformance_backends import backends
from tests.conformance.conformance_tables import dated, easy, nasty
from tests.records.dask.pretended import Pretended, computed
from tests.records.holders import LAYOUTS
from tests.support.columns import objects
from tests.support.encoded import opened

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema, get_recipe
from dpforest.common import threads
from dpforest.common.threads import Workers
from dpforest.errors import ParameterError
from dpforest.growing.target_scale import edges_around
from dpforest.mechanisms import Entropy
from dpforest.parts.secret_sample import SecretSample
from dpforest.records import parquet
from dpforest.records.base import AllTrees
from dpforest.records.columns import read_values
from dpforest.records.people import People
from dpforest.records.vault import Vault, taken
from dpforest.schema.domain import Domain, Grid

HALF, FIFTH, WHOLE = Fraction(1, 2), Fraction(1, 5), Fraction(1)
FEW_BINS = Grid(bins=5)


class Chosen(Entropy):
    """Coins that keep the records at the given places, and no others."""

    def __init__(self, kept):
        super().__init__()
        self._kept = np.asarray(kept, dtype=np.int64)

    def sample_records(self, draw, n_records, share):
        return self._kept


def names_in(source):
    """A mask of the records that are in a source, by the codes of the feature that names them."""
    domain = Domain.of(source.schema, Grid(bins=1))
    place = domain.names.index(NAME)
    counter = source.encode(domain)
    counter.deal(AllTrees(1), Entropy())
    times = times_in_trees(counter, 1, place)[0]
    assert times.max(initial=0) <= 1
    assert not times[-2:].any()  # "other" and missing
    return times[:-2].astype(bool)


# --- every backend ----------------------------------------------------------------------------------------------------

BACKENDS = ("memory", "parquet", "duckdb", "dask", "postgresql")
backend = backends(BACKENDS, slow=BACKENDS[1:])
# All kinds of targets, and tables with next to no records.
CASES = [
    ("mixed", "two classes"), ("mixed", "two classes, others no"), ("mixed", "bounded"), ("one row", "bounded"),
    ("empty", "four classes"), ("all left out", "two classes"), ("dates", "two classes"),
]  # fmt: skip
N_DRAWS = {"memory": 80, "parquet": 100}  # of the others fewer, which take longer


@pytest.mark.parametrize(("size", "kind"), CASES)
def test_all_answers_are_about_one_sample(backend, size, kind):
    table, schema = dated(40) if size == "dates" else nasty(size, kind)
    whole = TwinSource(backend.seal(table, schema), in_memory(table, schema))
    assert whole.can_sample
    twin = whole.sampled(HALF, Entropy())
    (n_records,) = opened(twin.count())
    domain = Domain.of(schema, FEW_BINS)
    numeric = np.flatnonzero(domain.is_numeric).tolist()
    assert sum(opened(twin.count_texts(NAME)).values()) == n_records
    if size != "dates":
        assert set(opened(twin.count_around(domain, dict.fromkeys(numeric, 0.5))).sum(axis=1)) == {n_records}
        twin.count_texts("town")
    for target in (schema.target, Bounded(0.1, 1.5, name="y")) if isinstance(schema.target, Bounded) else ():
        narrowed = twin.narrowed(target)
        assert opened(narrowed.count()) == [n_records]
        edges = edges_around(0.5, np.ldexp(1.0, np.arange(-9, 9)), target)
        assert opened(narrowed.count_targets(edges)).sum() == n_records
        again = narrowed.encode(domain)
        again.deal(AllTrees(1), Entropy())
        again.count_codes(0, np.ones((1, domain.n_features), dtype=bool))
    counter = twin.encode(domain)
    counter.deal(AllTrees(1), Entropy())
    counter.count_codes(0, np.ones((1, domain.n_features), dtype=bool))
    width = slice(None) if isinstance(schema.target, Classes) else 0
    assert opened(counter.count_nodes(0, 1))[0, width].sum() == n_records
    assert opened(whole.count()) >= n_records  # which is as it was
    whole.close()


def test_each_record_is_in_a_sample_as_often_as_its_share_says_and_one_without_a_target_never(backend):
    table, schema = nasty("mixed", "two classes")
    has_target = np.isin(table.column("y").to_pylist(), schema.target.labels)
    n_draws, n_records, share = N_DRAWS.get(backend.name, 16), int(has_target.sum()), 0.2
    assert 10 < n_records < len(has_target)
    source = backend.seal(table, schema)
    times = np.sum([names_in(source.sampled(FIFTH, Entropy())) for _ in range(n_draws)], axis=0)
    assert not times[~has_target].any()
    assert within(times[has_target], n_draws, share, n_records + 1)
    assert within(times.sum(), n_draws * n_records, share, n_records + 1)
    np.testing.assert_array_equal(names_in(source.sampled(WHOLE, Entropy())), has_target)
    source.close()


def test_a_sample_stays_the_same_and_the_coins_of_records_and_samples_do_not_go_together(backend):
    table, schema = easy(1200)
    source = backend.seal(table, schema)
    one, other = (source.sampled(HALF, Entropy()) for _ in range(2))
    kept = names_in(one)
    assert opened(one.count()) == kept.sum()
    np.testing.assert_array_equal(names_in(one), kept)
    assert names_in(source).all()
    # Records that stand side by side or far apart are alike in half of the cases, and so is a record in two samples.
    distances = [1, 2, 3, 16, 37, 400, 800]
    for distance in distances:
        alike = np.count_nonzero(kept[distance:] == kept[:-distance])
        assert within(alike, len(kept) - distance, 0.5, len(distances) + 1)
    assert within(np.count_nonzero(names_in(other) == kept), len(kept), 0.5, len(distances) + 1)
    source.close()


# --- tables in memory -------------------------------------------------------------------------------------------------

N_ROWS = 60
WORDS = [("Oslo", "Rome", None, "é", "unlisted")[row % 5] for row in range(N_ROWS)]
DAYS = [None if row % 7 == 3 else date(2024, 1, 1) + timedelta(days=row) for row in range(N_ROWS)]
REALS = [float("nan") if row % 6 == 5 else row / N_ROWS for row in range(N_ROWS)]
FLAGS = [row % 3 == 0 for row in range(N_ROWS)]
LABELS = objects([("no", "yes", None, "maybe")[row % 4] for row in range(N_ROWS)])
NUMBERS = np.array([np.nan if row % 8 == 1 else row / 8 for row in range(N_ROWS)])
MIXED = {
    "row": Numeric(0, N_ROWS, integer=True), "city": Categorical(["Oslo", "Rome", "é"]), "real": Numeric(0, 1),
    "day": Date("2024-01-01", "2024-12-31"), "flag": Categorical([True, False]), "again": Numeric(0, N_ROWS),
}  # fmt: skip
FINE = Grid(bins=N_ROWS + 1)
AS_ROWS = [list(row) for row in zip(range(N_ROWS), WORDS, REALS, DAYS, FLAGS, range(N_ROWS), strict=True)]


def as_pandas(**types):
    columns = {"row": np.arange(N_ROWS), "city": WORDS, "real": REALS, "day": pd.to_datetime(pd.Series(DAYS))}
    table = pd.DataFrame({**columns, "flag": FLAGS, "again": np.arange(N_ROWS, dtype=float)})
    return table.astype(types)


def as_arrow():
    columns = {"row": range(N_ROWS), "city": WORDS, "real": REALS, "day": DAYS, "flag": FLAGS, "again": range(N_ROWS)}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


MIXED_TABLES = {
    "list of rows": lambda: AS_ROWS,
    "array of objects": lambda: np.array([objects(row) for row in AS_ROWS]),
    "array of objects, column-major": lambda: np.asfortranarray(np.array([objects(row) for row in AS_ROWS])),
    "pandas": as_pandas,
    "pandas, nullable": lambda: as_pandas(row="Int16", city="string", real="Float32", flag="boolean"),
    "pandas, categories": lambda: as_pandas(city="category", flag="category"),
    "pandas, another index": lambda: as_pandas().set_index(np.arange(N_ROWS)[::-1]),
    "polars": lambda: pl.from_arrow(as_arrow()),
    "polars, categories": lambda: pl.from_arrow(as_arrow()).with_columns(pl.col("city").cast(pl.Categorical)),
    "pyarrow": as_arrow,
    "pyarrow, in chunks": lambda: pa.concat_tables([as_arrow().slice(0, 7), as_arrow().slice(7)]),
    "pyarrow, dictionaries": lambda: as_arrow().set_column(1, "city", pa.array(WORDS).dictionary_encode()),
}
SOME_ROWS = {
    "some": [0, 3, 4, 5, 9, 10, 31, 57, 59], "none": [], "all": range(N_ROWS), "without targets": [2, 3, 6, 7], "last": [59],
}  # fmt: skip


def assert_rows_of(vault, sample, rows, domain):
    """A sample has the codes of these rows of a table, in their order, without rows whose target is left out."""
    kept = vault._target_codes >= 0
    places = np.cumsum(kept) - 1
    stay = [places[row] for row in rows if kept[row]]
    whole, some = vault.encode(domain), sample.encode(domain)
    np.testing.assert_array_equal(some._codes, whole._codes[:, stay])
    np.testing.assert_array_equal(some._target_codes, whole._target_codes[stay])
    assert some._codes.dtype == whole._codes.dtype
    assert opened(sample.count()) == [len(stay)]


@pytest.mark.parametrize("make", MIXED_TABLES.values(), ids=MIXED_TABLES.keys())
def test_a_sample_in_memory_has_the_rows_of_its_coins_whatever_the_table_is_made_of(make, monkeypatch):
    for target, y in ((Classes(["no", "yes"]), LABELS), (Bounded(0, 5), NUMBERS)):
        schema = Schema(MIXED, target)
        vault = Vault.seal(make(), y, schema)
        for rows in SOME_ROWS.values():
            sample = vault.sampled(HALF, Chosen(rows))
            assert_rows_of(vault, sample, rows, Domain.of(schema, FINE))
            texts = [WORDS[row] for row in rows if WORDS[row] is not None and vault._target_codes[row] >= 0]
            assert opened(sample.count_texts("city")) == {text: texts.count(text) for text in texts}
    # As pyarrow cannot take rows if chunks of text have more than 2 GB together, for which one long cell may be the reason.
    take = nw.Series.__getitem__

    def refuse(series, index):
        if isinstance(index, np.ndarray):
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return take(series, index)

    monkeypatch.setattr(nw.Series, "__getitem__", refuse)
    rows = SOME_ROWS["some"]
    assert_rows_of(vault, vault.sampled(HALF, Chosen(rows)), rows, Domain.of(schema, FINE))


SAMPLED_LAYOUTS = LAYOUTS | {
    "bytes": lambda matrix: matrix.astype(np.int8),
    "one row, again and again": lambda matrix: np.broadcast_to(matrix[:1], matrix.shape),
    "one column, again and again": lambda matrix: np.broadcast_to(matrix[:, :1], matrix.shape),
}


@pytest.fixture
def threaded(monkeypatch):
    monkeypatch.setattr(threads, "THREAD_CELLS", 1)


@pytest.mark.parametrize("lay", SAMPLED_LAYOUTS.values(), ids=SAMPLED_LAYOUTS)
def test_a_sample_of_a_matrix_has_its_rows_however_it_lies_in_memory(threaded, lay):
    whole = np.arange(N_ROWS * 4).reshape(N_ROWS, 4) % 101
    schema = Schema({f"f{index}": Numeric(0, 100, integer=True) for index in range(4)}, Classes(["no", "yes"]))
    for n_rows, n_jobs in ((N_ROWS, 3), (N_ROWS, 1), (1, 3), (0, 3)):
        X = lay(whole[:n_rows].astype(float))
        vault = Vault.seal(X, LABELS[:n_rows], schema, n_jobs=n_jobs)
        for rows in SOME_ROWS.values():
            rows = [row for row in rows if row < n_rows]
            assert_rows_of(vault, vault.sampled(HALF, Chosen(rows)), rows, Domain.of(schema, Grid(bins=102)))


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_taken_as_plain_indexing_takes_them(threaded, order, n_jobs):
    rng = np.random.default_rng(2)
    matrix = np.asarray(rng.random((500, 5)), order=order)
    columns = [
        objects([*"abcde"] * 100), *matrix.T[:3], rng.integers(0, 9, 500), np.arange(500).astype("M8[D]"),
        np.array(["x", "yy"] * 250), matrix[:, 4], matrix[:, 3], matrix[:, 3], rng.random(500) < 0.5, matrix[::-1, 0],
        np.arange(500, dtype=">i4"), np.full(500, 7.0, dtype=np.float16), np.broadcast_to(np.array(3.5), (500,)),
    ]  # fmt: skip
    for share in (0.0, 0.01, 0.5, 1.0):
        rows = np.flatnonzero(rng.random(500) < share)
        for column, some in zip(columns, taken(columns, rows, Workers(n_jobs)), strict=True):
            assert some.dtype == column.dtype
            np.testing.assert_array_equal(some, column[rows])
    frame = Vault.seal(as_pandas(), LABELS, Schema(MIXED, Classes(["no", "yes"])))._columns
    for column, some in zip(frame, taken(frame, np.array([3, 4, 9]), Workers(n_jobs)), strict=True):
        assert some.dtype == column.dtype
        expected = read_values(column)
        assert [str(value) for value in read_values(some)] == [str(expected[row]) for row in (3, 4, 9)]


def test_a_sample_does_not_share_memory_with_the_table():
    X = np.random.default_rng(0).random((50, 3))
    vault = Vault.seal(X, LABELS[:50], Schema(dict.fromkeys("abc", Numeric(0, 1)), Classes(["no", "yes"])))
    sample = vault.sampled(WHOLE, Entropy())
    assert not any(np.shares_memory(column, X) for column in sample._columns)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_ROWS", 9)


def of_many_types(folder, n_rows=80, ids=None):
    """A folder of files, each with types of its own: numbers of all sizes, text, large text, dictionaries, dates."""
    rng = np.random.default_rng(5)
    edges, types = [0, 13, 13, 40, 61, n_rows], [pa.int64(), pa.int8(), pa.float64(), pa.int32(), pa.float32()]
    texts = [pa.string(), pa.large_string(), pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.string()]
    days = [pa.date32(), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.date64()]
    folder.mkdir()
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        rows = range(start, stop)
        columns = {
            "label": pa.array([None if row % 10 == 4 else row % 3 for row in rows], types[number]),
            "row": pa.array(rows, types[-1 - number]),
            "city": pa.array([WORDS[row % 5] for row in rows], pa.string()).cast(texts[number]),
            "day": pa.array([DAYS[row % 50] for row in rows], pa.date32()).cast(days[number]),
            "unused": pa.array(rng.random(len(rows))),
        }
        if ids is not None:
            columns["id"] = pa.array(ids[start:stop], types[-1 - number])
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet", row_group_size=11)
    return folder


FEATURES = {"row": Numeric(0, 80, integer=True), "city": MIXED["city"], "day": MIXED["day"]}
FILES = Schema(FEATURES, Classes([0, 1], name="label"))
ROWS_OF_FILES = ([0, 3, 12, 13, 14, 44, 60, 61, 79], [], range(14, 30), range(80), [79])  # the third are those of one file


@pytest.mark.parametrize("is_bounded", [False, True], ids=["classes", "numbers"])
def test_a_sample_of_files_of_different_types_has_the_rows_of_its_coins(tmp_path, small_batches, is_bounded):
    schema = Schema(FEATURES, Bounded(0, 1.5, name="label") if is_bounded else FILES.target)
    vault, domain = ParquetVault.seal(of_many_types(tmp_path / "files"), schema, n_jobs=2), Domain.of(schema, Grid(bins=81))
    has_target = np.array([row % 10 != 4 and (is_bounded or row % 3 < 2) for row in range(80)])
    whole, places = vault.encode(domain), np.cumsum(has_target) - 1
    for rows in ROWS_OF_FILES:
        sample, stay = vault.sampled(HALF, Chosen(rows)), [row for row in rows if has_target[row]]
        counter = sample.encode(domain)
        assert opened(sample.count()) == [len(stay)]
        assert counter._codes[0].tolist() == stay
        np.testing.assert_array_equal(counter._codes, whole._codes[:, places[stay]])
        np.testing.assert_array_equal(counter._target_codes, whole._target_codes[places[stay]])
        texts = [WORDS[row % 5] for row in stay if WORDS[row % 5] is not None]
        assert opened(sample.count_texts("city")) == {text: texts.count(text) for text in texts}
        assert opened(sample.rows()).n_rows == len(stay)
        assert opened(sample.count_around(domain, {0: 20.0})).sum() == len(stay)


# The types that a file may have a column of text or of numbers in.
TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
NUMERIC = (pa.null(), pa.float16(), pa.bool_(), pa.decimal128(30, 2), pa.decimal256(50, 2), pa.uint64())


@pytest.mark.parametrize("kind", [*TEXTS, *NUMERIC], ids=str)
def test_a_file_is_sampled_whatever_the_type_of_its_columns(tmp_path, kind):
    values, part = (["Oslo", "Rome"], Categorical(["Oslo", "Rome"])) if kind in TEXTS else ([0, 1], Numeric(0, 1))
    column = pa.nulls(40) if kind == pa.null() else pa.array(values * 20).cast(kind)
    pq.write_table(pa.table({"x": column, "label": [0, 0, 1, 1] * 10}), tmp_path / "t.parquet")
    schema, rows = Schema({"x": part}, FILES.target), [0, 1, 2, 5, 30]
    vault, domain = ParquetVault.seal(tmp_path / "t.parquet", schema), Domain.of(schema, Grid(bins=2))
    sample = vault.sampled(HALF, Chosen(rows))
    np.testing.assert_array_equal(sample.encode(domain)._codes, vault.encode(domain)._codes[:, rows])


def test_a_sample_of_one_file_is_read_once_and_stays_when_the_file_is_gone(tmp_path, small_batches):
    folder = of_many_types(tmp_path / "files")
    vault = ParquetVault.seal(folder / "part-2.parquet", FILES)
    sample = vault.sampled(HALF, Chosen([0, 5, 26]))
    (folder / "part-2.parquet").unlink()
    assert sample.encode(Domain.of(FILES, Grid(bins=81)))._codes[0].tolist() == [13, 18, 39]


# --- persons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [[0, 2, 3], []], ids=str)
def test_the_persons_of_a_sample_are_those_of_its_coins(tmp_path, small_batches, kept):
    # Persons of 1 to 6 rows, which do not stand together; every ninth row is nobody's. They are numbered as they come.
    ids = [None if row % 9 == 8 else (row * row) % 23 for row in range(80)]
    order = list(dict.fromkeys(person for person in ids if person is not None))
    labels, people = [None if row % 10 == 4 else row % 3 for row in range(80)], People(100, Chosen(kept))
    schema, rows = Schema({"row": FEATURES["row"]}, FILES.target), np.arange(80)[:, None]
    in_files = ParquetVault.seal(of_many_types(tmp_path / "files", ids=ids), schema, groups="id", people=people)
    expected = [row for row in range(80) if labels[row] in (0, 1) and ids[row] in {order[n] for n in kept}]
    for vault in (in_files, Vault.seal(rows, objects(labels), schema, groups=ids, people=people)):
        sample = vault.sampled(HALF, Entropy())
        assert sample.encode(Domain.of(schema, Grid(bins=81)))._codes[0].tolist() == expected


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 20)


def codes_of(folder, domain):
    """The codes of the records of each partition of a folder."""
    return [partition._counter._codes for partition in computed(folder.partitions(domain))]


@pytest.mark.parametrize("n_threads", [1, 3, 100])
def test_tasks_of_a_sampled_folder_that_run_again_give_the_same_records(tmp_path, small_pieces, n_threads):
    schema, domain = FILES, Domain.of(FILES, Grid(bins=81))
    whole = Folder.at(of_many_types(tmp_path / "files"), schema, 1)
    folder, twin, other = (whole.sampled(HALF, key * 32, Pretended(n_threads)) for key in (b"k", b"k", b"l"))
    found = codes_of(folder, domain)
    assert len(found) == min(n_threads, len(whole._pieces)) > 4 * (n_threads == 100)
    counts = [count[0] for count in computed(folder.counts())]
    for first, second, piece, count in zip(found, codes_of(twin, domain), folder._pieces, counts, strict=True):
        np.testing.assert_array_equal(first, second)
        # As the scheduler would have it made again, and as another worker reads what is sent to it.
        np.testing.assert_array_equal(first, encode_files(piece, domain, 0)._counter._codes)
        sent = pickle.loads(pickle.dumps(keep(piece)))
        np.testing.assert_array_equal(first, sent.partition(schema, domain, 0)._counter._codes)
        assert count == first.shape[1]
    rows = np.concatenate([codes[0] for codes in found]).tolist()
    assert rows == sorted({*rows})
    # That all 54 records have the same coins by another key has a chance of 2**-54.
    assert rows != np.concatenate([codes[0] for codes in codes_of(other, domain)]).tolist()


def test_a_sampled_folder_is_read_once_and_a_file_that_changes_before_is_an_error(tmp_path, small_pieces):
    whole = Folder.at(of_many_types(tmp_path / "files"), FILES, 1)
    sample = whole.sampled(HALF, b"k" * 32, Pretended(2))
    (tmp_path / "files" / "part-4.parquet").unlink()
    assert sum(codes.shape[1] for codes in codes_of(sample, Domain.of(FILES, Grid(bins=81)))) > 0
    late = whole.sampled(HALF, b"k" * 32, Pretended(2))
    assert isinstance(computed(late.counts())[-1], Failure)


@pytest.mark.slow
def test_a_sample_on_a_cluster_is_the_same_after_a_worker_is_lost(tmp_path, client, small_pieces):
    table, schema = easy(400)
    for part in range(4):
        pq.write_table(table.slice(100 * part, 100), tmp_path / f"{part}.parquet", row_group_size=25)
    source = DaskVault.seal(str(tmp_path), schema, client).sampled(HALF, Entropy())
    kept, domain = names_in(source), Domain.of(schema, Grid(bins=1))
    counter = source.encode(domain)
    counter.deal(AllTrees(1), Entropy())
    place = domain.names.index(NAME)
    before = times_in_trees(counter, 1, place)[0]
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)
    np.testing.assert_array_equal(times_in_trees(counter, 1, place)[0], before)
    np.testing.assert_array_equal(before[:-2], kept)
    assert opened(source.count()) == [kept.sum()]


# One tree of random splits; a sample is drawn of tables that are large enough for that, as the default recipe does.
PLANNED = replace(get_recipe("jagannathan-2009"), secret_sample=SecretSample())


def assert_uses_all_rows(schema, fit):
    """A fit on a table said to be large uses all of its 400 rows, and refuses a sample that is asked for, uncharged.

    That the counts of the only tree are off by 200 has a chance of less than exp(-100).
    """
    large = replace(schema, n_rows=10**8)
    model = fit(DPForestClassifier(large, epsilon=5.0, recipe=PLANNED, n_trees=1))
    assert model.ledger_.sample_share == 1
    assert not any("secret sample" in note for note in model.privacy_.notes)
    assert abs(model.forest_.counts[model.forest_.is_leaf].sum() - 400) < 200
    asked = DPForestClassifier(schema, epsilon=5.0, recipe="jagannathan-2009", recipe_params={"sample_rows": 20}, n_trees=1)
    with pytest.raises(ParameterError, match="sample_rows asks for a secret sample"):
        fit(asked)
    assert not hasattr(asked, "ledger_") or asked.ledger_.n_charges == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The schema declares:dpforest.errors.NothingLearntWarning")
def test_a_dask_dataframe_draws_no_sample_and_a_fit_uses_all_of_its_rows(client):
    import dask.dataframe as dd

    table, schema = easy(400, named=False)
    frame = dd.from_pandas(table.to_pandas(), npartitions=3)
    assert not DaskVault.seal(frame, schema, client).can_sample
    assert_uses_all_rows(schema, lambda model: model.fit_dask(frame, client))


# --- a database -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The schema declares:dpforest.errors.NothingLearntWarning")
def test_a_database_without_temporary_tables_draws_no_sample_and_a_fit_uses_all_of_its_rows(duck, monkeypatch):
    table, schema = easy(400, named=False)
    rows = duck.create_table("t", table)
    assert SqlVault.seal(rows, schema).can_sample
    assert not SqlVault.seal(rows, schema, temporary=False).can_sample
    monkeypatch.setattr("dpforest.records.sql.session.KEEPERS", ())
    assert_uses_all_rows(schema, lambda model: model.fit_table(rows))


NAMES = {
    "names of coins": ["coin_0", "coin_1", "coin_3"],
    "names of coins in capitals": ["COIN_0", "Coin_1", "coin_2"],
    "code": ['"; DROP TABLE people; --', "it's", "%s {} ${y}"],
    "other alphabets": ["🦓", "שלום", "a\nb"],
    "names of the library": ["c0", "n0", "bin"],
    "words of the language": ["select", "from", "rowid"],
    "long": ["x" * 60, "y" * 60, "z" * 60],
}


# DuckDB does not tell COIN_0 from coin_0, so that the values of a column would decide, and not coins.
@pytest.mark.slow
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_sample_in_a_database_is_drawn_by_coins_whatever_its_columns_are_called(duck, names, value):
    n_rows = 300
    first, second, target = names
    table = {NAME: [f"r{row}" for row in range(n_rows)], first: [value] * n_rows, second: [1.0 - value] * n_rows}
    rows = duck.create_table("t", pa.table(table | {target: [value] * n_rows}))
    features = {NAME: Categorical(table[NAME]), first: Numeric(0, 1), second: Numeric(0, 1)}
    with SqlVault.seal(rows, Schema(features, Classes([0, 1], name=target))) as source:
        sample = source.sampled(FIFTH, Entropy())
        kept = names_in(sample)
        assert within(kept.sum(), n_rows, 0.2)
        assert opened(sample.count()) == [kept.sum()]
        # Each value is that of its record still.
        assert opened(sample.count_texts(first)) == {str(value): kept.sum()}


@pytest.mark.slow
def test_a_sample_in_a_database_is_gone_when_its_table_is_closed(duck):
    table, schema = easy(50)
    source = SqlVault.seal(duck.create_table("t", table), schema)
    source.sampled(HALF, Entropy()).sampled(HALF, Entropy()).count()
    kept = "SELECT count(*) FROM duckdb_tables() WHERE temporary"
    assert duck.con.execute(kept).fetchone()[0] >= 2
    source.close()
    assert duck.con.execute(kept).fetchone()[0] == 0


@pytest.mark.parametrize("has_text", [False, True])
def test_numbers_of_a_sample_lie_in_one_table_and_text_stays_in_parts(tmp_path, has_text):
    table = pa.table({"x": np.arange(900.0), "y": np.arange(900) % 2, "t": [f"v{k}" for k in range(900)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=300)
    features = {"x": Numeric(0, 900)} | ({"t": Categorical(["v1"])} if has_text else {})
    vault = ParquetVault.seal(tmp_path / "t.parquet", Schema(features, Classes([0, 1], name="y")))
    sample = vault.sampled(HALF, Entropy(1))
    assert len(sample._sample) == (3 if has_text else 1)
    assert sum(table.num_rows for table in sample._sample) == opened(sample.count())[0]
