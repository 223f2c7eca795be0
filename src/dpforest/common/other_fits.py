"""What else was fitted to the same rows: steps of a ``Pipeline`` before the forest, and other fits without a budget.

Nobody tells an estimator. That it stands in a ``Pipeline`` the call stack tells: the ``fit`` of the pipeline is on it. (The
context of callbacks that newer versions of scikit-learn pass on is internal, and there are versions without it.) Of other
fits in one process two things tell: a table that is fitted again is the same object, and folds and candidates are fitted by
clones. Both are known by identity; no value is compared, since a warning about values would tell of them. Fits in other
processes, and of copies of a table, are not seen. Of steps this sees names and types.
"""

import inspect
import sys
import weakref
from collections import defaultdict
from contextlib import suppress
from threading import Lock
from typing import Any, Self

from sklearn.base import BaseEstimator

from dpforest.errors import UNCOVERED, shown_up

TABLE = "With this one, {} fits were made on this very table without a budget, and cost each {} up to {} in all."
CLONES = (
    "With this one, {} fits were made of this estimator and its clones without a budget, as cross_val_score makes one for "
    "each fold and GridSearchCV for each candidate. They cost each {} that all of them saw up to {} in all, and every "
    "further one adds its own loss."
)
INSTEAD = (
    " What is chosen among such fits, be it epsilon or another setting, is no private choice. Charge them to one Budget, or "
    "choose with DPSearchCV, of which one epsilon covers all runs."
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


class _Total:
    """The cost of fits together: number, epsilon and delta by the unit of privacy, and what was said already."""

    def __init__(self) -> None:
        self.sums: dict[str, tuple[int, float, float]] = defaultdict(lambda: (0, 0.0, 0.0))
        self.said: set[str] = set()


_LOCK = Lock()
# By the identity of a table or an estimator, and only while it lives. A callback takes no lock: it may come at any time.
_TOTALS: dict[int, tuple[weakref.ref[Any], _Total]] = {}


def _keep(thing: Any, total: _Total) -> _Total:
    key = id(thing)
    with suppress(TypeError):  # a list or a path cannot be known again without being kept alive
        _TOTALS[key] = weakref.ref(thing, lambda _: _TOTALS.pop(key, None)), total
    return total


def _total(thing: Any) -> _Total:
    known = _TOTALS.get(id(thing))
    return _keep(thing, _Total()) if known is None else known[1]


def added_up(estimator: Any, table: Any, epsilon: float, delta: float, unit: str) -> list[str]:
    """A note in a list, once for each, if a table or the clones of an estimator are fitted again."""
    with _LOCK:
        totals, words = (_total(table), _total(estimator)), ""
        for total, text in zip(totals, (TABLE, CLONES), strict=True):
            n_fits, *spent = total.sums[unit]
            total.sums[unit] = n_fits + 1, spent[0] + epsilon, spent[1] + delta
            if n_fits and unit not in total.said and not words:
                for told in totals if total is totals[0] else [total]:  # of a table, its estimator needs not be told again
                    told.said.add(unit)
                loss = f"epsilon = {shown_up(spent[0] + epsilon)}"
                loss += f" and delta = {shown_up(spent[1] + delta)}" if spent[1] + delta else ""
                words = text.format(n_fits + 1, unit, loss) + INSTEAD
        return [words] if words else []


class Spending(BaseEstimator):
    """An estimator with a parameter ``epsilon``."""

    epsilon: float

    def __sklearn_clone__(self) -> Self:
        clone = super().__sklearn_clone__()
        with _LOCK:
            _keep(clone, _total(self))
        return clone

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters that are not at their defaults, as scikit-learn shows them, and ``epsilon`` in any case."""
        text, own = super().__repr__(N_CHAR_MAX), f"epsilon={self.epsilon!r}"
        name, _, rest = text.partition("(")
        return text if own in rest else f"{name}({own}{'' if rest == ')' else ', '}{rest}"
