"""What any recipe would do with its budget, by its parts and by the charges of a fit of no rows. Public values only.

The default recipe has words of its own in ``show.plan``, since its planner has reasons.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from dpforest.common.text import counted
from dpforest.parts.recipe import Recipe
from dpforest.privacy.composition import entries
from dpforest.privacy.ledger import Ledger
from dpforest.show.gaps import shares_by_kind

# The fields of a recipe that are shown, and what each is called.
SHOWN = {
    "sample": "records of a tree", "propose": "candidates", "criterion": "a split is chosen by",
    "allocate": "the amount of a tree", "leaf": "a leaf releases", "stop": "stopping", "first_look": "first look",
    "target_range": "range of the target", "stages": "order of trees", "vote": "vote",
}  # fmt: skip


def part_lines(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """For each part of a resolved recipe what it is for, its name, and the first sentence of its documentation."""
    yield "trees", str(recipe.n_trees), f"as recipe {recipe.name!r} says, or as asked for"
    yield "depth", str(recipe.depth), "levels of splits in each tree, at most"
    for field, what in SHOWN.items():
        part = getattr(recipe, field)
        if part is not None:
            yield what, type(part).__name__, _first_sentence(part)


def charge_lines(ledger: Ledger, left: float) -> Iterator[tuple[str, str, str]]:
    """For each kind of charge its share of the budget and how it is released; the ledger is about ``left`` of the budget."""
    charges = [entry for book in ledger.books for _, entry in entries(book.root)]
    for kind, share in shares_by_kind(ledger).items():
        own = [entry for entry in charges if entry.purpose.kind == kind]
        mechanisms = ", ".join(sorted({entry.mechanism.name for entry in own}))
        yield kind, f"{left * share:.1%}", f"of {ledger.unit}; {counted(len(own), 'charge')}, by {mechanisms}"


def _first_sentence(part: Any) -> str:
    text = inspect.cleandoc(type(part).__doc__ or "").partition("\n\n")[0]
    return " ".join(text.replace("`", "").split()).partition(". ")[0].removesuffix(".")
