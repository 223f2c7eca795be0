"""The candidates of a private search: what may be searched, which are drawn, and whether they can run. Sees no rows."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler

from dpforest.errors import DPForestError, ParameterError, shown
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.fitting import check_parameters, whose_parts
from dpforest.mechanisms import Entropy
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.pipeline import NO_SAMPLE
from dpforest.privacy.accountants import make_accountant
from dpforest.recipes.catalogue import outside_parts
from dpforest.schema import Schema

# The parameters that a search can vary; all else is for the search, or would change what is promised.
SEARCHED = ("recipe", "n_trees", "max_depth", "recipe_params")
Candidate = dict[str, Any]
Model = DPForestClassifier | DPForestRegressor


@dataclass(frozen=True)
class Space:
    """The estimator under search, with the values and distributions of its candidates, as given."""

    estimator: Any
    given: Any

    @property
    def parts(self) -> Any:
        """The given dictionaries of values or distributions, as a list."""
        return [self.given] if isinstance(self.given, Mapping) else self.given

    def check(self) -> None:
        """Raise unless candidates are dictionaries that set searchable parameters only."""
        parts = self.parts
        if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, Mapping) for part in parts):
            raise ParameterError(f"param_distributions must be a dictionary or a list of them, not {shown(parts)}.")
        other = [name for part in parts for name in part if name not in SEARCHED]
        if other:
            raise ParameterError(f"{shown(other[0])} cannot be searched; a search can vary {', '.join(SEARCHED)}.")

    def listed(self) -> list[Candidate]:
        """All candidates, if all values are listed; an empty list if there are distributions."""
        if any(hasattr(values, "rvs") for part in self.parts for values in part.values()):
            return []
        try:
            return list(ParameterGrid(self.given))
        except (TypeError, ValueError) as error:
            raise ParameterError(f"param_distributions: {error}") from None

    def draw(self, n_runs: int, entropy: Entropy) -> list[Candidate]:
        """The candidates of ``n_runs`` runs, drawn independently and alike."""
        generator, listed = entropy.generator(), self.listed()
        if listed:
            return [listed[index] for index in generator.integers(len(listed), size=n_runs)]
        seeds = generator.integers(2**32, size=n_runs)
        try:
            # From a copy each: a distribution that remembers its draws would make runs unlike.
            copies = [deepcopy(self.given) for _ in seeds]
            return [
                next(iter(ParameterSampler(copy, 1, random_state=int(seed))))
                for copy, seed in zip(copies, seeds, strict=True)
            ]
        except (TypeError, ValueError) as error:
            raise ParameterError(f"param_distributions: {error}") from None

    def model(self, candidate: Candidate, epsilon: float) -> Model:
        """An unfitted copy of the estimator with the settings of a candidate and the epsilon of one run."""
        return clone(self.estimator).set_params(**candidate, epsilon=epsilon)

    def checked(self, candidate: Candidate, epsilon: float, schema: Schema) -> Model:
        """The unfitted model of a candidate; raises, with the settings of the candidate, if it cannot run.

        ``no_draws`` is the error for a vote that draws labels, where that cannot be scored.
        """
        model = self.model(candidate, epsilon)
        try:
            recipe = check_parameters(model)
            recipe.check(schema)
            if recipe.secret_sample.is_asked:
                raise ParameterError(NO_SAMPLE)
            if isinstance(recipe.sample, PoissonBootstrap):
                make_accountant(model.epsilon, model.delta).bootstrap(0.0)  # which refuses it with delta
        except DPForestError as error:
            raise type(error)(f"Candidate {_in_words(candidate)}: {error}") from None
        return model

    def whose(self, models: list[Model]) -> dict[str, Any]:
        """The fields of ``whose_parts`` for all candidates together, since which run is the best depends on each of them.

        They are about all that could be drawn, since what was drawn is secret. Of distributions this is known for the
        recipe alone; ``models`` is empty then.
        """
        drawn: tuple[str, ...] = ()
        if not models:
            recipes = [part.get("recipe", [self.estimator.recipe]) for part in self.parts]
            drawn = outside_parts(*(type(recipe) for recipe in recipes if hasattr(recipe, "rvs")))
            listed = [recipe for some in recipes if not hasattr(some, "rvs") for recipe in some]
            models = [clone(self.estimator).set_params(recipe=recipe) for recipe in listed]
        found = [whose_parts(model, check_parameters(model)) for model in models]
        return {
            "own_recipe": bool(drawn) or any(each["own_recipe"] for each in found),
            "outside": tuple(sorted({*drawn, *(name for each in found for name in each["outside"])})),
        }


def _in_words(setting: Any) -> str:
    """A candidate, or one of its settings, as an error names it: a recipe by its name, other values as far as short."""
    if isinstance(setting, dict):
        return "{" + ", ".join(f"{name}: {_in_words(value)}" for name, value in setting.items()) + "}"
    return shown(setting.name if isinstance(setting, Recipe) else setting)
