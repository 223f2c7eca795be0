"""Pairs of tables that differ by one record: generated with odd values, and a few fixed.

Each fixed pair shows a mistake that some way of growing trees can make.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from dpforest.audit.subject import Subject
from dpforest.errors import ParameterError, SchemaError
from dpforest.parts.recipe import Recipe
from dpforest.published.form import get_published
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
TWO_VALUES = {"a": Categorical([0, 1]), "b": Categorical([0, 1])}
NUMBER = {"x": Numeric(0, 1)}
MIXED = {"a": Categorical([0, 1]), "x": Numeric(0, 1)}
TWO_CLASSES, MANY_CLASSES, SHARE = Classes([0, 1]), Classes(range(1_000)), Bounded(0, 1)


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
    def sign(self) -> int:
        """1 if the replayed fit has one record more, -1 if it has one less."""
        return -1 if self.larger_first else 1

    def tables(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Features and target of the recorded fit and of the replayed one."""
        pair = self.rows, (self.extra, *self.rows) if self.extra_first else (*self.rows, self.extra)
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
    records = _Records(np.random.default_rng([seed, 7_919]), tasks)
    schema = Schema(records.features, records.target, n_rows=records.one(DECLARED_ROWS))
    return Case(
        seed=seed,
        schema=schema,
        rows=records.table(),
        extra=records.extra(),
        extra_first=records.chance(0.5),
        larger_first=records.chance(0.5),
        epsilon=records.one(EPSILONS),
        delta=DELTA if with_delta and records.chance(0.4) else 0.0,
        n_trees=None if records.chance(0.15) else int(records.one((1, 1, 2, 3, 5))),
        max_depth=None if records.chance(0.15) else int(records.one((1, 1, 2, 3, 4))),
    )


class _Records:
    """Draws the records of one case: ordinary ones, and odd ones more often than real tables have them."""

    def __init__(self, rng: np.random.Generator, tasks: Sequence[str]) -> None:
        self.rng = rng
        of_kinds = (NUMERIC, NUMERIC, CATEGORICAL, CATEGORICAL, DATES)
        kinds = [self.one(self.one(of_kinds)) for _ in range(1 + rng.integers(4))]
        self.features: dict[str, Feature] = {f"f{index}": kind for index, kind in enumerate(kinds)}
        self.target: Classes | Bounded = self.one(TARGETS[self.one(tasks)])

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def table(self) -> tuple[Record, ...]:
        self.oddness = self.one((0.0, 0.05, 0.3))
        # Any size, and those at which rules with a round number change their mind.
        n_rows = int(self.one((0, 1, 2, 3, 9, 19, self.rng.integers(4, 45), self.rng.integers(4, 45), 99)))
        style = self.one(("mixed", "mixed", "copies", "one class", "tie"))
        rows = [self.record() for _ in range(n_rows)]
        if style == "copies":  # few different records, each many times
            rows = [self.one(rows[:3]) for _ in rows]
        elif style == "one class":
            label = self.ordinary_target()
            rows = [(*row[:-1], label) for row in rows]
        elif style == "tie":  # every record once with each of two targets
            rows = [(*row[:-1], label) for row in rows for label in (self.ordinary_target(0), self.ordinary_target(-1))]
        self.rows = tuple(rows)
        return self.rows

    def extra(self) -> Record:
        if self.rows and self.chance(0.3):
            twin = self.one(self.rows)
            return twin if self.chance(0.5) else (*twin[:-1], self.ordinary_target())
        # What only one of the tables has tells most.
        self.oddness = self.one((0.0, self.oddness, 0.4))
        return self.record()

    def record(self) -> Record:
        values = [self.value(feature) for feature in self.features.values()]
        if not self.chance(self.oddness):
            return (*values, self.ordinary_target())
        if isinstance(self.target, Classes):
            return (*values, self.one(("unlisted", None, math.nan)))
        return (*values, self.one((None, math.nan, self.target.range[0] - 1, self.target.range[1] + 1, math.inf)))

    def value(self, feature: Feature) -> Any:
        odd = self.chance(self.oddness)
        if isinstance(feature, Categorical):
            return self.one(("unlisted", None, 77, [1])) if odd else self.one(feature.categories or TEXTS)
        if isinstance(feature, Date):
            return self.one(ODD_DATES) if odd else self.date(feature)
        low, high = feature.range
        if odd:
            return self.one((None, math.nan, low - 1, high + 1, math.inf, -math.inf, "text"))
        if self.chance(0.2):
            return self.one((low, high))
        value = low + (high - low) * self.one((self.rng.random(), self.one((0.25, 0.5, 0.75))))
        return round(value) if feature.integer else float(value)

    def date(self, feature: Date) -> Any:
        """A date between the bounds, as text or as an object."""
        text = self.one(date_words(feature, np.linspace(*feature.range, 9)))
        return text if self.chance(0.5) else datetime.fromisoformat(text)

    def ordinary_target(self, index: int | None = None) -> Any:
        if isinstance(self.target, Classes):
            return self.target.labels[index] if index is not None else self.one(self.target.labels)
        if index is not None:
            return self.target.range[index]
        share = self.one((0.0, 1.0, 0.5, self.rng.random()))
        return float(self.target.mean_of(share))


@dataclass(frozen=True)
class Pair:
    """Two fixed tables that differ by one record, and the shape of the trees grown on them.

    ``epsilon`` is the claim at which the pair is meant to be used, None for the subject's own.
    """

    name: str
    why: str
    schema: Schema
    rows: tuple[Record, ...]
    extra: Record
    epsilon: float | None = None
    n_trees: int = 1
    max_depth: int = 1

    def tables(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Features and target of the table without the record, and of the one with it."""
        n_features = self.schema.n_features
        return as_arrays(self.rows, n_features), as_arrays((*self.rows, self.extra), n_features)

    def describe(self) -> str:
        """The two tables in words."""
        # By their texts: True and 1 are different values and equal keys.
        numbers = Counter(self._words(row) for row in self.rows)
        listed = [words if n == 1 else f"{n} x {words}" for words, n in numbers.items()]
        if not listed:
            return f"no record, and only {self._words(self.extra)}"
        return f"{', '.join(listed)}, and the same with {self._words(self.extra)}"

    def _words(self, record: Record) -> str:
        values = [f"{name}={value!r}" for name, value in zip(self.schema.features, record, strict=False)]
        target = "class" if isinstance(self.schema.target, Classes) else "target"
        return f"({', '.join([*values, f'{target} {record[-1]!r}'])})"


def pairs_for(subject: Subject) -> list[Pair]:
    """The pairs for a subject; for a printed algorithm, those of tasks with a failing claim, if any."""
    recipe, tasks = subject.parts, set(subject.parts.tasks)
    if subject.variant == "published":
        tasks = tasks - set(get_published(subject.name).sound_for) or tasks
    return [pair for pair in PAIRS if recipe.task(pair.schema) in tasks and _fits(recipe, pair.schema)]


def _fits(recipe: Recipe, schema: Schema) -> bool:
    try:
        recipe.check(schema)
    except (SchemaError, ParameterError):
        return False
    return True


def _pair(name: str, why: str, features: Any, target: Any, rows: Any, extra: Record, n_rows: int = 20, **more: Any) -> Pair:
    # The number of rows is declared, so that no budget goes to a noisy one; it need not be true.
    return Pair(name, why, Schema(features, target, n_rows=n_rows), tuple(rows), extra, **more)


def _of_both_tasks(low: Any, high: Any, target: Any) -> list[Pair]:
    """The pairs that make sense for two classes as well as for a target between two bounds."""
    return [
        _pair(
            "pure node",
            "one record makes a pure node impure and stands alone in a leaf: choices and counts lose all they may at once",
            TWO_VALUES, target, [(0, 0, low)] * 20, (1, 0, high),
        ),
        _pair(
            "one cut",
            "where a node has one useful split and one idle one, a choice between them loses all it may",
            {"a": Numeric(0, 1, integer=True)}, target, [(0, low)] * 20, (1, high),
        ),
        _pair(
            "empty table",
            "what is scaled by a number of records, or has a rule for none, must not tell none from one",
            TWO_VALUES, target, [], (1, 0, high),
        ),
        _pair(
            "exact tie",
            "one record decides between two splits that were equally good",
            TWO_VALUES, target, [(0, 0, low), (1, 1, high)], (0, 1, high),
        ),
        _pair(
            "equal parts",
            "if records are dealt in equal parts, one more moves others between the trees",
            TWO_VALUES, target, [(0, 0, low)] * 2, (0, 0, high), n_trees=2, epsilon=2.0,
        ),
        _pair(
            "small gap",
            "a cut between two records of the table shows how close they are",
            NUMBER, target, [(0.2, low), (0.8, high)], (0.2 + 1e-8, high),
        ),
        _pair(
            "unlisted values",
            "a category outside the list, a missing number: neither may raise an error or grow the tree",
            MIXED, target, [(0, 0.3, low)] * 10, ("unlisted", None, high),
        ),
        _pair(
            "two levels",
            "a record that is odd in each node on its way: all levels and the leaf lose at once",
            MIXED, target, [(0, 0.1, low)] * 10 + [(1, 0.9, high)] * 10, (1, 0.1, low), max_depth=2,
        ),
    ]  # fmt: skip


PAIRS = (
    *_of_both_tasks(0, 1, TWO_CLASSES),
    _pair(
        "leaf margin",
        "the label of a leaf that one record decides, where noise shrinks with the margin",
        TWO_VALUES, TWO_CLASSES, [(0, 0, 0), (0, 0, 1)], (0, 0, 0), epsilon=2.0,
    ),
    _pair(
        "many classes, small budget",
        "noise in many counts makes a node of one record look large, and a choice that trusts its size sharp",
        TWO_VALUES, MANY_CLASSES, [(0, 0, 0)], (1, 0, 1), epsilon=0.1,
    ),
    _pair(
        "small child",
        "one record makes a child large enough for a rule that asks for a least number",
        TWO_VALUES, TWO_CLASSES, [(0, 0, 0)] * 10 + [(1, 0, 1)] * 3, (1, 0, 1),
    ),
    *_of_both_tasks(0.0, 1.0, SHARE),
)  # fmt: skip
# Most records are of one class, so the best runs are those that predict it, and the record is a miss of all of them.
RACE = _pair(
    "one more miss",
    "a record that all runs miss lowers every score: the best of several tells of it, if each of them had all of epsilon",
    {"a": Categorical([0, 1])}, TWO_CLASSES, [(0, 0)] * 20 + [(0, 1)] * 5, (0, 1), n_rows=25,
)  # fmt: skip
