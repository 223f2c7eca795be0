"""A released forest that only predicts, with the interface of a forest of scikit-learn. Sees the rows it predicts.

It cannot be fitted again: whatever a pipeline, a search or a calibration does with it, the released forest stays and no
budget is spent. See docs/adr/0014-a-forest-for-scikit-learn.md.
"""

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from dpforest.errors import TableError
from dpforest.forest.tree import Forest
from dpforest.records.codes import encode
from dpforest.records.columns import read_columns
from dpforest.schema import Classes, Schema
from dpforest.show.export.questions import BinaryTrees, ReleasedTree


class _ReleasedForest(BaseEstimator):
    """What the classifier and the regressor share."""

    def __init__(self, forest: Forest, schema: Schema, importances: np.ndarray) -> None:
        self.forest = forest
        self.schema = schema
        self.importances = importances

    def fit(self, X: Any = None, y: Any = None, **parameters: Any) -> "_ReleasedForest":
        """Change nothing: what was released stays as it is."""
        return self

    def __sklearn_clone__(self) -> "_ReleasedForest":
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @property
    def n_features_in_(self) -> int:
        return self.schema.n_features

    @property
    def feature_names_in_(self) -> np.ndarray:
        return np.array([*self.schema.features], dtype=object)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The importances of the model, in the order of ``feature_names_in_``."""
        return self.importances

    @cached_property
    def _trees(self) -> BinaryTrees:
        return BinaryTrees.of(self.forest)

    @property
    def questions_(self) -> list[str]:
        """The questions that the trees ask, such as ``age < 37``; the ``feature`` of a tree is an index in this list."""
        return self._trees.questions

    @property
    def estimators_(self) -> list[ReleasedTree]:
        """The trees, each with its arrays in ``tree_`` under the names that scikit-learn gives them."""
        return self._trees.trees

    def transform(self, X: Any) -> np.ndarray:
        """The answers of records to ``questions_``, ``(n_records, n_questions)``: 1 for yes, 0 for no."""
        return self._trees.answers(self._codes(X))

    def apply(self, X: Any) -> np.ndarray:
        """The leaf of each tree that each record reaches, ``(n_records, n_trees)``, by its number in ``tree_``."""
        return self._trees.leaves(self._codes(X))

    def _codes(self, X: Any) -> np.ndarray:
        columns = read_columns(X, self.schema)
        if len(columns[0]) == 0:
            raise TableError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return encode(columns, self.forest.domain)


class ReleasedForestClassifier(ClassifierMixin, _ReleasedForest):
    """A released forest for classes; predicts what the model predicts that it was made from."""

    @property
    def classes_(self) -> np.ndarray:
        return self.forest.labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimated probability of each class, ``(n_records, n_classes)``."""
        return self.forest.predict(self._codes(X))

    def predict(self, X: Any) -> np.ndarray:
        """The predicted label of each record."""
        codes = self._codes(X)
        return self.forest.decide(self.forest.predict(codes), codes)


class ReleasedForestRegressor(RegressorMixin, _ReleasedForest):
    """A released forest for a bounded target; predicts what the model predicts that it was made from."""

    def predict(self, X: Any) -> np.ndarray:
        """The predicted mean of each record."""
        return self.forest.target.mean_of(self.forest.predict(self._codes(X))[:, 1])  # type: ignore[union-attr]


def released_forest(
    forest: Forest, schema: Schema, importances: np.ndarray
) -> ReleasedForestClassifier | ReleasedForestRegressor:
    """The forest as an estimator of scikit-learn that only predicts."""
    kind = ReleasedForestClassifier if isinstance(schema.target, Classes) else ReleasedForestRegressor
    return kind(forest, schema, importances)
