"""Recipes: a published algorithm is a list of parts. Public values only."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, ClassVar, Protocol

import numpy as np

from dpforest.errors import ParameterError, SchemaError, shown
from dpforest.forest.tree import Forest
from dpforest.parts.allocation import Allocation
from dpforest.parts.part import Part
from dpforest.parts.postprocess import PostProcess
from dpforest.parts.proposals import Candidates, Menu
from dpforest.parts.sampling import Sampling
from dpforest.parts.shape import Facts, Rule
from dpforest.parts.voting import Vote
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import CAPABILITIES, Counter
from dpforest.schema import Classes, Schema
from dpforest.schema.domain import Grid

# Values that hold no code, and what holds values.
PLAIN = (type(None), bool, int, float, complex, str, bytes)
SEVERAL = (tuple, list, set, frozenset)
NAMED = (dict, MappingProxyType)
NUMBER = (int, float, np.number)
# Fields of a recipe whose parts say what they need and what they fit.
SAYING = (
    "sample", "criterion", "leaf", "vote", "n_trees", "depth", "stop", "choose", "narrow", "centres", "target_range",
    "first_look", "stages",
)  # fmt: skip


class Stop(Part, Protocol):
    """Says which open nodes may be split further; see ``parts.stopping``."""

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        """Mask ``(n_open,)``.

        ``counts`` ``(n_open, n_values)`` and ``variance`` are what was released at this level, if anything; ``reached`` is
        the share of the rows that an even division among listed values at every split above would bring to each node.
        """


class Narrow(Part, Protocol):
    """Leaves fewer candidates, by released values; see ``growing.class_means``."""

    @property
    def share(self) -> float:
        """Of the level's amount."""

    def narrow(
        self, candidates: Candidates, counter: Counter, first: int, amount: float, gate: Gate, purpose: Purpose
    ) -> Candidates:
        """Those of the candidates of the nodes from ``first`` that may be chosen."""


class Choose(Part, Protocol):
    """How a node chooses among its candidates; see ``growing.choosing`` and ``growing.noisy_gain``."""

    def choose(self, level: Any, amount: float) -> np.ndarray:
        """The chosen candidate of each open node, -1 where there is none; ``level`` is a ``growing.choosing.Level``."""


class Centres(Part, Protocol):
    """Shows a bounded target as two sides of a released centre; see ``growing.centres``."""

    @property
    def share(self) -> float:
        """Of the level's amount."""

    def turn(self, counter: Counter, first: int, n_nodes: int, amount: float, gate: Gate, purpose: Purpose) -> None:
        """Release a centre for each node from ``first`` and let its records see it."""


class TargetRange(Part, Protocol):
    """Buys the range of a bounded target; see ``growing.target_range``."""

    @property
    def share(self) -> float:
        """Of the budget."""

    def release(self, counter: Counter, amount: float, gate: Gate) -> tuple[tuple[int, int], float]:
        """The released range in fine steps, and what is left of the amount."""


class FirstLook(Part, Protocol):
    """Buys what the menu is made by; see ``growing.first_look``."""

    def release(self, counter: Counter, recipe: "Recipe", amount: float, gate: Gate) -> "tuple[Recipe, float]":
        """The recipe with a menu by what was released, and what is left of the amount."""


class Stages(Part, Protocol):
    """How trees follow one another; see ``growing``."""

    in_sequence: ClassVar[bool] = False  # one tree at a time, each on all records
    by_residuals: ClassVar[bool] = False  # and each by what the trees before it miss of each class

    def train(
        self, counter: Counter, recipe: "Recipe", amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        """The released forest, for at most ``amount``."""


@dataclass(frozen=True)
class ByTarget(Part):
    """A part for each kind of target, for recipes that do both tasks."""

    classes: Any
    bounded: Any

    @property
    def needs(self) -> tuple[type, ...]:
        return tuple(need for part in (self.classes, self.bounded) if part is not None for need in part.needs)


@dataclass(frozen=True)
class Recipe:
    """The parts of one algorithm.

    A recipe with a ``planner`` is a sketch: the planner gets the facts, and the shape that the user asks for, and returns
    the recipe to run. ``depth`` and ``n_trees`` may be rules. Whatever needs the number of rows gets the one that the
    schema declares; else ``n_rows_share`` of epsilon buys a noisy one.

    ``parameters`` maps the names that ``recipe_params`` may set to where they live, such as ``{"q": "allocate.q"}``, or to a
    place and a mapping from the words that people use to parts.
    """

    name: str
    title: str
    paper: str
    sample: Sampling
    propose: Menu
    criterion: Any  # a Criterion, or one ByTarget
    allocate: Allocation
    leaf: Any  # a LeafRelease, or one ByTarget
    vote: Vote
    grid: Grid = field(default_factory=Grid)
    select: str | None = None
    refine: tuple[PostProcess, ...] = ()
    n_trees: Any = 1  # a number or a Rule; of a resolved recipe a number
    # Levels of splits. Leaves are one layer more, so a tree of h layers of a paper that counts them (DPDF's delta, h of Dong
    # et al., d_m in eqs. 4.28 to 4.32 of the thesis) has depth h - 1 here.
    depth: Any = 5
    stop: Stop | None = None
    distinct_roots: bool = False
    choose: Choose | None = None  # None: one joint choice a node
    narrow: Narrow | None = None  # buys a smaller choice with a share of the level's budget
    centres: Centres | None = None  # shows a bounded target as two sides of a centre that each node buys
    target_range: TargetRange | None = None  # buys the range that trees look at
    first_look: FirstLook | None = None  # buys cuts and a choice of features before trees grow
    stages: Stages | None = None  # None: all trees together
    tasks: tuple[str, ...] = ("classification",)
    planner: Callable[[Facts, int | None, int | None], "Recipe"] | None = None
    n_rows_share: float = 0.02  # of epsilon
    without_delta: bool = False  # pure-epsilon releases, also if a delta is given
    parameters: Mapping[str, str | tuple[str, Mapping[Any, Any]]] = field(default_factory=dict)
    has_published_variant: bool = False
    claim: str = ""

    def with_parameters(self, given: Mapping[str, Any] | None) -> "Recipe":
        """The recipe with some of its parameters set."""
        recipe = self
        for name, value in (given or {}).items():
            if name not in self.parameters:
                known = ", ".join(sorted(self.parameters)) or "none"
                raise ParameterError(f"Recipe {self.name!r} takes no parameter {name!r}. It takes: {known}.")
            value = value.item() if isinstance(value, np.generic) else value
            index, is_plain = self.parameters[name], isinstance(value, str | int | float)
            if isinstance(index, tuple):
                index, words = index
                if not is_plain or value not in words:
                    raise ParameterError(f"{name} must be one of {', '.join(map(repr, words))}, not {shown(value)}.")
                value = words[value]
            elif not is_plain or (isinstance(value, int) and abs(value) >= 1 << 63):
                raise ParameterError(f"{name} of recipe {self.name!r} cannot be {shown(value)}.")
            try:
                recipe = _replace_at(recipe, index.split("."), value)
            except TypeError:
                raise ParameterError(f"{name} of recipe {self.name!r} cannot be {shown(value)}.") from None
        return recipe

    def settings(self) -> dict[str, Any]:
        """The value that each of the recipe's parameters has, in the words in which it is set."""
        found = {}
        for name, index in sorted(self.parameters.items()):
            path, words = index if isinstance(index, tuple) else (index, None)
            value = part_at(self, path)
            found[name] = value if words is None else next(word for word, part in words.items() if part == value)
        return found

    def shaped(self, n_trees: int | None, depth: int | None) -> "Recipe":
        """The recipe with the shape that the user asks for; a rule that is not needed asks for no rows."""
        return replace(self, n_trees=n_trees or self.n_trees, depth=depth or self.depth)

    @property
    def parts(self) -> list[Part]:
        """The parts that say something of themselves; raises for one that does not."""
        found = [part for name in SAYING if (part := getattr(self, name)) is not None and not isinstance(part, NUMBER)]
        for part in found:
            if not isinstance(part, Part):
                raise ParameterError(
                    f"{type(part).__name__} of recipe {self.name!r} does not say what it needs. A part inherits from the "
                    "class of its kind, such as dpforest.parts.leaves.LeafRelease or dpforest.parts.shape.Rule."
                )
        return found

    @property
    def needs_rows(self) -> bool:
        """Whether the number of rows must be known before growing."""
        return self.planner is not None or any(part.needs_rows for part in self.parts)

    @property
    def needs(self) -> tuple[type, ...]:
        """Protocols of ``records.base`` that a backend must offer: those of all parts. A planner may choose any part."""
        if self.planner is not None:
            return CAPABILITIES
        return tuple(dict.fromkeys(need for part in self.parts for need in part.needs))

    def resolve(self, facts: Facts, n_trees: int | None, depth: int | None) -> "Recipe":
        """The recipe to run for these facts; ``n_trees`` and ``depth`` come from the user, if given."""
        recipe = self.planner(facts, n_trees, depth) if self.planner else self
        task = "bounded" if facts.n_classes is None else "classes"
        parts: dict[str, Any] = {
            item.name: getattr(value, task)
            for item in fields(recipe)
            if isinstance(value := getattr(recipe, item.name), ByTarget)
        }
        recipe = recipe.shaped(n_trees, depth)
        number = _number(recipe.n_trees, facts)
        return replace(recipe, **parts, n_trees=number, depth=_number(recipe.depth, replace(facts, n_trees=number)))

    @staticmethod
    def task(schema: Schema) -> str:
        return "classification" if isinstance(schema.target, Classes) else "regression"

    def check(self, schema: Schema) -> None:
        """Raise unless every part has a meaning for the target of the schema, and shares of a budget can be made."""
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
            self._check_parts()

    def _check_parts(self) -> None:
        """Raise for parts whose proof assumes another part that is not there."""
        if any(isinstance(getattr(self, item.name), ByTarget) for item in fields(self)):
            return  # not resolved yet
        if self.criterion.needs_centres != (self.centres is not None):
            needs = "has no meaning with" if self.centres is not None else "needs"
            raise ParameterError(f"{type(self.criterion).__name__} of recipe {self.name!r} {needs} centres.")
        if self.centres is not None and not (self.stages and self.stages.in_sequence):
            raise ParameterError(f"Centres of recipe {self.name!r} need stages that grow trees in sequence.")
        if self.leaf.residuals and not (self.stages and self.stages.by_residuals):
            raise ParameterError(f"{type(self.leaf).__name__} of recipe {self.name!r} needs the stages Sequential.")
        if self.leaf.residuals and any(self.allocate.plan(1.0, 1).counts[:-1]):
            raise ParameterError(f"{type(self.leaf).__name__} of recipe {self.name!r} cannot count inner nodes.")
        for part in self.parts:
            part.check(self)

    def to_dict(self) -> dict[str, Any]:
        """What ``list_recipes`` shows."""
        return {
            "name": self.name,
            "title": self.title,
            "paper": self.paper,
            "tasks": list(self.tasks),
            "published": self.has_published_variant,
            "claim": self.claim,
            "parameters": sorted(self.parameters),
        }


def _number(rule: int | Rule, facts: Facts) -> int:
    return int(rule.value(facts) if isinstance(rule, Rule) else rule)


def part_at(part: Any, path: str) -> Any:
    """What lives at a place such as "allocate.q", or "refine.0.least" in a tuple of parts."""
    for step in path.split("."):
        part = part[int(step)] if isinstance(part, tuple) else getattr(part, step)
    return part


def _replace_at(part: Any, path: list[str], value: Any) -> Any:
    """A copy of nested frozen dataclasses, and tuples of them, with one field set."""
    if len(path) > 1:
        value = _replace_at(part_at(part, path[0]), path[1:], value)
    if isinstance(part, tuple):
        return (*part[: int(path[0])], value, *part[int(path[0]) + 1 :])
    return replace(part, **{path[0]: value})


def outside_parts(*parts: Any) -> tuple[str, ...]:
    """Names of the types and functions in these parts, and in the parts of those, that are defined outside of the library.

    Of a recipe it is what can run that counts, so not what its ``parameters`` could still be set to.
    """
    found, seen, waiting = set(), {}, list(parts)
    while waiting:
        part = waiting.pop()
        if id(part) in seen or _is_plain(part):
            continue
        seen[id(part)] = part
        if type(part) in SEVERAL:
            waiting += part
        elif type(part) in NAMED:
            waiting += part.values()
        elif isinstance(part, MethodType):
            waiting += [part.__self__, part.__func__]
        elif type(part) is partial:
            waiting += [part.func, part.args, part.keywords]
        else:
            kind: Any = part if isinstance(part, type | FunctionType | BuiltinFunctionType) else type(part)
            home, name = str(kind.__module__), kind.__qualname__
            if isinstance(kind, FunctionType):
                # Not what it says of itself: a decorator may have copied that from what it wraps.
                home, name = str(kind.__globals__.get("__name__")), kind.__code__.co_qualname
            if not _is_at(home, name, kind):
                found.add(f"{home}.{name}")
            if kind is type(part):
                inside = getattr(part, "__dict__", {})
                waiting += [value for name, value in inside.items() if kind is not Recipe or name != "parameters"]
                # What is set on a value hides what its class says.
                said = _said_by(kind)  # type: ignore[arg-type]  # classes can be hashed
                found |= {f"{home}.{name}.{other}" for other in said & inside.keys()}
    return tuple(sorted(found))


def _is_at(home: str, name: str, kind: Any) -> bool:
    """Whether the library has this very class or function by this name; one that was made inside another has none."""
    if home.partition(".")[0] != __name__.partition(".")[0]:
        return False
    found: Any = sys.modules.get(home)
    for step in name.split("."):
        found = getattr(found, step, None)
    return found is kind


@lru_cache(maxsize=512)
def _said_by(kind: Any) -> frozenset[str]:
    """What a class says for all its values: not their fields, nor what is computed once for each."""
    own = {item.name for item in fields(kind)} if is_dataclass(kind) else set()
    once = {name for name in dir(kind) if isinstance(inspect.getattr_static(kind, name), cached_property)}
    return frozenset(dir(kind)) - own - once


def _is_plain(value: Any) -> bool:
    is_array = type(value) is np.ndarray and value.dtype.kind != "O"
    return type(value) in PLAIN or is_array or (isinstance(value, np.generic) and type(value).__module__ == "numpy")
