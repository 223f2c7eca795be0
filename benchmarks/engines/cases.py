"""What the benchmark of engines measures: how long a fit takes on an engine, and how much memory the trainer needs."""

from dataclasses import dataclass

from benchmarks.core.results import Case, check_known

QUESTION = "engines"
SEED = 2026  # of the tables
N_FEATURES = 20

PARQUET, DUCKDB, SQLITE, POSTGRESQL, DASK, SPARK = "Parquet", "DuckDB", "SQLite", "PostgreSQL", "Dask", "Spark"
ENGINES = (PARQUET, DUCKDB, SQLITE, POSTGRESQL, DASK, SPARK)
TIME, MEMORY = "time", "memory"
# Of each engine the number of rows, and a goal for the time of a fit over that of reading the rows and a fit in memory.
TIMES = {
    PARQUET: (10**7, 1.2), DUCKDB: (10**7, 1.5), SQLITE: (10**6, 1.5),
    POSTGRESQL: (10**6, 1.5), DASK: (10**7, 1.5), SPARK: (10**6, 3.0),
}  # fmt: skip
# The number of rows, and a goal for the peak of memory in GB.
PEAKS = {PARQUET: (10**8, 1.2), POSTGRESQL: (10**7, 1.0)}


@dataclass(frozen=True)
class Scale:
    """Sizes of a run: those of the goals, or of ``rows`` the times alone."""

    name: str
    rows: tuple[int, ...] = ()
    repeats: int = 3


FULL, QUICK = Scale("full"), Scale("quick", (100_000,), repeats=1)


def wanted(scale: Scale, threads: int, engines: tuple[str, ...] = ()) -> list[Case]:
    """The cases of a run: an engine, what is measured, and a number of rows."""
    check_known("engine", engines, ENGINES)
    found = [(engine, TIME, n_rows) for engine, (goal, _) in TIMES.items() for n_rows in scale.rows or (goal,)]
    found += [] if scale.rows else [(engine, MEMORY, n_rows) for engine, (n_rows, _) in PEAKS.items()]
    return [
        Case.of(QUESTION, f"{n_rows:,} x {N_FEATURES}", engine, what, SEED, n_rows=n_rows, threads=threads)
        for engine, what, n_rows in found
        if not engines or engine in engines
    ]
