"""One record more or less: what everybody sees must stay the same, and everybody else must be read as before.

A test makes two tables that differ by one odd record, hands both to the same backend, and compares.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpforest.errors import NothingLearntWarning, RepeatedFitWarning
from dpforest.growing.target_scale import edges_around
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees, Source
from dpforest.schema import Bounded, Classes
from dpforest.schema.domain import Domain, Grid


@dataclass(frozen=True)
class Outcome:
    """What somebody learns who sees that a call ended, and what it said, but nothing that was released."""

    error: str | None  # its type and its text
    warnings: tuple[str, ...]


def outcome(call: Callable[[], Any]) -> Outcome:
    """How a call ended: by an error or not, with which words and which warnings.

    What looks odd in released values is left out: it was paid for, and differs from run to run. So is that a table was
    fitted before, since tests hand over the same objects again.
    """
    error = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for own in (NothingLearntWarning, RepeatedFitWarning):
            warnings.simplefilter("ignore", own)
        try:
            call()
        except Exception as found:
            error = f"{type(found).__name__}: {found}"
    return Outcome(error, tuple(f"{warning.category.__name__}: {warning.message}" for warning in told))


def root_counts(source: Source) -> tuple[np.ndarray, Domain]:
    """The opened counts ``(total_codes, n_classes)`` of all records of a source (of a bounded target one column)."""
    counter = source.encode(Domain.of(source.schema, Grid()))
    counter.deal(AllTrees(1), Entropy(None))
    counts = counter.count_codes(0, np.ones((1, counter.domain.n_features), dtype=bool))._value[0]
    return counts if isinstance(source.schema.target, Classes) else counts[:, :1], counter.domain


def assert_others_are_read_as_before(with_record: Source, without: Source) -> None:
    """One more record adds at most 1 to one cell of each feature, and takes nothing from any cell."""
    more, domain = root_counts(with_record)
    fewer, _ = root_counts(without)
    change = more - fewer
    assert (change >= 0).all()
    for feature, name in enumerate(domain.names):
        own = change[domain.offsets[feature] : domain.offsets[feature + 1]]
        assert own.sum() <= 1, f"one record changed how others are read in {name!r}"
    if isinstance(with_record.schema.target, Bounded):
        _assert_other_targets_are_read_as_before(with_record, without)


def _assert_other_targets_are_read_as_before(with_record: Source, without: Source) -> None:
    """One more record adds at most 1 to one bin of the target, and reading all within another range is no different."""
    target = with_record.schema.target
    edges = edges_around(0.0, np.ldexp(1.0, np.arange(-20, 60, 2)), target)
    change = with_record.count_targets(edges)._value - without.count_targets(edges)._value
    assert (change >= 0).all()
    assert change.sum() <= 1
    narrow = replace(target, lower=float(target.mean_of(0.375)), upper=float(target.mean_of(0.625)))
    codes, fewer = (root_counts(source.narrowed(narrow))[0] for source in (with_record, without))
    assert (codes >= fewer).all()
    assert codes.sum() - fewer.sum() == change.sum() * with_record.schema.n_features
