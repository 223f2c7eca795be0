"""Tables on clusters of Dask and Spark: answers are those of the same rows in memory, and no row is heard of."""

from datetime import date
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance import conformance_backends
from tests.support.encoded import opened
from tests.support.encoded import rows_of as opened_rows_of

from dpforest import DPForestClassifier, DPSearchCV
from dpforest.common.work import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.doors import seal_elsewhere
from dpforest.records.people import People
from dpforest.records.scan import Batch, Wanted
from dpforest.records.source import silent
from dpforest.records.sources import clusters
from dpforest.records.sources import dask as on_dask
from dpforest.records.sources.clusters import ClusterTable, pack
from dpforest.records.sources.dask import dask_table
from dpforest.records.sources.spark import SparkTable, spark_table
from dpforest.records.sources.tasks import Answer
from dpforest.records.vault import Vault, encoded, tally_known
from dpforest.schema import Categorical, Classes, Date, Numeric, Schema
from dpforest.schema.domain import Domain, Grid

slow = pytest.mark.slow

FEATURES = {
    "x": Numeric(0, 1), "whole": Numeric(0, 9, integer=True), "city": Categorical(["Oslo", "Rome"]),
    "flag": Categorical([0, 1]), "word": Categorical(buckets=8), "day": Date("2020-01-01", "2021-01-01"),
}  # fmt: skip
CLASSES = Schema(FEATURES, Classes(["a", "b", "c"]))
SMALL = Schema(FEATURES, Classes(["a", "b", "c"]), n_rows=300)  # which Spark delivers in one pass
N_ROWS, EDGES = 300, [0, 70, 70, 130, 240, 300]  # the second partition is empty
SECRET = "zebra-secret-value"
ALL, HALF = Fraction(1), Fraction(1, 2)
NOTHING = Wanted(CLASSES, [])


def rows_of(schema=CLASSES):
    """Values of all kinds, some missing; some labels that are not listed."""
    rng = np.random.default_rng(4)
    whole = pd.DataFrame({
        "x": rng.random(N_ROWS), "whole": rng.integers(0, 12, N_ROWS).astype(float),
        "city": rng.choice(["Oslo", "Rome", "Lima"], N_ROWS), "flag": rng.integers(0, 3, N_ROWS).astype(float),
        "word": rng.choice(["one", "two", "three"], N_ROWS),
        "day": pd.to_datetime(rng.choice(["2020-02-03", "2020-12-24", "1999-01-01"], N_ROWS)),
    }).mask(rng.random((N_ROWS, 6)) < 0.15)  # fmt: skip
    whole["person"] = rng.integers(0, 60, N_ROWS)
    if isinstance(schema.target, Classes):
        return whole.assign(target=rng.choice(["a", "b", "c", "unlisted"], N_ROWS))
    return whole.assign(target=np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.normal(1, 1, N_ROWS)))


def learnable():
    """Rows whose class follows from ``x``, two of each person."""
    rows = rows_of()
    return rows.assign(target=np.where(rows["x"] > 0.5, "a", "b"), person=np.arange(N_ROWS) // 2)


def in_memory(rows, schema=CLASSES):
    return Vault.seal(rows[[*FEATURES]], rows["target"], schema)


def codes_of(vault):
    """All codes with the code of the target, sorted: the order of rows is not that of memory on every engine."""
    counter = vault.encode(Domain.of(vault.schema, Grid(9)))
    both = np.vstack([counter._codes, counter._target_codes])
    return both[:, np.lexsort(both)]


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    kinds = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**kinds) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def spark():
    return conformance_backends.spark()


def parts_of(rows):
    return [rows.iloc[start:stop] for start, stop in pairwise(EDGES)]


def frame_of(rows):
    import dask.dataframe as dd

    return dd.from_map(lambda part: part, parts_of(rows), meta=rows.iloc[:0])


def written(rows, folder):
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "t.parquet", row_group_size=50)
    return folder / "t.parquet"


@pytest.fixture(params=["frame", "files", "spark"])
def put(request, tmp_path, monkeypatch):
    """A function that puts rows on a cluster: a table there, and the client if it needs one."""
    if request.param == "spark":
        session = request.getfixturevalue("spark")

        def put(rows):
            path = str(written(rows.assign(day=rows["day"].astype("datetime64[us]")), tmp_path))
            return session.read.parquet(path).repartition(3), None

        return put
    client = request.getfixturevalue("client")
    monkeypatch.setattr(on_dask, "PARTITION_ROWS", 100)
    if request.param == "files":
        return lambda rows: (written(rows, tmp_path), client)
    return lambda rows: (frame_of(rows), client)


def seal(given, schema=CLASSES, people=None):
    table, client = given
    return seal_elsewhere(table, schema, 1, None if people is None else "person", people, client)


@slow
def test_a_sample_keeps_each_row_with_its_share_and_coins_are_tossed_once(put):
    given, keys = put(rows_of()), []
    vault = seal(given)
    kept = [vault._elsewhere.kept(Wanted.all_of(CLASSES), HALF, Entropy()).n_rows for _ in range(20)]
    assert len({*kept}) > 1
    assert abs(np.mean(kept) - 150) < 5 * np.sqrt(75 / 20)  # once in a million runs it is not
    with pytest.MonkeyPatch.context() as patch:
        draw = clusters._draw_key
        patch.setattr(clusters, "_draw_key", lambda entropy: (keys.append(1), draw(entropy))[1])
        sample = vault.sampled(HALF, Entropy())
        assert np.array_equal(codes_of(sample), codes_of(sample))
        assert opened(sample.count()) == codes_of(sample).shape[1]
    assert keys == [1]


@slow
def test_at_most_so_many_rows_of_a_person_are_used(put):
    rows = rows_of().assign(target="a")
    given, expected = put(rows), np.minimum(np.bincount(rows["person"]), 2).sum()
    vault = seal(given, people=People(2, Entropy()))
    assert opened(vault.count()) == expected == codes_of(vault).shape[1]
    assert np.array_equal(codes_of(vault), codes_of(vault))
    assert opened(seal(given, people=People(N_ROWS, Entropy())).count()) == N_ROWS


@slow
def test_fits_and_searches_on_a_cluster_learn_what_there_is(put):
    rows = learnable()
    table, client = put(rows)
    sampling = DPForestClassifier(CLASSES, epsilon=20, recipe_params={"sample_rows": 200}, n_trees=1)
    persons = DPForestClassifier(CLASSES, epsilon=20, max_rows_per_person=2)
    found = [
        DPForestClassifier(CLASSES, epsilon=20).fit(table, client=client),
        sampling.fit(table, client=client),
        persons.fit(table, client=client, groups="person"),
        DPSearchCV(DPForestClassifier(CLASSES, n_trees=1), {"max_depth": [2]}, epsilon=30).fit(table, client=client),
    ]
    for model in found:
        assert (model.predict(rows[[*FEATURES]]) == rows["target"]).mean() > 0.8


@slow
def test_spark_passes_over_a_small_table_once(spark, monkeypatch, tmp_path):
    passes, ask = [], SparkTable.answers
    monkeypatch.setattr(SparkTable, "answers", lambda *given: (passes.append(1), ask(*given))[1])
    frame = spark.read.parquet(str(written(rows_of().astype({"day": "datetime64[us]"}), tmp_path)))
    large = Schema(FEATURES, Classes(["a", "b", "c"]), n_rows=10**8)
    for schema, n_passes in [(SMALL, 1), (large, 2), (CLASSES, 2)]:
        vault = seal((frame, None), schema)
        passes.clear()
        vault.count_texts("word")
        vault.encode(Domain.of(schema, Grid(9)))
        assert len(passes) == n_passes


class Odd:
    """A value that does what it can to be heard of."""

    def _raise(self, *_):
        raise ValueError(SECRET)

    __eq__ = __hash__ = __float__ = __reduce__ = __str__ = __repr__ = _raise


VALUES = [Odd(), SECRET, "\ud800", b"\xff", 10**400, (1, 2), [1], date(2020, 5, 5), True, None]


def odd_rows(value):
    """Rows of objects, of which one has an odd value everywhere."""
    rows = rows_of().astype(dict.fromkeys([*FEATURES, "target"], object))
    for name in [*FEATURES, "target"]:
        rows.at[3, name] = value
    return rows


@slow
@pytest.mark.parametrize("number", range(len(VALUES)))
def test_an_odd_value_decides_nothing_about_others_and_travels_as_it_would_be_read(client, number):
    rows = odd_rows(VALUES[number])
    given, near = (partitions(parts_of(rows), rows_of()), client), in_memory(rows)
    assert np.array_equal(codes_of(seal(given)), codes_of(near))
    assert np.array_equal(codes_of(seal(given).sampled(ALL, Entropy())), codes_of(near))


def partitions(parts, declared):
    """A dataframe whose partitions are not those that it declares."""
    from dask import delayed

    class Declared:
        columns, dtypes = declared.columns, declared.dtypes

        def __getitem__(self, names):
            frames = [delayed(made_there, pure=False)(id(parts), number, names) for number in range(len(parts))]
            return SimpleNamespace(to_delayed=lambda: frames)

        def to_delayed(self):
            return self[[*self.columns]].to_delayed()

    PARTS[id(parts)] = parts
    return Declared()


PARTS = {}  # by the ids of lists, for workers in threads of this process: odd values cannot be sent


def made_there(whose, number, names):
    part = PARTS[whose][number]
    return part[[name for name in names if name in part]]


@slow
def test_a_partition_of_other_types_or_without_a_column_has_missing_values(client):
    parts = parts_of(rows_of())
    parts[2] = parts[2].assign(x=[SECRET] * 60).drop(columns="city")
    expected = rows_of()
    expected.loc[70:129, ["x", "city"]] = None
    assert np.array_equal(codes_of(seal((partitions(parts, rows_of()), client))), codes_of(in_memory(expected)))


@slow
def test_ids_of_any_types_are_the_same_person_by_equality(client):
    rows = rows_of().assign(target="a", person=0).astype({"person": object})
    for place, value in enumerate([1, 1.0, True, "1", b"1", None, np.nan, Fraction(1), "  "]):
        rows.at[place * 30, "person"] = value
    vault = seal((partitions(parts_of(rows), rows), client), people=People(1, Entropy()))
    assert opened(vault.count()) == 4  # 0, 1, "1" and b"1"; None, NaN and blanks are nobody


@slow
@pytest.mark.parametrize("change", [lambda part: part.iloc[:-1], lambda part: part.assign(x=part["x"].astype("float32"))])
def test_a_partition_that_changes_ends_in_words(client, change):
    parts, domain = parts_of(rows_of()), Domain.of(CLASSES, Grid(9))
    vault = seal((partitions(parts, rows_of()), client))
    vault.count_around(domain, {0: 0.5})
    parts[3] = change(parts[3])
    with pytest.raises(TableError, match=r"changed while it was read.*stays charged"):
        vault.encode(domain)


@slow
def test_a_changed_file_ends_in_words(client, tmp_path):
    vault = seal((written(rows_of(), tmp_path), client))
    vault.count()
    written(rows_of().iloc[:200], tmp_path)
    with pytest.raises(TableError, match="changed"):
        vault.count()


@slow
def test_a_missing_value_does_not_change_large_whole_numbers_beside_it(client):
    """A partition in which one is missing has floats, of 53 bits, where the dataframe says whole numbers."""
    large = [5, 2**53 - 1, 2**53, 2**53 + 1, -(2**53)]
    rows, found = pd.DataFrame({"v": large, "who": large, "x": 0.5, "y": 1}), []
    schema = Schema({"v": Categorical(large)}, Classes([0, 1], name="y"))
    one = pd.DataFrame({"v": [None], "who": [None], "x": [0.5], "y": [1]})
    others = (
        rows.iloc[:0],
        one.astype({"v": float, "who": float}),
        one,
        one.assign(v="odd", who="odd").astype({"v": object, "who": object}),
    )
    for meta in (rows, rows.astype({"v": float, "who": float})):
        for more in others:
            part = pd.concat([rows.astype(more.dtypes) if len(more) else rows, more])
            table = partitions([part, rows.iloc[:0]], meta)
            codes = seal_elsewhere(table, schema, 1, client=client).encode(Domain.of(schema, Grid(9)))._codes
            persons = seal_elsewhere(table, schema, 1, "who", People(1, Entropy()), client).count()
            found.append((codes[0, :5].tolist(), opened(persons).tolist()))
    assert found == [*[([0, 1, 6, 6, 6], [2])] * 3, ([0, 1, 6, 6, 6], [3])] * 2  # a text is a person, too


class Answers(ClusterTable):
    """A cluster that answers as it is told, one question after the other."""

    engine = "Pretended"

    def __init__(self, *given, whole=False):
        super().__init__(silent)
        self.whole, self._given = whole, iter(given)

    def answers(self, wanted, task):
        return [Answer(number, n_rows, {}, n_rows) for number, n_rows in next(self._given)]


def asked_twice(table):
    for _ in range(2):
        table.each(NOTHING, tally_known, lambda first, found: None, Workers())


def test_what_arrives_twice_or_changed_is_refused():
    with pytest.raises(TableError, match="twice"):
        asked_twice(Answers([(0, 1), (1, 1), (1, 1)]))
    for whole in (False, True):
        with pytest.raises(TableError, match="changed"):
            asked_twice(Answers([(0, 5), (1, 5)], [(0, 5), (1, 4)], whole=whole))
    with pytest.raises(TableError, match="changed"):
        asked_twice(Answers([(0, 5), (1, 5)], [(0, 4), (1, 6)]))
    asked_twice(Answers([(0, 5), (1, 5)], [(0, 4), (1, 6)], whole=True))


def failing(batch, workers):
    raise ValueError(SECRET)


@slow
def test_a_failing_worker_gives_no_word_of_a_row(put, capfd):
    table = seal(put(rows_of()))._elsewhere
    with pytest.raises(TableError, match="ValueError") as caught:
        table.each(NOTHING, failing, lambda first, found: None, Workers())
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert SECRET not in "".join(capfd.readouterr())


def fail_upstream(part):
    raise ValueError(SECRET)


@slow
def test_a_cluster_without_an_answer_is_one_error_without_a_word_of_a_row(client):
    frame = frame_of(rows_of()).map_partitions(fail_upstream, meta=rows_of().iloc[:0])
    with pytest.raises(TableError, match="gave no answer") as caught:
        seal((frame, client)).count()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@slow
def test_types_that_are_not_known_are_refused_by_name_before_a_row_is_read(spark, client):
    frame = spark.createDataFrame([(1.0, [1], "a")], "x double, z array<int>, target string")
    schema = Schema({"x": Numeric(0, 1), "z": Numeric(0, 1)}, Classes(["a", "b"]))
    for wrong, message in [
        (frame, r"'z' has the type array<int>"),
        (frame.selectExpr("x", "'1' AS z", "target"), "declared numeric"),
        (frame.select("x", "target"), "'z' of the schema is missing"),
    ]:
        with pytest.raises(TableError, match=message):
            spark_table(wrong, schema)
    for wrong in (7, "nowhere.parquet", frame_of(rows_of().astype({"x": str}))):
        with pytest.raises(TableError):
            dask_table(wrong, CLASSES, client)


@slow
def test_names_that_spark_cannot_tell_apart_are_read_by_place(spark):
    frame = spark.createDataFrame([(0.1, 0.9, "a")], "`a.b` double, `A.B` double, target string")
    schema = Schema({"A.B": Numeric(0, 1), "a.b": Numeric(0, 1)}, Classes(["a", "b"]))
    near = Vault.seal(pd.DataFrame({"A.B": [0.9], "a.b": [0.1]}), ["a"], schema)
    assert np.array_equal(codes_of(seal((frame, None), schema)), codes_of(near))


def test_types_that_travel_follow_from_the_schema_alone():
    wanted, domain, rows = Wanted.all_of(CLASSES), Domain.of(CLASSES, Grid(9)), np.arange(5, 9)
    many, none = (
        Batch.of(pa.Table.from_pandas(some, preserve_index=False), wanted) for some in (rows_of(), rows_of().iloc[:0])
    )
    assert pack(many, wanted)[0].schema.equals(pack(none, wanted)[0].schema, check_metadata=True)
    codes, _ = encoded(domain, CLASSES.target, Batch.of(pack(many, wanted, rows)[0], wanted), Workers())
    chosen = np.isin(np.flatnonzero(many.values >= 0), rows)
    assert np.array_equal(codes, encoded(domain, CLASSES.target, many, Workers())[0][:, chosen])


def test_a_signalling_nan_is_missing_without_a_word():
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
    odd = np.array([0x7F800001, 0x3F000000], dtype=np.uint32).view(np.float32)
    vault = Vault.seal(odd.reshape(-1, 1), [0, 1], schema)
    with np.errstate(all="raise"):
        packed, _ = pack(vault._used(), Wanted.all_of(schema))
        rows = opened_rows_of(vault)
    for column in (packed.column("x").to_numpy(), rows.columns[0]):
        np.testing.assert_array_equal(column, [np.nan, 0.5])


def test_partitions_have_coins_of_their_own_which_stay_the_same():
    wanted, key = Wanted.all_of(CLASSES), bytes(range(32))
    batch = Batch.of(pa.Table.from_pandas(rows_of(), preserve_index=False), wanted)
    first, again, other = (clusters.delivered(wanted, HALF, key, number, batch)[0].to_pandas() for number in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)


def test_a_key_is_256_secret_bits():
    assert len({clusters._draw_key(Entropy()) for _ in range(9)}) == 9
    assert len(clusters._draw_key(Entropy())) == 32
