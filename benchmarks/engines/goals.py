"""Goals for engines, set before they were measured, and what was reached. Made from rows alone."""

from collections.abc import Callable, Iterable

from benchmarks.core import goals
from benchmarks.core.figures import figure_text, size_text, time_text
from benchmarks.core.goals import Goal, Reached
from benchmarks.core.page import Entries
from benchmarks.core.results import Row
from benchmarks.engines.cases import DASK, DUCKDB, DUCKDB_PARQUET, ENGINES, FULL, MEMORY, ONE_TREE, OWN_PLAN, POSTGRESQL

MB = 1e6


class Figures:
    """Measured rows of one scale and plan, by engine, number of rows and threads."""

    def __init__(self, rows: Iterable[Row], plan: str = ONE_TREE) -> None:
        self._all = list(rows)
        kept = [row for row in self._all if row["parameters"]["plan"] == plan]
        full = [row for row in kept if row["parameters"]["scale"] == FULL.name]
        self.rows = full or kept
        self.scale = FULL.name if full else "quick"
        self._found = {(row["system"], *shape_of(row)): row for row in self.rows}
        self.sizes = sorted({shape_of(row)[0] for row in self.rows})
        self.threads = max((shape_of(row)[1] for row in self.rows), default=1)

    @property
    def own_plan(self) -> "Figures":
        """The measured rows of the default recipe as it plans."""
        return Figures(self._all, OWN_PLAN)

    def row(self, engine: str, n_rows: int, threads: int | None = None) -> Row | None:
        return self._found.get((engine, n_rows, threads or self.threads))

    def largest(self, engine: str, threads: int | None = None) -> Row | None:
        """The row with most records."""
        found = [row for n_rows in self.sizes if (row := self.row(engine, n_rows, threads)) is not None]
        return found[-1] if found else None

    def ratio(self, row: Row | None, part: str = "seconds") -> float | None:
        """Time over that in memory with the same rows and threads."""
        base = None if row is None else self.row(MEMORY, *shape_of(row))
        return None if row is None or base is None else row[part] / base[part]


def shape_of(row: Row) -> tuple[int, int]:
    return row["parameters"]["n_rows"], row["parameters"]["threads"]


def _over_memory(engine: str) -> Callable[[Figures], Reached | None]:
    def reach(figures: Figures) -> Reached | None:
        row = figures.largest(engine)
        ratio, growing = figures.ratio(row), figures.ratio(row, "growing")
        if row is None or ratio is None or growing is None:
            return None
        base = row["seconds"] / ratio
        times = f"{row['dataset']}: {time_text(row['seconds'])} over {time_text(base)}"
        return Reached(ratio, f"{times}; growing alone {figure_text(growing, 'x')}")

    return reach


def _of_own_plan(reach: Callable[[Figures], Reached | None]) -> Callable[[Figures], Reached | None]:
    return lambda figures: reach(figures.own_plan)


def _peak(figures: Figures) -> Reached | None:
    """The peak of memory with fewest threads, since each has buffers of its own; the others stand beside it."""
    rows = [figures.largest(DUCKDB_PARQUET, threads) for threads in range(1, figures.threads + 1)]
    found = [row for row in rows if row is not None]
    if not found:
        return None
    peaks = [f"{size_text(row['peak_bytes'])} with {shape_of(row)[1]} threads" for row in found]
    return Reached(found[0]["peak_bytes"] / MB, f"{found[0]['dataset']}: {', '.join(peaks)}")


def _more_workers(figures: Figures) -> Reached | None:
    many, one = figures.largest(DASK), figures.largest(DASK, 1)
    if many is None or one is None or many is one:
        return None
    times = f"{time_text(many['seconds'])} with {figures.threads} workers, {time_text(one['seconds'])} with 1"
    return Reached(many["seconds"] / one["seconds"], f"{many['dataset']}: {times}")


def _steady_bytes(figures: Figures) -> Reached | None:
    """The largest growth of the bytes of a fit from the smallest table to the largest, of engines that send any."""
    found = []
    for engine in ENGINES:
        rows = [row for n_rows in figures.sizes if (row := figures.row(engine, n_rows)) is not None]
        sums = [sum(row["received"][1:]) for row in rows]
        if len(rows) > 1 and all(sums):
            found.append((sums[-1] / sums[0], f"{engine} {size_text(sums[0])} to {size_text(sums[-1])}"))
    return Reached(max(found)[0], "; ".join(text for _, text in found)) if found else None


GOALS: tuple[Goal[Figures], ...] = (
    Goal("DuckDB, time over memory", 15.0, "x", _over_memory(DUCKDB)),
    Goal("Parquet through DuckDB, peak memory of the trainer", 500.0, "MB", _peak),
    Goal("Dask, time over memory with as many threads as workers", 3.0, "x", _over_memory(DASK)),
    Goal("Dask, time over that with one worker", 1.0, "x", _more_workers),
    Goal("DuckDB with the own plan, time over memory", 6.0, "x", _of_own_plan(_over_memory(DUCKDB))),
    Goal("Dask with the own plan, time over memory", 3.0, "x", _of_own_plan(_over_memory(DASK))),
    Goal("PostgreSQL with the own plan, time over memory", 20.0, "x", _of_own_plan(_over_memory(POSTGRESQL))),
    Goal("Parquet through DuckDB with the own plan, peak memory of the trainer", 500.0, "MB", _of_own_plan(_peak)),
    # Fewer groups are empty in a larger table, so what a database sends grows up to the size of the public grid.
    Goal("bytes that reach the trainer, largest table over smallest", 2.0, "x", _steady_bytes),
)


def judged(figures: Figures) -> Entries:
    """Goals, what was reached, and whether that is enough; goals are for the largest table of a full run."""
    fewer = "" if max(figures.sizes, default=0) >= FULL.rows[-1] else ", on fewer rows than the goal's"
    return goals.judged(GOALS, figures, "from", signs=("at most", "at least"), after=fewer)
