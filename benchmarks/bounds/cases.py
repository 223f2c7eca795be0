"""Which fits the benchmark on bounds makes, the most telling ones first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.bounds.loosening import AS_GIVEN, FEATURES, HUGE, KINDS, NONE, SHIFTED, TARGET
from benchmarks.core.results import Case, check_known
from benchmarks.peers.settings import PEERS
from benchmarks.speed.cases import SMALL

QUESTION = "bounds"
AUTO, BEFORE, COST = "auto", "auto before", "cost"
FOREST, EBM = "diffprivlib forest", "interpret DP-EBM"
GROUPS = (AUTO, BEFORE, "peers", COST)
# The commit whose library is called "before": the last one that needed bounds.
COMMIT_BEFORE = "420f0f8"
# In the order in which they are run.
EPSILONS = (1.0, 0.5, 2.0, 0.1)
DELTAS = (0.0, 1e-5)
SEEDS = (300, 301, 302)
FIRST_KINDS, FIRST_EPSILONS = (AS_GIVEN, NONE, HUGE, SHIFTED), EPSILONS[:2]
# What others, who need bounds, are run with.
BOUNDED_KINDS = (AS_GIVEN, "x1000", HUGE)
# Tables on which peers are run, without missing numbers so that all have the same rows; how many settings, and budgets.
PEER_TABLES = (
    "banknote",
    "pima",
    "wall_following",
    "adult",
    "bank_additional",
    "credit_default",
    "abalone",
    "parkinsons_motor",
)
N_PEER_SETTINGS = 2
PEER_EPSILONS = FIRST_EPSILONS
TIME, SMALL_FIT = "time", "small fit"
N_TIMED = 7


@dataclass(frozen=True)
class Table:
    """A table with numbers among its features, and its task: "binary", "classes" or "regression"."""

    name: str
    task: str

    @property
    def has_classes(self) -> bool:
        return self.task != "regression"


TABLES = (
    Table("banknote", "binary"),
    Table("pima", "binary"),
    Table("heart_cleveland", "classes"),
    Table("breast_cancer_wisconsin", "binary"),
    Table("credit_approval", "binary"),
    Table("mammographic", "binary"),
    Table("german_credit", "binary"),
    Table("wall_following", "classes"),
    Table("credit_default", "binary"),
    Table("adult", "binary"),
    Table("bank_additional", "binary"),
    Table("covertype_93k", "classes"),
    Table("abalone", "regression"),
    Table("parkinsons_motor", "regression"),
    Table("appliances_energy", "regression"),
    Table("nycflights13", "regression"),
)
QUICK_TABLES, QUICK_SEEDS = ("banknote", "abalone"), SEEDS[:1]


def all_cases() -> list[Case]:
    """Every case; the budgets and kinds of bounds that tell most come first."""
    cases = [*(case for table in TABLES for case in _cases(table)), *_cost_cases()]
    return sorted(cases, key=_turn)


def _cases(table: Table) -> Iterator[Case]:
    for seed in SEEDS:
        for loosened in (FEATURES,) if table.has_classes else (FEATURES, TARGET):
            for kind in KINDS:
                if loosened == TARGET and kind == AS_GIVEN:
                    continue  # the same as for features
                for system in (AUTO, BEFORE) if kind in BOUNDED_KINDS else (AUTO,):
                    for epsilon in EPSILONS:
                        for delta in DELTAS:
                            yield case_of(table.name, system, kind, seed, epsilon, delta, loosened)
        if table.name in PEER_TABLES:
            yield from _peer_cases(table, seed)


def _peer_cases(table: Table, seed: int) -> Iterator[Case]:
    for peer in PEERS:
        if peer.system in (FOREST, EBM) and table.task in peer.tasks:
            for kind in BOUNDED_KINDS:
                for epsilon in PEER_EPSILONS:
                    for settings in peer.settings[:N_PEER_SETTINGS]:
                        yield case_of(table.name, peer.system, kind, seed, epsilon, peer.delta, FEATURES, **settings)


def _cost_cases() -> Iterator[Case]:
    for delta in DELTAS:
        yield Case.of(QUESTION, "adult", COST, TIME, SEEDS[0], epsilon=1.0, delta=delta, n_runs=N_TIMED)
    yield Case.of(QUESTION, f"{SMALL['n_rows']} x {SMALL['n_features']}", COST, SMALL_FIT, SEEDS[0], **SMALL)


def case_of(
    table: str, system: str, kind: str, seed: int, epsilon: float, delta: float, loosened: str = FEATURES, **settings: Any
) -> Case:
    """The case of one fit; what is loosened are the bounds of features or that of the target."""
    return Case.of(QUESTION, table, system, kind, seed, epsilon=epsilon, delta=delta, loosened=loosened, **settings)


def _turn(case: Case) -> tuple[Any, ...]:
    """The place of a case in the order of the run: kinds and budgets that tell most, own fits before those of others."""
    if case.system == COST:
        return (2,)
    known = dict(case.parameters)
    places = [table.name for table in TABLES]
    return (
        case.variant not in FIRST_KINDS,
        known["epsilon"] not in FIRST_EPSILONS,
        known["loosened"] == TARGET,
        (AUTO, BEFORE, FOREST, EBM).index(case.system),
        places.index(case.dataset),
        case.seed,
        KINDS.index(case.variant),
    )


def group_of(system: str) -> str:
    """Which of the groups a system belongs to."""
    return system if system in GROUPS else "peers"


def wanted(quick: bool, systems: tuple[str, ...] = (), tables: tuple[str, ...] = ()) -> list[Case]:
    """The cases of these systems, by name or group, on these tables; nothing named means all. The cost is a system."""
    cases = all_cases()
    check_known("system", systems, sorted({*GROUPS, *(case.system for case in cases)}))
    check_known("table", tables, [table.name for table in TABLES])
    if quick:
        cases = [case for case in cases if case.dataset in QUICK_TABLES and case.seed in QUICK_SEEDS and _is_quick(case)]
    return [
        case
        for case in cases
        if (not systems or case.system in systems or group_of(case.system) in systems)
        and (not tables or case.dataset in tables)
    ]


def _is_quick(case: Case) -> bool:
    known = dict(case.parameters)
    return case.variant in FIRST_KINDS and known["epsilon"] == EPSILONS[0]
