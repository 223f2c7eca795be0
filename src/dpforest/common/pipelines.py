"""Finds steps of a scikit-learn ``Pipeline`` that learn from the rows before the forest. Sees names and types of steps only.

scikit-learn does not tell an estimator that it stands in a ``Pipeline``, and hands it tables that steps before it have
already changed. The call stack does tell: the ``fit`` of the pipeline is on it. (The context of callbacks that newer
versions pass on is internal, and there are versions without it.)
"""

import inspect
import sys
from typing import Any

UNCOVERED = (
    "The guarantee covers the forest alone; steps of the Pipeline around it learn from the same rows without noise: {}. "
    "What they learn is not covered. Fit them on public rows and freeze them, or leave them out: a forest needs no scaling, "
    "and takes missing values and categories as they are."
)


def learnt_before() -> list[str]:
    """A note in a list if earlier steps of the pipelines being fitted learn from their rows; else an empty list."""
    found: list[str] = []
    if "sklearn.pipeline" not in sys.modules:  # then there is no pipeline, and the import would cost time for nothing
        return []
    try:
        from sklearn.pipeline import Pipeline

        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_code.co_name == "fit" and isinstance(pipeline := frame.f_locals.get("self"), Pipeline):
                steps = [(name, step) for name, step in pipeline.steps[:-1] if _learns(step)]
                found = [f"{name!r} ({type(step).__name__})" for name, step in steps] + found
            frame = frame.f_back
    except Exception:  # a hint must never be the reason why a fit fails
        return []
    return [UNCOVERED.format(", ".join(found))] if found else []


def _learns(step: Any) -> bool:
    """Whether fitting a step looks at rows, as far as it declares it; a compound step does if any part does."""
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.utils import get_tags

    if step is None or isinstance(step, str | FrozenEstimator):  # "passthrough", "drop", or fitted elsewhere
        return False
    if isinstance(step, Pipeline):
        return any(_learns(part) for _, part in step.steps)
    if isinstance(step, FeatureUnion):
        return any(_learns(part) for _, part in step.transformer_list)
    if isinstance(step, ColumnTransformer):
        return _learns(step.remainder) or any(_learns(part) for _, part, _ in step.transformers)
    try:
        return bool(get_tags(step).requires_fit)
    except Exception:  # it has no tags as scikit-learn has them, so nothing says that it looks at no rows
        return True
