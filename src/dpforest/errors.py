"""Errors and warnings of the library. They are outputs, so they hold public facts only.

DPForestError
├── BudgetError      a charge would pass the budget; nothing was released
│   └── BudgetStoreError    the file of a budget cannot be read or written
│       └── BudgetDamagedError  the entries of a budget are not as they were written
├── AccountingError  the accountant has no analysis for what was asked
├── ParameterError   a parameter is outside its range, or the recipe does not take it
│   └── UnknownParameterError  an estimator has no parameter of that name
├── SchemaError      the schema is missing or contradicts itself or the recipe
├── TableError       a table does not have the columns or types that the schema declares
├── SealedError      a sealed value was used as if it were public
├── MissingExtraError  a package that an extra brings is not installed
├── OutputError      a file cannot be written where it should go
└── ModelFileError   a model file is damaged, foreign, or cannot be written
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any


def shown_down(value: float, digits: int = 6) -> str:
    """A remaining amount as text, rounded down so that no more is promised than there is."""
    return f"{float(Context(digits, ROUND_FLOOR).create_decimal(repr(float(value)))):.{digits}g}"


def shown_up(value: float, digits: int = 6) -> str:
    """A requested amount as text, rounded up so that it is not understated."""
    return f"{float(Context(digits, ROUND_CEILING).create_decimal(repr(float(value)))):.{digits}g}"


def shown(value: Any) -> str:
    """A parameter as an error may show it: a number or short text itself, another value by its type."""
    plain = value is None or isinstance(value, bool | int | float | complex) or (isinstance(value, str) and len(value) < 100)
    return repr(value) if plain else f"a value of type {type(value).__name__}"


class DPForestError(Exception):
    """Base of all errors of the library."""


class BudgetError(DPForestError):
    """A charge would pass the budget. Raised before any noise is drawn."""

    @classmethod
    def over(cls, label: str, asked: float, left: float, budget: float, unit: str) -> "BudgetError":
        """The error for a charge of ``asked`` with only ``left`` of a fit's ``budget`` left, in ``unit``."""
        return cls(
            f"'{label}' asks for {unit} = {shown_up(asked)}, but {shown_down(left)} of {budget:.6g} is left. "
            "Nothing was released. Raise epsilon, or use fewer trees or levels."
        )

    @classmethod
    def capped(cls, what: str, dataset: str, asked: float, left: tuple[float, float], cap: Any) -> "BudgetError":
        """The error for a release that would pass the ``cap`` of a data set.

        ``left`` has the epsilon that a release without delta, and one with delta, could still have.
        """
        at = f" at delta = {cap.delta:.3g}" if cap.delta else ""
        if asked == float("inf"):
            return cls(
                f"'{what}' has no epsilon without delta, and the budget of {dataset!r} has a cap with delta = 0. Nothing "
                "was released. Use delta = 0."
            )
        with_delta = f" ({shown_down(left[1])} for a release with delta)" if cap.delta else ""
        rest = f"{shown_down(left[0])}{with_delta}" if max(left) else "nothing"
        return cls(
            f"'{what}' asks the budget of {dataset!r} for epsilon = {shown_up(asked)}{at}, but {rest} is left of a cap of "
            f"{cap.epsilon:.6g}{at}. Nothing was released."
        )


class BudgetStoreError(BudgetError):
    """The store of a budget cannot be read or written, so nothing is released on it."""


class BudgetDamagedError(BudgetStoreError):
    """The entries of a budget are not as they were written: damaged, changed, replaced or set back."""


class AccountingError(DPForestError, ValueError):
    """The accountant has no analysis for what was asked, so it refuses."""


class ParameterError(DPForestError, ValueError):
    """A parameter is outside its range, or the recipe does not take it."""


class UnknownParameterError(ParameterError, TypeError):
    """An estimator has no parameter of that name; a ``TypeError`` too, as for any unknown argument."""


class SchemaError(DPForestError, ValueError):
    """The schema is missing, contradicts itself, or does not fit the recipe."""


class TableError(DPForestError, ValueError):
    """A table does not have the columns or types that the schema declares."""


class SealedError(DPForestError, TypeError):
    """A sealed value was used as if it were public."""

    def __init__(self) -> None:
        super().__init__("This value has not been released. Pass it through Gate.select or Gate.add_noise.")


class OutputError(DPForestError, ValueError):
    """A file cannot be written where it should go."""


class ModelFileError(OutputError):
    """A model file is damaged, foreign, or cannot be written."""


class MissingExtraError(DPForestError, ImportError):
    """A package that an extra of the library brings is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs a package that is not installed: pip install 'dpforest[{extra}]'.")


class LeakWarning(UserWarning):
    """Exact values were opened, or noise can be undone, so the model is not private."""


UNCOVERED = (
    "The guarantee covers the forest alone; steps of the Pipeline around it learn from the same rows without noise: {}. "
    "What they learn is not covered. Fit them on public rows and freeze them, or leave them out: a forest needs no scaling, "
    "and takes missing values and categories as they are."
)


class UncoveredWarning(UserWarning):
    """Something was learnt from the same rows before the fit, which the guarantee does not cover."""


class RepeatedFitWarning(UncoveredWarning):
    """Fits without a budget were made on one table, or by clones of one estimator, and their losses add up."""


class UnitWarning(UserWarning):
    """Nobody stated whether one row is one person, or columns look like ids by their names. Follows from public facts."""


class ChangedModelWarning(UserWarning):
    """A model was read from a file with changed bytes, so none of its statements is guaranteed."""


class NothingLearntWarning(UserWarning):
    """Released values look as if the schema did not fit the table. Raised from released values alone."""
