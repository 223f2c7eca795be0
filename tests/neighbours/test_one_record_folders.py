"""One record may make a new folder of a Parquet table; whatever it is named after, everything else stays as it was.

Types that follow from the names of all folders, as readers of such tables like to guess them, would change for all records.
"""

import os
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from tests.neighbours.one_record import Outcome, assert_others_are_read_as_before, outcome

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.records.dask.vault import DaskVault
from dpforest.records.parquet import ParquetVault
from dpforest.records.reader import Asked, joined
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.vault import SqlVault
from dpforest.records.tables import open_reader

pytestmark = pytest.mark.slow

FEATURES = {
    "age": Numeric(0, 100),
    "number": Numeric(0, 3000),
    "listed": Categorical(["2021", "2022"]),
    "code": Categorical([2021, 2022]),
    "bucket": Categorical(),
    "day": Date("2020-01-01", "2030-01-01"),
    "moment": Date("2020-01-01", "2030-01-01", time=True),
}
SCHEMAS = {
    "classes": Schema(FEATURES, Classes(["no", "yes"], name="ill"), one_row_per_person=True),
    "a folder for a class": Schema(FEATURES, Classes([2021, 2022, 2023], name="label"), one_row_per_person=True),
    "a folder for a number": Schema(
        {name: part for name, part in FEATURES.items() if not isinstance(part, Date)},
        Bounded(0, 3000, name="label"),
        one_row_per_person=True,
    ),
}
KEYS = [*FEATURES][1:]
USUAL = ("2021", "2022", "2023")
ODD = ("soon", "1e999", "-1", "nan", "2021-13-01", "2021-12-31", "%FF%FE", "%00", "__HIVE_DEFAULT_PARTITION__", "", "0x10",
       "é", "2021 ", "NA", "'; DROP TABLE x; --", "1_0", "true", "w" * 30, "x.parquet", "[a]*?", "a=b\nc")  # fmt: skip


def place_of(value):
    return "/".join(f"{key}={value}" for key in [*KEYS, "label"])


def write(folder, value, ages):
    where = folder / place_of(value)
    where.mkdir(parents=True)
    pq.write_table(pa.table({"age": ages, "ill": ["yes"] * len(ages)}), where / "0.parquet")


@pytest.fixture
def folders(tmp_path):
    """A folder of three years, and a function that gives a copy with one record more."""
    for year in USUAL:
        write(tmp_path / "less", year, np.arange(int(year) % 7 + 3.0))

    def neighbour(value):
        shutil.rmtree(tmp_path / "more", ignore_errors=True)
        shutil.copytree(tmp_path / "less", tmp_path / "more")
        write(tmp_path / "more", value, [50.0])
        return tmp_path / "more"

    return tmp_path / "less", neighbour


@pytest.fixture(scope="module")
def client():
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster) as found:
        yield found


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("odd", ODD)
def test_a_folder_more_does_not_change_how_others_are_read(folders, client, odd, name):
    (less, neighbour), schema = folders, SCHEMAS[name]
    more = neighbour(odd)
    assert_others_are_read_as_before(ParquetVault.seal(more, schema), ParquetVault.seal(less, schema))
    assert_others_are_read_as_before(DaskVault.seal(more, schema, client), DaskVault.seal(less, schema, client))
    opened = [open_table(f"duckdb:///{path}/**/*.parquet", None, schema) for path in (more, less)]
    with SqlVault.seal(opened[0], schema) as with_record, SqlVault.seal(opened[1], schema) as without:
        assert_others_are_read_as_before(with_record, without)
    for table in opened:
        table.get_backend().disconnect()
    asked = Asked(schema, with_target=True)
    for address in ("{}", "duckdb:///{}/**/*.parquet"):
        read = [joined(open_reader(address.format(path)).parts(asked)) for path in (more, less)]
        with_record, without = (Counter(map(str, zip(*part.features, part.target, strict=True))) for part in read)
        assert without <= with_record
        assert with_record.total() == without.total() + 1


@pytest.mark.parametrize("column", ["listed", "bucket", "ill", "beside"])
def test_a_text_that_is_not_utf_8_concerns_its_own_record(tmp_path, column):
    texts = pa.array([b"2021", b"2022", b"no", b"yes", b"\xff\xfe secret"])
    odd = pa.Array.from_buffers(pa.string(), len(texts), texts.buffers())
    columns = {"listed": odd[:4], "bucket": odd[:4], "beside": odd[:4], "ill": ["no", "yes", "no", "yes"]}
    more = {name: pa.chunked_array([values, odd[4:] if name == column else values[:1]]) for name, values in columns.items()}
    pq.write_table(pa.table(columns), tmp_path / "less.parquet")
    pq.write_table(pa.table(more), tmp_path / "more.parquet")
    schema = Schema({name: FEATURES[name] for name in ("listed", "bucket")}, Classes(["no", "yes"], name="ill"))
    opened = [open_table(f"duckdb:///{tmp_path}/{name}.parquet", None, schema) for name in ("more", "less")]
    with SqlVault.seal(opened[0], schema) as with_record, SqlVault.seal(opened[1], schema) as without:
        assert_others_are_read_as_before(with_record, without)
    for table in opened:
        table.get_backend().disconnect()


def test_a_name_that_is_no_text_is_refused_and_not_repeated(folders):
    less, _ = folders
    os.rename(less / "number=2021", os.fsencode(less) + b"/number=\xff\xfesecret")
    told = [
        outcome(lambda: ParquetVault.seal(less, SCHEMAS["classes"])),
        outcome(lambda: open_reader(less).kinds()),
        outcome(lambda: open_table(f"duckdb:///{less}/**/*.parquet", None, SCHEMAS["classes"])),
    ]
    assert [each.error.startswith("TableError") and "secret" not in each.error for each in told] == [True] * 3


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_fit_tells_nobody_of_a_folder_more(folders, name):
    less, neighbour = folders
    kind = DPForestRegressor if isinstance(SCHEMAS[name].target, Bounded) else DPForestClassifier
    model = kind(SCHEMAS[name], epsilon=1.0, n_trees=2, max_depth=2)
    told = {outcome(lambda: model.fit(less))}
    for odd in ODD:
        path = neighbour(odd)
        told.add(outcome(lambda path=path: model.fit(path)))
    assert told == {Outcome(None, ())}
