"""What is audited: a recipe, a variant and the claim that goes with them."""

from dataclasses import dataclass, replace
from typing import Any

from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.parts.recipe import Recipe
from dpforest.recipes import get_recipe, is_listed
from dpforest.recipes.own import fingerprint, outside_parts
from dpforest.schema import Classes, Schema


@dataclass(frozen=True)
class Subject:
    """A recipe that claims (epsilon, delta)-DP for adding or removing one record.

    ``classifier`` and ``regressor`` are the estimators that run it; give your own if they differ from the library's.
    """

    recipe: str | Recipe
    variant: str = "private"
    epsilon: float = 1.0
    delta: float = 0.0
    classifier: type[Any] = DPForestClassifier
    regressor: type[Any] = DPForestRegressor

    @property
    def name(self) -> str:
        return self.recipe if isinstance(self.recipe, str) else self.recipe.name

    @property
    def parts(self) -> Recipe:
        return get_recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe

    @property
    def is_own(self) -> bool:
        """Whether the recipe is not the catalogue's, or something from outside the library runs it."""
        return not is_listed(self.parts) or bool(outside_parts(self.classifier, self.regressor))

    def claim(self) -> dict[str, Any]:
        """The recipe and its claim as plain values, with the fingerprint of its parts as they are before they run."""
        parts = fingerprint(self.parts, self.classifier, self.regressor)
        own = {"own": self.is_own, "fingerprint": parts}
        return {"recipe": self.name, "variant": self.variant, "epsilon": self.epsilon, "delta": self.delta, **own}

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.parts.tasks

    @property
    def draws_samples(self) -> bool:
        """Whether the recipe trains on a secret sample, if a table is large enough for that."""
        return self.variant == "private" and self.parts.secret_sample.rows is None

    def on_sample(self, rows: float) -> "Subject":
        """The same subject on a secret sample of about so many rows."""
        return replace(self, recipe=self.parts.with_parameters({"sample_rows": max(rows, 1.0)}))

    def claiming(self, epsilon: float, delta: float) -> "Subject":
        """The same subject with another claim."""
        return replace(self, epsilon=epsilon, delta=delta)

    def estimator(self, schema: Schema, n_trees: int | None = None, max_depth: int | None = None) -> Any:
        """A new estimator for a table of that schema."""
        kind = self.classifier if isinstance(schema.target, Classes) else self.regressor
        return kind(
            schema,
            epsilon=self.epsilon,
            delta=self.delta,
            recipe=self.recipe,
            variant=self.variant,
            n_trees=n_trees,
            max_depth=max_depth,
        )
