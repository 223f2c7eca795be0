"""Fixed pairs of neighbouring tables, few and small; each shows a mistake that some way of growing trees can make."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.audit.cases import Record, as_arrays
from dpforest.audit.subject import Subject
from dpforest.errors import ParameterError, SchemaError
from dpforest.parts.recipe import Recipe
from dpforest.published.form import get_published
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema

# Declared, so that no budget goes to a noisy number of rows; it need not be true.
N_ROWS = 20
TWO_VALUES = {"a": Categorical([0, 1]), "b": Categorical([0, 1])}
NUMBER = {"x": Numeric(0, 1)}
MIXED = {"a": Categorical([0, 1]), "x": Numeric(0, 1)}
TWO_CLASSES, MANY_CLASSES, SHARE = Classes([0, 1]), Classes(range(1_000)), Bounded(0, 1)


@dataclass(frozen=True)
class Pair:
    """Two fixed tables that differ by one record, and the shape of the trees that are grown on them.

    ``epsilon`` is the claim at which the pair is meant to be used, None for the subject's own.
    """

    name: str
    why: str
    schema: Schema
    rows: tuple[Record, ...]
    extra: Record
    epsilon: float | None = None
    n_trees: int | None = None
    max_depth: int | None = None

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
    """The pairs on which a subject can run; for a printed algorithm those of tasks for which its claim fails, if any."""
    recipe, tasks = subject.parts, set(subject.tasks)
    if subject.variant == "published":
        tasks = tasks - set(get_published(subject.name).sound_for) or tasks
    return [pair for pair in PAIRS if recipe.task(pair.schema) in tasks and _fits(recipe, pair.schema)]


def _fits(recipe: Recipe, schema: Schema) -> bool:
    try:
        recipe.check(schema)
    except (SchemaError, ParameterError):
        return False
    return True


def _pair(name: str, why: str, features: Any, target: Any, rows: Any, extra: Record, n_trees: int = 1, **shape: Any) -> Pair:
    schema = Schema(features, target, n_rows=N_ROWS)
    return Pair(name, why, schema, tuple(rows), extra, n_trees=n_trees, **{"max_depth": 1, **shape})


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
