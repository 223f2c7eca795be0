"""One record of a file, whatever stands in it, decides neither whether a fit succeeds nor how others are read."""

import gzip
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
from tests.neighbours.one_record import Outcome, assert_others_are_read_as_before, outcome, root_counts

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records import tables
from dpforest.records.dask.vault import DaskVault
from dpforest.records.files import delimited
from dpforest.records.memory.vault import Vault
from dpforest.records.parquet import ParquetVault
from dpforest.records.people import People, person_indices, read_ids
from dpforest.records.reader import Asked, joined

pytestmark = pytest.mark.slow

N_ROWS = 12
FINE = Outcome(None, ())
FEATURES = {"x": Numeric(0, 3), "c": Categorical(["a", "b"]), "k": Categorical([1, 2])}
SCHEMAS = {
    "classes": Schema(FEATURES, Classes(["no", "yes"])),
    "numbered classes": Schema(FEATURES, Classes([0, 1], other=0)),
    "bounded": Schema(FEATURES, Bounded(0, 2)),
    "buckets": Schema(FEATURES | {"c": Categorical(), "k": Categorical()}, Classes(["no", "yes"])),
}
WHOLE = [1, 2, 0, 1] * 3
WORDS = ["a", "b", "no", "yes"] * 3
PLAIN = {
    "x": pa.array(WHOLE, pa.int64()),
    "c": pa.array(["a", "b", "z", None] * 3),
    "k": pa.array(WHOLE, pa.int64()),
    "id": pa.array(range(20, 20 + N_ROWS), pa.int64()),
}
TARGETS = {
    "classes": pa.array(WORDS),
    "numbered classes": pa.array(WHOLE, pa.int64()),
    "bounded": pa.array(WHOLE, pa.int64()),
    "buckets": pa.array(WORDS),
}

NO_TEXT = b"\xff\xfe secret"  # in UTF-8
EDGES = {
    **{kind: [np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max, None] for kind in (
        pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(),
    )},
    **{kind: [np.nan, np.inf, -np.inf, 0.5, -0.0, None] for kind in (pa.float16(), pa.float32(), pa.float64())},
    pa.bool_(): [True, None],
    pa.decimal128(38, 2): [Decimal(10**35), Decimal("-0.01"), None],
    pa.decimal256(76, 40): [Decimal(10**35), Decimal(1).scaleb(-40), None],
    pa.null(): [None],
}  # fmt: skip
EDGES[pa.float64()] += [5e-324, 1.7e308]
NUMBERS = [(kind, value) for kind, values in EDGES.items() for value in values]
TEXTS = [
    (kind, value)
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.null())
    for value in ((None,) if kind == pa.null() else (NO_TEXT, b"", b"\0", b"w" * 300_000, "\ufffd".encode(), None))
]
ROLES = {
    "numeric feature": ("classes", "x", NUMBERS),
    "categories that are numbers": ("classes", "k", NUMBERS),
    "categories": ("classes", "c", TEXTS),
    "numbers in buckets": ("buckets", "k", NUMBERS),
    "text in buckets": ("buckets", "c", TEXTS),
    "classes": ("classes", "target", TEXTS),
    "classes that are numbers": ("numbered classes", "target", NUMBERS),
    "bounded target": ("bounded", "target", NUMBERS),
    "ids that are numbers": ("classes", "id", [case for case in NUMBERS if case[0] != pa.bool_()]),
    "ids": ("classes", "id", TEXTS),
}
CASES = [
    pytest.param(schema, column, kind, value, id=f"{role}-{kind}-{str(value)[:12]}")
    for role, (schema, column, values) in ROLES.items()
    for kind, value in values
]
every_case = pytest.mark.parametrize(("schema", "column", "kind", "value"), CASES)


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
    """What stands in the other rows of a column of some type."""
    if kind == pa.null():
        return [None] * N_ROWS
    if kind in EDGES:
        return [place + 20 for place in range(N_ROWS)] if column == "id" else [number % 2 for number in WHOLE]
    return [f"p{place}" for place in range(N_ROWS)] if column == "id" else WORDS


def tables_of(schema, column, kind, value):
    """Tables without and with one more record, ordinary but for what stands in one column."""
    plain = PLAIN | {"target": TARGETS[schema]}
    values = [bool(v) for v in usual_values(column, kind)] if kind == pa.bool_() else usual_values(column, kind)
    last = {name: array.slice(1, 1) for name, array in plain.items()} | {"id": pa.array([99], pa.int64())}
    less = pa.table(plain | {column: array_of(values, kind)})
    more = pa.table({name: pa.concat_arrays([array, last[name]]) for name, array in plain.items()})
    place = more.column_names.index(column)
    return less, more.set_column(place, column, array_of([*values, value], kind))


def in_file(folder, table):
    folder.mkdir()
    pq.write_table(table, folder / "1.parquet", row_group_size=5)
    return folder / "1.parquet"


def in_folder(folder, table, schema):
    """Beside another file, of other types, that is read first."""
    in_file(folder, table)
    pq.write_table(pa.table(PLAIN | {"target": TARGETS[schema]}), folder / "0.parquet")
    return folder


def seal(path, schema, column):
    if column == "id":
        return ParquetVault.seal(path, SCHEMAS[schema], 1, "id", People(2, Entropy(0)))
    return ParquetVault.seal(path, SCHEMAS[schema])


def check(with_record, without):
    """Two calls that seal a source: both end well and say nothing, and other records have the same codes."""
    assert outcome(lambda: root_counts(with_record())) == outcome(lambda: root_counts(without())) == FINE
    assert_others_are_read_as_before(with_record(), without())


@every_case
def test_a_parquet_file(tmp_path, schema, column, kind, value):
    without, more = tables_of(schema, column, kind, value)
    paths = [in_file(tmp_path / "more", more), in_file(tmp_path / "less", without)]
    check(*(partial(seal, path, schema, column) for path in paths))


@every_case
def test_a_parquet_folder_whose_files_differ_in_type(tmp_path, schema, column, kind, value):
    without, more = tables_of(schema, column, kind, value)
    paths = [in_folder(tmp_path / "more", more, schema), in_folder(tmp_path / "less", without, schema)]
    check(*(partial(seal, path, schema, column) for path in paths))


@pytest.mark.parametrize(("schema", "column", "kind", "value"), [case for case in CASES if "id" not in case.values[1]])
def test_a_folder_is_read_as_each_of_its_files_alone(tmp_path, schema, column, kind, value):
    _, more = tables_of(schema, column, kind, value)
    folder = in_folder(tmp_path / "f", more, schema)
    counts = [root_counts(seal(path, schema, column))[0] for path in (folder, folder / "0.parquet", folder / "1.parquet")]
    np.testing.assert_array_equal(counts[0], counts[1] + counts[2])
    parts = list(tables.open_reader(folder).parts(Asked(SCHEMAS[schema], with_target=True)))
    assert sum(root_counts(Vault.seal(X, y, SCHEMAS[schema]))[0] for X, y, _ in parts).tolist() == counts[0].tolist()


def test_a_person_is_one_in_files_of_different_types():
    columns = [pa.array([1, 2], pa.int64()), pa.array([1.0, 2.5]), pa.array(["1", None]), pa.array([True]), pa.nulls(1)]
    assert person_indices(*(read_ids(pa.chunked_array([column])) for column in columns)).tolist() == [
        0,
        1,
        0,
        2,
        3,
        -1,
        0,
        -1,
    ]


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


# Workers read a piece as above; a few cases show that what they read is that.
@pytest.mark.parametrize(
    ("schema", "column", "kind", "value"),
    [("classes", "x", pa.float64(), 0.5), ("classes", "x", pa.float64(), None), ("bounded", "target", pa.float64(), np.nan),
     ("numbered classes", "target", pa.uint64(), 2**64 - 1), ("classes", "k", pa.decimal256(76, 40), Decimal(10**35)),
     ("classes", "c", pa.string(), NO_TEXT), ("classes", "target", pa.large_string(), NO_TEXT),
     ("buckets", "c", pa.string(), NO_TEXT), ("buckets", "k", pa.float64(), 0.5)],
)  # fmt: skip
def test_a_folder_on_a_cluster(tmp_path, client, schema, column, kind, value):
    without, more = tables_of(schema, column, kind, value)
    paths = [in_folder(tmp_path / "more", more, schema), in_folder(tmp_path / "less", without, schema)]
    check(*(partial(DaskVault.seal, path, SCHEMAS[schema], client) for path in paths))


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
}  # fmt: skip


@pytest.mark.parametrize(("column", "values"), FRAMES.values(), ids=FRAMES)
def test_a_partition_of_a_dataframe(client, column, values):
    """The odd record is a partition of its own, whose types are its own."""
    whole = pd.DataFrame({"x": WHOLE, "c": pd.array(["a", "b", "z", None] * 3, dtype="string"), "k": WHOLE, "target": WORDS})
    whole["target"] = whole["target"].astype("string")
    odd = whole.iloc[1:2].assign(**{column: values})
    empty = odd.iloc[:0]

    def sealed(last):
        parts = [delayed(whole), delayed(last)]
        return DaskVault.seal(dd.from_delayed(parts, meta=whole.iloc[:0], verify_meta=False), SCHEMAS["classes"], client)

    check(lambda: sealed(odd), lambda: sealed(empty))


CELLS = {
    "nothing": b"", "blank": b" ", "no text": NO_TEXT, "half a letter": b"1\xc3", "zero byte": b"\0", "a number": b"0.5",
    "a comma for a point": b'"3,14"', "thousands": b'"1,234"', "no number": b"secret", "digits": b"9" * 400,
    "tiny": b"1e-400", "infinite": b"-inf", "NaN": b"NaN", "underscore": b"1_0", "other digits": "٣".encode(),
    "line breaks": b'"1\n2\r\n3"', "a quote": b'1"', "quotes": b'"1""2"', "long": b"1" + b"0" * 3000,
    "long in quotes": b'"' + b"a,\n" * 2000 + b'"', "byte order mark": "\ufeff1".encode(), "end of file": b"\x1a",
}  # fmt: skip
LINES = [[b"1", b"a", b"1", b"p%d" % place, b"note", b"yes"] for place in range(N_ROWS)]
CSV_ROLES = {
    "numeric feature": ("classes", 0), "categories": ("classes", 1), "categories that are numbers": ("classes", 2),
    "ids": ("classes", 3), "outside the schema": ("classes", 4), "classes": ("classes", 5),
    "classes that are numbers": ("numbered classes", 5), "bounded target": ("bounded", 5), "buckets": ("buckets", 1),
}  # fmt: skip


def csv_of(path, lines, end=b"\n"):
    content = end.join(b",".join(line) for line in [[b"x", b"c", b"k", b"id", b"note", b"target"], *lines])
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def seal_csv(path, schema, with_ids=False):
    rows = joined(tables.open_reader(path).parts(Asked(SCHEMAS[schema], with_target=True, besides=["id"])))
    groups = (rows.besides.column("id"), People(1, Entropy(0))) if with_ids else (None, None)
    return Vault.seal(rows.features, rows.target, SCHEMAS[schema], 1, *groups)


def column_of(path, name):
    """A column of a text file, as it is written."""
    schema = Schema({name: Categorical(["\0"])}, Bounded(0, 1, name="no column"))
    return joined(tables.open_reader(path).parts(Asked(schema))).features.column(name)


@pytest.mark.parametrize("place", [0, 7], ids=["first", "in the middle"])
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize(("schema", "column"), CSV_ROLES.values(), ids=CSV_ROLES)
def test_a_text_file(tmp_path, monkeypatch, schema, column, cell, place):
    monkeypatch.setattr(delimited, "PART_BYTES", 200)
    odd = [b"1", b"a", b"1", b"other", b"note", b"yes"]
    odd[column] = cell
    more = csv_of(tmp_path / "more.csv", [*LINES[:place], odd, *LINES[place:]])
    less = csv_of(tmp_path / "less.csv", LINES)
    assert tables.open_reader(more).names() == tables.open_reader(less).names()
    check(*(partial(seal_csv, path, schema, column == 3) for path in (more, less)))
    assert sum(len(part.features) for part in tables.open_reader(more).parts(Asked(SCHEMAS[schema]))) == N_ROWS + 1


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_a_text_file_may_be_as_short_as_its_names_and_need_not_end_its_last_line(tmp_path, n_rows, end, name):
    path = csv_of(tmp_path / name, LINES[:n_rows], end)
    assert tables.open_reader(path).names() == ["x", "c", "k", "id", "note", "target"]
    assert len(column_of(path, "id")) == n_rows
    assert root_counts(seal_csv(path, "classes"))[0].sum() == 3 * n_rows


@pytest.mark.parametrize("n_bytes", [5 << 19, 40 << 20], ids=["2.5 MiB", "40 MiB"])
@pytest.mark.parametrize("place", [0, N_ROWS], ids=["first", "last"])
def test_a_long_cell_that_nobody_asks_for(tmp_path, place, n_bytes):
    odd = [b"1", b"a", b"1", b"other", b"w" * n_bytes, b"yes"]
    more = csv_of(tmp_path / "more.csv", [*LINES[:place], odd, *LINES[place:]])
    check(lambda: seal_csv(more, "classes"), lambda: seal_csv(csv_of(tmp_path / "less.csv", LINES), "classes"))


def test_rows_that_were_handed_over_are_not_handed_over_again_where_blocks_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "PART_BYTES", 100)
    lines = [[b"%d" % (place % 3), b"a", b"1", b"%d" % place, b"w" * 40 * (place % 90), b"yes"] for place in range(400)]
    path = csv_of(tmp_path / "t.csv", lines)
    assert column_of(path, "id").to_pylist() == [str(place) for place in range(400)]
    assert sum(len(part.features) for part in tables.open_reader(path).parts(Asked(SCHEMAS["classes"]))) == 400


def test_names_may_have_a_mark_before_them_and_line_breaks_in_quotes(tmp_path):
    (tmp_path / "t.csv").write_bytes("\ufeff".encode() + b'"a\nb","c""d",e"f\n1,2,\xff\n')
    assert tables.open_reader(tmp_path / "t.csv").names() == ["a\nb", 'c"d', 'e"f']
    assert column_of(tmp_path / "t.csv", "a\nb").to_pylist() == ["1"]


def test_names_that_are_not_in_utf_8_are_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,\xff\n1,2\n")
    with pytest.raises(TableError, match="are no text"):
        tables.open_reader(tmp_path / "t.csv").names()


def test_where_a_block_ends_does_not_change_a_cell(tmp_path, monkeypatch):
    path = csv_of(tmp_path / "t.csv", [[b"1", b'"a\r\nb"', b"1", b"p", b"note", b"yes"]] * 40, b"\r\n")
    for n_bytes in range(64, 96):
        monkeypatch.setattr(delimited, "PART_BYTES", n_bytes)
        assert column_of(path, "c").to_pylist() == ["a\r\nb"] * 40
