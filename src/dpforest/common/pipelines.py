"""What was fitted on the rows before the forest, where it can be seen. Public facts only: names and types of steps.

scikit-learn does not tell an estimator that it stands in a ``Pipeline``, and hands it tables that steps before it have
already changed. The functions that are running do tell: the ``fit`` of the pipeline is one of them. (The context of
callbacks that newer versions pass on is internal, and there are versions without it.)
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
    """What to say of steps that learn from the rows of the pipeline that is being fitted; empty if none is seen."""
    steps = _steps()
    return [UNCOVERED.format(", ".join(steps))] if steps else []


def _steps() -> tuple[str, ...]:
    """The steps of the pipelines that are being fitted, the last aside, that learn from rows; as ``'name' (type)``."""
    found: list[str] = []
    if "sklearn.pipeline" not in sys.modules:  # then there is no pipeline, and nothing to wait for
        return ()
    try:
        from sklearn.pipeline import Pipeline

        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_code.co_name == "fit" and isinstance(pipeline := frame.f_locals.get("self"), Pipeline):
                steps = [(name, step) for name, step in pipeline.steps[:-1] if _learns(step)]
                found = [f"{name!r} ({type(step).__name__})" for name, step in steps] + found
            frame = frame.f_back
    except Exception:  # a hint must never be the reason why a fit fails
        return ()
    return tuple(found)


def _learns(step: Any) -> bool:
    """Whether fitting a step looks at rows, as far as it says so itself; of several side by side, whether any does."""
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
    except Exception:  # not in scikit-learn's manner; nothing says that it looks at no rows
        return True
