"""The scikit-learn estimators, and how they are saved and loaded. Hands tables on to ``records``; the rest is released."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpforest.budget import Budget
from dpforest.common.threads import Workers
from dpforest.errors import ModelFileError, ParameterError, TableError
from dpforest.fitting import fit_estimator, seal_elsewhere, seal_table
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.model.file import DAMAGE, read_model, save_model
from dpforest.parts.recipe import Recipe
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.records.columns import read_columns
from dpforest.records.memory.vault import encode
from dpforest.schema import Bounded, Classes, Schema

# Rows that are encoded and walked down the trees at once when predicting.
CHUNK_ROWS = 1 << 14


class _DPForest(BaseEstimator):
    """All that the classifier and the regressor have in common."""

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
    ) -> Self:
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
        fit_estimator(self, partial(seal_table, self, X, y, groups), self._make_gate, progress, groups)
        return self

    def fit_table(self, table: Any, *, progress: Callable[[str], None] = lambda step: None) -> Self:
        """Train inside a database, on a table of Ibis (extra ``sql``): rows stay there, only counts leave it.

        The target is the column that the schema names.
        """
        from dpforest.records.sql.vault import SqlVault

        seal = partial(seal_elsewhere, self, table, lambda schema, people: SqlVault.seal(table, schema))
        fit_estimator(self, seal, self._make_gate, progress)
        return self

    def fit_dask(self, table: Any, client: Any = None, *, progress: Callable[[str], None] = lambda step: None) -> Self:
        """Train on a Dask cluster (extra ``dask``), on a dask dataframe or the path of a Parquet file or folder.

        Rows stay on the workers, only sums of their counts leave them. The target is the column that the schema names;
        ``client`` is by default the current one.
        """
        from dpforest.records.dask.vault import DaskVault

        seal = partial(seal_elsewhere, self, table, lambda schema, people: DaskVault.seal(table, schema, client))
        fit_estimator(self, seal, self._make_gate, progress)
        return self

    @staticmethod
    def _make_gate(ledger: Ledger, random_state: Any) -> Gate:
        """The gate of a fit, which opens sealed values; the audit puts one in its place that watches."""
        return Gate(ledger, Entropy(random_state))

    @property
    def _released(self) -> Forest:
        """The released forest; raises if the estimator is not fitted."""
        check_is_fitted(self, "forest_")
        return self.forest_

    def _votes(self, X: Any) -> np.ndarray:
        """Votes ``(n_records, n_values)``, each row summing to 1."""
        forest = self._released
        if len(getattr(X, "shape", ())) == 2:
            validate_data(self, X, reset=False, skip_check_array=True)
        columns = read_columns(X, self.schema_)
        n_records = len(columns[0])
        if n_records == 0:
            raise TableError("Found array with 0 sample(s) while a minimum of 1 is required.")
        votes = np.empty((n_records, forest.votes.shape[1]))
        workers = Workers(effective_n_jobs(self.n_jobs))

        def predict(part: int, start: int, stop: int) -> None:
            for begin in range(start, stop, CHUNK_ROWS):
                chunk = slice(begin, min(stop, begin + CHUNK_ROWS))
                votes[chunk] = forest.predict(encode([column[chunk] for column in columns], forest.domain))

        workers.run(predict, workers.parts(n_records, forest.n_trees))
        return votes

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share ``(n_features,)`` of each fitted column in the decrease of impurity, corrected for noise and chance.

        ``forest_.importance_estimates()`` has their standard deviations, in the order of the schema.
        """
        importances = self._released.importances()
        if not hasattr(self, "feature_names_in_"):
            return importances
        indices = {name: index for index, name in enumerate(self.schema_.features)}
        return importances[[indices[str(name)] for name in self.feature_names_in_]]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file: plain arrays and JSON, no code."""
        check_is_fitted(self, "forest_")
        save_model(self, path)

    def to_onnx(self) -> bytes:
        """The model as a file for ONNX runtimes; needs the extra ``onnx``.

        It has an input for each feature, and the outputs ``label`` and ``probabilities``, or ``prediction``.
        """
        from dpforest.show.export.onnx import onnx_model

        return onnx_model(self._released)

    def to_sql(self, table: str) -> str:
        """A query that predicts for the rows of a table in a database."""
        from dpforest.show.export.sql import sql_query

        return sql_query(self._released, table)

    def to_sklearn(self) -> Any:
        """A scikit-learn forest that predicts as this model does, with scikit-learn's tree arrays; it cannot be fitted."""
        from dpforest.show.export.sklearn import released_forest

        return released_forest(self._released, self.schema_)

    def to_json(self) -> str:
        """Everything that was released, as JSON text; it is enough to predict from."""
        from dpforest.show.export.json import json_text

        check_is_fitted(self, "forest_")
        return json_text(self)

    def save_report(self, path: str | Path, audit: dict[str, Any] | None = None) -> None:
        """Write the privacy report: one HTML page, and a JSON file with the same content beside it.

        ``audit`` is what ``dpforest audit --json`` gives.
        """
        from dpforest.show.report import write_report

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
    """A differentially private forest that predicts classes.

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

    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimated probability of each class, ``(n_records, n_classes)``."""
        return self._votes(X)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of each record ``(n_records,)``; some recipes draw a label by its probability instead."""
        votes = self._votes(X)
        if not self.forest_.draws:
            return self.classes_[votes.argmax(axis=1)]
        return self.forest_.decide(votes, encode(read_columns(X, self.schema_), self.forest_.domain))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class DPForestRegressor(RegressorMixin, _DPForest):
    """A differentially private forest that predicts a number.

    Parameters and attributes are those of ``DPForestClassifier``; the target of the schema is ``Bounded(lower, upper)``, or
    ``Bounded()`` if nobody knows its bounds. Predictions lie in the range ``forest_.target``, for which a part of the budget
    pays.
    """

    def predict(self, X: Any) -> np.ndarray:
        """The estimated mean of the target for each record ``(n_records,)``, within its released range."""
        votes, target = self._votes(X), self.forest_.target
        assert isinstance(target, Bounded)
        return target.mean_of(votes[:, 1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def load_model(path: str | Path, *, allow_changed: bool = False) -> DPForestClassifier | DPForestRegressor:
    """The fitted estimator in a file that ``save`` wrote; refuses a file of which any byte was changed.

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
    model.made_with_ = {str(name): str(number) for name, number in header["made_with"].items()}
    model.n_features_in_ = model.schema_.n_features
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    if isinstance(model, DPForestClassifier):
        model.classes_ = forest.labels
    return model
