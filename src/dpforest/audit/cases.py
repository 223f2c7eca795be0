"""Makes pairs of neighbouring tables: small ones with values that break programs, and the same with one record more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from dpforest.schema import Bounded, Categorical, Classes, Date, Feature, Numeric, Schema
from dpforest.schema.grid import date_words

Record = tuple[Any, ...]  # feature values, then the target

EPSILONS = (0.1, 1.0, 8.0)
DELTA = 1e-6
# Public numbers of rows need not be true. They let a planner show all its plans on small tables.
DECLARED_ROWS = (None, 30, 1_000, 20_000, 1_000_000)
NUMERIC = (
    Numeric(0, 1), Numeric(-5, 50, integer=True), Numeric(0, 3, integer=True), Numeric(-1e6, 1e6), Numeric(0.1, 0.3),
)  # fmt: skip
CATEGORICAL = (
    Categorical(["only"]), Categorical([0, 1]), Categorical(["a", "b", "c"]), Categorical([True, False]),
    Categorical(list("klmnop")), Categorical(),
)  # fmt: skip
# Values of a feature without a list.
TEXTS = ("a", "b", "17", 17.0, "é", "")
DATES = (
    Date("2020-01-01", "2024-12-31"), Date(), Date("2024-02-28T20:00:00", "2024-03-01T03:00:00", time=True),
)  # fmt: skip
ODD_DATES = (
    None, math.nan, "no date", "2023-02-29", "0001-01-01", "9999-12-31T23:59:59-12:00", "2024-02-29T12:00+05:30", 19_000,
    np.datetime64("NaT"), np.datetime64("2024-02-29T23:59:59.999999999"), datetime(1, 1, 1, tzinfo=UTC), date(9999, 12, 31),
)  # fmt: skip
TARGETS: dict[str, tuple[Classes | Bounded, ...]] = {
    "classification": (
        Classes([0, 1]), Classes(["no", "yes"]), Classes(["a", "b", "c"]), Classes(list("stuvw")), Classes([7]),
        Classes(["a", "b", "c"], other="b"),
    ),
    "regression": (Bounded(0, 1), Bounded(-3, 5), Bounded(0, 1e6), Bounded(), Bounded(upper=10)),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Two tables that differ by one record, and what a fit is asked to do with them."""

    seed: int
    schema: Schema
    rows: tuple[Record, ...]
    extra: Record
    extra_first: bool
    larger_first: bool  # whether the fit that is recorded is the one with the extra record
    epsilon: float
    delta: float
    n_trees: int | None
    max_depth: int | None

    @property
    def larger(self) -> tuple[Record, ...]:
        return (self.extra, *self.rows) if self.extra_first else (*self.rows, self.extra)

    @property
    def sign(self) -> int:
        """1 if the replayed fit has one record more, -1 if it has one less."""
        return -1 if self.larger_first else 1

    def tables(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Features and target of the recorded fit and of the replayed one."""
        pair = (self.rows, self.larger)
        first, second = reversed(pair) if self.larger_first else pair
        return as_arrays(first, self.schema.n_features), as_arrays(second, self.schema.n_features)

    def without(self, indices: Sequence[int]) -> "Case":
        """The case without the rows at these indices, in both tables."""
        left_out = set(indices)
        return replace(self, rows=tuple(row for index, row in enumerate(self.rows) if index not in left_out))

    def __str__(self) -> str:
        shape = [f"{name}={value}" for name in ("n_trees", "max_depth") if (value := getattr(self, name)) is not None]
        where = "first" if self.extra_first else "last"
        features = ", ".join(f"{name}: {feature}" for name, feature in self.schema.features.items())
        return (
            f"case {self.seed} (epsilon={self.epsilon:g}, delta={self.delta:g}"
            + "".join(f", {item}" for item in (*shape, f"n_rows={self.schema.n_rows}"))
            + f"; {features}; target: {self.schema.target}): {list(self.rows)} and the same with {self.extra} {where}"
        )


def as_arrays(rows: Sequence[Record], n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """A table as numpy arrays of objects, one row for each record."""
    X, y = np.empty((len(rows), n_features), dtype=object), np.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        for column, value in enumerate(row[:-1]):
            X[index, column] = value
        y[index] = row[-1]
    return X, y


def generate(seed: int, tasks: Sequence[str], with_delta: bool = True) -> Case:
    """The generated case with this number, which is the same each time."""
    rng = np.random.default_rng([seed, 7_919])
    pick = _Picker(rng)
    of_kinds = (NUMERIC, NUMERIC, CATEGORICAL, CATEGORICAL, DATES)
    kinds = [pick.one(pick.one(of_kinds)) for _ in range(1 + rng.integers(4))]
    features: dict[str, Feature] = {f"f{index}": kind for index, kind in enumerate(kinds)}
    target = pick.one(TARGETS[pick.one(tasks)])
    schema = Schema(features, target, n_rows=pick.one(DECLARED_ROWS))
    records = _Records(pick, features, target)
    return Case(
        seed=seed,
        schema=schema,
        rows=records.table(),
        extra=records.extra(),
        extra_first=pick.chance(0.5),
        larger_first=pick.chance(0.5),
        epsilon=pick.one(EPSILONS),
        delta=DELTA if with_delta and pick.chance(0.4) else 0.0,
        n_trees=None if pick.chance(0.15) else int(pick.one((1, 1, 2, 3, 5))),
        max_depth=None if pick.chance(0.15) else int(pick.one((1, 1, 2, 3, 4))),
    )


class _Picker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


class _Records:
    """Draws the records of one case: ordinary ones, and odd ones more often than real tables have them."""

    def __init__(self, pick: _Picker, features: dict[str, Feature], target: Classes | Bounded) -> None:
        self.pick, self.features, self.target = pick, list(features.values()), target
        self.oddness = pick.one((0.0, 0.05, 0.3))
        self.rows: tuple[Record, ...] = ()

    def table(self) -> tuple[Record, ...]:
        # Any size, and those at which rules with a round number change their mind.
        n_rows = int(self.pick.one((0, 1, 2, 3, 9, 19, self.pick.rng.integers(4, 45), self.pick.rng.integers(4, 45), 99)))
        style = self.pick.one(("mixed", "mixed", "copies", "one class", "tie"))
        rows = [self.record() for _ in range(n_rows)]
        if style == "copies":  # few different records, each many times
            rows = [self.pick.one(rows[:3]) for _ in rows]
        elif style == "one class":
            label = self.ordinary_target()
            rows = [(*row[:-1], label) for row in rows]
        elif style == "tie":  # every record once with each of two targets
            rows = [(*row[:-1], label) for row in rows for label in (self.ordinary_target(0), self.ordinary_target(-1))]
        self.rows = tuple(rows)
        return self.rows

    def extra(self) -> Record:
        if self.rows and self.pick.chance(0.3):
            twin = self.pick.one(self.rows)
            return twin if self.pick.chance(0.5) else (*twin[:-1], self.ordinary_target())
        # What only one of the tables has tells most.
        self.oddness = self.pick.one((0.0, self.oddness, 0.4))
        return self.record()

    def record(self) -> Record:
        values = [self.value(feature) for feature in self.features]
        if not self.pick.chance(self.oddness):
            return (*values, self.ordinary_target())
        if isinstance(self.target, Classes):
            return (*values, self.pick.one(("unlisted", None, math.nan)))
        return (*values, self.pick.one((None, math.nan, self.target.range[0] - 1, self.target.range[1] + 1, math.inf)))

    def value(self, feature: Feature) -> Any:
        odd = self.pick.chance(self.oddness)
        if isinstance(feature, Categorical):
            return self.pick.one(("unlisted", None, 77, [1])) if odd else self.pick.one(feature.categories or TEXTS)
        if isinstance(feature, Date):
            return self.pick.one(ODD_DATES) if odd else self.date(feature)
        low, high = feature.range
        if odd:
            return self.pick.one((None, math.nan, low - 1, high + 1, math.inf, -math.inf, "text"))
        if self.pick.chance(0.2):
            return self.pick.one((low, high))
        value = low + (high - low) * self.pick.one((self.pick.rng.random(), self.pick.one((0.25, 0.5, 0.75))))
        return round(value) if feature.integer else float(value)

    def date(self, feature: Date) -> Any:
        """A date between the bounds, as text or as an object."""
        text = self.pick.one(date_words(feature, np.linspace(*feature.range, 9)))
        return text if self.pick.chance(0.5) else datetime.fromisoformat(text)

    def ordinary_target(self, index: int | None = None) -> Any:
        if isinstance(self.target, Classes):
            return self.target.labels[index] if index is not None else self.pick.one(self.target.labels)
        if index is not None:
            return self.target.range[index]
        share = self.pick.one((0.0, 1.0, 0.5, self.pick.rng.random()))
        return float(self.target.mean_of(share))
