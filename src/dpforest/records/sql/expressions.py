"""Expressions of SQL as text, over columns whose names are this package's own. Sees public numbers only, no rows.

They are written in what DuckDB and PostgreSQL share; ``Session`` has them translated for other engines. A lookup in a table
is a balanced tree of comparisons, so that a record needs as many as the logarithm of the table's length.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

# Engines that read queries as they are written here.
READERS = ("duckdb", "postgres")
# A split that records follow: the feature, the child of each code counted from the first child, and the first child.
Split = tuple[int, np.ndarray, int]


def number(value: int | None) -> str:
    """A whole number of 32 bits, or null for None."""
    return "CAST(NULL AS INTEGER)" if value is None else str(int(value))


def real(value: float) -> str:
    """A float of 64 bits, which the engine reads from text, since it might round a decimal literal."""
    return f"CAST('{float(value)!r}' AS DOUBLE PRECISION)"


def single(value: np.float32) -> str:
    """A float of 32 bits, which the engine reads from text."""
    return f"CAST('{value!s}' AS REAL)"


def quoted(text: str, engine: str) -> str:
    """A literal text. In a text with a backslash DuckDB and PostgreSQL are told that a second one stands for it."""
    doubled = text.replace("'", "''")
    if "\\" in text and engine in READERS:  # PostgreSQL may be set to take it for special in all texts
        return "E'" + doubled.replace("\\", "\\\\") + "'"
    return f"'{doubled}'"


def exact(text: str, engine: str) -> str:
    """A column of texts that are compared by their characters, whatever the collation of the column takes for the same."""
    return f'CAST({text} AS TEXT) COLLATE "C"' if engine in READERS else text


def cast(value: str, kind: str) -> str:
    return f"CAST({value} AS {kind})"


def cases(*branches: tuple[str, str], otherwise: str) -> str:
    """The result of the first branch, a condition with its result, whose condition is true."""
    whens = " ".join(f"WHEN {condition} THEN {result}" for condition, result in branches)
    return f"CASE {whens} ELSE {otherwise} END" if branches else otherwise


def total(terms: Iterable[str]) -> str:
    """The sum of some terms; 0 of none. It is written as a balanced tree, since engines limit how deep it may be."""
    return _folded(list(terms), " + ") or "0"


def joined(texts: Iterable[str]) -> str:
    """Some texts one after the other."""
    return _folded(list(texts), " || ")


def _folded(terms: Sequence[str], operator: str) -> str:
    if len(terms) <= 1:
        return "".join(terms)
    middle = len(terms) // 2
    return f"({_folded(terms[:middle], operator)}{operator}{_folded(terms[middle:], operator)})"


def divide(numerator: str, denominator: str | int) -> str:
    """The quotient of whole numbers that are not negative, rounded down.

    Engines differ in how they divide whole numbers. So the remainder is subtracted first, and the quotient taken in floating
    point, which is within a part in 2**51 of a whole number: rounding finds it as long as it is below 2**50.
    """
    whole = cast(f"({numerator}) - ({numerator}) % ({denominator})", "DOUBLE PRECISION")
    return cast(f"ROUND({whole} / ({denominator}))", "BIGINT")


def clip(value: str, low: int, high: int) -> str:
    """The nearest number to a value, which is not null, between two others."""
    return f"LEAST(GREATEST({value}, {low}), {high})"


def is_one_of(value: str, numbers: Iterable[int]) -> str:
    return f"{value} IN ({', '.join(map(str, numbers))})"


def steps(value: str, starts: Sequence[str], results: Sequence[str]) -> str:
    """The result that belongs to the last of the ``starts`` that is at most the value.

    The first start is not compared: it is taken as below all values.
    """
    if len(results) == 1:
        return results[0]
    middle = len(results) // 2
    below, above = steps(value, starts[:middle], results[:middle]), steps(value, starts[middle:], results[middle:])
    return f"CASE WHEN {value} < {starts[middle]} THEN {below} ELSE {above} END"


def pick(value: str, first: int, table: Sequence[int | None]) -> str:
    """The entry ``table[value - first]``; null outside of the table."""
    if all(entry == first + index for index, entry in enumerate(table)):
        return cases((f"{value} >= {first} AND {value} < {first + len(table)}", value), otherwise=number(None))
    padded = [None, *table, None]
    starts = [index for index in range(1, len(padded)) if padded[index] != padded[index - 1]]
    edges = [str(first + start - 1) for start in (0, *starts)]
    return steps(value, edges, [number(padded[index]) for index in (0, *starts)])


def entry(value: str, table: Sequence[int]) -> str:
    """The entry ``table[value]``, for engines that have arrays; null outside of the table."""
    # Cast, since DuckDB would add in the type of the column, which may be too small for the sum.
    return f"(ARRAY[{', '.join(map(str, table))}])[{cast(value, 'INTEGER')} + 1]"


def runs(route: np.ndarray) -> list[tuple[int, int, int]]:
    """The first and last code of each run of codes that go to the same child, and that child."""
    edges = [0, *(np.flatnonzero(np.diff(route)) + 1), len(route)]
    return [(int(a), int(b) - 1, int(route[a])) for a, b in pairwise(edges)]


def walk(splits: dict[int, Split], node: int, leaf: Callable[[int], str]) -> str:
    """What ``leaf`` says of the node that a record, with its codes in columns c0, c1, …, reaches from ``node``."""
    if node not in splits:
        return leaf(node)
    feature, route, first_child = splits[node]
    code, parts = f"c{feature}", runs(route)
    below = {child: walk(splits, first_child + child, leaf) for child in {child for _, _, child in parts}}
    if len(parts) == len(below):
        return steps(code, [str(low) for low, _, _ in parts], [below[child] for _, _, child in parts])
    # The expression of a child with several runs must not be in the query more than once.
    *some, last = sorted(below, key=lambda child: int(np.count_nonzero(route == child)))
    branches = [(is_one_of(code, np.flatnonzero(route == child).tolist()), below[child]) for child in some]
    return cases(*branches, otherwise=below[last])
