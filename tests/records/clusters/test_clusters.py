"""Tables on clusters of Dask and Spark: answers are those of the same rows in memory, and no row is heard of."""

import os
import shutil
import sys
from datetime import date
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.batch import Batch, Wanted, encoded, tally_known
from dpforest.records.clusters import on_dask
from dpforest.records.clusters import table as clusters
from dpforest.records.clusters.on_dask import dask_table
from dpforest.records.clusters.on_spark import spark_table
from dpforest.records.clusters.rows import pack
from dpforest.records.clusters.table import Answer, ClusterTable
from dpforest.records.people import People
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

FEATURES = {
    "x": Numeric(0, 1), "whole": Numeric(0, 9, integer=True), "city": Categorical(["Oslo", "Rome"]),
    "flag": Categorical([0, 1]), "word": Categorical(buckets=8), "day": Date("2020-01-01", "2021-01-01"),
}  # fmt: skip
CLASSES = Schema(FEATURES, Classes(["a", "b", "c"]), n_rows=300)
BOUNDED = Schema(FEATURES, Bounded(-1, 3), n_rows=300)
EDGES = [0, 70, 70, 130, 240, 300]  # the second partition is empty
SECRET = "zebra-secret-value"
HALF = Fraction(1, 2)


def opened(sealed):
    seen = []
    sealed.map(seen.append)
    return seen[0]


def rows_of(schema=CLASSES, n_rows=300):
    """Values of all kinds, some missing; some labels that are not listed."""
    rng = np.random.default_rng(4)
    whole = pd.DataFrame({
        "x": rng.random(n_rows), "whole": rng.integers(0, 12, n_rows).astype(float),
        "city": rng.choice(["Oslo", "Rome", "Lima"], n_rows), "flag": rng.integers(0, 3, n_rows).astype(float),
        "word": rng.choice(["one", "two", "three"], n_rows),
        "day": pd.to_datetime(rng.choice(["2020-02-03", "2020-12-24", "1999-01-01"], n_rows)),
    }).mask(rng.random((n_rows, 6)) < 0.15)  # fmt: skip
    whole["person"] = rng.integers(0, 60, n_rows)
    if isinstance(schema.target, Classes):
        return whole.assign(target=rng.choice(["a", "b", "c", "unlisted"], n_rows))
    return whole.assign(target=np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(1, 1, n_rows)))


def in_memory(rows, schema=CLASSES):
    return Vault.seal(rows[[*FEATURES]], rows["target"], schema)


def vault_of(table, schema=CLASSES, people=None):
    return Vault(schema, Workers(), elsewhere=table, people=people, id_column=None if people is None else "person")


def codes_of(vault):
    """All codes with the code of the target, sorted: the order of rows is not that of memory on every engine."""
    counter = vault.encode(Domain.of(vault.schema, Grid(9)))
    both = np.vstack([counter._codes if hasattr(counter, "_codes") else counter.codes, target_codes(counter)])
    return both[:, np.lexsort(both)]


def target_codes(counter):
    return counter._target_codes if hasattr(counter, "_target_codes") else counter.target_codes


def assert_same(far, near):
    domain = Domain.of(near.schema, Grid(9))
    centres = {int(feature): 0.4 for feature in np.flatnonzero(domain.is_numeric)[:1]}
    assert opened(far.count()) == opened(near.count())
    assert np.array_equal(opened(far.count_around(domain, centres)), opened(near.count_around(domain, centres)))
    assert opened(far.count_texts("word")) == opened(near.count_texts("word"))
    assert np.array_equal(codes_of(far), codes_of(near))


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def frame_of(parts, meta=None):
    import dask.dataframe as dd

    return dd.from_map(lambda part: part, parts, meta=parts[0].iloc[:0] if meta is None else meta)


def parts_of(rows):
    return [rows.iloc[start:stop] for start, stop in pairwise(EDGES)]


def written(rows, folder):
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "t.parquet", row_group_size=50)
    return folder / "t.parquet"


@pytest.fixture(params=["frame", "files", "spark"])
def on_cluster(request, tmp_path, monkeypatch):
    """A function that puts rows on a cluster, as a table of a schema."""
    if request.param == "spark":
        session = request.getfixturevalue("spark")

        def put(rows, schema, ids=None):
            path = str(written(rows.assign(day=rows["day"].astype("datetime64[us]")), tmp_path))
            return spark_table(session.read.parquet(path).repartition(3), schema, ids)

        return put
    client = request.getfixturevalue("client")
    monkeypatch.setattr(on_dask, "PARTITION_ROWS", 100)
    if request.param == "files":
        return lambda rows, schema, ids=None: dask_table(written(rows, tmp_path), schema, client, ids)
    return lambda rows, schema, ids=None: dask_table(frame_of(parts_of(rows)), schema, client, ids)


@pytest.mark.parametrize("schema", [CLASSES, BOUNDED])
def test_every_answer_is_that_of_memory_there_and_of_rows_that_are_kept(on_cluster, schema):
    rows = rows_of(schema)
    table, near = on_cluster(rows, schema), in_memory(rows, schema)
    assert "person" in table.names
    assert_same(vault_of(table, schema), near)
    assert_same(vault_of(table, schema).sampled(Fraction(1), Entropy()), near)
    if schema is BOUNDED:
        edges, narrow = np.array([0.0, 1.0]), Bounded(0, 1)
        assert np.array_equal(opened(vault_of(table, schema).count_targets(edges)), opened(near.count_targets(edges)))
        assert np.array_equal(codes_of(vault_of(table, schema).narrowed(narrow)), codes_of(near.narrowed(narrow)))


def test_a_sample_keeps_each_row_with_its_share_and_coins_are_tossed_once(on_cluster):
    table = on_cluster(rows_of(), CLASSES)
    kept = [table.sampled(Wanted.all_of(CLASSES), HALF, Entropy()).n_rows for _ in range(20)]
    assert len({*kept}) > 1
    assert abs(np.mean(kept) - 150) < 5 * np.sqrt(75 / 20)
    vault = vault_of(table).sampled(HALF, Entropy())
    assert np.array_equal(codes_of(vault), codes_of(vault))


def test_at_most_so_many_rows_of_a_person_are_used(on_cluster):
    rows = rows_of().assign(target="a")
    table = on_cluster(rows, CLASSES, "person")
    expected = np.minimum(np.bincount(rows["person"]), 2).sum()
    vault = vault_of(table, people=People(2, Entropy()))
    assert opened(vault.count()) == expected
    assert codes_of(vault).shape[1] == expected
    assert opened(vault_of(table, people=People(300, Entropy())).count()) == 300


class Odd:
    """A value that does what it can to be heard of."""

    def __eq__(self, other):
        raise ValueError(SECRET)

    def __hash__(self):
        raise ValueError(SECRET)

    def __float__(self):
        raise ValueError(SECRET)

    def __reduce__(self):
        raise ValueError(SECRET)


@pytest.mark.parametrize("value", [Odd(), SECRET, "\ud800", b"\xff", 10**400, (1, 2), [1], date(2020, 5, 5), True, None])
def test_an_odd_value_decides_nothing_about_others_and_travels_as_it_would_be_read(client, value):
    rows = rows_of().astype(dict.fromkeys([*FEATURES, "target"], object))
    for name in [*FEATURES, "target"]:
        rows.at[3, name] = value
    import dask.dataframe as dd
    from dask import delayed

    meta = rows_of().astype(object).iloc[:0]
    parts = [delayed(lambda part=part: part, pure=False)() for part in parts_of(rows)] if False else None
    far = dask_table(frame_of(parts_of(rows), meta) if not isinstance(value, Odd) else made_there(dd, meta), CLASSES, client)
    near = in_memory(rows)
    assert np.array_equal(codes_of(vault_of(far)), codes_of(near))
    assert np.array_equal(codes_of(vault_of(far).sampled(Fraction(1), Entropy())), codes_of(near))


def make_part(number):
    rows = rows_of().astype(dict.fromkeys([*FEATURES, "target"], object))
    for name in [*FEATURES, "target"]:
        rows.at[3, name] = Odd()
    return parts_of(rows)[number]


def made_there(dd, meta):
    return dd.from_map(make_part, range(len(EDGES) - 1), meta=meta)


def test_a_partition_of_other_types_or_without_a_column_has_missing_values(client):
    parts = parts_of(rows_of())
    parts[2] = parts[2].assign(x=[SECRET] * 60).drop(columns="city")
    table = dask_table(dask_frame(parts), CLASSES, client)
    expected = rows_of()
    expected.loc[70:129, ["x", "city"]] = None
    assert np.array_equal(codes_of(vault_of(table)), codes_of(in_memory(expected)))


def dask_frame(parts):
    """A dataframe whose partitions are not those that it declares; nothing selects columns by name."""
    from types import SimpleNamespace

    from dask import delayed

    class Declared:
        columns, dtypes = parts[0].columns, parts[0].dtypes

        def __getitem__(self, names):
            frames = [delayed(part[[name for name in names if name in part]]) for part in parts]
            return SimpleNamespace(to_delayed=lambda: frames)

        def to_delayed(self):
            return self[[*self.columns]].to_delayed()

    return Declared()


def test_ids_of_any_types_are_the_same_person_by_equality(client):
    rows = rows_of().assign(target="a", person=0).astype({"person": object})
    for place, value in enumerate([1, 1.0, True, "1", b"1", None, np.nan, Fraction(1), "  "]):
        rows.at[place * 30, "person"] = value
    parts = parts_of(rows)
    table = dask_table(frame_of(parts, rows.iloc[:0]), CLASSES, client, "person")
    # 0, 1, "1" and b"1"; None, NaN and blanks are nobody.
    assert opened(vault_of(table, people=People(1, Entropy())).count()) == 4


@pytest.mark.parametrize("change", [lambda part: part.iloc[:-1], lambda part: part.assign(x=part["x"].astype("float32"))])
def test_a_partition_that_changes_ends_in_words(client, change):
    parts = parts_of(rows_of())
    frame = dask_frame(parts)
    vault = vault_of(dask_table(frame, CLASSES, client))
    domain = Domain.of(CLASSES, Grid(9))
    vault.count_around(domain, {0: 0.5})
    parts[3] = change(parts[3])
    with pytest.raises(TableError, match=r"changed while it was read.*stays charged"):
        vault.encode(domain)


def test_a_changed_file_ends_in_words(client, tmp_path):
    vault = vault_of(dask_table(written(rows_of(), tmp_path), CLASSES, client))
    vault.count()
    written(rows_of().iloc[:200], tmp_path)
    with pytest.raises(TableError, match="changed"):
        vault.count()


class Answers(ClusterTable):
    engine = "Pretended"

    def __init__(self, *answers):
        super().__init__()
        self._answers = answers

    def answers(self, wanted, task):
        return self._answers


def test_what_arrives_twice_is_refused():
    twice = Answers(Answer(0, 1, {}, 1), Answer(1, 1, {}, 1), Answer(1, 1, {}, 1))
    with pytest.raises(TableError, match="twice"):
        twice.each(Wanted(CLASSES, []), tally_known, lambda first, found: None, Workers())


def failing(error, batch, workers):
    raise error(SECRET)


def lost(*_):
    os._exit(1)


def test_a_failing_worker_gives_no_word_of_a_row(on_cluster, capfd):
    table = on_cluster(rows_of(), CLASSES)
    with pytest.raises(TableError, match="ValueError") as caught:
        table.each(Wanted(CLASSES, []), partial(failing, ValueError), lambda first, found: None, Workers())
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert SECRET not in "".join(capfd.readouterr())


def fail_upstream(part):
    raise ValueError(SECRET)


def test_a_cluster_without_an_answer_is_one_error_without_a_word_of_a_row(client):
    frame = frame_of(parts_of(rows_of())).map_partitions(fail_upstream, meta=rows_of().iloc[:0])
    with pytest.raises(TableError, match="gave no answer") as caught:
        vault_of(dask_table(frame, CLASSES, client)).count()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


def test_types_that_are_not_known_are_refused_by_name_before_a_row_is_read(spark, client):
    frame = spark.createDataFrame([(1.0, [1], "a")], "x double, z array<int>, target string")
    schema = Schema({"x": Numeric(0, 1), "z": Numeric(0, 1)}, Classes(["a", "b"]))
    with pytest.raises(TableError, match=r"'z' has the type array<int>"):
        spark_table(frame, schema)
    with pytest.raises(TableError, match="declared numeric"):
        spark_table(frame.selectExpr("x", "'1' AS z", "target"), schema)
    with pytest.raises(TableError, match="'z' of the schema is missing"):
        spark_table(frame.select("x", "target"), schema)
    for wrong in (7, "nowhere.parquet"):
        with pytest.raises(TableError):
            dask_table(wrong, CLASSES, client)
    with pytest.raises(TableError, match="declared numeric"):
        dask_table(frame_of([rows_of().astype({"x": str})]), CLASSES, client)


def test_names_that_spark_cannot_tell_apart_are_read_by_place(spark):
    frame = spark.createDataFrame([(0.1, 0.9, "a")], "`a.b` double, `A.B` double, target string")
    schema = Schema({"A.B": Numeric(0, 1), "a.b": Numeric(0, 1)}, Classes(["a", "b"]))
    near = Vault.seal(pd.DataFrame({"A.B": [0.9], "a.b": [0.1]}), ["a"], schema)
    assert np.array_equal(codes_of(vault_of(spark_table(frame, schema), schema)), codes_of(near))


def test_types_that_travel_follow_from_the_schema_alone():
    wanted = Wanted.all_of(CLASSES)
    one = Batch.of(pa.Table.from_pandas(rows_of(), preserve_index=False), wanted)
    none = Batch.of(pa.Table.from_pandas(rows_of().iloc[:0], preserve_index=False), wanted)
    assert pack(one, wanted)[0].schema.equals(pack(none, wanted)[0].schema, check_metadata=True)
    table, domain = pack(one, wanted, np.arange(5, 9))[0], Domain.of(CLASSES, Grid(9))
    usable = np.flatnonzero(one.values >= 0)
    codes, _ = encoded(domain, CLASSES.target, Batch.of(table, wanted), Workers())
    chosen = np.isin(usable, np.arange(5, 9))
    assert np.array_equal(codes, encoded(domain, CLASSES.target, one, Workers())[0][:, chosen])


def test_a_key_is_256_secret_bits():
    assert len({clusters._draw_key(Entropy()) for _ in range(9)}) == 9
    assert len(clusters._draw_key(Entropy())) == 32
