"""What predictions are right and wrong about. Sees rows; counts leave sealed, and true targets for public tables only.

A record adds 1 to one cell or, for a bounded target, ``MASS`` to several cells together, whatever it holds.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpforest.privacy.sealed import Sealed
from dpforest.records.categories import category_codes
from dpforest.records.columns import check_length, read_columns, target_values, to_numbers
from dpforest.records.people import People, distinct_ids, draw_rows, number_persons
from dpforest.schema import FINE_STEPS, Bounded, Categorical, Classes, Schema

# What a record divides among cells for its error, in small steps since squares of errors are small.
MASS = FINE_STEPS
N_MOMENTS = 3


def true_values(y: Any, target: Bounded) -> np.ndarray:
    """The target of each record, ``(n_records,)``, clipped to its range; NaN for a record that is left out."""
    return np.clip(target_values(y, target), *target.range)


@np.errstate(all="ignore")  # as for ``to_numbers``
def group_codes(X: Any, schema: Schema, column: int, part: Categorical | None, cuts: Sequence[float]) -> np.ndarray:
    """The subgroup of each record, ``(n_records,)``: that of its category or, without a part, by cuts at or below a number.

    Values outside the list are the last but one, missing ones the last. It follows from the record alone.
    """
    values = read_columns(X, schema)[column]
    if part is not None:
        return category_codes(values, part)
    numbers = to_numbers(values).astype(np.float64)
    return np.where(np.isnan(numbers), len(cuts) + 1, np.searchsorted(np.asarray(cuts), numbers, side="right"))


class Tally:
    """Sums over cells of what records add, table after table; of each person at most as many rows as ``people`` says.

    ``shape`` has four axes: subgroup, another model, target, and model. Where nothing is said of subgroups or of another
    model, that axis has one place.

    Privacy:
        Claim: a record more moves the sums by no more than ``add_outcomes`` or ``add_errors`` says. With ``people`` a person
            more, with any number of rows, moves them by no more than ``people.most`` records do.
        Because: what a row adds is settled when its table is added, by that row and released models alone. Each is summed up
            at once or, with ``people``, kept until all tables are there. Then rows are drawn from all of them together, so
            that a person has ``people.most`` rows in all and not in each table; see ``People``. Rows that add nothing, and
            rows without an id, take no place.
        Assumes: the models were released before; with ``people`` what that assumes.
    """

    def __init__(self, shape: tuple[int, int, int, int], people: People | None = None) -> None:
        self._sums = np.zeros(shape, dtype=np.int64)
        self._people, self._persons = people, dict[Any, int]()
        self._waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def sealed(self) -> Sealed[np.ndarray]:
        """The sealed sums of all tables so far; rows of persons are drawn now, once for all."""
        if self._people is not None and self._waiting:
            persons, places, amounts = map(np.concatenate, zip(*self._waiting, strict=True))
            self._waiting.clear()
            kept = draw_rows(persons, self._people.most, self._people.entropy)
            self._sum(places[kept], amounts[kept])
        return Sealed(self._sums)

    def add_outcomes(
        self,
        y: Any,
        predicted: np.ndarray,
        target: Classes,
        found: np.ndarray | None,
        others: np.ndarray | None,
        subgroups: np.ndarray | None,
        ids: Any = None,
    ) -> None:
        """Count records by subgroup, whether another model is wrong, true class, and what was found.

        ``predicted`` and ``others`` are indices among the classes. ``found`` is any public function of the prediction; if
        it is None, hits and misses are counted in its place.

        Privacy:
            Claim: L1 and L2 sensitivity are 1 for a record.
            Because: an added record adds 1 to one cell, or nothing if its label is left out; predictions come from models
                that are released already.
            Assumes: the models were released before.
        """
        indices = target_values(y, target)
        check_length("y", indices, predicted)
        nothing = np.zeros(len(indices), dtype=np.int64)
        cell = (
            nothing if subgroups is None else subgroups,
            nothing if others is None else (indices != others).astype(np.int64),
            np.maximum(indices, 0),
            (indices != predicted).astype(np.int64) if found is None else found,
        )
        places = np.ravel_multi_index(cell, self._sums.shape)
        self._add(np.where(indices >= 0, places, -1), np.ones((len(indices), 1), dtype=np.int32), ids)

    def add_errors(
        self,
        y: Any,
        predicted: np.ndarray,
        target: Bounded,
        others: np.ndarray | None,
        subgroups: np.ndarray | None,
        ids: Any = None,
    ) -> None:
        """Sum up by subgroup and by moments: of the error of other predictions, of the target, and of the error.

        A number x in 0 .. 1, as a part of the range of the target, has the moments x**2, 2 x (1-x) and (1-x)**2, which sum
        to 1. A record divides ``MASS`` among the cells by the products of its moments. So sums over cells give the sums of
        1, x and x**2, and of products.

        Privacy:
            Claim: L1 sensitivity is M = ``MASS`` and L2**2 at most M**2 for a record.
            Because: the moments of each number are not negative and sum to 1, and so do their products. What a record adds
                are differences of rounded running sums of these, which rise from 0 to M: integers, none below 0, that sum
                to M. All of it goes to one subgroup; a record whose target is missing adds nothing.
            Assumes: the models were released before.
        """
        values = true_values(y, target)
        check_length("y", values, predicted)
        known = ~np.isnan(values)
        values = np.where(known, values, target.range[0])
        ranked = (values - target.range[0]) / target.span
        own, other = (None if each is None else np.abs(values - each) / target.span for each in (predicted, others))
        pieces = [np.ones((len(values), 1)) if each is None else _moments(each) for each in (other, ranked, own)]
        products = np.einsum("ri,rj,rk->rijk", *pieces).reshape(len(values), math.prod(self._sums.shape[1:]))
        running = np.rint(MASS * np.minimum(np.cumsum(products, axis=1), 1)).astype(np.int32)
        running[:, -1] = MASS
        places = np.zeros(len(values), dtype=np.int64) if subgroups is None else subgroups
        self._add(np.where(known, places, -1), np.diff(running, axis=1, prepend=np.int32(0)), ids)

    def _add(self, places: np.ndarray, amounts: np.ndarray, ids: Any) -> None:
        """Add what each row adds, ``(n_rows, n_amounts)``, at its place ``(n_rows,)``, which is -1 for one to leave out."""
        kept = places >= 0
        if self._people is None:
            self._sum(places[kept], amounts[kept])
            return
        persons = number_persons(distinct_ids(ids), persons=self._persons)
        check_length("groups", persons, places)
        kept &= persons >= 0
        self._waiting.append((persons[kept], places[kept].astype(np.int32), amounts[kept]))

    def _sum(self, places: np.ndarray, amounts: np.ndarray) -> None:
        np.add.at(self._sums.reshape(-1, amounts.shape[1]), places, amounts)


def _moments(shares: np.ndarray) -> np.ndarray:
    """The three moments of each number, ``(n_records, 3)``; numbers are cut to 0 .. 1."""
    x = np.clip(shares, 0, 1)
    return np.stack([x * x, 2 * x * (1 - x), (1 - x) ** 2], axis=1)
