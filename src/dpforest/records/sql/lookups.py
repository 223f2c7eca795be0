"""Lookups in small public tables by code or by node, as expressions of a query. Sees names of columns only.

A lookup is a balanced tree of comparisons, so that a record needs as many as the logarithm of the table's length.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import ibis
import numpy as np

# A split that records follow: the feature, the child of each code counted from the first child, and the first child.
Split = tuple[int, np.ndarray, int]


def real(number: float) -> Any:
    """A literal float of 64 bits, which the engine reads from text, since it might round a decimal literal."""
    return ibis.literal(repr(float(number))).cast("float64")


def divide(numerator: Any, denominator: Any) -> Any:
    """An expression for ``numerator // denominator`` of whole numbers that are not negative.

    Engines differ in how they divide whole numbers. So the remainder is subtracted first, and the quotient taken in floating
    point, which is within a part in 2**51 of a whole number: rounding finds it as long as it is below 2**50.
    """
    whole = numerator - numerator % denominator
    return (whole.cast("float64") / denominator).round().cast("int64")


def least(value: Any, most: int) -> Any:
    """An expression for the smaller of a value and ``most``."""
    return ibis.cases((value > most, most), else_=value)


def clip(value: Any, low: int, high: int) -> Any:
    return ibis.cases((value < low, low), (value > high, high), else_=value)


def steps(value: Any, starts: Sequence[Any], results: Sequence[Any]) -> Any:
    """An expression for the result that belongs to the last of the ``starts`` that is at most the value.

    The first start is not compared: it is taken as below all values.
    """
    if len(results) == 1:
        return results[0] if isinstance(results[0], ibis.Expr) else ibis.literal(results[0])
    middle = len(results) // 2
    return ibis.cases(
        (value < starts[middle], steps(value, starts[:middle], results[:middle])),
        else_=steps(value, starts[middle:], results[middle:]),
    )


def number(value: int | None) -> Any:
    """A literal integer of 32 bits, or null for None."""
    return ibis.null("int32") if value is None else ibis.literal(value, "int32")


def pick(value: Any, first: int, table: Sequence[int | None]) -> Any:
    """An expression for ``table[value - first]``; null outside of the table."""
    if all(entry == first + index for index, entry in enumerate(table)):
        return ibis.cases(((value >= first) & (value < first + len(table)), value), else_=number(None))
    padded = [None, *table, None]
    starts = [index for index in range(1, len(padded)) if padded[index] != padded[index - 1]]
    return steps(
        value, [first - 1, *(first + start - 1 for start in starts)], [number(padded[index]) for index in (0, *starts)]
    )


def runs(route: np.ndarray) -> list[tuple[int, int, int]]:
    """The first and last code of each run of codes that go to the same child, and that child."""
    edges = [0, *(np.flatnonzero(np.diff(route)) + 1), len(route)]
    return [(int(a), int(b) - 1, int(route[a])) for a, b in pairwise(edges)]


def walk(codes: Callable[[int], Any], splits: dict[int, Split], node: int, leaf: Callable[[int], Any]) -> Any:
    """An expression for ``leaf`` of the node that a record reaches from ``node`` by the given splits."""
    if node not in splits:
        return leaf(node)
    feature, route, first_child = splits[node]
    parts = runs(route)
    below = {child: walk(codes, splits, first_child + child, leaf) for child in {child for _, _, child in parts}}
    if len(parts) == len(below):
        return steps(codes(feature), [low for low, _, _ in parts], [below[child] for _, _, child in parts])
    # The expression of a child with several runs must not be in the query more than once.
    *some, last = sorted(below, key=lambda child: int(np.count_nonzero(route == child)))
    if not some:
        return below[last]
    is_child = {child: codes(feature).isin(np.flatnonzero(route == child).tolist()) for child in some}
    return ibis.cases(*((is_child[child], below[child]) for child in some), else_=below[last])
