"""Every recipe on every backend: what the backend does not offer is refused before a charge, in words, by one function."""

from functools import cache

import ibis
import pyarrow.parquet as pq
import pytest
from dpforest.records.dask.partitions import Folder
from dpforest.records.dask.vault import DaskVault
from dpforest.records.parquet import ParquetVault
from dpforest.records.sql.vault import SqlVault
from tests.conformance.conformance import in_memory
from tests.conformance.conformance_tables import easy

from dpforest import Classes, get_recipe, list_recipes
from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy
from dpforest.pipeline import fit_forest, fit_published
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes.published.registry import get_published
from dpforest.records.base import CAPABILITIES, Openable, Scored, Weighted, check_support

RECIPES = [(recipe["name"], task) for recipe in list_recipes() for task in recipe["tasks"]]
PUBLISHED = [recipe["name"] for recipe in list_recipes() if recipe["published"] and "classification" in recipe["tasks"]]


class Bare:
    """Counts records, and nothing beside."""

    def deal(self, assignment, entropy): ...
    def count_codes(self, first, wanted): ...
    def count_nodes(self, first, n_nodes): ...
    def descend(self, first, features, routes, first_children): ...
    def hold_out(self, share, entropy): ...


class BareSource:
    """A table of which nothing may be asked in this test."""

    counter, gaps, n_closed = Bare, {need: f"No {need.__name__}. Use another." for need in (*CAPABILITIES, Openable)}, 0

    def __init__(self, schema):
        self.schema = schema

    def close(self):
        self.n_closed += 1


def written(table, folder):
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


@cache
def stored(is_class):
    """A table in a database, which all tests may read."""
    table, _ = easy(24, is_class)
    return ibis.duckdb.connect().create_table("t", table)


def in_database(schema, temporary):
    return SqlVault.seal(stored(isinstance(schema.target, Classes)), schema, temporary)


# How a table is sealed, and what the backend is known not to offer.
BACKENDS = {
    "memory": (lambda table, schema, folder: in_memory(table, schema), set()),
    "file": (lambda table, schema, folder: ParquetVault.seal(written(table, folder), schema), set()),
    "cluster": (lambda table, schema, folder: DaskVault(Folder.at(written(table, folder), schema, 1), None), {Openable}),
    "database": (lambda table, schema, folder: in_database(schema, True), {Openable}),
    "reader": (lambda table, schema, folder: in_database(schema, False), {Openable, Weighted, Scored}),
    "bare": (lambda table, schema, folder: BareSource(schema), {*CAPABILITIES, Openable}),
}


def a_gate():
    return Gate(Ledger(make_accountant(1.0, 0.0)), Entropy())


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path):
    seal, gaps = BACKENDS[request.param]
    return lambda task: seal(*easy(24, task == "classification"), tmp_path), gaps


def test_a_recipe_is_supported_or_refused_with_an_empty_ledger(backend):
    seal, gaps = backend
    sources = {task: seal(task) for task in ("classification", "regression")}
    for name, task in RECIPES:
        recipe = get_recipe(name)
        lacking = gaps.intersection(recipe.needs)
        if not lacking:
            check_support(sources[task], recipe.needs, "This test")
            continue
        source, gate = seal(task), a_gate()
        with pytest.raises(ParameterError, match=f"^Recipe '{name}' asks for .*\\. .*Use ") as caught:
            fit_forest(source, recipe, gate)
        assert all(source.gaps[need] in str(caught.value) for need in lacking)
        assert gate.ledger.n_charges == 0


def test_what_opens_rows_is_refused_where_they_stay_and_nothing_has_leaked(backend):
    seal, gaps = backend
    if Openable not in gaps:
        check_support(seal("classification"), [Openable], "This test")
        return
    for name in PUBLISHED:
        gate = a_gate()
        with pytest.raises(ParameterError, match=f"^Recipe '{name}' asks for the rows themselves.* Use "):
            fit_published(seal("classification"), get_recipe(name), get_published(name), gate)
        assert not gate.ledger.leaks


def test_a_source_that_is_refused_is_closed():
    source = BareSource(easy(24)[1])
    with pytest.raises(ParameterError):
        check_support(source, [Weighted], "This test")
    assert source.n_closed == 1
