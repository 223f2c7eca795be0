"""Recipes: a published algorithm is a list of parts. Public values only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpforest.allocation import Allocation
from dpforest.criteria import Criterion
from dpforest.domain import Grid
from dpforest.errors import ParameterError, SchemaError
from dpforest.leaves import LeafRelease
from dpforest.postprocess import PostProcess
from dpforest.proposals import Menu
from dpforest.sampling import Sampling
from dpforest.schema import Classes, Schema
from dpforest.voting import Vote


@dataclass(frozen=True)
class Facts:
    """What a recipe may plan with: public values, and a number of rows that is public or was released."""

    n_rows: float
    epsilon: float
    delta: float
    n_features: int
    n_classes: int | None  # None for a bounded target


@dataclass(frozen=True)
class Recipe:
    """The parts of one algorithm.

    A recipe with a ``planner`` is a sketch: the planner gets the facts and returns the recipe to run. It needs the number of
    rows; unless the schema declares it, ``n_rows_share`` of the budget buys a noisy one.

    ``parameters`` maps the names that ``recipe_params`` may set to where they live, such as ``{"q": "allocate.q"}``, or to a
    place and a mapping from the words that people use to parts.
    """

    name: str
    title: str
    paper: str
    sample: Sampling
    propose: Menu
    criterion: Criterion
    allocate: Allocation
    leaf: LeafRelease
    vote: Vote
    grid: Grid = field(default_factory=Grid)
    select: str | None = None
    refine: tuple[PostProcess, ...] = ()
    n_trees: int = 1
    depth: int = 5
    tasks: tuple[str, ...] = ("classification",)
    planner: Callable[[Facts], "Recipe"] | None = None
    n_rows_share: float = 0.02
    parameters: Mapping[str, str | tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    has_published_variant: bool = False
    claim: str = ""

    def with_parameters(self, given: Mapping[str, Any] | None) -> "Recipe":
        """The recipe with some of its parameters set."""
        recipe = self
        for name, value in (given or {}).items():
            if name not in self.parameters:
                known = ", ".join(sorted(self.parameters)) or "none"
                raise ParameterError(f"Recipe {self.name!r} takes no parameter {name!r}. It takes: {known}.")
            place = self.parameters[name]
            if isinstance(place, tuple):
                place, words = place
                if value not in words:
                    raise ParameterError(f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}.")
                value = words[value]
            recipe = _replace_at(recipe, place.split("."), value)
        return recipe

    def check(self, schema: Schema) -> None:
        """Raise unless every part has a meaning for the target of the schema."""
        task = "classification" if isinstance(schema.target, Classes) else "regression"
        if task not in self.tasks:
            raise SchemaError(f"Recipe {self.name!r} is for {' and '.join(self.tasks)}, not for {task}.")
        if self.planner is None:
            for part in (self.criterion, self.leaf):
                if not part.accepts(schema.target):
                    name = type(part).__name__
                    raise SchemaError(f"{name} of recipe {self.name!r} does not fit the target {schema.target}.")

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


def _replace_at(part: Any, path: list[str], value: Any) -> Any:
    """A copy of nested frozen dataclasses with one field set."""
    if len(path) > 1:
        value = _replace_at(getattr(part, path[0]), path[1:], value)
    return replace(part, **{path[0]: value})
