"""Numbers of records in bins around a centre: one for each record that is kept, in the bin that its value alone gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.encoded import opened
from tests.support.strategies import FIXED

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.common import threads
from dpforest.records.memory.vault import Vault
from dpforest.schema.domain import Domain, Grid
from dpforest.schema.scales import MISSING, N_BINS, bin_of

SCHEMA = Schema({"x": Numeric(), "c": Categorical(["a"]), "z": Numeric(-5, 1000)}, Classes([0, 1]))
DOMAIN = Domain.of(SCHEMA, Grid(4))
NUMBERS = st.one_of(
    st.floats(), st.integers(-(10**6), 10**6).map(float), st.sampled_from([0.0, -0.0, 5e-324, 1e308, 2.0**-60])
)


def expected(values, part, centre):
    counts, (low, high) = np.zeros(N_BINS + 1, dtype=np.int64), part.range
    for value in values:
        counts[MISSING if value != value else bin_of(min(max(value, low), high), centre)] += 1
    return counts


@FIXED
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([0, 1, "unlisted"])), max_size=12), NUMBERS)
def test_every_kept_record_is_in_the_bin_of_its_value(rows, centre):
    centre = 0.0 if not abs(centre) <= 2.0**63 else centre
    first, second, labels = ([row[k] for row in rows] for k in range(3))
    table = np.array([first, ["a"] * len(rows), second], dtype=object).T.reshape(len(rows), 3)
    vault = Vault.seal(table, np.array(labels, dtype=object), SCHEMA)
    found = opened(vault.count_around(DOMAIN, {0: centre, 2: 3.0}))
    kept = [label != "unlisted" for label in labels]
    wanted = [[value for value, stays in zip(values, kept, strict=True) if stays] for values in (first, second)]
    np.testing.assert_array_equal(
        found, [expected(wanted[0], DOMAIN.number(0), centre), expected(wanted[1], DOMAIN.number(2), 3.0)]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64, bool])
def test_columns_of_every_type_of_number_are_counted_alike(monkeypatch, dtype):
    monkeypatch.setattr(threads, "THREAD_CELLS", 1)
    values = np.random.default_rng(3).integers(0, 2 if dtype is bool else 100, 1000).astype(dtype)
    schema = Schema({"x": Numeric(), "y": Numeric(0, 50)}, Classes([0]))
    wanted = [[bin_of(min(value, most), centre) for value in values.tolist()] for centre, most in [(7.0, 100), (0.0, 50)]]
    for n_jobs in (1, 3):
        vault = Vault.seal(np.stack([values, values], axis=1), np.zeros(len(values), dtype=int), schema, n_jobs)
        found = opened(vault.count_around(Domain.of(schema, Grid(4)), {0: 7.0, 1: 0.0}))
        np.testing.assert_array_equal(found, [np.bincount(bins, minlength=N_BINS + 1) for bins in wanted])
