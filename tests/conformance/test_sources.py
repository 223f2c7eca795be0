"""One property for every source: wherever the rows are, all sealed answers are those of the same rows in memory."""

from contextlib import closing
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.conformance.conformance import answers, assert_same, codes, in_memory, lot, tables
from tests.conformance.conformance_backends import SOURCES, cluster

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.mechanisms import Entropy
from dpforest.records.doors import seal_elsewhere
from dpforest.records.vault import Vault
from dpforest.schema.domain import Domain, Grid

# A property that fails is told as it was found: to shrink a table where each question takes long would take minutes.
QUIET = {"deadline": None, "suppress_health_check": [*HealthCheck], "phases": [Phase.explicit, Phase.generate]}
SOME = settings(max_examples=max(12, settings.default.max_examples // 8), **QUIET)
FEW = settings(SOME, max_examples=max(8, settings.default.max_examples // 40))
every_source = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks) for name, (_, marks) in SOURCES.items()]
)  # fmt: skip


def client_of(name):
    return cluster() if name.startswith("Dask") else None


@every_source
def test_answers_are_those_of_memory(name, tmp_path, request):
    store, client = SOURCES[name][0], client_of(name)

    @(FEW if name == "Spark" else SOME)
    @given(drawn=tables(plain=name == "CSV"))
    def property_of_source(drawn):
        table, schema, ids = drawn
        get, domain = store(table, tmp_path, request), Domain.of(schema, Grid(bins=5))
        with closing(seal_elsewhere(get(), schema, 1, client=client)) as vault:
            assert_same(answers(vault), answers(in_memory(table, schema)))
        with closing(seal_elsewhere(get(), schema, 1, client=client)) as vault:
            kept = vault.sampled(Fraction(1), Entropy())
            np.testing.assert_array_equal(codes(kept, domain), codes(in_memory(table, schema), domain))
        with closing(seal_elsewhere(get(), schema, 1, ids, lot(), client)) as vault:
            expected = codes(in_memory(table, schema, ids, lot()), domain)
            np.testing.assert_array_equal(codes(vault, domain), expected)

    property_of_source()


@SOME
@given(drawn=tables(), library=st.sampled_from([pl.from_arrow, pa.Table.to_pandas]))
def test_answers_do_not_depend_on_the_library_that_holds_a_table(drawn, library):
    table, schema, ids = drawn
    frame, domain = library(table), Domain.of(schema, Grid(bins=5))
    vault = Vault.seal(frame[[*schema.features]], frame["y"], schema)
    assert_same(answers(vault), answers(in_memory(table, schema)))
    persons = Vault.seal(frame[[*schema.features]], frame["y"], schema, 1, frame[ids], lot())
    np.testing.assert_array_equal(codes(persons, domain), codes(in_memory(table, schema, ids, lot()), domain))


@every_source
def test_a_fit_with_a_seed_gives_the_forest_and_the_ledger_of_memory(name, tmp_path, request):
    rng = np.random.default_rng(7)
    x, city = rng.uniform(0, 1, 300), rng.choice(["a", "b", "c"], 300)
    table = pa.table({"x": x, "city": city, "person": np.arange(300) // 2, "y": np.where(x > 0.5, 1, 0)})
    schema = Schema({"x": Numeric(0, 1), "city": Categorical(["a", "b"])}, Classes([0, 1], name="y"), n_rows=300)
    thing = SOURCES[name][0](table, tmp_path, request)
    for recipe in ("consul-2020", "jagannathan-2009"):  # whose trees see all records, in whatever order
        settings = {"epsilon": 8.0, "recipe": recipe, "max_rows_per_person": 2, "random_state": 1, "max_depth": 3}
        near = DPForestClassifier(schema, **settings).fit(table.to_pandas(), groups="person")
        far = DPForestClassifier(schema, **settings).fit(thing(), groups="person", client=client_of(name))
        assert far.forest_.rules() == near.forest_.rules()
        assert far.ledger_.to_json() == near.ledger_.to_json()
