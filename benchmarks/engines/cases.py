"""What the benchmark of engines measures: which engine fits on how many rows with how many threads."""

from dataclasses import dataclass
from typing import Any

from benchmarks.core.results import Case, check_known

QUESTION = "engines"
SEED = 2026  # of the tables
N_FEATURES, DEPTH, BINS = 20, 6, 32

MEMORY, PARQUET = "memory", "Parquet"
DUCKDB, DUCKDB_PARQUET, POSTGRESQL, DASK = "DuckDB", "Parquet through DuckDB", "PostgreSQL", "Dask"
ENGINES = (MEMORY, PARQUET, DUCKDB, DUCKDB_PARQUET, POSTGRESQL, DASK)
# One tree of the same shape for all, by which engines are compared; and what people run, the default recipe as it plans.
ONE_TREE, OWN_PLAN = "one tree", "own plan"
# Engines that are also measured with fewer threads; for Dask these are workers of one thread.
BY_THREADS = (MEMORY, DUCKDB, DUCKDB_PARQUET, DASK)


@dataclass(frozen=True)
class Scale:
    """Sizes of a run; PostgreSQL gets no table of more rows than ``postgres_rows``."""

    name: str
    rows: tuple[int, ...]
    postgres_rows: int = 1_000_000
    repeats: int = 3

    def case(self, engine: str, n_rows: int, threads: int, plan: str = ONE_TREE) -> Case:
        shape: dict[str, Any] = {"n_rows": n_rows, "n_features": N_FEATURES, "threads": threads, "plan": plan}
        shape |= {"depth": DEPTH} if plan == ONE_TREE else {}
        return Case.of(QUESTION, f"{n_rows:,} x {N_FEATURES}", engine, "fit", SEED, scale=self.name, **shape)


FULL = Scale("full", (100_000, 1_000_000, 10_000_000))
QUICK = Scale("quick", (100_000,), repeats=2)


def wanted(scale: Scale, threads: int, engines: tuple[str, ...] = ()) -> list[Case]:
    """The cases of a run, those in memory first since the others are compared with them."""
    check_known("engine", engines, ENGINES)
    chosen = [engine for engine in ENGINES if not engines or engine in (MEMORY, *engines)]
    cases = []
    for engine in chosen:
        for n_rows in scale.rows:
            if engine != POSTGRESQL or n_rows <= scale.postgres_rows:
                cases += [scale.case(engine, n_rows, threads, plan) for plan in (ONE_TREE, OWN_PLAN)]
        if engine in BY_THREADS:
            cases += [scale.case(engine, scale.rows[-1], fewer) for fewer in range(1, threads)]
    return cases
