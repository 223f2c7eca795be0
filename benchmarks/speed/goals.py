"""Goals for speed and memory, set before they were measured, and what was reached. Made from rows alone."""

from collections.abc import Callable, Iterable

from benchmarks.core.figures import GIB, MIB, figure_text, time_text
from benchmarks.core.goals import Goal, Reached
from benchmarks.core.results import Row
from benchmarks.speed.cases import (
    BARE_PASS,
    DELTA_PLAN,
    DISJOINT,
    FOREST,
    FULL,
    FULL_DATA,
    LIGHTGBM,
    LIGHTGBM_BY_TREE,
    LIGHTGBM_DEFAULTS,
    N_PREDICTING,
    N_TREES,
    NOT_SET,
    OURS,
    OWN_PLANS,
    PURE_PLAN,
    QUICK,
    SMALL,
    Scale,
)


class Figures:
    """Measured rows of one scale, by what they measure."""

    def __init__(self, rows: Iterable[Row], scale: Scale) -> None:
        self.scale = scale
        self.rows = [row for row in rows if row["parameters"]["scale"] == scale.name and "seconds" in row]
        self._found = {self._key(row["system"], row["variant"], row["parameters"]): row for row in self.rows}

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Figures":
        """The rows of the full run, or those of the quick one where there are no others."""
        kept = list(rows)
        full = cls(kept, FULL)
        return full if full.rows else cls(kept, QUICK)

    @staticmethod
    def _key(system: str, action: str, shape: Row) -> tuple[object, ...]:
        return (system, action, *(shape[name] for name in ("n_rows", "n_features", "n_trees", "depth")))

    def row(self, system: str, action: str = "fit", **other: int) -> Row | None:
        """The row of a system in the base case, with other values where they are given."""
        return self._found.get(self._key(system, action, self.scale.shape(**other)))

    def by_default(self, system: str, action: str = "fit", n_rows: int | None = None) -> Row | None:
        """The row of what people run, on the fewer rows where no others are given."""
        return self.row(system, action, n_rows=n_rows or self.scale.default_step[0], **NOT_SET)

    def along(self, system: str, axis: str, value: int) -> Row | None:
        """The row of a fit with another value on one axis."""
        return self._found.get(self._key(system, "fit", self.scale.shape(**{axis: value})))


def _times_as_fast(ours: Row | None, theirs: Row | None, beside: str = "") -> Reached | None:
    if ours is None or theirs is None:
        return None
    times = f"{time_text(ours['seconds'])} against {time_text(theirs['seconds'])}"
    return Reached(theirs["seconds"] / ours["seconds"], times + beside)


def _over(seconds: float, other: float) -> Reached:
    return Reached(seconds / other, f"{time_text(seconds)} over {time_text(other)}")


def _worse(found: Iterable[tuple[str, Reached | None]], unit: str = "x") -> Reached | None:
    """The larger of two figures, with both beside; None unless both were measured."""
    pairs = [(name, reached) for name, reached in found if reached is not None]
    if len(pairs) < 2:
        return None
    beside = "; ".join(f"{name} {figure_text(reached.value, unit)}: {reached.beside}" for name, reached in pairs)
    return Reached(max(reached.value for _, reached in pairs), beside)


def _against_lightgbm(system: str) -> Callable[[Figures], Reached | None]:
    def reach(figures: Figures) -> Reached | None:
        other = figures.row(LIGHTGBM_BY_TREE)
        beside = "" if other is None else f" ({time_text(other['seconds'])} if it draws features by tree)"
        return _times_as_fast(figures.row(system), figures.row(LIGHTGBM), beside)

    return reach


def _growing(figures: Figures) -> Reached | None:
    tree, bare = figures.row(FULL_DATA, n_trees=1), figures.row(BARE_PASS, "count", n_trees=1)
    return None if tree is None or bare is None else _over(tree["growing"], bare["seconds"])


def _encoding(figures: Figures) -> Reached | None:
    tree = figures.row(FULL_DATA, n_trees=1)
    return None if tree is None else _over(tree["encoding"], tree["growing"])


def _choosing(figures: Figures) -> Reached | None:
    def one(row: Row | None) -> Reached | None:
        if row is None or not row["parts"]["counting"]:
            return None
        return _over(row["parts"]["selection"] + row["parts"]["noise"], row["parts"]["counting"])

    return _worse((system, one(figures.row(system, "profile"))) for system in OURS)


def _more_trees(figures: Figures) -> Reached | None:
    many, few = figures.row(DISJOINT, n_trees=10 * N_TREES), figures.row(DISJOINT)
    return None if many is None or few is None else _over(many["seconds"], few["seconds"])


def _more_rows(figures: Figures) -> Reached | None:
    def one(system: str) -> Reached | None:
        few, many = (figures.row(system, n_rows=n_rows) for n_rows in figures.scale.step)
        return None if many is None or few is None else _over(many["seconds"], few["seconds"])

    return _worse((system, one(system)) for system in OURS)


def _seconds(action: str, factor: float, which: str) -> Callable[[Figures], Reached | None]:
    def reach(figures: Figures) -> Reached | None:
        row = figures.row(FULL_DATA, action, **SMALL)
        if row is None:
            return None
        return Reached(factor * row[which], f"best {time_text(row['seconds'])}, median {time_text(row['median'])}")

    return reach


def _memory(figures: Figures) -> Reached | None:
    def one(row: Row | None) -> Reached | None:
        if row is None or "peak_bytes" not in row:
            return None
        shape = row["parameters"]
        allowed = shape["n_rows"] * (1.5 * shape["n_features"] + 16)
        return Reached(row["peak_bytes"] / allowed, f"{row['peak_bytes'] / MIB:.1f} MiB of {allowed / MIB:.1f} MiB")

    return _worse((system, one(figures.row(system))) for system in OURS)


def _file_rows(figures: Figures) -> dict[str, Row]:
    """For each recipe the largest file that it was trained on."""
    rows = [row for row in figures.rows if row["variant"] == "file fit"]
    return {row["system"]: row for row in sorted(rows, key=lambda row: row["parameters"]["n_rows"])}


def _file_memory(figures: Figures) -> Reached | None:
    rows = _file_rows(figures)
    if len(rows) < len(OURS) or not all("peak_bytes" in row for row in rows.values()):
        return None
    found = {system: row["peak_bytes"] / GIB for system, row in rows.items()}
    said = (f"{system} {found[system]:.2f} GiB, {row['parameters']['n_rows']:,} rows" for system, row in rows.items())
    return Reached(max(found.values()), "; ".join(said))


def _file_time(figures: Figures) -> Reached | None:
    def one(file: Row, memory: Row | None) -> Reached | None:
        if memory is None:
            return None
        each = [row["seconds"] / row["parameters"]["n_rows"] for row in (file, memory)]
        beside = f"{time_text(file['seconds'])}, {1e9 * each[0]:.0f} ns a row over {1e9 * each[1]:.0f} ns"
        return Reached(each[0] / each[1], beside)

    return _worse((system, one(file, figures.row(system))) for system, file in _file_rows(figures).items())


def _predicting(figures: Figures) -> Reached | None:
    shape = {"n_trees": N_PREDICTING}
    return _times_as_fast(figures.row(DISJOINT, "predict", **shape), figures.row(LIGHTGBM, "predict", **shape))


def _own_plan(system: str) -> Callable[[Figures], Reached | None]:
    return lambda figures: _times_as_fast(figures.by_default(system), figures.by_default(LIGHTGBM_DEFAULTS))


def _more_rows_planned(figures: Figures) -> Reached | None:
    def one(system: str) -> Reached | None:
        few, many = (figures.by_default(system, n_rows=n_rows) for n_rows in figures.scale.default_step)
        return None if many is None or few is None else _over(many["seconds"], few["seconds"])

    return _worse((system, one(system)) for system in OWN_PLANS)


def _serial_share(figures: Figures) -> Reached | None:
    """By Amdahl: with p threads a fit takes s + (1 - s) / p of its time with one, s being the share of one thread."""

    def one(row: Row | None) -> Reached | None:
        if row is None or row["threads"] < 2:
            return None
        threads, alone = row["threads"], row["one_thread"]
        share = (threads * row["seconds"] / alone - 1) / (threads - 1)
        return Reached(share, f"{time_text(row['seconds'])} with {threads} threads, {time_text(alone)} with one")

    return _worse(((system, one(figures.by_default(system, "serial share"))) for system in OWN_PLANS), unit="")


_PLANNED = (
    "Counting, in all threads, is about half of it. Offers, choices by exact coins and the ledger are done in one thread."
)
_NEARLY = (
    "Half of the time is counting and a fifth is encoding, both in all threads; another fifth goes with the number of nodes "
    "(offers, scores, choices) and is done in one thread."
)
GOALS: tuple[Goal[Figures], ...] = (
    Goal("own plan, times as fast as LightGBM's 100 rounds", 10, "x", _own_plan(PURE_PLAN), at_least=True, hurdle=_PLANNED),
    Goal("own plan with delta, times as fast as LightGBM's 100 rounds", 6, "x", _own_plan(DELTA_PLAN), at_least=True,
         hurdle=_PLANNED),
    Goal("eight times the rows, over one time, own plan", 2.5, "x", _more_rows_planned, hurdle=
         "Counting for splits grows little with rows. Encoding, the counts from which grids are made, and the moves of "
         "records down the trees grow with them."),
    Goal("serial share of an own-plan fit", 0.1, "", _serial_share, hurdle=
         "Offers, choices by exact coins, the ledger and finished trees are made in one thread."),
    Goal("10 disjoint trees, times as fast as scikit-learn's random forest", 250, "x",
         lambda figures: _times_as_fast(figures.row(DISJOINT), figures.row(FOREST)), at_least=True, hurdle=_NEARLY),
    Goal("10 disjoint trees, times as fast as LightGBM rf", 10, "x", _against_lightgbm(DISJOINT), at_least=True,
         hurdle=_NEARLY),
    Goal("10 full-data trees, times as fast as LightGBM rf", 1.6, "x", _against_lightgbm(FULL_DATA), at_least=True),
    Goal("one full-data tree, growing only, over a bare counting pass for each level", 1.3, "x", _growing),
    Goal("encoding the table, over growing one full-data tree", 0.3, "x", _encoding, hurdle=
         "A tree takes less than the bare passes of the floor, because it counts the smaller children only; encoding, which "
         "looks at each value once, has not become as much faster."),
    Goal("selection and noise, over counting, 10 trees", 0.2, "x", _choosing),
    Goal("100 disjoint trees, over 10", 1.8, "x", _more_trees, hurdle=
         "Ten times the trees have ten times the nodes. What goes with nodes (offers, scores, choices by exact coins, "
         "tables of counts) is a fifth of the time of 10 trees and most of that of 100."),
    Goal("ten times the rows, over one time", 11, "x", _more_rows),
    Goal("shares of classes from 100 trees, times as fast as LightGBM rf", 3, "x", _predicting, at_least=True),
    Goal("warm fit of 100 rows x 5 features, median", 2, "ms", _seconds("small fit", 1e3, "median")),
    Goal("first fit in a fresh process, imports included", 2.5, "s", _seconds("first fit", 1, "seconds")),
    Goal("peak memory beyond the table, over 1.5 x its codes + 16 bytes a row", 1, "x", _memory),
    Goal("peak memory of a process that trains on a Parquet file", 1.5, "GiB", _file_memory),
    Goal("time of a row in a Parquet file, over one in memory", 3, "x", _file_time),
)  # fmt: skip
