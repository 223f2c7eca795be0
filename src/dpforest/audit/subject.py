"""What is audited: a recipe, a variant and the claim that goes with them, or a search among recipes."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

from dpforest.errors import LeakWarning, RepeatedFitWarning, UnitWarning
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.parts.recipe import Recipe
from dpforest.recipes import get_recipe, is_listed
from dpforest.recipes.catalogue import fingerprint, outside_parts
from dpforest.schema import Classes, Schema
from dpforest.search import DPSearchCV


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

    def claim(self) -> dict[str, Any]:
        """The recipe and its claim as plain values, with the fingerprint of its parts as they are before they run.

        The recipe is ``own`` if it is not the catalogue's, or if something from outside the library runs it.
        """
        is_own = not is_listed(self.parts) or bool(outside_parts(self.classifier, self.regressor))
        stated = {"recipe": self.name, "variant": self.variant, "epsilon": self.epsilon, "delta": self.delta}
        return stated | {"own": is_own, "fingerprint": fingerprint(self.parts, self.classifier, self.regressor)}

    @property
    def draws_samples(self) -> bool:
        """Whether the recipe trains on a secret sample, if a table is large enough for that."""
        return self.variant == "private" and self.parts.secret_sample.rows is None

    def on_sample(self, rows: float) -> "Subject":
        """The same subject on a secret sample of about so many rows."""
        return replace(self, recipe=self.parts.with_parameters({"sample_rows": max(rows, 1.0)}))

    def estimator(self, schema: Schema, n_trees: int | None = None, max_depth: int | None = None) -> Any:
        """A new estimator for a table of that schema."""
        kind = self.classifier if isinstance(schema.target, Classes) else self.regressor
        claim = {name: getattr(self, name) for name in ("recipe", "variant", "epsilon", "delta")}
        return kind(schema, n_trees=n_trees, max_depth=max_depth, **claim)

    def fitted(self, schema: Schema, X: Any, y: Any, n_trees: int | None = None, max_depth: int | None = None) -> Any:
        """A new estimator that was fitted to a table."""
        with warnings.catch_warnings():
            # A printed algorithm says each time that it leaks, and a table is fitted often. Both are meant here.
            for own in (LeakWarning, RepeatedFitWarning, UnitWarning):
                warnings.simplefilter("ignore", own)
            return self.estimator(schema, n_trees, max_depth).fit(X, y)


@dataclass(frozen=True)
class SearchSubject(Subject):
    """A search among candidates, with its claim of (epsilon, delta)-DP; ``recipe`` is the default of candidates.

    Give it to ``lower_bound`` with the pair ``RACE``, or with pairs of your own. ``search`` is the class that runs it.
    """

    recipe: Any = "jagannathan-2009"
    space: Any = None
    mean_runs: float = 3.0
    held_out: float = 0.99  # nearly all records score, so the one record moves the scores of all runs at once
    search: type[Any] = DPSearchCV

    def estimator(self, schema: Schema, n_trees: int | None = None, max_depth: int | None = None) -> Any:
        """A new search for a table of that schema."""
        forest = super().estimator(schema, n_trees, max_depth)
        shared = {"epsilon": self.epsilon, "mean_runs": self.mean_runs, "held_out": self.held_out}
        return self.search(forest, self.space or {"recipe": [self.recipe]}, **shared)
