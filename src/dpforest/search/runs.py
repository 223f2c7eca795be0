"""Candidates of a private search, and its runs: each trains on one part of the records and scores on the other."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler

from dpforest.errors import DPForestError, ParameterError, shown
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.fitting import check_parameters, fit_sealed, whose_parts
from dpforest.mechanisms import Entropy, Logarithmic
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.pipeline import NO_SAMPLE
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.best_of_runs import charge_selection
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.events import Purpose, Scope
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes.catalogue import outside_parts
from dpforest.records.base import SealedTable
from dpforest.schema import TARGET_STEPS, Classes, Schema

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
        """The unfitted model of a candidate; raises, with the settings of the candidate, if it cannot run."""
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


@dataclass(frozen=True)
class Run:
    """The output of one run, which is released if the run is the best."""

    candidate: Candidate
    model: Model
    hits: float
    misses: float
    scored: Ledger

    @property
    def rank(self) -> float:
        """The figure by which runs are compared; larger is better."""
        # Both sums have their own noise, and one falls as the other rises: their difference says more than either.
        return self.hits - self.misses

    @property
    def share(self) -> float:
        """The noisy share of hits."""
        hits, misses = max(self.hits, 0.0), max(self.misses, 0.0)
        return hits / (hits + misses) if hits + misses > 0 else math.nan


def run(training: SealedTable, held_out: SealedTable, candidate: Candidate, model: Any, entropy: Entropy) -> Run:
    """One run: the model of a candidate, fitted to the training part, and its noisy score on the held-out part."""
    fit_sealed(model, training)
    gate = Gate(Ledger(make_accountant(model.epsilon, model.delta)), entropy)
    most = _most_per_record(model.schema)
    amount = gate.ledger.accountant.budget
    sums, _ = gate.add_noise(held_out.hits(model.forest_), Sensitivity(most, most**2), amount, "hits and misses")
    hits, misses = (float(value) / most for value in sums[0])
    return Run(candidate, model, hits, misses, gate.ledger)


def _most_per_record(schema: Schema) -> int:
    """The most that a record adds to hits and misses together."""
    return 1 if isinstance(schema.target, Classes) else TARGET_STEPS


def best_run(candidates: Iterable[Candidate], one_run: Callable[[Candidate], Run]) -> Run:
    """The run with the best noisy score, the first of those that tie; all others are forgotten."""
    best = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of a run that is not the best would tell of it
        for candidate in candidates:
            found = one_run(candidate)
            if best is None or found.rank > best.rank:
                best = found
    assert best is not None
    return best


def ledger_of(best: Run, law: Logarithmic, epsilon: float) -> Ledger:
    """The ledger of the search: both parts of the best run in parallel, then what being the best of several costs."""
    ledger = Ledger(make_accountant(epsilon, best.model.delta))
    ledger.proof = best.model.privacy_.proof
    with ledger.scope("best run", "parallel") as scope:
        parts = {"training part": best.model.ledger_, "held-out part": best.scored}
        assert all(len(part.books) == 1 for part in parts.values())
        scope.children += [Scope(Purpose(name), children=part.root.children) for name, part in parts.items()]
    charge_selection(ledger, law, best.scored.accountant.budget)
    return ledger
