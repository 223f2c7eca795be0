"""A few records more: what everybody sees must stay the same, and everybody else must be read as before.

A test makes tables that differ by odd records, hands them to the same way in, and compares what ``read`` gives. Odd records
are marked: by the target where a feature is odd, by a feature where the target is. So ordinary records are counted apart,
exactly, however many odd ones stand beside them.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.errors import NothingLearntWarning, RepeatedFitWarning
from dpforest.growing.target import edges_around
from dpforest.mechanisms import Entropy
from dpforest.records import doors
from dpforest.records.base import AllTrees, SealedTable
from dpforest.records.people import People
from dpforest.records.source import Asked, joined
from dpforest.records.vault import Vault
from dpforest.schema.domain import Domain, Grid

ORDINARY, ODD = "ordinary", "odd"
MARKS = Classes([ORDINARY, ODD], name="mark")
# Tables that are slow to make: fewer examples than the profile says.
FEW = settings(
    deadline=None, max_examples=max(15, settings.default.max_examples // 6), suppress_health_check=list(HealthCheck)
)
MARK = {"mark": Categorical([ORDINARY, ODD])}


@dataclass(frozen=True)
class Outcome:
    """What somebody learns who sees that a call ended, and what it said, but nothing that was released."""

    error: str | None  # its type and its text
    warnings: tuple[str, ...]


FINE = Outcome(None, ())


def outcome(call: Callable[[], Any]) -> Outcome:
    """How a call ended: by an error or not, with which words and which warnings.

    What looks odd in released values is left out: it was paid for, and differs from run to run. So is that a table was
    fitted before, since tests hand over the same objects again, and what the collector finds, perhaps of other tests.
    """
    error = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for own in (NothingLearntWarning, RepeatedFitWarning, ResourceWarning):
            warnings.simplefilter("ignore", own)
        try:
            call()
        except Exception as found:
            error = f"{type(found).__name__}: {found}"
    return Outcome(error, tuple(f"{warning.category.__name__}: {warning.message}" for warning in told))


def root_counts(source: SealedTable) -> tuple[np.ndarray, Domain]:
    """The opened counts ``(total_codes, n_classes)`` of all records of a source (of a bounded target one column)."""
    counts, domain = _all_counts(source)
    return counts if isinstance(source.schema.target, Classes) else counts[:, :1], domain


def _all_counts(source: SealedTable) -> tuple[np.ndarray, Domain]:
    counter = source.encode(Domain.of(source.schema, Grid()))
    counter.deal(AllTrees(1), Entropy(None))
    return counter.count_codes(0, np.ones((1, counter.domain.n_features), dtype=bool))._value[0], counter.domain


@dataclass(frozen=True)
class Reading:
    """How the reading of a table ended, the counts of its ordinary records, and those of all, by the target or as one."""

    outcome: Outcome
    ordinary: list[list[list[int]]]
    counted: list[list[int]]

    def assert_like(self, before: "Reading", n_odd: int = 1) -> None:
        """Odd records are not seen, and count at most once each."""
        assert self.outcome == before.outcome
        assert self.ordinary == before.ordinary
        for more, fewer in zip(self.counted, before.counted, strict=True):
            change = np.subtract(more, fewer)
            assert (change >= 0).all()
            assert change.sum() <= n_odd


def read(seal: Callable[[], SealedTable]) -> Reading:
    """What comes of a source: whoever wants to hear of every overflow must not hear of one record's."""
    ordinary: list[list[list[int]]] = []
    counted: list[list[int]] = []

    def look() -> None:
        source = seal()
        with np.errstate(all="ignore"):  # of bounds, which are public
            Domain.of(source.schema, Grid())
        target, sources = source.schema.target, [source]
        if isinstance(target, Bounded):
            edges = edges_around(0.0, np.ldexp(1.0, np.arange(-20, 60, 2)), target)
            counted.append(source.count_targets(edges)._value.tolist())
            narrow = replace(target, lower=float(target.mean_of(0.375)), upper=float(target.mean_of(0.625)))
            sources.append(source.narrowed(narrow))
        for each in sources:
            counts, domain = _all_counts(each)
            ordinary.append((counts[:, :1] if _is_mark(target) else counts[_of_mark(domain)]).tolist())
            counted.append([int(counts[: domain.offsets[1], : None if isinstance(target, Classes) else 1].sum())])

    with np.errstate(all="raise"):
        told = outcome(look)
    return Reading(told, ordinary, counted)


def _is_mark(target: Any) -> bool:
    return isinstance(target, Classes) and target.labels == MARKS.labels


def _of_mark(domain: Domain) -> int:
    return int(domain.offsets[domain.names.index("mark")])


def placed(ordinary: Sequence[Any], odd: Sequence[tuple[int, Any]]) -> list[Any]:
    """Records with odd ones among them, each before the ordinary one at its place."""
    rows = [(place, 1, row) for place, row in enumerate(ordinary)] + [(place, 0, row) for place, row in odd]
    return [row for _, _, row in sorted(rows, key=lambda each: each[:2])]


def some_of(names: Sequence[Any], n_rows: int, *more: st.SearchStrategy) -> st.SearchStrategy:
    """A few odd values, each with the place where it stands and whatever else is drawn for it."""
    return st.lists(st.tuples(st.integers(0, n_rows), st.sampled_from(names), *more), min_size=1, max_size=5)


def together_and_alone(values: Sequence[Any], n_rows: int) -> Iterator[list[tuple[int, Any]]]:
    """All odd values, spread among the rows, then each alone, by turns before and behind all rows."""
    yield [(place % (n_rows + 1), value) for place, value in enumerate(values)]
    for place, value in enumerate(values):
        yield [(n_rows * (place % 2), value)]


def first_and_last(values: Sequence[Any], n_rows: int) -> Iterator[list[tuple[int, Any]]]:
    """Each odd value alone, before all rows and behind them."""
    for value in values:
        yield from ([(0, value)], [(n_rows, value)])


@contextmanager
def noted(name: str) -> Iterator[None]:
    """What fails inside says where."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"in {name}")
        raise


# --- what the columns of a file are declared as, and what comes of reading it so ----------------------------------------

FEATURES = {"x": Numeric(0, 3), "c": Categorical(["a", "b"]), "k": Categorical([1, 2]), "day": Date()}
SCHEMAS = {
    "features": Schema(FEATURES, MARKS),
    "buckets": Schema({"c": Categorical(), "k": Categorical()}, MARKS),
    "persons": Schema({"x": Numeric(0, 3)}, MARKS),
    "classes": Schema(MARK, Classes(["no", "yes"])),
    "numbered classes": Schema(MARK, Classes([0, 1], other=0)),  # has all records
    "bounded": Schema(MARK, Bounded(0, 2)),
}


def everyone():
    """All rows of a person, so that coins decide nothing."""
    return People(1000, Entropy(0))


def seal(path, name, format=None):
    asked = Asked(SCHEMAS[name], with_target=True, besides=["id"] if name == "persons" else [])
    rows = joined(doors.open_source(path, format).chunks(asked))
    groups = (rows.besides.column("id"), everyone()) if name == "persons" else (None, None)
    return Vault.seal(rows.features, rows.target, SCHEMAS[name], 1, *groups)


def readings(seal, names=tuple(SCHEMAS)):
    """What ``seal`` gives for each of some schemas."""
    return {name: read(partial(seal, name)) for name in names}


def assert_like(after, before, n_odd):
    for name, reading in after.items():
        with noted(name):
            assert before[name].outcome == FINE
            reading.assert_like(before[name], n_odd)
