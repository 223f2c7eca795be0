"""Fits one tree, or what the default recipe plans, through one engine.

It has a process of its own, so that its memory and its connections are its own.

A request comes in as a line of JSON, an answer goes out as one: the seconds of encoding and of growing of each run, the
peak of memory, the bytes that reached this process in each level. Runs are repeated and the best counts, so the first
warms up the others.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq
from dpforest.records.parquet import ParquetVault

from benchmarks.core.process import peak_bytes, start_watching
from benchmarks.core.serve import serve
from benchmarks.engines import cases
from benchmarks.engines.cluster import cluster
from benchmarks.engines.tables import TABLE
from benchmarks.engines.traffic import Traffic
from benchmarks.speed.systems import EPSILON, Shape
from dpforest.mechanisms import Entropy
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import MaxOperator
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import NonNegative
from dpforest.parts.proposals import Menu, Thresholds
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.parts.voting import MeanOfShares
from dpforest.pipeline import fit_forest
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes.catalogue import get_recipe
from dpforest.records.base import Source
from dpforest.records.vault import Vault
from dpforest.schema import Schema
from dpforest.schema.domain import Grid

Answer = dict[str, Any]
# No run begins after so many seconds of runs.
REPEAT_SECONDS = 100.0
# What DuckDB may use of the trainer's memory for a Parquet file, in all and for each thread; beyond that it works on disk.
DUCKDB_MEGABYTES = 40, 40

TREE = Recipe(
    name="one tree",
    title="One tree on all records",
    paper="",
    sample=EveryRecord(),
    grid=Grid(bins=cases.BINS),
    propose=Menu((Thresholds(),)),
    criterion=MaxOperator(),
    allocate=Uniform(split_share=0.5),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=MeanOfShares(),
    depth=cases.DEPTH,
)

RECIPES = {cases.ONE_TREE: TREE, cases.OWN_PLAN: get_recipe("auto")}

Seal = Callable[[], Source]


@contextmanager
def _in_memory(request: Answer, schema: Schema, traffic: Traffic) -> Iterator[Seal]:
    table = pq.read_table(request["address"]).combine_chunks()
    X, y = table.select([*schema.features]), table.column(schema.target.name)
    yield lambda: Vault.seal(X, y, schema, request["threads"])


@contextmanager
def _from_parquet(request: Answer, schema: Schema, traffic: Traffic) -> Iterator[Seal]:
    yield lambda: ParquetVault.seal(request["address"], schema, request["threads"])


@contextmanager
def _in_duckdb(request: Answer, schema: Schema, traffic: Traffic) -> Iterator[Seal]:
    through = request["engine"] == cases.DUCKDB_PARQUET
    with tempfile.TemporaryDirectory(prefix="dpforest-duckdb-") as folder:
        settings = {"threads": request["threads"], "temp_directory": folder}
        if through:
            megabytes = DUCKDB_MEGABYTES[0] + DUCKDB_MEGABYTES[1] * request["threads"]
            settings |= {"memory_limit": f"{megabytes}MB", "preserve_insertion_order": False}
        connection = import_module("ibis").duckdb.connect(*([] if through else [request["address"]]), **settings)
        # It lives in this process, so no connection carries its results.
        session = import_module("dpforest.records.sql.session").Session
        fetch = session.fetch

        def counted(*arguments: Any) -> Any:
            found = fetch(*arguments)
            traffic.add_result(sum(column.nbytes for column in found.values()))
            return found

        session.fetch = counted
        table = connection.read_parquet(request["address"]) if through else connection.table(TABLE)
        yield lambda: _sql_vault().seal(table, schema)
        connection.disconnect()


@contextmanager
def _in_postgresql(request: Answer, schema: Schema, traffic: Traffic) -> Iterator[Seal]:
    connection = import_module("ibis").connect(request["address"])
    table = connection.table(f"{TABLE}_{request['n_rows']}")
    yield lambda: _sql_vault().seal(table, schema)
    connection.disconnect()


@contextmanager
def _on_dask(request: Answer, schema: Schema, traffic: Traffic) -> Iterator[Seal]:
    vault = import_module("dpforest.records.dask.vault").DaskVault
    with cluster(request["threads"]) as client:
        yield lambda: vault.seal(request["address"], schema, client, 1)


def _sql_vault() -> Any:
    return import_module("dpforest.records.sql.vault").SqlVault


OPENERS = {
    cases.MEMORY: _in_memory,
    cases.PARQUET: _from_parquet,
    cases.DUCKDB: _in_duckdb,
    cases.DUCKDB_PARQUET: _in_duckdb,
    cases.POSTGRESQL: _in_postgresql,
    cases.DASK: _on_dask,
}


def fit(seal: Seal, plan: str, depth: int | None, traffic: Traffic) -> Answer:
    """One run: seconds of parts, and bytes that had come in at the end of encoding, of each level and of the leaves.

    Of many trees, which ask their levels one after the other, the levels are not told apart.
    """
    moments: dict[str, tuple[float, int]] = {}

    def note(step: str) -> None:
        is_level = plan == cases.ONE_TREE and (step == "leaves" or str(step).startswith("level "))
        if step == "encoded" or is_level:
            moments[str(step)] = (time.perf_counter(), traffic.so_far())

    gate = Gate(Ledger(make_accountant(EPSILON, 0.0)), Entropy())
    start, before = time.perf_counter(), traffic.so_far()
    source = seal()
    fit_forest(source, RECIPES[plan], gate, max_depth=depth, progress=note)
    end = time.perf_counter()
    moments.setdefault("leaves", (end, traffic.so_far()))
    getattr(source, "close", lambda: None)()
    received = [before, *(n_bytes for _, n_bytes in moments.values())]
    encoded = moments["encoded"][0]
    seconds = {"seconds": end - start, "encoding": encoded - start, "growing": end - encoded}
    return seconds | {"received": [after - earlier for earlier, after in pairwise(received)]}


def answer(request: Answer) -> Answer:
    """All runs of a case."""
    depth, traffic = request.get("depth"), Traffic()
    schema = Shape(request["n_rows"], request["n_features"], 1, depth or 0).schema
    with OPENERS[request["engine"]](request, schema, traffic) as seal:
        held = start_watching()
        runs: list[Answer] = []
        while len(runs) < request["repeats"] and sum(run["seconds"] for run in runs) < REPEAT_SECONDS:
            runs.append(fit(seal, request["plan"], depth, traffic))
        return {"runs": runs, "peak_bytes": peak_bytes(), "held_bytes": held}


if __name__ == "__main__":
    serve(answer)
