"""``DPSearchCV``, the private search as an estimator. Hands the table on to ``records`` and never looks into it."""

import math
import numbers
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpforest.budget import Budget
from dpforest.budget.fits import check_budget, loss_of_search, what_a_search_is
from dpforest.common.other_fits import Spending, added_up, learnt_before
from dpforest.errors import ParameterError, RepeatedFitWarning, SchemaError, TableError, UncoveredWarning, UnitWarning, shown
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.fitting import keep_names, resolve_schema
from dpforest.growing.learnt import INSTEAD
from dpforest.mechanisms import Entropy, Logarithmic
from dpforest.model.file import today
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.best_of_runs import epsilon_of_one_run
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.recipes.parameter_names import OF_SEARCH, named_here
from dpforest.records import doors
from dpforest.records.base import SealedTable
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Classes, Schema
from dpforest.schema.patterns import expanded
from dpforest.schema.words import unit_doubts
from dpforest.search.runs import Model, Run, Space, best_run, ledger_of, run

MOST_RUNS = 10_000
NOT_COVERED = "how long the search took: it tells how many runs there were"
FITTED = ("best_estimator_", "best_params_", "best_score_", "privacy_", "ledger_")


class DPSearchCV(MetaEstimatorMixin, Spending):
    """The best of a random number of differentially private forests, for one ``epsilon`` and the ``delta`` of the estimator.

    Each run draws a candidate, trains it on one part of the records and scores it, with noise, on the part that is held out.
    The run with the best noisy score is released; how many there were, and what the others gave, is forgotten.

    Privacy:
        Claim: fitting is (``epsilon``, ``delta``)-DP for adding or removing one record, whatever candidates there are and
            however many.
        Because: a coin for each record says in which part it is; given the coins an added record is in one part, so a run
            costs the larger of training and scoring, both ``epsilon_of_one_run``: pure or, with delta, zCDP with its rho, as
            all charges of a run are in one book. A run's output is its candidate, model and noisy score together; runs are
            independent and alike; their number is logarithmic and independent of the records. So the best, ties to the
            first, is ``epsilon``-DP, or its Rényi divergences are small enough (``Logarithmic``, ``best_of_runs``). An error
            in a run is an output that ranks above all scores: it ends the search. Averaging over the coins keeps both
            bounds: a divergence of mixtures is at most the largest of their parts.
        Assumes: the number of runs, other runs and their scores are not released; how long the search takes can tell them.
            What a distribution of candidates draws follows from the seed that it is given.

    Parameters
    ----------
    estimator : DPForestClassifier or DPForestRegressor
        What candidates have in common. Its ``delta`` is that of the whole search; its own ``epsilon`` is not used.
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

    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Search on a table. What parameters decide is checked before anything is spent.

        Below an epsilon of about 0.01, what a run has left for a release may be less than noise can be made for: the search
        then ends with an error, and stays charged.

        Parameters
        ----------
        X
            A table, as ``DPForestClassifier.fit`` takes it; rows that are not in memory are read once and kept here.
        y
            The target of each row; None if it is a column of ``X``.
        client
            A client of a Dask cluster whose workers read Parquet files.
        """
        schema = self.estimator.schema if isinstance(getattr(self.estimator, "schema", None), Schema) else None
        is_away = client is not None or doors.is_elsewhere(X)
        table = doors.opened(X, schema.format) if is_away and client is None and schema is not None else X
        with doors.closed_if_refused(table):
            return self._search(table, partial(self._seal, table, y, is_away, client))

    def fit_table(self, table: Any) -> Self:
        """Search on a table that is not in memory; another name of ``fit(table)``."""
        return self.fit(table)

    def fit_dask(self, table: Any, client: Any = None) -> Self:
        """Search on a dask dataframe, or on Parquet files that workers of a Dask cluster read; ``fit`` with a client."""
        return self.fit(table, client=doors.current_client(client))

    def _search(self, table: Any, seal: Callable[[Schema], SealedTable]) -> Self:
        """Search on the rows that ``seal`` gives."""
        began, (law, schema) = today(), self._check_parameters()
        schema = expanded(schema, partial(doors.names_of, table))
        for note in learnt_before():
            warnings.warn(note, UncoveredWarning, stacklevel=3)
        for doubt in unit_doubts(schema, "record", True, "fit one estimator, since a search protects rows only"):
            warnings.warn(doubt, UnitWarning, stacklevel=3)
        entropy, space = Entropy(None), Space(self.estimator, self.param_distributions)
        budget = make_accountant(self.epsilon, self.estimator.delta)
        epsilon = epsilon_of_one_run(law, budget.epsilon, budget.delta)
        # The number of runs and their candidates do not depend on the records: all are drawn and checked first.
        listed, candidates = space.listed(), space.draw(law.draw(entropy), entropy)
        checked = [space.checked(candidate, epsilon, schema) for candidate in listed or candidates]
        whose = space.whose(checked if listed else [])
        n_rows = None if schema.n_rows is None else max(1, round((1 - self.held_out) * schema.n_rows))
        with closing(seal(replace(schema, n_rows=n_rows))) as vault:
            if self.budget is None:
                for note in added_up(self, table, budget.epsilon, budget.delta, "record"):
                    warnings.warn(note, RepeatedFitWarning, stacklevel=3)
            self._charge(law, whose["own_recipe"])
            for name in FITTED:
                self.__dict__.pop(name, None)
            training, held_out = vault.hold_out(float(self.held_out), entropy)
            best = best_run(candidates, lambda each: run(training, held_out, each, space.model(each, epsilon), entropy))
        self._keep(best, law, schema, began, whose)
        return self

    def _check_parameters(self) -> tuple[Logarithmic, Schema]:
        """The law of the number of runs, and the schema; raises if a parameter cannot be used."""
        estimator = self.estimator
        if not isinstance(estimator, DPForestClassifier | DPForestRegressor):
            raise ParameterError(f"estimator must be a DPForestClassifier or DPForestRegressor, not {shown(estimator)}.")
        make_accountant(self.epsilon, estimator.delta)
        if math.isinf(self.epsilon):
            raise ParameterError("epsilon must be finite. To search without privacy, use scikit-learn's own search.")
        for name, low, high in (("mean_runs", 1, MOST_RUNS), ("held_out", 0.01, 0.99)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
                raise ParameterError(f"{name} must be a number in {low} .. {high}, not {shown(value)}.")
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
        if schema.learnt:
            raise ParameterError(
                f"Column {schema.learnt[0]!r} is declared Categorical(learn=True). A list has a delta of its own, which a "
                f"private search cannot add up: fit without one. {INSTEAD}"
            )
        Space(estimator, self.param_distributions).check()
        check_budget(self.budget, "record", [], takes_groups=False)
        return Logarithmic.with_mean(float(self.mean_runs)), schema

    def _seal(self, table: Any, y: Any, is_away: bool, client: Any, schema: Schema) -> Vault:
        """The sealed rows of a table; columns of one that is not in memory have the names of the schema."""
        n_jobs = effective_n_jobs(self.estimator.n_jobs)
        if is_away and y is not None:
            raise TableError("Such a table has its target in a column that the schema names; pass y with a table in memory.")
        if is_away:
            vault = doors.seal_elsewhere(table, schema, n_jobs, client=client)
            self.n_features_in_, self.feature_names_in_ = schema.n_features, np.array([*schema.features], dtype=object)
            return vault
        y = doors.target_beside(table, schema) if y is None else y
        if y is None:
            raise ValueError("DPSearchCV requires y to be passed, but the target y is None.")
        vault = Vault.seal(table, y, schema, n_jobs)
        keep_names(self, table, schema)
        return vault

    def _charge(self, law: Logarithmic, is_own: bool) -> None:
        """Charge the whole search to the budget before a record is used; it stays charged however the search ends.

        It is settled at once, since how long a search took would tell how many runs there were.
        """
        if self.budget is not None:
            accountant = make_accountant(self.epsilon, self.estimator.delta)
            loss = loss_of_search(law, accountant.epsilon, accountant.delta, self.budget.order)
            self.budget.settle(self.budget.reserve(what_a_search_is(is_own), outcomes=[loss]), loss)

    def _keep(self, best: Run, law: Logarithmic, schema: Schema, began: str, whose: dict[str, Any]) -> None:
        """Set the fitted attributes from the best run, with a statement and a ledger of the whole search."""
        model = best.model
        model.privacy_ = replace(model.privacy_, **whose)
        model.ledger_ = ledger_of(best, law, self.epsilon)
        # When the best run began would tell how many there were before it.
        model.schema_, model.trained_on_ = schema, began
        for name in {"n_features_in_", "feature_names_in_"} & vars(self).keys():
            setattr(model, name, vars(self)[name])
        covers = "epsilon and delta cover" if model.ledger_.delta else "epsilon covers"
        notes = [f"chosen by a private search; {covers} all of its runs and their scores"]
        notes += [] if self.budget is None else [f"this search was charged to the budget of {self.budget.dataset!r}"]
        model.privacy_ = replace(
            model.privacy_,
            epsilon=model.ledger_.epsilon,
            notes=(*model.privacy_.notes, *notes),
            not_covered=(*model.privacy_.not_covered, NOT_COVERED),
        )
        self.best_estimator_, self.best_params_ = model, best.candidate
        self.ledger_, self.privacy_ = model.ledger_, model.privacy_
        target = schema.target
        self.best_score_ = best.share if isinstance(target, Classes) else target.span * (best.share - 1)

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
