"""scikit-learn estimators over the pipeline."""

import math
import os
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpforest.budget import Budget
from dpforest.budget.fits import charged, check_budget, outcomes_of_fit
from dpforest.doubts import released_doubts
from dpforest.errors import (
    LeakWarning,
    ModelFileError,
    NothingLearntWarning,
    ParameterError,
    SchemaError,
    TableError,
    UncoveredWarning,
    shown,
)
from dpforest.fingerprint import fingerprint
from dpforest.forest import fit_forest, fit_published
from dpforest.mechanisms import Entropy
from dpforest.model_file import DAMAGE, read_model, save_model, versions
from dpforest.pipelines import learnt_before
from dpforest.privacy.accountants import is_whole, make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement, large_delta, proof_in_words
from dpforest.published.registry import get_published
from dpforest.recipe import Recipe, outside_parts
from dpforest.recipes import get_recipe, is_listed
from dpforest.records.assume import assume_public
from dpforest.records.base import Source
from dpforest.records.columns import read_columns
from dpforest.records.parquet import ParquetVault
from dpforest.records.people import People
from dpforest.records.vault import Vault, encode
from dpforest.records.workers import Workers
from dpforest.schema import Bounded, Classes, Schema
from dpforest.tree import Forest

# Rows that are encoded and walked down the trees at once when predicting.
CHUNK_ROWS = 1 << 14
# Why a fit is not private.
REASONS = {
    "inf": "epsilon is infinite, so no noise was added",
    "seed": "a random_state was given, and whoever knows it can undo the noise",
    "assume": "bounds, categories and classes were read off the rows (schema='assume-public'), without noise",
}


class _DPForest(BaseEstimator):
    """What the classifier and the regressor share."""

    _target_kind: type[Classes] | type[Bounded]

    ledger_: Ledger
    forest_: Forest
    privacy_: Statement
    schema_: Any
    made_with_: dict[str, str]

    def __init__(
        self,
        schema: Schema | str | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        recipe: str | Recipe = "auto",
        variant: str = "private",
        n_trees: int | None = None,
        max_depth: int | None = None,
        recipe_params: dict[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        max_rows_per_person: int | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.recipe = recipe
        self.variant = variant
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.recipe_params = recipe_params
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.max_rows_per_person = max_rows_per_person
        self.budget = budget

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        progress: Callable[[str], None] = lambda step: None,
        **others: Any,
    ) -> "_DPForest":
        """Train on a table (pandas, polars, pyarrow, numpy; missing values allowed) and its target.

        ``X`` may be the path of a Parquet file or folder, which need not fit in memory; the target is then the column that
        the schema names. Everything is checked before anything is spent; ``progress`` is called with the name of each
        finished step, and while a file is read with its rows so far: these are for whoever holds the file, not to be logged.

        With ``max_rows_per_person`` it is persons that are protected: ``groups`` has the id of each row's person (for a
        file, the name of the column of ids). Rows without an id are left out.
        """
        # By **others: a named parameter would tell scikit-learn that weights are supported.
        if others.pop("sample_weight", None) is not None:
            raise ParameterError(
                "sample_weight is not supported: a weight changes what a record can add to a count, and the noise is made "
                "for records that add 1. Fit without it."
            )
        if others:
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {next(iter(others))!r}")
        return self._fit(lambda recipe, people: self._seal(X, y, recipe, groups, people), progress, groups)

    def fit_table(self, table: Any, *, progress: Callable[[str], None] = lambda step: None) -> "_DPForest":
        """Train inside a database, on a table of Ibis (extra ``sql``): rows stay there, only counts leave it.

        The target is the column that the schema names.
        """
        from dpforest.records.sql import SqlVault

        return self._fit(
            lambda recipe, people: self._seal_elsewhere(partial(SqlVault.seal, keeps=recipe.keeps), table, recipe), progress
        )

    def fit_dask(
        self, table: Any, client: Any = None, *, progress: Callable[[str], None] = lambda step: None
    ) -> "_DPForest":
        """Train on a Dask cluster (extra ``dask``), on a dask dataframe or the path of a Parquet file or folder.

        Rows stay on the workers, only sums of their counts leave them. The target is the column that the schema names;
        ``client`` is by default the current one.
        """
        from dpforest.records.dask import DaskVault

        # Workers count several partitions at once, each in one thread.
        return self._fit(
            lambda recipe, people: self._seal_elsewhere(
                lambda rows, schema: DaskVault.seal(rows, schema, client), table, recipe
            ),
            progress,
        )

    def _fit(
        self,
        seal: Callable[[Recipe, People | None], tuple[Schema, Source]],
        progress: Callable[[str], None],
        groups: Any = None,
    ) -> "_DPForest":
        recipe, uncovered = self._check_parameters(), learnt_before()
        for note in uncovered:
            warnings.warn(note, UncoveredWarning, stacklevel=3)
        self._check_groups(groups)
        check_budget(self.budget, self._unit, self._broken(recipe))
        ledger = Ledger(make_accountant(self.epsilon, self.delta, self.max_rows_per_person or 1))
        whose = self._whose(recipe)
        ledger.proof, parts = proof_in_words(recipe.name, self.variant, **whose), fingerprint(recipe, type(self))
        gate = self._make_gate(ledger, self.random_state)
        schema, vault = seal(recipe, None if groups is None else People(ledger.rows, gate.entropy))
        shape = {"n_trees": self.n_trees, "max_depth": self.max_depth}
        printed = get_published(recipe.name) if self.variant == "published" else None
        sound = printed is not None and recipe.task(schema) in printed.sound_for
        outcomes = [] if self.budget is None else outcomes_of_fit(recipe, schema, ledger.epsilon, ledger.delta, **shape)
        what = f"fit own recipe {recipe.name}" if whose["own_recipe"] else f"fit {recipe.name}"
        with closing(vault), charged(self.budget, what, outcomes, ledger):
            # From here on charges are made. They stay on the estimator even if the fit fails, and no older model does.
            for name in ("forest_", "privacy_", "schema_", "classes_", "made_with_"):
                self.__dict__.pop(name, None)
            self.ledger_ = ledger
            if printed is None or sound:
                forest = fit_forest(vault, recipe, gate, **shape, progress=progress)
            else:
                forest = fit_published(vault, recipe, printed, gate, **shape)
        self.schema_ = schema
        self.forest_ = forest
        self.privacy_ = replace(self._state(recipe, schema, ledger, gate.entropy, uncovered), fingerprint=parts, **whose)
        self.made_with_ = versions()
        if isinstance(schema.target, Classes):
            self.classes_ = forest.labels
        if ledger.leaks:
            reasons = "; ".join(leak.reason for leak in ledger.leaks)
            warnings.warn(
                f"The model is not private: {recipe.name!r} opened exact values ({reasons}).", LeakWarning, stacklevel=3
            )
        for doubt in released_doubts(forest, schema):
            warnings.warn(doubt, NothingLearntWarning, stacklevel=3)
        return self

    def _seal(self, X: Any, y: Any, recipe: Recipe, groups: Any, people: People | None) -> tuple[Schema, Source]:
        """The checked schema and rows; sets what scikit-learn keeps of a table."""
        n_jobs = effective_n_jobs(self.n_jobs)
        if isinstance(X, str | os.PathLike):
            if y is not None:
                raise TableError("A file has its target in a column that the schema names; pass y with a table only.")
            return self._seal_elsewhere(
                lambda path, schema: ParquetVault.seal(path, schema, n_jobs, groups, people), X, recipe
            )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, schema = self._resolve_schema(X, y)
        recipe.check(schema)
        vault = Vault.seal(X, y, schema, n_jobs, groups, people)
        keep_names(self, X, schema)
        return schema, vault

    def _seal_elsewhere(self, seal: Callable[[Any, Schema], Source], table: Any, recipe: Recipe) -> tuple[Schema, Source]:
        """The schema and the rows of a table that is not in memory."""
        if isinstance(self.schema, str):
            raise SchemaError("Rows that are not in memory need a Schema; schema='assume-public' cannot look at them.")
        _, schema = self._resolve_schema(None, None)
        recipe.check(schema)
        vault = seal(table, schema)
        self.n_features_in_, self.feature_names_in_ = schema.n_features, np.array([*schema.features], dtype=object)
        return schema, vault

    @staticmethod
    def _make_gate(ledger: Ledger, random_state: Any) -> Gate:
        """What opens sealed values; the audit puts a gate that watches in its place."""
        return Gate(ledger, Entropy(random_state))

    def _check_parameters(self) -> Recipe:
        for name in ("n_trees", "max_depth", "max_rows_per_person"):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or value < 1):
                raise ParameterError(f"{name} must be a whole number of at least 1, or None, not {shown(value)}.")
        make_accountant(self.epsilon, self.delta, self.max_rows_per_person or 1)
        if self.variant not in ("private", "published"):
            raise ParameterError(f"variant must be 'private' or 'published', not {shown(self.variant)}.")
        recipe = self.recipe if isinstance(self.recipe, Recipe) else get_recipe(self.recipe)
        if self.variant == "published" and not (recipe.has_published_variant and is_listed(recipe)):
            own = "" if is_listed(recipe) else ", since it is not the catalogue's"
            raise ParameterError(f"Recipe {recipe.name!r} has no published variant{own}; use variant='private'.")
        if self.recipe_params is not None and not isinstance(self.recipe_params, dict):
            raise ParameterError(f"recipe_params must be a dictionary or None, not {shown(self.recipe_params)}.")
        if self.variant == "published":
            given = self.recipe_params or {}
            words = {f"{name}={value}" for name, value in given.items() if isinstance(value, str)}
            lacking = [text for text in get_published(recipe.name).lacks if text in {*given, *words}]
            if lacking:
                raise ParameterError(f"The published variant of {recipe.name!r} takes no parameter {lacking[0]!r}.")
        return recipe.with_parameters(self.recipe_params)

    def _whose(self, recipe: Recipe) -> dict[str, Any]:
        """Whether a recipe is somebody's own, and what runs that is not the library's, for the statement."""
        facts = self.schema if isinstance(self.schema, Schema) else None
        kinds = [] if facts is None else [type(part) for part in (facts, facts.target, *facts.features.values())]
        return {"own_recipe": not is_listed(recipe), "outside": outside_parts(type(self), recipe, kinds)}

    @property
    def _unit(self) -> str:
        return "record" if self.max_rows_per_person is None else "person"

    def _broken(self, recipe: Recipe) -> list[str]:
        """Why a fit with these parameters would not be private, as far as parameters tell."""
        reasons = [REASONS["inf"]] if math.isinf(self.epsilon) else []
        reasons += [REASONS["seed"]] if self.random_state is not None else []
        # Also where a schema was read off rows before, and then kept.
        source = self.schema if isinstance(self.schema, str) else getattr(self.schema, "source", None)
        reasons += [REASONS["assume"]] if source == "assume-public" else []
        if self.variant == "published":
            task = "classification" if self._target_kind is Classes else "regression"
            printed = get_published(recipe.name)
            reasons += [] if task in printed.sound_for else list(printed.leaks)
        return reasons

    def _check_groups(self, groups: Any) -> None:
        """Raise unless ids of persons and the most rows of one come together."""
        if groups is not None and self.max_rows_per_person is None:
            raise ParameterError(
                "groups says whose rows they are; set max_rows_per_person to how many rows of one person may be used."
            )
        if groups is None and self.max_rows_per_person is not None:
            raise ParameterError(
                f"max_rows_per_person = {self.max_rows_per_person} protects persons, so fit needs groups: the id of each "
                "row's person. fit_table and fit_dask cannot tell persons apart; use fit, with a table or a Parquet file."
            )

    def _resolve_schema(self, X: Any, y: Any) -> tuple[Any, Schema]:
        wanted = self._target_kind.__name__
        if isinstance(self.schema, str) and self.schema == "assume-public":
            return assume_public(X, y, classes=self._target_kind is Classes)
        if not isinstance(self.schema, Schema):
            raise SchemaError(
                f"schema must be a Schema with the public bounds and categories of the table, not {shown(self.schema)}. "
                "Write one (see Schema and Schema.from_file), or pass schema='assume-public' to read bounds and "
                "categories off the rows, which is not private."
            )
        if not isinstance(self.schema.target, self._target_kind):
            raise SchemaError(
                f"{type(self).__name__} needs a schema whose target is {wanted}(...), not {self.schema.target!r}."
            )
        return X, self.schema

    def _state(self, recipe: Recipe, schema: Schema, ledger: Ledger, entropy: Entropy, uncovered: list[str]) -> Statement:
        reasons = []
        if math.isinf(self.epsilon):
            reasons.append(REASONS["inf"])
        if entropy.seeded:
            reasons.append(REASONS["seed"])
        if schema.source == "assume-public":
            reasons.append(REASONS["assume"])
        reasons += [f"{leak.label}: {leak.reason}" for leak in ledger.leaks]
        notes = []
        if self.variant == "published" and not ledger.leaks:
            notes.append(
                f"the printed algorithm of {recipe.name!r} keeps its claim for {recipe.task(schema)}; it is what ran"
            )
        if ledger.delta > 0 and not any(book.accountant.delta for book in ledger.books):
            notes.append("for this number of rows the plan makes pure-epsilon releases only, so delta was not used")
        notes += [*large_delta(ledger.delta, schema.n_rows, self.forest_.n_records), *uncovered]
        if self.max_rows_per_person is not None:
            notes.append(
                f"a person is all rows with one id; at most {ledger.rows} of them were drawn by lot, and rows without an id "
                "were left out"
            )
        if self.budget is not None:
            notes.append(f"this fit was charged to the budget of {self.budget.dataset!r}")
        public = ["names, bounds and categories of the features", "classes or bounds of the target"]
        public += ["number of rows"] if schema.n_rows is not None else []
        return Statement(
            epsilon=ledger.spent,
            delta=ledger.delta,
            holds=not reasons,
            reasons=tuple(reasons),
            recipe=recipe.name,
            variant=self.variant,
            public=tuple(public),
            notes=tuple(notes),
            seeded=entropy.seeded,
            unit=self._unit,
            rows=ledger.rows,
        )

    def _votes(self, X: Any) -> np.ndarray:
        """Votes ``(n_records, n_values)``, each row summing to 1."""
        check_is_fitted(self, "forest_")
        if len(getattr(X, "shape", ())) == 2:
            validate_data(self, X, reset=False, skip_check_array=True)
        columns = read_columns(X, self.schema_)
        n_records = len(columns[0])
        if n_records == 0:
            raise TableError("Found array with 0 sample(s) while a minimum of 1 is required.")
        votes = np.empty((n_records, self.forest_.votes.shape[1]))
        workers = Workers(effective_n_jobs(self.n_jobs))

        def predict(part: int, start: int, stop: int) -> None:
            for begin in range(start, stop, CHUNK_ROWS):
                chunk = slice(begin, min(stop, begin + CHUNK_ROWS))
                votes[chunk] = self.forest_.predict(encode([column[chunk] for column in columns], self.forest_.domain))

        workers.run(predict, workers.parts(n_records, self.forest_.n_trees))
        return votes

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the decrease of impurity, without what noise and chance give, by fitted column.

        ``forest_.importance_estimates()`` has their standard deviations, in the order of the schema.
        """
        check_is_fitted(self, "forest_")
        importances = self.forest_.importances()
        if not hasattr(self, "feature_names_in_"):
            return importances
        places = {name: place for place, name in enumerate(self.schema_.features)}
        return importances[[places[str(name)] for name in self.feature_names_in_]]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file: plain arrays and JSON, no code."""
        check_is_fitted(self, "forest_")
        save_model(self, path)

    def to_onnx(self) -> bytes:
        """The model for ONNX runtimes: an input for each feature, the outputs ``label`` and ``probabilities`` (or
        ``prediction``). Needs the extra ``onnx``."""
        from dpforest.export.onnx import onnx_model

        check_is_fitted(self, "forest_")
        return onnx_model(self.forest_)

    def to_sql(self, table: str) -> str:
        """A query that scores the rows of a table in a database."""
        from dpforest.export.sql import sql_query

        check_is_fitted(self, "forest_")
        return sql_query(self.forest_, table)

    def to_sklearn(self) -> Any:
        """A forest that only predicts: no schema to fit by, no budget to spend, trees as arrays in scikit-learn's manner."""
        from dpforest.export.sklearn import released_forest

        check_is_fitted(self, "forest_")
        return released_forest(self.forest_, self.schema_)

    def to_json(self) -> str:
        """Everything that was released, as JSON; enough to predict from."""
        from dpforest.export.json import json_text

        check_is_fitted(self, "forest_")
        return json_text(self)

    def save_report(self, path: str | Path, audit: dict[str, Any] | None = None) -> None:
        """Write the privacy report: one page, and the same as JSON beside it.

        ``audit`` is what ``dpforest audit --json`` gives.
        """
        from dpforest.report import write_report

        check_is_fitted(self, "forest_")
        write_report(self, path, audit)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class DPForestClassifier(ClassifierMixin, _DPForest):
    """Differentially private forest for classes.

    Parameters
    ----------
    schema : Schema or "assume-public"
        Public facts about the table. Nothing is inferred from the rows, unless ``"assume-public"`` asks for it.
    epsilon : float
        Budget of one call of ``fit`` for adding or removing one record (or person, see ``max_rows_per_person``); ``inf``
        trains the same forest without privacy.
    delta : float
        0 for pure epsilon-DP; above 0 the accounting is zCDP, converted once.
    recipe : str or Recipe
        Algorithm by name, or your own.
    variant : {"private", "published"}
        The proved form, or exactly what the paper prints.
    n_trees, max_depth : int or None
        Shape of the forest; by default what the recipe says.
    recipe_params : dict or None
        Parameters of the recipe.
    random_state : int, RandomState or None
        For experiments only: a known seed undoes the noise, and ``privacy_.holds`` is False.
    n_jobs : int or None
        Threads that count; results do not depend on it.
    max_rows_per_person : int or None
        With a number, epsilon and delta are for adding or removing one person, whose rows ``fit(..., groups=ids)`` names; of
        each person's rows at most so many are used, drawn by lot. None protects single records.
    budget : Budget or None
        What all releases from the data set may cost together: a fit reserves there before it looks at rows, is refused
        if it could pass the cap, and settles what it cost. A saved model does not carry it.

    Attributes
    ----------
    privacy_ : Statement
        What is guaranteed.
    ledger_ : Ledger
        Every charge.
    forest_ : Forest
        The released trees.
    classes_ : array of shape (n_classes,)
        The public labels.
    """

    _target_kind = Classes
    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimated probability of each class, ``(n_records, n_classes)``."""
        return self._votes(X)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of each record."""
        votes = self._votes(X)
        if not self.forest_.draws:
            return self.classes_[votes.argmax(axis=1)]
        return self.forest_.decide(votes, encode(read_columns(X, self.schema_), self.forest_.domain))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class DPForestRegressor(RegressorMixin, _DPForest):
    """Differentially private forest for a bounded target.

    Parameters and attributes are those of ``DPForestClassifier``; the target of the schema is ``Bounded(lower, upper)``.
    """

    _target_kind = Bounded

    def predict(self, X: Any) -> np.ndarray:
        """The estimated mean of each record, within the bounds of the target."""
        votes = self._votes(X)
        return self.schema_.target.mean_of(votes[:, 1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def keep_names(estimator: Any, X: Any, schema: Schema) -> None:
    """Set what scikit-learn keeps of a table: the number of its columns, and their names if it has any."""
    # A list has no names to keep and, without a row, no columns to count.
    has_shape = len(getattr(X, "shape", ())) == 2
    validate_data(estimator, X if has_shape else np.empty((0, schema.n_features)), skip_check_array=True)


def load_model(path: str | Path, *, allow_changed: bool = False) -> DPForestClassifier | DPForestRegressor:
    """Read a fitted estimator that ``save`` wrote; refuses a file of which any byte was changed.

    ``allow_changed`` reads such a file all the same, as long as it still holds a forest. A ``ChangedModelWarning`` says so,
    and ``privacy_.holds`` is False: what the file says about its own privacy may have been changed too.
    """
    header, forest = read_model(path, allow_changed)
    try:
        kind = DPForestClassifier if isinstance(forest.target, Classes) else DPForestRegressor
        model = kind(schema=header["schema"], **header["parameters"])
        names = header["feature_names"]
        if header["estimator"] != kind.__name__ or (names is not None and set(names) != set(header["schema"].features)):
            raise ValueError("The header does not fit the model.")
    except DAMAGE:
        raise ModelFileError(f"{path} is damaged or not a dpforest model.") from None
    model.schema_, model.forest_ = header["schema"], forest
    model.privacy_, model.ledger_ = header["privacy"], header["ledger"]
    model.made_with_ = {str(name): str(number) for name, number in (header.get("made_with") or {}).items()}
    model.n_features_in_ = model.schema_.n_features
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    if isinstance(model, DPForestClassifier):
        model.classes_ = forest.labels
    return model
