"""Private search for hyper-parameters: the best of a random number of runs, for one epsilon that covers all of them.

Hands the table on to ``records`` and never looks into it.
"""

import math
import numbers
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpforest.budget import Budget, Loss
from dpforest.budget.fits import check_budget, what_a_search_is
from dpforest.common.pipelines import learnt_before
from dpforest.errors import ParameterError, SchemaError, TableError, UncoveredWarning, shown
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.fitting import check_parameters, keep_names, resolve_schema, whose_parts
from dpforest.growing.learnt_lists import check_delta
from dpforest.mechanisms import Entropy, Logarithmic
from dpforest.model.file import today
from dpforest.parts.recipe import outside_parts
from dpforest.pipeline import NO_COINS
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import as_written, exact, round_down
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.events import Mechanism, Purpose, Scope
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.recipes.parameter_names import OF_SEARCH, named_here
from dpforest.records.memory.vault import Vault
from dpforest.records.names import names_of
from dpforest.schema import TARGET_STEPS, Bounded, Classes, Schema
from dpforest.schema.patterns import expanded

# The parameters that a search can vary; all else is for the search, or would change what is promised.
SEARCHED = ("recipe", "n_trees", "max_depth", "recipe_params")
MOST_RUNS = 10_000
SELECTION = "private selection"
NOT_COVERED = "how long the search took: it tells how many runs there were"

Model = DPForestClassifier | DPForestRegressor


@dataclass(frozen=True)
class _Run:
    """The output of one run, which is released if the run is the best."""

    candidate: dict[str, Any]
    model: Model
    hits: float
    misses: float
    scored: Ledger

    @property
    def rank(self) -> float:
        """The figure by which runs are compared; larger is better."""
        # Both sums have their own noise, and one falls as the other rises: their difference says more than either.
        return self.hits - self.misses


class DPSearchCV(MetaEstimatorMixin, BaseEstimator):
    """The best of a random number of differentially private forests, for one ``epsilon``.

    Each run draws a candidate, trains it on one part of the records and scores it, with noise, on the part that is held out.
    The run with the best noisy score is released; how many there were, and what the others gave, is forgotten.

    Privacy:
        Claim: fitting is ``epsilon``-DP for adding or removing one record, whatever candidates there are and however many.
        Because: a coin for each record says in which part it is; given the coins an added record is in one part, so a run
            costs the larger of training and scoring, both e = ``Logarithmic.of_one_run(epsilon)``. A run's output is its
            candidate, model and noisy score together; runs are independent and alike; their number is logarithmic and
            independent of the records. So the best, ties to the first, is ``epsilon``-DP (``Logarithmic``). An error in a
            run is an output that ranks above all scores: it ends the search. Averaging over the coins keeps the bound.
        Assumes: the number of runs, other runs and their scores are not released; how long the search takes can tell them.
            What a distribution of candidates draws follows from the seed that it is given.

    Parameters
    ----------
    estimator : DPForestClassifier or DPForestRegressor
        What candidates have in common. Its own ``epsilon`` is not used; ``delta`` has to be 0.
    param_distributions : dict or list of dicts
        Values to try of ``recipe``, ``n_trees``, ``max_depth`` and ``recipe_params``: lists, or distributions with ``rvs``.
        They must not be chosen by looking at the records.
    epsilon : float
        Budget of the whole search.
    mean_runs : float
        The expected number of runs, at least 1.
    held_out : float
        The share of the records that score.
    budget : Budget or None
        Store to which the search is charged, once and in full.

    Attributes
    ----------
    best_estimator_ : DPForestClassifier or DPForestRegressor
        The model of the best run, trained on the records that were not held out.
    best_params_ : dict
        Its candidate.
    best_score_ : float
        Its noisy accuracy (or minus its mean absolute error) on the held-out part; the best of several, so a bit too good.
    privacy_ : Statement
        What is guaranteed, for the whole search.
    ledger_ : Ledger
        The charges of the best run, and what being the best costs on top.
    """

    best_estimator_: Model
    best_params_: dict[str, Any]
    best_score_: float
    privacy_: Statement
    ledger_: Ledger

    @partial(named_here, instead=OF_SEARCH)
    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        epsilon: float = 1.0,
        mean_runs: float = 10.0,
        held_out: float = 0.2,
        budget: Budget | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.mean_runs = mean_runs
        self.held_out = held_out
        self.budget = budget

    def fit(self, X: Any, y: Any = None) -> Self:
        """Search on a table in memory and its target. Everything is checked before anything is spent."""
        began, (law, schema) = today(), self._check_parameters()
        schema = expanded(schema, lambda: names_of(X))
        for note in learnt_before():
            warnings.warn(note, UncoveredWarning, stacklevel=2)
        entropy = Entropy(None)
        epsilon = law.of_one_run(as_written(self.epsilon))
        # The number of runs and their candidates do not depend on the records: all are drawn and checked first.
        listed = self._listed()
        candidates = self._draw_candidates(listed, law.draw(entropy), entropy)
        checked = [self._model(candidate, epsilon) for candidate in listed or candidates]
        for model in checked:
            recipe = check_parameters(model)
            recipe.check(schema)
            if recipe.secret_sample.is_asked:
                raise ParameterError(NO_COINS)
        whose = self._whose(checked if listed else [])
        if y is None:
            raise ValueError("DPSearchCV requires y to be passed, but the target y is None.")
        vault = self._seal(X, y, schema)
        self._charge(whose["own_recipe"])
        for name in ("best_estimator_", "best_params_", "best_score_", "privacy_", "ledger_"):
            self.__dict__.pop(name, None)
        self._keep(self._best(vault, candidates, epsilon, entropy), schema, epsilon, began, whose)
        return self

    def _whose(self, models: list[Model]) -> dict[str, Any]:
        """The fields of ``whose_parts`` for all candidates together, since which run is the best depends on each of them.

        They are about all that could be drawn, since what was drawn is secret. Of distributions this is known for the
        recipe alone.
        """
        drawn: tuple[str, ...] = ()
        if not models:
            recipes = [space.get("recipe", [self.estimator.recipe]) for space in self._spaces]
            drawn = outside_parts(*(type(recipe) for recipe in recipes if hasattr(recipe, "rvs")))
            listed = [recipe for some in recipes if not hasattr(some, "rvs") for recipe in some]
            models = [clone(self.estimator).set_params(recipe=recipe) for recipe in listed]
        found = [whose_parts(model, check_parameters(model)) for model in models]
        return {
            "own_recipe": bool(drawn) or any(each["own_recipe"] for each in found),
            "outside": tuple(sorted({*drawn, *(name for each in found for name in each["outside"])})),
        }

    def _check_parameters(self) -> tuple[Logarithmic, Schema]:
        """The law of the number of runs, and the schema; raises if a parameter cannot be used."""
        estimator = self.estimator
        if not isinstance(estimator, DPForestClassifier | DPForestRegressor):
            raise ParameterError(f"estimator must be a DPForestClassifier or DPForestRegressor, not {shown(estimator)}.")
        make_accountant(self.epsilon, 0.0)
        if math.isinf(self.epsilon):
            raise ParameterError("epsilon must be finite. To search without privacy, use scikit-learn's own search.")
        for name, low, high in (("mean_runs", 1, MOST_RUNS), ("held_out", 0.01, 0.99)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
                raise ParameterError(f"{name} must be a number in {low} .. {high}, not {shown(value)}.")
        if estimator.delta != 0:
            raise ParameterError("The search is proved for delta = 0; set delta=0 on the estimator.")
        for name in ("random_state", "budget", "max_rows_per_person", "class_weight", "earlier_model"):
            if getattr(estimator, name, None) is not None:
                hints = {"budget": "give it to the search", "class_weight": "set it on best_estimator_, after the search"}
                hint = hints.get(name, "the search's promise does not cover it")
                raise ParameterError(f"{name} of the estimator must be None: {hint}.")
        if estimator.variant != "private":
            raise ParameterError("variant of the estimator must be 'private'.")
        if not isinstance(estimator.schema, Schema):
            raise SchemaError("A search needs an estimator with a Schema; bounds cannot be read off the rows.")
        _, schema = resolve_schema(estimator)
        if isinstance(schema.target, Bounded) and not schema.target.has_bounds:
            raise SchemaError(
                f"A search compares errors as parts of the target's range, and a bound of {schema.target.name!r} is "
                "missing. Declare both, or fit without a search."
            )
        if schema.source == "assume-public":
            raise SchemaError("The bounds of this schema were read off rows; a search needs ones that are public.")
        check_delta(schema, self.epsilon, 0.0)
        self._check_names()
        check_budget(self.budget, "record", [])
        return Logarithmic.with_mean(float(self.mean_runs)), schema

    @property
    def _spaces(self) -> Any:
        """The given dictionaries of values or distributions, as a list."""
        given = self.param_distributions
        return [given] if isinstance(given, Mapping) else given

    def _check_names(self) -> None:
        """Raise unless candidates are dictionaries that set nothing but what may be searched."""
        spaces = self._spaces
        if not isinstance(spaces, list | tuple) or not spaces or not all(isinstance(space, Mapping) for space in spaces):
            raise ParameterError(f"param_distributions must be a dictionary or a list of them, not {shown(spaces)}.")
        other = [name for space in spaces for name in space if name not in SEARCHED]
        if other:
            raise ParameterError(f"{shown(other[0])} cannot be searched; a search can vary {', '.join(SEARCHED)}.")

    def _listed(self) -> list[dict[str, Any]]:
        """All candidates, if all values are listed; an empty list if there are distributions."""
        if any(hasattr(values, "rvs") for space in self._spaces for values in space.values()):
            return []
        try:
            return list(ParameterGrid(self.param_distributions))
        except (TypeError, ValueError) as error:
            raise ParameterError(f"param_distributions: {error}") from None

    def _draw_candidates(self, listed: list[dict[str, Any]], n_runs: int, entropy: Entropy) -> list[dict[str, Any]]:
        """The candidates of ``n_runs`` runs, drawn independently and alike."""
        generator = entropy.generator()
        if listed:
            return [listed[index] for index in generator.integers(len(listed), size=n_runs)]
        seeds = generator.integers(2**32, size=n_runs)
        try:
            # From a copy each: a distribution that remembers its draws would make runs unlike.
            spaces = [deepcopy(self.param_distributions) for _ in seeds]
            return [
                next(iter(ParameterSampler(space, 1, random_state=int(seed))))
                for space, seed in zip(spaces, seeds, strict=True)
            ]
        except (TypeError, ValueError) as error:
            raise ParameterError(f"param_distributions: {error}") from None

    def _model(self, candidate: dict[str, Any], epsilon: float) -> Model:
        """An unfitted copy of the estimator with the settings of a candidate and the epsilon of one run."""
        return clone(self.estimator).set_params(**candidate, epsilon=epsilon)

    def _seal(self, X: Any, y: Any, schema: Schema) -> Vault:
        """The sealed rows; the number of rows that their schema declares is scaled to the part that trains."""
        if isinstance(X, str) or not hasattr(X, "__len__"):
            raise TableError(f"A search needs a table in memory, not {shown(X)}.")
        if schema.n_rows is not None:
            schema = replace(schema, n_rows=max(1, round((1 - self.held_out) * schema.n_rows)))
        vault = Vault.seal(X, y, schema, effective_n_jobs(self.estimator.n_jobs))
        keep_names(self, X, schema)
        return vault

    def _charge(self, is_own: bool) -> None:
        """Charge the whole search to the budget before a record is used; it stays charged however the search ends.

        It is settled at once, since how long a search took would tell how many runs there were.
        """
        if self.budget is not None:
            loss = Loss.pure(as_written(self.epsilon))
            self.budget.settle(self.budget.reserve(what_a_search_is(is_own), outcomes=[loss]), loss)

    def _best(self, vault: Vault, candidates: list[dict[str, Any]], epsilon: float, entropy: Entropy) -> _Run:
        """The run with the best noisy score, the first of those that tie; all others are forgotten."""
        training, held_out = vault.hold_out(float(self.held_out), entropy)
        best = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning of a run that is not the best would tell of it
            for candidate in candidates:
                run = self._run(training, held_out, candidate, epsilon, entropy)
                if best is None or run.rank > best.rank:
                    best = run
        assert best is not None
        return best

    def _run(self, training: Vault, held_out: Vault, candidate: dict[str, Any], epsilon: float, entropy: Entropy) -> _Run:
        """One run: a model of the candidate on the training part, and its noisy score on the held-out part."""
        model = self._model(candidate, epsilon)
        model.fit(training)
        gate = Gate(Ledger(make_accountant(epsilon, 0.0)), entropy)
        most = self._most_per_record(training.schema)
        sums, _ = gate.add_noise(held_out.hits(model.forest_), Sensitivity(most, most**2), epsilon, "hits and misses")
        hits, misses = (float(value) / most for value in sums[0])
        return _Run(candidate, model, hits, misses, gate.ledger)

    @staticmethod
    def _most_per_record(schema: Schema) -> int:
        """The most that a record adds to hits and misses together."""
        return 1 if isinstance(schema.target, Classes) else TARGET_STEPS

    def _keep(self, best: _Run, schema: Schema, epsilon: float, began: str, whose: dict[str, Any]) -> None:
        """Set the fitted attributes from the best run, with a statement and a ledger of the whole search."""
        model = best.model
        model.privacy_ = replace(model.privacy_, **whose)
        model.ledger_ = self._ledger(best, epsilon)
        # When the best run began would tell how many there were before it.
        model.schema_, model.trained_on_ = schema, began
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        notes = ["chosen by a private search; epsilon covers all of its runs and their scores"]
        notes += [] if self.budget is None else [f"this search was charged to the budget of {self.budget.dataset!r}"]
        model.privacy_ = replace(
            model.privacy_,
            epsilon=model.ledger_.epsilon,
            notes=(*model.privacy_.notes, *notes),
            not_covered=(*model.privacy_.not_covered, NOT_COVERED),
        )
        self.best_estimator_, self.best_params_ = model, best.candidate
        self.ledger_, self.privacy_ = model.ledger_, model.privacy_
        hits, misses = max(best.hits, 0.0), max(best.misses, 0.0)
        share = hits / (hits + misses) if hits + misses > 0 else math.nan
        target = schema.target
        self.best_score_ = share if isinstance(target, Classes) else target.span * (share - 1)

    def _ledger(self, best: _Run, epsilon: float) -> Ledger:
        """The ledger of the search: both parts of the best run in parallel, then what being the best of several costs."""
        ledger = Ledger(make_accountant(self.epsilon, 0.0))
        ledger.proof = best.model.privacy_.proof
        with ledger.scope("best run", "parallel") as run:
            parts = {"training part": best.model.ledger_, "held-out part": best.scored}
            run.children += [Scope(Purpose(name), children=part.root.children) for name, part in parts.items()]
        rest = round_down(exact(ledger.epsilon) - exact(epsilon))
        known = {"gamma": Logarithmic.with_mean(float(self.mean_runs)).gamma, "of_one_run": exact(epsilon)}
        ledger.charge("best of a random number of runs", Mechanism(SELECTION, known), rest)
        return ledger

    @property
    def classes_(self) -> np.ndarray:
        """The public labels."""
        check_is_fitted(self)
        return self.best_estimator_.classes_

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the best model."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(lambda search: hasattr(search.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities of the best model."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def score(self, X: Any, y: Any) -> float:
        """Accuracy (or R2) of the best model on a table; exact, so NOT private for the records of that table."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        return tags
