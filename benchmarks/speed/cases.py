"""What the speed benchmark measures: which systems do what on tables of which shape, in the order in which they run."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.core.results import Case, Row, check_known

QUESTION = "speed"
SEED = 2026  # of the tables and of peers; the library draws fresh noise
PARTS = ("goals", "defaults", "growth", "memory", "parquet")

DISJOINT, FULL_DATA = "consul-2020", "auto"
FOREST, EXTRA_TREES = "scikit-learn random forest", "scikit-learn extra trees"
LIGHTGBM, LIGHTGBM_BY_TREE = "LightGBM rf", "LightGBM rf, features by tree"
BOOSTING = "scikit-learn histogram boosting"
BARE_PASS = "bare counting pass"
OURS = (DISJOINT, FULL_DATA)
# What people run: nothing is set but the budget, and the recipe plans its trees; the values are delta.
PURE_PLAN, DELTA_PLAN = "auto, own plan", "auto, own plan, delta"
OWN_PLANS = {PURE_PLAN: 0.0, DELTA_PLAN: 1e-6}
LIGHTGBM_DEFAULTS = "LightGBM, 100 rounds"
BY_DEFAULT = (LIGHTGBM_DEFAULTS, *OWN_PLANS)
PEERS = (FOREST, EXTRA_TREES, LIGHTGBM, LIGHTGBM_BY_TREE, BOOSTING)
# Systems whose time is drawn against the size of the table and of the forest.
GROWING = (DISJOINT, FULL_DATA, LIGHTGBM, BOOSTING, FOREST)

N_FEATURES, N_TREES, DEPTH = 20, 10, 6
N_PREDICTING = 100  # trees that predict
# Stands in rows for what is not set.
NOT_SET = {"n_trees": 0, "depth": 0}
# A table as people have them in notebooks and audits.
SMALL = {"n_rows": 100, "n_features": 5, "n_trees": 1, "depth": 3}


@dataclass(frozen=True)
class Scale:
    """Sizes of a run. ``step`` and ``default_step`` are two numbers of rows, the second ten or eight times the first."""

    name: str
    n_rows: int
    step: tuple[int, int]
    default_step: tuple[int, int]
    parquet_rows: int
    axes: dict[str, tuple[int, ...]] = field(hash=False)
    growing: tuple[str, ...] = GROWING
    one_process: bool = False  # for all cases whose memory is not wanted: quicker
    peers: tuple[str, ...] = PEERS
    predicting: tuple[str, ...] = (DISJOINT, LIGHTGBM, FOREST, BOOSTING)
    repeats: int = 3

    def shape(self, **other: int) -> dict[str, int]:
        """The base case, with other values where they are given."""
        return {"n_rows": self.n_rows, "n_features": N_FEATURES, "n_trees": N_TREES, "depth": DEPTH} | other

    def case(self, system: str, action: str, **other: int) -> Case:
        shape = self.shape(**other)
        title = f"{shape['n_rows']:,} x {shape['n_features']}"
        return Case.of(QUESTION, title, system, action, SEED, scale=self.name, **shape)

    def by_default(self, system: str, action: str, n_rows: int) -> Case:
        """A case of what people run, on a table of interacting features."""
        case = self.case(system, action, n_rows=n_rows, **NOT_SET)
        return replace(case, dataset=f"{case.dataset}, interactions")


FULL = Scale(
    "full",
    n_rows=1_000_000,
    step=(1_000_000, 10_000_000),
    default_step=(1_000_000, 8_000_000),
    parquet_rows=30_000_000,
    axes={
        "n_rows": (10_000, 100_000, 1_000_000, 10_000_000),
        "n_features": (5, 10, 20, 50, 100, 200),
        "n_trees": (1, 5, 10, 50, 100, 500),
        "depth": (2, 4, 6, 8, 10, 12),
    },
)
QUICK = Scale(
    "quick",
    n_rows=20_000,
    step=(2_000, 20_000),
    default_step=(2_500, 20_000),
    parquet_rows=20_000,
    axes={"n_rows": (2_000, 20_000), "n_features": (5, 20), "n_trees": (1, 10), "depth": (2, 6)},
    growing=(DISJOINT, FULL_DATA, LIGHTGBM),
    one_process=True,
    peers=(FOREST, LIGHTGBM, BOOSTING),
    predicting=(DISJOINT, LIGHTGBM),
    repeats=2,
)


def goal_cases(scale: Scale) -> Iterator[Case]:
    """All that goals compare."""
    yield from memory_cases(scale)
    yield from default_cases(scale)
    yield scale.case(FULL_DATA, "fit", n_trees=1)
    yield scale.case(BARE_PASS, "count", n_trees=1)
    yield scale.case(DISJOINT, "fit", n_trees=10 * N_TREES)
    for n_rows in scale.step:
        for system in OURS:
            yield scale.case(system, "fit", n_rows=n_rows)
    for system in OURS:
        yield scale.case(system, "profile")
    for system in scale.predicting:
        yield scale.case(system, "predict", n_trees=N_PREDICTING)
    for action in ("small fit", "first fit", "import"):
        yield scale.case(FULL_DATA, action, **SMALL)


def default_cases(scale: Scale) -> Iterator[Case]:
    """What people run: LightGBM and plans of the library's own, these on more rows too and with one thread too."""
    few, many = scale.default_step
    yield from (scale.by_default(system, "fit", few) for system in BY_DEFAULT)
    yield from (scale.by_default(system, "fit", many) for system in OWN_PLANS)
    yield from (scale.by_default(system, "serial share", few) for system in OWN_PLANS)


def memory_cases(scale: Scale) -> Iterator[Case]:
    """Fits whose peak of memory is compared."""
    return (scale.case(system, "fit") for system in (*OURS, *scale.peers))


def growth_cases(scale: Scale) -> Iterator[Case]:
    """Each system along each axis, from small to large, all else as in the base case."""
    for axis, values in scale.axes.items():
        for system in scale.growing:
            for value in values:
                yield scale.case(system, "fit", **{axis: value})


def parquet_cases(scale: Scale, n_rows: int | None) -> Iterator[Case]:
    """A table that stays in its file, and the same recipes on the base case in memory to compare with."""
    for system in OURS:
        yield scale.case(system, "fit")
    for system in OURS:
        yield scale.case(system, "file fit", n_rows=n_rows or scale.parquet_rows)


def wanted(scale: Scale, parts: tuple[str, ...] = (), parquet_rows: int | None = None) -> list[Case]:
    """The cases of these parts, each once; nothing named means all."""
    check_known("part", parts, PARTS)
    by_part = {
        "goals": goal_cases(scale),
        "defaults": default_cases(scale),
        "growth": growth_cases(scale),
        "memory": memory_cases(scale),
        "parquet": parquet_cases(scale, parquet_rows),
    }
    cases = [case for part in PARTS if part in parts or not parts for case in by_part[part]]
    return list(dict.fromkeys(cases))


def foreseen(case: Case, known: list[Row]) -> float | None:
    """Seconds of one run if time grows in step with the axis on which a smaller cell was measured; None if none was."""
    own = dict(case.parameters)
    found = []
    for row in known:
        if (row["system"], row["variant"]) != (case.system, case.variant) or "seconds" not in row:
            continue
        other: dict[str, Any] = row["parameters"]
        differing = [name for name in own if own[name] != other.get(name)]
        if len(differing) == 1 and differing != ["scale"] and other[differing[0]] < own[differing[0]]:
            ratio = own[differing[0]] / other[differing[0]]
            found.append((ratio, ratio * row["seconds"]))
    # The nearest cell says most.
    return min(found)[1] if found else None
