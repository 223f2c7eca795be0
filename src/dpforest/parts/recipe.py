"""Recipes: a whole algorithm as a list of parts, and the kinds of parts that ask the counter. Sees public values only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from dpforest.errors import ParameterError, SchemaError, shown
from dpforest.forest.tree import Forest
from dpforest.parts.allocation import Allocation
from dpforest.parts.part import Part
from dpforest.parts.postprocess import PostProcess
from dpforest.parts.proposals import Menu
from dpforest.parts.routes import Candidates
from dpforest.parts.sampling import ALL_ROWS, Sampling, SecretSample
from dpforest.parts.shape import Facts, Rule, Stop
from dpforest.parts.voting import Vote
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import Counter
from dpforest.schema import Classes, Schema
from dpforest.schema.grid import Grid

NUMBER = (int, float, np.number)
# Names that ``recipe_params`` may set for all recipes, and the paths of their fields.
COMMON_PARAMETERS = {"sample_rows": "secret_sample.rows"}
# Fields of a recipe that hold a ``Part``, which declares what it needs and which targets it accepts.
PART_FIELDS = (
    "sample", "criterion", "leaf", "vote", "n_trees", "depth", "stop", "choose", "narrow", "centres", "target_range",
    "learned_grid", "first_look", "stages", "secret_sample",
)  # fmt: skip


class Narrow(Part, Protocol):
    """A step that removes candidates, by released values, before a split is chosen."""

    @property
    def share(self) -> float:
        """The share of a level's amount that this step may spend."""

    def narrow(
        self, candidates: Candidates, counter: Counter, first: int, amount: float, gate: Gate, purpose: Purpose
    ) -> Candidates:
        """The remaining candidates of the open nodes, numbered from ``first``; costs ``amount``."""


class Choose(Part, Protocol):
    """A way in which each node chooses one of its candidates; see ``growing.choosing`` and ``recipes.papers.blum_2005``."""

    def choose(self, level: Any, amount: float) -> np.ndarray:
        """The index of the chosen candidate of each open node ``(n_open,)``, or -1 where none is valid; costs ``amount``.

        ``level`` is a ``growing.choosing.Level``.
        """


class Stages(Part, Protocol):
    """The order in which trees grow, and how later trees use earlier ones; see ``growing``."""

    in_sequence: ClassVar[bool] = False  # whether trees grow one at a time, each on all records
    by_residuals: ClassVar[bool] = False  # whether records also count by their residuals after the trees before
    can_start: ClassVar[bool] = False  # whether they have a field ``start``: a released forest whose trees come first

    def train(self, job: "Job", amount: float) -> Forest:
        """The released forest of all trees; costs at most ``amount``."""


@dataclass(frozen=True)
class ByTarget(Part):
    """Two parts of a recipe for both tasks; the target of the schema selects one."""

    classes: Any
    bounded: Any


@dataclass(frozen=True)
class Recipe:
    """One algorithm as a list of its parts.

    A recipe with a ``planner`` is a sketch: the planner gets the facts, and the shape that the user asks for, and returns
    the recipe to run. ``depth`` and ``n_trees`` may be rules. A part that needs the number of rows gets the one that the
    schema declares; if there is none, ``n_rows_share`` of epsilon buys a noisy one.

    ``parameters`` maps each name that ``recipe_params`` may set to the path of a field, such as ``{"q": "allocate.q"}``, or
    to a path and a mapping from the words that users write to the values of that field.
    """

    name: str
    title: str
    paper: str
    sample: Sampling
    propose: Menu
    criterion: Any  # a Criterion, or a ByTarget of two
    allocate: Allocation
    leaf: Any  # a LeafRelease, or a ByTarget of two
    vote: Vote
    grid: Grid = field(default_factory=Grid)
    select: str | None = None  # the name of the mechanism that chooses splits; None: that of the accountant
    refine: tuple[PostProcess, ...] = ()
    n_trees: Any = 1  # a number or a Rule; in a resolved recipe a number
    # Levels of splits. Leaves are one layer more, so a tree of h layers of a paper that counts them (DPDF's delta, h of Dong
    # et al., d_m in eqs. 4.28 to 4.32 of the thesis) has depth h - 1 here.
    depth: Any = 5  # as ``n_trees``
    stop: Stop | None = None
    distinct_roots: bool = False  # whether no two trees may split on the same feature at their roots
    choose: Choose | None = None  # None: each node makes one choice among all its candidates
    narrow: Narrow | None = None  # removes candidates, for a share of each level's amount
    centres: Any = None  # growing.choosing: makes two classes of a bounded target, for a share of each level's amount
    target_range: Any = None  # growing.target: narrows the range of the target, for a share of epsilon
    learned_grid: Any = None  # growing.learnt: learns cuts of numbers, for a share of epsilon; None: public cuts alone
    first_look: Any = None  # recipes.papers.first_look: makes the menu from released counts, for a share of the budget
    stages: Stages | None = None  # None: all trees grow together
    secret_sample: SecretSample = ALL_ROWS  # which records of a large table take part
    tasks: tuple[str, ...] = ("classification",)
    planner: Callable[[Facts, int | None, int | None], "Recipe"] | None = None
    n_rows_share: float = 0.02  # the share of epsilon that buys a number of rows, if one is needed
    without_delta: bool = False  # whether all releases are pure epsilon, also if a delta is given
    parameters: Mapping[str, str | tuple[str, Mapping[Any, Any]]] = field(default_factory=dict)
    has_published_variant: bool = False
    claim: str = ""

    def with_parameters(self, given: Mapping[str, Any] | None) -> "Recipe":
        """A copy of the recipe with the given parameters set; raises for unknown names or wrong values."""
        recipe = self
        for name, value in (given or {}).items():
            if name not in self.all_parameters:
                known = ", ".join(sorted(self.all_parameters))
                raise ParameterError(f"Recipe {self.name!r} takes no parameter {name!r}. It takes: {known}.")
            value = value.item() if isinstance(value, np.generic) else value
            path, is_plain = self.all_parameters[name], isinstance(value, str | int | float)
            if isinstance(path, tuple):
                path, words = path
                if not is_plain or value not in words:
                    raise ParameterError(f"{name} must be one of {', '.join(map(repr, words))}, not {shown(value)}.")
                value = words[value]
            elif not is_plain or (isinstance(value, int) and abs(value) >= 1 << 63):
                raise ParameterError(f"{name} of recipe {self.name!r} cannot be {shown(value)}.")
            try:
                recipe = _replace_at(recipe, path.split("."), value)
            except TypeError:
                raise ParameterError(f"{name} of recipe {self.name!r} cannot be {shown(value)}.") from None
        return recipe

    @property
    def all_parameters(self) -> Mapping[str, Any]:
        """``parameters``, with those that every recipe takes."""
        return COMMON_PARAMETERS | dict(self.parameters)

    def settings(self) -> dict[str, Any]:
        """The present value of each parameter of the recipe, by name, as ``recipe_params`` would set it."""
        found = {}
        for name, path in sorted(self.all_parameters.items()):
            path, words = path if isinstance(path, tuple) else (path, None)
            value = part_at(self, path)
            found[name] = value if words is None else next(word for word, part in words.items() if part == value)
        return found

    def shaped(self, n_trees: int | None, depth: int | None) -> "Recipe":
        """A copy of the recipe with the user's number of trees and depth in place of its rules."""
        return replace(self, n_trees=n_trees or self.n_trees, depth=depth or self.depth)

    @property
    def parts(self) -> list[Part]:
        """All parts that declare their needs; raises for a part without the base ``Part``."""
        found = [part for name in PART_FIELDS if (part := getattr(self, name)) is not None and not isinstance(part, NUMBER)]
        for part in found:
            if Part not in type(part).__mro__:
                raise ParameterError(
                    f"{type(part).__name__} of recipe {self.name!r} does not say what it needs. A part inherits from the "
                    "class of its kind, such as dpforest.parts.leaves.LeafRelease or dpforest.parts.shape.Rule."
                )
        return found

    @property
    def needs_rows(self) -> bool:
        """Whether the planner or a part needs the number of rows before trees grow."""
        return self.planner is not None or any(part.needs_rows for part in self.parts)

    def resolve(self, facts: Facts, n_trees: int | None, depth: int | None) -> "Recipe":
        """The recipe to run for these facts: no planner, rule or ``ByTarget`` is left.

        ``n_trees`` and ``depth`` are what the user asks for, if anything.
        """
        recipe = self.planner(facts, n_trees, depth) if self.planner else self
        task = "bounded" if facts.n_classes is None else "classes"
        parts: dict[str, Any] = {
            item.name: getattr(value, task)
            for item in fields(recipe)
            if type(value := getattr(recipe, item.name)) is ByTarget
        }
        recipe = recipe.shaped(n_trees, depth)
        number = _number(recipe.n_trees, facts)
        return replace(recipe, **parts, n_trees=number, depth=_number(recipe.depth, replace(facts, n_trees=number)))

    @staticmethod
    def task(schema: Schema) -> str:
        """The task that the target of a schema sets: "classification" or "regression"."""
        return "classification" if isinstance(schema.target, Classes) else "regression"

    def check(self, schema: Schema) -> None:
        """Raise unless every part accepts the target of the schema, the parts fit each other, and the allocation works."""
        try:
            self.allocate.plan(1.0, 1)
        except TypeError:
            raise ParameterError(f"The shares of recipe {self.name!r} must be numbers.") from None
        if self.task(schema) not in self.tasks:
            raise SchemaError(f"Recipe {self.name!r} is for {' and '.join(self.tasks)}, not for {self.task(schema)}.")
        if self.planner is None:
            for part in self.parts:
                if not part.accepts(schema.target):
                    name = type(part).__name__
                    raise SchemaError(f"{name} of recipe {self.name!r} does not fit the target {schema.target}.")
            self.check_parts()

    def check_parts(self) -> None:
        """Raise if the proof of a part assumes another part that the recipe does not have."""
        if any(type(value) is ByTarget for value in vars(self).values()):
            return  # not resolved yet
        if (self.criterion.sees == "centre") != (self.centres is not None):
            needs = "has no meaning with" if self.centres is not None else "needs"
            raise ParameterError(f"{type(self.criterion).__name__} of recipe {self.name!r} {needs} centres.")
        if self.centres is not None and not (self.stages and self.stages.in_sequence):
            raise ParameterError(f"Centres of recipe {self.name!r} need stages that grow trees in sequence.")
        if self.leaf.residuals and not (self.stages and self.stages.by_residuals):
            raise ParameterError(f"{type(self.leaf).__name__} of recipe {self.name!r} needs the stages Sequential.")
        if self.criterion.sees == "residuals" and not self.leaf.residuals:
            names = type(self.criterion).__name__, type(self.leaf).__name__
            raise ParameterError(f"{names[0]} of recipe {self.name!r} needs leaves that see residuals, not {names[1]}.")
        if self.leaf.residuals and any(self.allocate.plan(1.0, 1).counts[:-1]):
            raise ParameterError(f"{type(self.leaf).__name__} of recipe {self.name!r} cannot count inner nodes.")
        for part in self.parts:
            part.check(self)

    def to_dict(self) -> dict[str, Any]:
        """The entry of the recipe in ``list_recipes``."""
        return {
            "name": self.name,
            "title": self.title,
            "paper": self.paper,
            "tasks": list(self.tasks),
            "published": self.has_published_variant,
            "claim": self.claim,
            "parameters": sorted(self.all_parameters),
        }


@dataclass
class Job:
    """What trees are grown with: records, a resolved recipe, the gate, facts, and who is told of finished steps."""

    counter: Counter
    recipe: Recipe
    gate: Gate
    facts: Facts
    progress: Callable[[str], None] = lambda step: None


def _number(rule: int | Rule, facts: Facts) -> int:
    return int(rule) if isinstance(rule, NUMBER) else rule.value(facts)


def part_at(part: Any, path: str) -> Any:
    """The value of the field at a path such as "allocate.q", or "refine.0.least" in a tuple of parts."""
    for step in path.split("."):
        part = part[int(step)] if isinstance(part, tuple) else getattr(part, step)
    return part


def _replace_at(part: Any, path: list[str], value: Any) -> Any:
    """A copy of ``part``, with the field at ``path`` set, in nested frozen dataclasses and tuples of them."""
    if len(path) > 1:
        value = _replace_at(part_at(part, path[0]), path[1:], value)
    if isinstance(part, tuple):
        return (*part[: int(path[0])], value, *part[int(path[0]) + 1 :])
    return replace(part, **{path[0]: value})
