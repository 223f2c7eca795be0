"""The scikit-learn estimators, and how they are saved and loaded. Hands tables on to ``records``; the rest is released."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dpforest.budget import Budget
from dpforest.common.other_fits import Spending
from dpforest.errors import ModelFileError, ParameterError
from dpforest.fitting import fit_estimator, named_ids, seal_table
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.model.class_weights import weighted
from dpforest.model.effects import Effects, effects_of
from dpforest.model.file import DAMAGE, read_model, save_model
from dpforest.model.importances import importances_of
from dpforest.parts.recipe import Recipe
from dpforest.predicting import decide_labels, predict_shares
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.published.form import printed_form
from dpforest.recipes.parameter_names import named_here, refuse_unknown
from dpforest.records.doors import current_client
from dpforest.records.source import silent
from dpforest.schema import Bounded, Classes, Schema


class _DPForest(Spending):
    """All that the classifier and the regressor have in common."""

    ledger_: Ledger
    forest_: Forest
    privacy_: Statement
    schema_: Any
    made_with_: dict[str, str]
    trained_on_: str | None

    @named_here
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
        earlier_model: Any = None,
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
        self.earlier_model = earlier_model

    def set_params(self, **params: Any) -> Self:
        """Set parameters by their names; a name from elsewhere is refused with what it is called here."""
        refuse_unknown(self, [name.partition("__")[0] for name in params], self.get_params(deep=False))
        return super().set_params(**params)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        client: Any = None,
        progress: Callable[[str], None] | None = None,
        **others: Any,
    ) -> Self:
        """Train on a table and its target. Everything is checked before anything is spent.

        Parameters
        ----------
        X
            A table of pandas, polars, pyarrow or numpy, with gaps if there are any. Without ``y``, any table that has the
            target as a column: a dataframe, a path, the address of a table in a database, a table of Ibis or DuckDB, a dask
            or Spark dataframe, or what gives batches of Arrow. It need not fit in memory.
        y
            The target of each row; None if it is a column of ``X``, under the name in the schema.
        groups
            With ``max_rows_per_person``, which protects persons: the id of each row's person or, without ``y``, the name of
            the column of ids, by default the one in the schema. Rows without an id are left out.
        client
            A client of a Dask cluster whose workers read Parquet files.
        progress
            A function that is called with the name of each finished step, and with each twentieth of a file.
        """
        # By **others: a named parameter would tell scikit-learn that weights are supported.
        if others.pop("sample_weight", None) is not None:
            raise ParameterError(
                "sample_weight is not supported: a weight changes what a record can add to a count, and the noise is made "
                "for records that add 1. Fit without it."
            )
        if others:
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {next(iter(others))!r}")
        groups = named_ids(self, groups) if y is None else groups
        seal = partial(seal_table, self, X, y, groups, client, progress or silent)
        fit_estimator(self, seal, progress, groups, X, other=None if self.variant == "private" else printed_form)
        return self

    def fit_table(self, table: Any, *, groups: str | None = None, progress: Callable[[str], None] | None = None) -> Self:
        """Train on a table that is not in memory; another name of ``fit(table)``."""
        return self.fit(table, groups=groups, progress=progress)

    def fit_dask(
        self,
        table: Any,
        client: Any = None,
        *,
        groups: str | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Train on a dask dataframe, or on Parquet files that workers of a Dask cluster read; ``fit`` with a client."""
        return self.fit(table, client=current_client(client), groups=groups, progress=progress)

    @staticmethod
    def _make_gate(ledger: Ledger, random_state: Any) -> Gate:
        """The gate of a fit, which opens sealed values; an audit substitutes its own."""
        return Gate(ledger, Entropy(random_state))

    @property
    def _released(self) -> Forest:
        """The released forest, with the votes that predict; raises if the estimator is not fitted."""
        check_is_fitted(self, "forest_")
        return self.forest_

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share ``(n_features,)`` of each fitted column in what the model has learnt beyond noise.

        In the order of ``feature_names_in_``, which is that of the fitted table; without names, in that of the schema.
        Of trees that add up, such as those of the recipe ``auto``, it is the share in the variance of the score, as
        ``effects`` gives it; of trees that vote, in the decrease of impurity. All are 0 if none stands out of the noise.
        ``plots.importances`` draws them with their bands.
        """
        check_is_fitted(self, "forest_")
        importances = np.array([each.value for each in importances_of(self.forest_, self.ledger_)])
        if not hasattr(self, "feature_names_in_"):
            return importances
        indices = {name: index for index, name in enumerate(self.schema_.features)}
        return importances[[indices[str(name)] for name in self.feature_names_in_]]

    def effects(self, n_pairs: int = 2) -> Effects:
        """How features, and the ``n_pairs`` strongest pairs of them, move the prediction; ``plots.effects`` draws it."""
        return effects_of(self._released, self.ledger_, n_pairs)

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

    def to_sql(self, table: str, ids: Sequence[str] = ()) -> str:
        """A query that predicts for the rows of a table in a database.

        Parameters
        ----------
        table
            The table's name.
        ids
            Names of columns that say which row is which: the query gives these beside the prediction, and orders the rows by
            them. Without ``ids`` it gives all columns, in no order.
        """
        from dpforest.show.export.sql import sql_query

        return sql_query(self._released, table, ids)

    def to_json(self) -> str:
        """Everything that was released, as JSON text; it is enough to predict from."""
        from dpforest.show.export.json import json_text

        return json_text(self, self._released)

    def save_report(
        self,
        path: str | Path,
        audit: dict[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        evaluation: Any = None,
    ) -> None:
        """Write the privacy report: one HTML page, and a JSON file with the same content beside it.

        Parameters
        ----------
        path
            The page; the JSON file has the same name with another ending.
        audit
            What ``dpforest audit --json`` gives.
        about
            What only people know of the release, such as ``{"dataset": …, "dataset_version": …, "purpose": …, "contact":
            …}``; an error lists all fields.
        budget
            The budget of the data set, to show its position; nothing is charged to it.
        evaluation
            What ``evaluate_privately`` or ``evaluate_public`` found of this very model.
        """
        from dpforest.show.report import write_report

        check_is_fitted(self, "forest_")
        write_report(self, path, audit, about, budget, evaluation)

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
        Public facts about the table. Nothing is inferred from the rows, unless ``"assume-public"`` asks for it
        (``fit`` warns).
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
        Shape of the forest. Best left out: the recipe plans it by epsilon, the schema and the number of rows. Each tree gets
        a part of the budget, so many trees, as one takes them without privacy, can ruin a model.
    recipe_params : dict or None
        Parameters of the recipe.
    random_state : int, RandomState or None
        For experiments only: a known seed undoes the noise; ``fit`` warns, and ``privacy_.holds`` is False.
    n_jobs : int or None
        Threads that count; results do not depend on it.
    max_rows_per_person : int or None
        With a number, epsilon and delta are for adding or removing one person, whose rows ``fit(..., groups=ids)`` names; of
        each person's rows at most so many are used, drawn by lot. None protects single records.
    budget : Budget or None
        What all releases from the data set may cost together: a fit reserves there before it looks at rows, is refused
        if it could pass the cap, and settles what it cost. A saved model does not carry it.
    class_weight : dict, "balanced" or None
        What each class counts when predicting: its released share is multiplied by its weight (1 for a label that is not
        given). ``"balanced"`` weighs by the released counts of the classes. Training, noise and ledger do not depend on it,
        and ``set_params`` changes it without a new fit.
    earlier_model : fitted model, path or None
        A released model of the same schema, such as last month's, or its file. New trees then correct what its trees get
        wrong on these records, unless a private choice finds that it is no help; what it cost is not charged again. See
        ``privacy_`` for records that are in both tables. (Not scikit-learn's ``warm_start``: ``fit`` never goes on from
        an earlier call of itself.)

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
    trained_on_ : str or None
        The day in UTC on which the fit began; None if the model is from a file of an earlier version.
    """

    classes_: np.ndarray

    @named_here
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
        class_weight: dict[Any, float] | str | None = None,
        earlier_model: Any = None,
    ) -> None:
        self.class_weight = class_weight
        super().__init__(
            schema, epsilon, delta, recipe, variant, n_trees, max_depth, recipe_params, random_state, n_jobs,
            max_rows_per_person, budget, earlier_model,
        )  # fmt: skip

    @property
    def _released(self) -> Forest:
        forest = super()._released
        # Of persons not all rows are used, so how many records there are was not declared.
        n_rows = self.schema_.n_rows if self.privacy_.unit == "record" else None
        return weighted(forest, self.class_weight, self.ledger_, n_rows)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimated probability of each class, ``(n_records, n_classes)``; with ``class_weight``, the weighted share."""
        return predict_shares(self, self._released, X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of ``predict_proba``, ``(n_records, n_classes)``; minus infinity for a probability of 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of each record ``(n_records,)``; some recipes draw a label by its probability instead."""
        return decide_labels(self, self._released, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class DPForestRegressor(RegressorMixin, _DPForest):
    """A differentially private forest that predicts a number.

    Parameters and attributes are those of ``DPForestClassifier``, without ``class_weight`` and ``classes_``. The target of
    the schema is ``Bounded(lower, upper)``, or ``Bounded()`` if nobody knows its bounds. Predictions lie in the range
    ``forest_.target``, for which a part of the budget pays.
    """

    def predict(self, X: Any) -> np.ndarray:
        """The estimated mean of the target for each record ``(n_records,)``, within its released range."""
        shares, target = predict_shares(self, self._released, X), self.forest_.target
        assert isinstance(target, Bounded)
        return target.mean_of(shares[:, 1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def load_model(path: str | Path, *, allow_changed: bool = False) -> DPForestClassifier | DPForestRegressor:
    """The fitted estimator in a saved file; refuses a file if any byte was changed.

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
    model.trained_on_ = header.get("trained_on")
    model.n_features_in_ = model.schema_.n_features
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    if isinstance(model, DPForestClassifier):
        model.classes_ = forest.labels
    return model
