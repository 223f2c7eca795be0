"""Finds the budget of a data set in a store, or makes it. Public values only."""

import os
from pathlib import Path
from typing import Any

from dpforest.budget.chain import MOST_ABOVE, Chain, DataSet, check_unit
from dpforest.budget.store import Store
from dpforest.budget.totals import Cap
from dpforest.common.text import shortened
from dpforest.errors import BudgetStoreError, ParameterError, shown

MOST_CHARACTERS_OF_A_NAME = 1_000


def absolute(path: str | Path) -> str:
    """The path with its folder resolved, so that all ways to the folder lead to one name; a link is refused later."""
    try:
        text = os.fspath(path)
        if not isinstance(text, str) or "\0" in text or not Path(text).name:
            raise TypeError
        return str(Path(text).parent.resolve() / Path(text).name)
    except (TypeError, OSError, RuntimeError):
        raise ParameterError(f"A budget is in a file; {shown(path)} names none.") from None


def check_name(dataset: Any) -> None:
    if not isinstance(dataset, str) or not 0 < len(dataset) <= MOST_CHARACTERS_OF_A_NAME:
        raise ParameterError(
            f"A data set is named by a text of 1 to {MOST_CHARACTERS_OF_A_NAME} characters, not by {shown(dataset)}."
        )


def make(store: Store, dataset: str, cap: Cap, unit: str, belongs_to: str | None) -> None:
    """Begin a data set unless it is there, and the file too, unless the data set belongs to one that must be there."""
    check_unit(unit)
    if belongs_to is None:
        store.begin()
    else:
        check_name(belongs_to)
    with store.appending() as (chain, append):
        if dataset in chain.datasets:
            return
        content = {"kind": "create", "dataset": dataset, "unit": unit}
        if belongs_to is not None:
            parent = find(chain, belongs_to, store.path)
            name = repr(shortened(belongs_to))
            if parent.unit != unit:
                raise ParameterError(f"{name} is for the unit {parent.unit!r}, so nothing for {unit!r} can belong to it.")
            if len(parent.line) > MOST_ABOVE:
                raise ParameterError(f"A data set has at most {MOST_ABOVE} above it, and {name} has that many.")
            content |= {"kind": "create-part", "belongs_to": belongs_to}
        append({**content, "epsilon": float(cap.epsilon), "delta": float(cap.delta)})


def check_stored(found: DataSet, wanted: tuple[Cap, str] | None, belongs_to: str | None) -> None:
    """Raise unless a data set has the cap, the unit and the owner that were asked for."""
    name = repr(shortened(found.name))
    if wanted is not None and wanted != (found.account.cap, found.unit):
        cap, unit = wanted
        raise ParameterError(
            f"The budget of {name} has a cap of {_words(found.account.cap)} for the unit {found.unit!r}, not "
            f"{_words(cap)} for {unit!r}. A cap is never changed; leave epsilon out to open it."
        )
    parent = None if found.parent is None else found.parent.name
    if parent != belongs_to and not (wanted is None and belongs_to is None):
        raise ParameterError(
            f"The budget of {name} belongs to {_owner(parent)}, not to {_owner(belongs_to)}. That is never changed; leave "
            "epsilon and belongs_to out to open it."
        )


def find(chain: Chain, dataset: str, path: str) -> DataSet:
    if dataset not in chain.datasets:
        names = ", ".join(repr(shortened(name)) for name in list(chain.datasets)[:10]) or "none"
        raise BudgetStoreError(
            f"There is no budget of {shortened(dataset)!r} in {path}; it has {names}. Give an epsilon to make one, or use "
            "'dpforest budget create'."
        )
    return chain.datasets[dataset]


def _words(cap: Cap) -> str:
    return f"epsilon = {cap.epsilon:g}" + (f", delta = {cap.delta:g}" if cap.delta else "")


def _owner(parent: str | None) -> str:
    return "no other" if parent is None else repr(shortened(parent))
