"""Bins without a scale in a database: a query that counts the records in each. Builds queries; sees no rows.

The bin of a value is the one that ``schema.scales`` gives, to the last unit: comparisons and products with powers of 2 are
exact in every engine, logarithms are not.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import ibis
import numpy as np

from dpforest.records.sql.codes import Coded
from dpforest.records.sql.expressions import READERS, cases, cast, real, steps
from dpforest.records.sql.numbers import is_missing, to_real
from dpforest.records.sql.numbers import real as literal
from dpforest.schema.domain import Domain
from dpforest.schema.scales import BITS, CENTRE, LEAST, MISSING, MOST

OCTAVES, STEPS, N_CELLS = range(LEAST, MOST), 1 << BITS, MISSING + 1


def distances(table: Any, domain: Domain, centres: Mapping[int, float]) -> dict[str, Coded]:
    """The distance of some features from a centre each, clipped to the bounds, as d0, d1, …; null where it is missing."""
    found = {}
    for part, (feature, centre) in enumerate(centres.items()):
        value = to_real(table[domain.column_names[domain.derived[feature].column]])
        low, high = map(literal, domain.number(feature).range)
        clipped = ibis.cases((value < low, low), (value > high, high), else_=value)
        # A missing value is compared with nothing: engines differ in where they put NaN.
        distance = ibis.cases((is_missing(value), ibis.null("float64")), else_=clipped - literal(centre))
        found[f"d{part}"] = Coded({f"v{part}": distance}, f"v{part}")
    return found


def counted(table: str, parts: Iterable[int], engine: str) -> str:
    """A query for ``cell`` and ``n``, without cells that are empty: a cell is a bin around a centre, see ``part_of``."""
    # Some features in one column, so that the bins are written into the query once.
    each = " UNION ALL ".join(f"SELECT {part} AS part, d{part} AS distance FROM {table}" for part in parts)
    # Bounds may be further apart than the last bin reaches.
    size = cases((f"ABS(distance) >= {real(2.0**MOST)}", real(np.nextafter(2.0**MOST, 0))), otherwise="ABS(distance)")
    binned = f"SELECT part, distance, {size} AS size FROM ({each}) AS each"
    for name, expression in (_places_by_logarithm() if engine in READERS else _places_by_comparison()).items():
        binned = f"SELECT *, {expression} AS {name} FROM ({binned}) AS t"
    signed = cases((f"distance > {real(0.0)}", "place"), otherwise="-place")
    cell = cases(("distance IS NULL", str(MISSING)), otherwise=f"{CENTRE} + {signed}")
    cells = f"SELECT part * {N_CELLS} + {cell} AS cell FROM ({binned}) AS t"
    return f"SELECT cell, COUNT(*) AS n FROM ({cells}) AS b GROUP BY cell"


def part_of(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of the centre of each cell, and the bin around it."""
    return np.divmod(cells, N_CELLS)


def _places_by_comparison() -> dict[str, str]:
    """Columns that follow from ``size``, of which the last is the bin of that size above the centre."""
    starts = ["", *(real(2.0**octave) for octave in OCTAVES)]
    # How many sixteenths of its octave a distance is beyond its start, and the number of bins before the octave.
    scale = steps("size", starts, [real(0.0), *(real(2.0**-octave * STEPS) for octave in OCTAVES)])
    before = steps("size", starts, ["0", *(str(index * STEPS + 1 - STEPS) for index in range(len(OCTAVES)))])
    return {"place": f"{cast(f'FLOOR(size * {scale})', 'INTEGER')} + {before}"}


def _places_by_logarithm() -> dict[str, str]:
    """The same as ``_places_by_comparison``, in fewer steps, for engines with arrays.

    A logarithm gives the octave, or the one before it: what is subtracted from it is more than it can be wrong by. Times
    the power of 2 that belongs to it, which is exact, the size is then in [1, 4).
    """
    logarithm = f"LN(GREATEST(size, {real(2.0 ** (LEAST - 1))})) * {real(1 / math.log(2))} - {real(2.0**-30)}"
    scales = ", ".join(real(2.0**-octave) for octave in range(LEAST - 2, MOST))
    return {
        "octave": f"{cast(f'FLOOR({logarithm})', 'INTEGER')} - {LEAST - 2}",
        "scaled": f"size * (ARRAY[{scales}])[octave + 1]",
        "place": cases(
            (f"size < {real(2.0**LEAST)}", "0"),
            (f"scaled < {real(2.0)}", f"octave * {STEPS} + {cast(f'FLOOR(scaled * {STEPS})', 'INTEGER')} - {3 * STEPS - 1}"),
            otherwise=f"octave * {STEPS} + {cast(f'FLOOR(scaled * {STEPS // 2})', 'INTEGER')} - {2 * STEPS - 1}",
        ),
    }
