"""Secret samples wherever the rows are: one coin for each record, and all answers about one sample.

Coins are fresh, so chances are stated: a test fails about once in a million runs, if the sampler is sound.
"""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
from pyarrow import feather
from tests.conformance.conformance import in_memory
from tests.conformance.conformance_backends import SOURCES
from tests.records.holders import LAYOUTS
from tests.support.chances import at_least, at_most
from tests.support.encoded import opened

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.common.work import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records import scan
from dpforest.records.categories import PLACES as NOTED
from dpforest.records.doors import seal_elsewhere
from dpforest.records.encoding import taken
from dpforest.records.people import People
from dpforest.records.source import Source
from dpforest.schema.domain import Domain, Grid

N_ROWS = 3000
SHARE = Fraction(3, 8)
SCHEMA = Schema(
    {"record": Categorical(range(N_ROWS)), "x": Numeric(0, 1), "town": Categorical(["a", "b"])}, Classes([0, 1], name="y")
)
NUMBERS = np.arange(N_ROWS)
TABLE = pa.table({
    "record": NUMBERS, "x": NUMBERS / N_ROWS, "town": np.where(NUMBERS % 2, "a", "b"), "y": NUMBERS % 2, "who": NUMBERS // 3,
})  # fmt: skip


PLACES = ["memory", "Parquet file", "CSV", "stream", "DuckDB file", "SQLite"]


def put(name, folder, request=None):
    """The table where some source has it."""
    return SOURCES[name][0](TABLE, folder, request)()


@pytest.fixture(params=PLACES)
def seal(request, tmp_path):
    """A function that gives a vault of the table, of persons if a rule for them is passed."""

    def sealed(people=None):
        groups = None if people is None else "who"
        if request.param == "memory":
            return in_memory(TABLE, SCHEMA, groups, people)
        return seal_elsewhere(put(request.param, tmp_path, request), SCHEMA, 2, groups, people)

    return sealed


@pytest.fixture(params=["in memory", "in a file"])
def place(request, monkeypatch):
    monkeypatch.setattr(scan, "MOST_HELD", scan.MOST_HELD if request.param == "in memory" else 1000)


class Watched(Entropy):
    """Coins that count for how many records they were tossed."""

    n_tossed = 0

    def sample_records(self, draw, n_records, share):
        self.n_tossed += n_records
        return super().sample_records(draw, n_records, share)


def records_of(vault):
    """The numbers of the records that a vault encodes."""
    return sorted(vault.encode(Domain.of(SCHEMA, Grid(4)))._codes[0].tolist())


def test_one_coin_is_tossed_for_each_record_and_all_answers_are_about_one_sample(seal, place):
    entropy, vault = Watched(), seal()
    sample = vault.sampled(SHARE, entropy)
    first = records_of(sample)
    assert opened(sample.count()).tolist() == [len(first)]
    assert sum(opened(sample.count_texts("town")).values()) == len(first)
    assert records_of(sample) == first
    assert entropy.n_tossed == N_ROWS
    assert len({*first}) == len(first)
    assert at_least(N_ROWS, float(SHARE)) <= len(first) <= at_most(N_ROWS, float(SHARE))
    vault.close()


def test_persons_are_kept_with_all_their_rows_or_not_at_all(seal):
    vault = seal(People(3, Entropy()))
    kept = np.bincount(np.array(records_of(vault.sampled(SHARE, Entropy()))) // 3, minlength=N_ROWS // 3)
    assert {*kept} == {0, 3}
    assert at_least(N_ROWS // 3, float(SHARE)) <= np.count_nonzero(kept) <= at_most(N_ROWS // 3, float(SHARE))
    vault.close()


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_rows_are_taken_as_plain_indexing_takes_them(monkeypatch, n_jobs):
    monkeypatch.setattr("dpforest.common.work.THREAD_CELLS", 0)
    values, rows = np.random.default_rng(1).normal(size=(40, 5)), np.array([0, 3, 4, 9, 39])
    for lay in LAYOUTS.values():
        columns = [*lay(values).T]
        for column, some in zip(columns, taken(columns, rows, Workers(n_jobs)), strict=True):
            np.testing.assert_array_equal(some, column[rows])


def test_a_text_file_that_changes_after_it_was_read_changes_nothing(tmp_path):
    path, trained = put("CSV", tmp_path), []
    for change in ("", "7,0.5,a,1\n"):

        def add_row(step, change=change):
            if step.endswith("100 %"):
                path.write_text(path.read_text() + change)

        model = DPForestClassifier(SCHEMA, epsilon=1.0, random_state=1).fit(path, progress=add_row)
        trained.append(model.forest_.counts)
    np.testing.assert_array_equal(*trained)


class Growing(Source):
    """A table that has a row more at each reading, although it says that it repeats."""

    repeats, n_rows = True, 50

    def names(self):
        return TABLE.column_names

    def kinds(self):
        return {}

    def empty(self, asked):
        return asked.chunk(TABLE.slice(0, 0))

    def chunks(self, asked, progress=None):
        self.n_rows += 1
        yield asked.chunk(TABLE.slice(0, self.n_rows))


def test_a_source_that_changes_between_two_readings_ends_the_fit_in_words():
    vault = seal_elsewhere(Growing(), SCHEMA, 1)
    vault.count()
    with pytest.raises(TableError, match=r"was changed while .* What was charged stays charged"):
        vault.encode(Domain.of(SCHEMA, Grid(4)))


NUMBERED = pa.array([0, 1], pa.int8()).dictionary_encode()
VIEWS = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", "b"], pa.string_view()))
TIMES, LISTS, RUNS = pa.array([1, 2], pa.time32("s")), pa.array([[1], [2]]), pc.run_end_encode(pa.array(["a", "b"]))


def test_types_that_cannot_be_kept_are_refused_before_there_is_a_ledger():
    texts, numbers = (Schema({"v": part}, Classes([0, 1], name="y")) for part in (Categorical(["a", "b"]), Numeric(0, 1)))
    cases = [(texts, column, None) for column in (NUMBERED, VIEWS, TIMES, LISTS)]
    cases += [(numbers, column, "who") for column in (VIEWS, TIMES, LISTS)]
    for schema, column, groups in cases:
        model = DPForestClassifier(schema, epsilon=1.0, max_rows_per_person=groups and 1)
        table = pa.table({"v": column if groups is None else [0.5, 1.0], "y": [0, 1], "who": column})
        with pytest.raises(TableError):
            model.fit(table.to_reader(), groups=groups)
        assert not hasattr(model, "ledger_")
    DPForestClassifier(texts, epsilon=1.0).fit(pa.table({"v": RUNS, "y": [0, 1]}).to_reader())


def test_notes_of_a_file_are_not_taken_for_the_librarys_own(tmp_path):
    schema = Schema({"c": Categorical([5, 200])}, Classes([0, 1], name="y"))
    noted = pa.schema([pa.field(name, pa.int64(), metadata=NOTED) for name in ("c", "y")])
    table = pa.Table.from_arrays([pa.array([5, 200, 7]), pa.array([0, 1, 9])], schema=noted)
    feather.write_feather(table, tmp_path / "t.feather")
    for given in (tmp_path / "t.feather", table.to_reader()):
        counter = seal_elsewhere(given, schema, 1).encode(Domain.of(schema, Grid(4)))
        assert (counter._codes[0].tolist(), counter._target_codes.tolist()) == ([0, 1], [0, 1])
