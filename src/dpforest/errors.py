"""Errors. They are outputs, so they hold public facts only.

DPForestError
├── BudgetError      a charge would pass the budget; nothing was released
├── AccountingError  the accountant has no analysis for what was asked
├── ParameterError   a parameter is outside its range, or the recipe does not take it
├── SchemaError      the schema is missing or contradicts itself or the recipe
├── TableError       a table does not have the columns or types that the schema declares
├── SealedError      a sealed value was used as if it were public
└── ModelFileError   a model file is damaged, foreign, or cannot be written
"""


class DPForestError(Exception):
    """Base of all errors of the library."""


class BudgetError(DPForestError):
    """A charge would pass the budget. Raised before any noise is drawn."""

    @classmethod
    def over(cls, label: str, asked: float, left: float, budget: float, unit: str) -> "BudgetError":
        return cls(
            f"'{label}' asks for {unit} = {asked:.6g}, but {left:.6g} of {budget:.6g} is left. "
            "Nothing was released. Raise epsilon, or use fewer trees or levels."
        )


class AccountingError(DPForestError, ValueError):
    """The accountant has no analysis for what was asked, so it refuses."""


class ParameterError(DPForestError, ValueError):
    """A parameter is outside its range, or the recipe does not take it."""


class SchemaError(DPForestError, ValueError):
    """The schema is missing, contradicts itself, or does not fit the recipe."""


class TableError(DPForestError, ValueError):
    """A table does not have the columns or types that the schema declares."""


class SealedError(DPForestError, TypeError):
    """A sealed value was used as if it were public."""

    def __init__(self) -> None:
        super().__init__("This value has not been released. Pass it through Gate.select or Gate.add_noise.")


class ModelFileError(DPForestError, ValueError):
    """A model file is damaged, foreign, or cannot be written."""


class PublishedVariantWarning(UserWarning):
    """A printed algorithm was run that does not keep its privacy claim."""
