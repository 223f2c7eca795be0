"""Records of files with types, and of partitions on a cluster, decide neither success nor how others are read."""

import os
import shutil
from decimal import Decimal
from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask import delayed
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from tests.neighbours.one_record import (
    FEW,
    FINE,
    MARK,
    MARKS,
    ODD,
    ORDINARY,
    SCHEMAS,
    assert_like,
    everyone,
    noted,
    outcome,
    placed,
    read,
    readings,
    root_counts,
    seal,
    some_of,
)

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.records import doors
from dpforest.records.doors import seal_elsewhere
from dpforest.records.people import person_indices, read_ids
from dpforest.records.source import Asked, joined
from dpforest.records.vault import Vault

pytestmark = pytest.mark.slow

N_ROWS = 12
WHOLE, WORDS = [1, 2, 0, 1] * 3, ["a", "b", "no", "yes"] * 3
PLAIN = {
    "x": pa.array(WHOLE, pa.int64()),
    "c": pa.array(["a", "b", "z", None] * 3),
    "k": pa.array(WHOLE, pa.int64()),
    "day": pa.array([18_000] * N_ROWS, pa.date32()),
    "id": pa.array(range(20, 20 + N_ROWS), pa.int64()),
    "target": pa.array(WORDS),
    "mark": pa.array([ORDINARY] * N_ROWS),
}
NO_TEXT = b"\xff\xfe secret"  # in UTF-8
NUMBERS = {
    **{kind: [np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max, None] for kind in (
        pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(),
    )},
    **{kind: [np.nan, np.inf, -np.inf, 0.5, -0.0, None] for kind in (pa.float16(), pa.float32(), pa.float64())},
    pa.bool_(): [True, None],
    pa.decimal128(38, 2): [Decimal(10**35), Decimal("-0.01"), None],
    pa.decimal256(76, 40): [Decimal(10**35), Decimal(1).scaleb(-40), None],
}  # fmt: skip
NUMBERS[pa.float64()] += [5e-324, 1.7e308]
TEXTS = {
    kind: [NO_TEXT, b"", b"\0", b"w" * 300_000, "\ufffd".encode(), None]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
}
KINDS = NUMBERS | TEXTS | {pa.null(): [None]}


def array_of(values, kind):
    """Values of a type, where text may be any bytes: Arrow does not look at these when it reads a file."""
    if pa.types.is_dictionary(kind):
        return array_of(values, kind.value_type).dictionary_encode()
    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}.get(kind)
    if raw is None:
        return pa.array(values, kind)
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return pa.array(encoded, raw).cast(kind, safe=False) if raw == pa.binary_view() else pa.array(encoded, raw).view(kind)


def usual_values(column, kind):
    """What ordinary records have in a column of some type."""
    if kind == pa.null():
        return [None] * N_ROWS
    if kind in NUMBERS:
        numbers = range(20, 20 + N_ROWS) if column == "id" else [number % 2 for number in WHOLE]
        return [bool(number) for number in numbers] if kind == pa.bool_() else [*numbers]
    return [f"p{place}" for place in range(N_ROWS)] if column == "id" else WORDS


def table_of(kind, odd=()):
    """A table in which every column that may has a type, with odd values of that type at places."""
    places = [place for place, _ in odd]
    order = pa.array(placed([*range(N_ROWS)], [(place, 1) for place in places]))
    columns = {name: array.take(order) for name, array in PLAIN.items()}
    columns["mark"] = pa.array(placed([ORDINARY] * N_ROWS, [(place, ODD) for place in places]))
    columns["id"] = pa.array(placed([*range(20, 20 + N_ROWS)], [(place, 90) for place in places]), pa.int64())
    for name in {"id", "target"} | ({"c"} if kind not in NUMBERS else set()) | ({"x", "k"} if kind not in TEXTS else set()):
        columns[name] = array_of(placed(usual_values(name, kind), odd), kind)
    return pa.table(columns)


def schemas_of(kind):
    unfit = {"classes"} if kind in NUMBERS else {"numbered classes", "bounded"} if kind in TEXTS else set()
    return [name for name in SCHEMAS if name not in unfit | ({"persons"} if kind == pa.bool_() else set())]


def in_file(folder, table):
    """The only file of a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pq.write_table(table, folder / "1.parquet", row_group_size=5)
    return folder / "1.parquet"


def in_folder(folder, table):
    """Beside another file, of other types and in another order, that is read first."""
    in_file(folder, table)
    kind = table.schema.field("target").type
    target = PLAIN["x"] if kind in NUMBERS else PLAIN["target"] if kind in TEXTS else pa.nulls(N_ROWS)
    first = {"more": PLAIN["x"], **dict(reversed((PLAIN | {"target": target}).items()))}
    pq.write_table(pa.table(first), folder / "0.parquet")
    return folder


def in_feather(folder, table):
    path = folder.with_suffix(".arrow")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return path


def seal_parquet(path, name):
    return seal_elsewhere(path, SCHEMAS[name], 1, *(("id", everyone()) if name == "persons" else ()))


WAYS = {"file": (in_file, seal_parquet), "folder": (in_folder, seal_parquet), "Feather": (in_feather, seal)}


def assert_not_seen(folder, way, kind, tables_of_odd):
    write, opened = WAYS[way]

    def found(odd):
        return readings(partial(opened, write(folder / "t", table_of(kind, odd))), schemas_of(kind))

    before = found([])
    for odd in tables_of_odd:
        with noted(f"{kind} {odd}"[:200]):
            assert_like(found(odd), before, len(odd))


@pytest.mark.parametrize("way", WAYS)
def test_odd_records_of_typed_files_are_not_seen_together_or_alone(tmp_path, way):
    for turn, (kind, values) in enumerate(KINDS.items()):
        alone = [[(N_ROWS, value)] for value in values] if [*WAYS][turn % 3] == way else []
        together = [(5 * place % N_ROWS, value) for place, value in enumerate(values)]
        assert_not_seen(tmp_path, way, kind, [together, *alone])


@FEW
@given(data=st.data(), way=st.sampled_from(sorted(WAYS)), kind=st.sampled_from([*KINDS]))
def test_odd_records_of_typed_files_are_not_seen_wherever_they_stand(tmp_path, data, way, kind):
    assert_not_seen(tmp_path, way, kind, [data.draw(some_of(KINDS[kind], N_ROWS))])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_folder_is_read_as_each_of_its_files_alone(tmp_path, kind):
    folder = in_folder(tmp_path / "f", table_of(kind, [(5, value) for value in KINDS[kind]]))
    for name in {*schemas_of(kind)} - {"persons"}:
        paths = (folder, folder / "0.parquet", folder / "1.parquet")
        counts = [root_counts(seal_parquet(path, name))[0] for path in paths]
        np.testing.assert_array_equal(counts[0], counts[1] + counts[2])
        parts = list(doors.open_source(folder).chunks(Asked(SCHEMAS[name], with_target=True)))
        streamed = sum(root_counts(Vault.seal(X, y, SCHEMAS[name]))[0] for X, y, _ in parts)
        np.testing.assert_array_equal(streamed, counts[0])


def test_a_person_is_one_in_files_of_different_types():
    columns = [pa.array([1, 2], pa.int64()), pa.array([1.0, 2.5]), pa.array(["1", None]), pa.array([True]), pa.nulls(1)]
    found = person_indices(*(read_ids(pa.chunked_array([column])) for column in columns)).tolist()
    assert found == [0, 1, 0, 2, 3, -1, 0, -1]


# --- clusters ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


# Workers read a piece as above; a few types show that what they read is that.
@pytest.mark.parametrize("kind", [pa.float64(), pa.uint64(), pa.decimal256(76, 40), pa.string(), pa.large_string()], ids=str)
def test_odd_records_of_a_folder_on_a_cluster_are_not_seen(tmp_path, client, kind):
    def found(odd):
        folder = in_folder(tmp_path / "t", table_of(kind, odd))
        names = [name for name in schemas_of(kind) if name != "persons"]
        return readings(lambda name: seal_elsewhere(folder, SCHEMAS[name], 1, client=client), names)

    odd = [(N_ROWS, value) for value in KINDS[kind]]
    assert_like(found(odd), found([]), len(odd))


NO_TEXT_IN_PANDAS = pd.array(array_of([NO_TEXT], pa.large_string()), dtype=pd.ArrowDtype(pa.large_string()))
FRAMES = {
    "a fraction among whole numbers": ("x", [0.5]),
    "a missing number": ("x", [np.nan]),
    "no number": ("x", pd.array(["secret"], dtype=object)),
    "a moment": ("x", pd.array([pd.Timestamp.max])),
    "a moment of another age": ("x", pd.array([10**15], dtype=pd.ArrowDtype(pa.int64())).astype("timestamp[s][pyarrow]")),
    "no text": ("c", NO_TEXT_IN_PANDAS),
    "a number among words": ("c", [7]),
    "categories": ("c", pd.Categorical(["secret"])),
    "a list": ("k", pd.array([[1]], dtype=object)),
    "a label that is no text": ("target", NO_TEXT_IN_PANDAS),
}


def test_odd_partitions_of_a_dataframe_are_not_seen(client):
    """An odd record is a partition of its own, whose types are its own."""
    whole = pa.table({name: PLAIN[name] for name in ("x", "c", "k", "target", "mark")}).to_pandas()
    whole = whole.astype(dict.fromkeys(("c", "target", "mark"), "string"))
    odd = [whole.iloc[1:2].assign(**{column: values, "mark": ODD}) for column, values in FRAMES.values()]
    schemas = {"features": Schema({name: SCHEMAS["features"].features[name] for name in ("x", "c", "k")}, MARKS)}
    schemas["classes"] = SCHEMAS["classes"]

    def found(more):
        parts = [delayed(whole), *map(delayed, more)]
        frame = dd.from_delayed(parts, meta=whole.iloc[:0], verify_meta=False)
        return readings(lambda name: seal_elsewhere(frame, schemas[name], 1, client=client), schemas)

    for more in ([part] for part in odd):
        assert_like(found(more), found([more[0].iloc[:0]]), 1)
    assert_like(found(odd), found([]), len(odd))


# --- folders that are named after values ------------------------------------------------------------------------------

KEYED = {
    "number": Numeric(0, 3000),
    "listed": Categorical(["2021", "2022"]),
    "code": Categorical([2021, 2022]),
    "bucket": Categorical(),
    "day": Date("2020-01-01", "2030-01-01"),
    "moment": Date("2020-01-01", "2030-01-01", time=True),
}
OF_FOLDERS = {
    "features": Schema({"age": Numeric(0, 100), **KEYED}, MARKS, one_row_per_person=True),
    "a folder for a class": Schema(MARK, Classes([2021, 2022, 2023], name="label"), one_row_per_person=True),
    "a folder for a number": Schema(MARK, Bounded(0, 3000, name="label"), one_row_per_person=True),
}
NAMED = ("soon", "1e999", "-1", "nan", "2021-13-01", "2021-12-31", "%FF%FE", "%00", "__HIVE_DEFAULT_PARTITION__", "", "0x10",
         "é", "2021 ", "NA", "'; DROP TABLE x; --", "1_0", "true", "w" * 30, "x.parquet", "[a]*?", "a=b\nc")  # fmt: skip


@pytest.fixture
def folder_of(tmp_path):
    """A function that gives a folder of three years and of odd names, each with one record."""

    def made(odd):
        folder = tmp_path / f"of {len(list(tmp_path.iterdir()))}"
        for name in ("2021", "2022", "2023", *odd):
            where = folder / "/".join(f"{key}={name}" for key in [*KEYED, "label"])
            where.mkdir(parents=True)
            ages, mark = ([50.0], ODD) if name in odd else (np.arange(int(name) % 7 + 3.0), ORDINARY)
            pq.write_table(pa.table({"age": ages, "mark": [mark] * len(ages)}), where / "0.parquet")
        return folder

    return made


def by_stream(path, schema):
    rows = joined(doors.open_source(path).chunks(Asked(schema, with_target=True)))
    return read(lambda: Vault.seal(rows.features, rows.target, schema))


BY = {"vault": lambda path, schema: read(lambda: seal_elsewhere(path, schema, 1)), "stream": by_stream}


@pytest.fixture
def found_by(request):
    """A function that reads a folder, on a cluster or here."""
    if request.param != "cluster":
        return BY[request.param]
    client = request.getfixturevalue("client")
    return lambda path, schema: read(lambda: seal_elsewhere(path, schema, 1, client=client))


TOGETHER, ALONE = [NAMED, NAMED[:1]], [[odd] for odd in NAMED]
TRIED = [pytest.param(by, TOGETHER, id=f"{by}, together") for by in (*BY, "cluster")]
TRIED += [pytest.param(by, ALONE, id=f"{by}, alone") for by in ("vault", "stream")]


@pytest.mark.parametrize(("found_by", "tables_of_odd"), TRIED, indirect=["found_by"])
@pytest.mark.parametrize("schema", OF_FOLDERS.values(), ids=OF_FOLDERS)
def test_odd_folders_are_not_seen(folder_of, found_by, tables_of_odd, schema):
    """Types that follow from the names of all folders, as readers like to guess them, would change for all records."""
    before = found_by(folder_of([]), schema)
    assert before.outcome == FINE
    assert before == BY["vault"](folder_of([]), schema)
    for odd in tables_of_odd:
        with noted(str(odd)):
            found_by(folder_of(odd), schema).assert_like(before, len(odd))


def test_a_name_that_is_no_text_is_refused_and_not_repeated(folder_of):
    folder, schema = folder_of([]), OF_FOLDERS["features"]
    os.rename(folder / "number=2021", os.fsencode(folder) + b"/number=\xff\xfesecret")
    told = [
        outcome(lambda: seal_elsewhere(folder, schema, 1)),
        outcome(lambda: doors.open_source(folder).kinds()),
    ]
    assert [each.error.startswith("TableError") and "secret" not in each.error for each in told] == [True] * 2


@pytest.mark.parametrize("name", OF_FOLDERS)
def test_a_fit_tells_nobody_of_a_folder_more(folder_of, name):
    kind = DPForestRegressor if isinstance(OF_FOLDERS[name].target, Bounded) else DPForestClassifier
    model = kind(OF_FOLDERS[name], epsilon=1.0, n_trees=2, max_depth=2)
    for odd in ([], NAMED, *([name] for name in NAMED[::4])):
        path = folder_of(odd)
        assert outcome(lambda path=path: model.fit(path)) == FINE
