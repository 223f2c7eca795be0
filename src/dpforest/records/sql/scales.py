"""Bins without a scale in a database: a query that counts the records in each. Builds queries; sees no rows.

The bin of a value is the one that ``schema.scales`` gives, to the last unit: comparisons and products with powers of 2 are
exact in every engine, logarithms are not.
"""

from collections.abc import Mapping
from typing import Any

import ibis

from dpforest.records.sql.lookups import number, real, steps
from dpforest.records.sql.numbers import is_missing, to_real
from dpforest.records.sql.placed import unmerged
from dpforest.schema.domain import Domain
from dpforest.schema.scales import BITS, CENTRE, LEAST, MISSING, MOST


def counted_around(table: Any, domain: Domain, centres: Mapping[int, float]) -> Any:
    """A query for ``part`` (the place of a centre), ``cell`` (a bin around it) and ``n``, without bins that are empty."""
    distances = []
    for part, (feature, centre) in enumerate(centres.items()):
        value = to_real(table[domain.column_names[domain.derived[feature].column]])
        low, high = map(real, domain.number(feature).range)
        clipped = ibis.cases((value < low, low), (value > high, high), else_=value)
        # A missing value is compared with nothing: engines differ in where they put NaN.
        distance = ibis.cases((is_missing(value), ibis.null("float64")), else_=clipped - real(centre))
        distances.append(table.select(part=number(part), distance=distance))
    # All features in one column, so that the bins are written into the query once.
    measured = unmerged(ibis.union(*distances) if len(distances) > 1 else distances[0])
    bins = measured.select("part", cell=_bin(measured["distance"]))
    return bins.group_by("part", "cell").aggregate(n=bins.count())


def _bin(distance: Any) -> Any:
    """The bin of a distance from the centre."""
    size, n = distance.abs(), 1 << BITS
    octaves = range(LEAST, MOST)
    starts = [None, *(real(2.0**octave) for octave in octaves)]
    # How many sixteenths of its octave a distance is beyond its start, and the number of bins before the octave.
    scale = steps(size, starts, [real(0.0), *(real(2.0**-octave * n) for octave in octaves)])
    before = steps(size, starts, [number(0), *(number(index * n + 1 - n) for index in range(len(octaves)))])
    place = (size * scale).floor().cast("int32") + before
    return ibis.cases(
        (distance.isnull(), number(MISSING)), (distance > real(0.0), number(CENTRE) + place), else_=number(CENTRE) - place
    )
