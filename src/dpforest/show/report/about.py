"""What only people can know of a release: its data set, purpose, contact and so on. Public values only."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from dpforest.errors import ParameterError, shown

# What may be said, in the order of the page, and its name there.
FIELDS = {
    "name": "Name of the release",
    "description": "Description",
    "dataset": "Data set",
    "dataset_version": "Version of the data set",
    "data_subjects": "Whom the records are about",
    "data_curator": "Who keeps the data",
    "purpose": "Purpose",
    "intended_use": "Intended use",
    "access": "Who gets the model",
    "release_date": "Day of release",
    "contact": "Contact",
}
# Those that have an option of the command; the page has a line for each, also if it is not stated.
OPTIONS = ("dataset", "dataset_version", "purpose", "contact")
# Those that a registry asks for.
FROM_A_PERSON = tuple(name for name in FIELDS if name != "purpose")
MOST_CHARACTERS = 10_000


def about_content(about: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Every field with what is said in it as text, or None where nothing is; raises if ``about`` has anything else."""
    if not isinstance(about, Mapping | None):
        raise ParameterError(f"about must map fields to texts, such as {{'purpose': '…'}}; it is {shown(about)}.")
    for name in about or {}:
        if name not in FIELDS:
            raise ParameterError(f"about has no field {shown(name)}. Known are: {', '.join(FIELDS)}.")
    return {name: _said(name, (about or {}).get(name)) for name in FIELDS}


def unsaid(said: dict[str, str | None]) -> list[str]:
    """The fields that are still open; a model is for its purpose if no other use is named."""
    return [name for name, text in said.items() if text is None and not (name == "intended_use" and said["purpose"])]


def _said(name: str, value: Any) -> str | None:
    """The text of one field; None if it is blank, as in a file that is not filled in yet."""
    # A file may have a version without quotes: a number or a date.
    if isinstance(value, bool) or not isinstance(value, str | int | float | date | None):
        raise ParameterError(f"{name!r} must be a text, not {shown(value)}.")
    text = "" if value is None else str(value).strip()
    if len(text) > MOST_CHARACTERS:
        raise ParameterError(f"{name!r} has {len(text):,} characters; a text of a report has at most {MOST_CHARACTERS:,}.")
    if text and name == "release_date":
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ParameterError(f"'release_date' must be a date such as 2026-07-25, not {shown(text)}.") from None
    return text or None
