"""A backend and the in-memory one side by side: every question goes to both, and both must say the same.

``TwinSource`` and ``Twin`` keep the protocols of ``records.base``, so a script or a whole fit can run on them. Deals,
batches and secret samples are drawn where the rows are. What was drawn is read back through the protocol itself: every table
here has a feature that names its record, so counts of its codes at the roots say how often each record is in each tree. The
records in memory get that deal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partialmethod
from typing import Any

import numpy as np
from tests.support.chances import FAILURE, at_least, at_most
from tests.support.given_draws import GivenDraws

from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import CAPABILITIES, AllTrees, Assignment, Counter, OneTree, Source
from dpforest.records.draws import NO_WEIGHTS
from dpforest.records.memory.counter import MemoryCounter
from dpforest.records.people import People
from dpforest.records.vault import Vault, encode
from dpforest.schema import Bounded, Classes, Schema
from dpforest.schema.domain import Domain, Grid

# The feature that names its record.
NAME = "record"


@dataclass(frozen=True)
class Backend:
    """How to hand a table to an engine, and the protocols that it does not offer."""

    name: str
    # Takes a table and a schema; if persons are protected, also the name of the column of ids, and a rule.
    seal: Callable[..., Source]
    gaps: frozenset[type] = frozenset()


def in_memory(table: Any, schema: Schema, groups: str | None = None, people: People | None = None) -> Vault:
    """The source that all others are compared with."""
    ids = None if groups is None else table.column(groups)
    return Vault.seal(table.select([*schema.features]), table.column(schema.target.name), schema, 1, ids, people)


def agreed(answer: Sealed[np.ndarray], expected: Sealed[np.ndarray]) -> Sealed[np.ndarray]:
    """The answer of a backend, which must be that of the reference to the last unit, over the whole grid."""
    assert isinstance(answer, Sealed)
    own, other = answer._value, expected._value
    assert isinstance(own, np.ndarray)
    assert own.dtype == np.int64
    assert own.shape == other.shape
    np.testing.assert_array_equal(own, other)
    return answer


def offering_all(kind: type) -> type:
    """A class that passes questions on by ``__getattr__``, with the names of all protocols, which look for them."""
    for name in {name for need in CAPABILITIES for name in vars(need) if name[0] != "_"} - {*vars(kind)}:
        setattr(kind, name, property(lambda self, name=name: self.__getattr__(name)))
    return kind


class TwinSource:
    """A source of a backend beside that in memory."""

    def __init__(self, source: Source, reference: Vault) -> None:
        self.schema = source.schema
        self._source, self._reference = source, reference
        self.counter, self.gaps, self.close = source.counter, source.gaps, source.close

    def count(self) -> Sealed[np.ndarray]:
        return agreed(self._source.count(), self._reference.count())

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        return agreed(self._source.count_around(domain, centres), self._reference.count_around(domain, centres))

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        return agreed(self._source.count_targets(edges), self._reference.count_targets(edges))

    def narrowed(self, target: Bounded) -> "TwinSource":
        return TwinSource(self._source.narrowed(target), self._reference.narrowed(target))

    in_one_book = False

    @property
    def can_sample(self) -> bool:
        return self._source.can_sample

    def sampled(self, share: Fraction, entropy: Entropy) -> "TwinSource":
        sample = self._source.sampled(share, entropy)
        domain = Domain.of(self.schema, Grid(bins=1))
        place = domain.names.index(NAME)
        counter = sample.encode(domain)
        counter.deal(AllTrees(1), entropy)
        is_in = times_in_trees(counter, 1, place)[0].astype(bool)
        names = encode(self._reference._columns, domain)[place]
        return TwinSource(sample, self._reference._part(is_in[names]))

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        answer = self._source.count_texts(name)
        assert isinstance(answer, Sealed)
        assert answer._value == self._reference.count_texts(name)._value
        assert all(type(text) is str and type(number) is int for text, number in answer._value.items())
        return answer

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> "Twin":
        return Twin(self._source.encode(domain, progress), self._reference.encode(domain))


class Twin:
    """A counter of a backend beside that in memory."""

    def __init__(self, counter: Counter, reference: MemoryCounter) -> None:
        self._counter, self._reference = counter, reference
        self.domain, self.target, self.workers = reference.domain, reference.target, counter.workers
        assert counter.target == self.target
        assert counter.domain.names == self.domain.names
        self._place = self.domain.names.index(NAME)
        self._names = reference._codes[self._place].copy()
        self.batches = np.zeros(len(self._names), dtype=np.int64)  # of the records in memory, in their order
        self._in_turn = np.ones(len(self._names), dtype=bool)

    def _same(self, attribute: str) -> int:
        own, other = getattr(self._counter, attribute), getattr(self._reference, attribute)
        assert own == other
        return int(own)

    most_per_feature = property(lambda self: self._same("most_per_feature"))
    most_per_node = property(lambda self: self._same("most_per_node"))
    code_width = property(lambda self: self._same("code_width"))

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        self._counter.deal(assignment, entropy)
        weights = times_in_trees(self._counter, assignment.n_trees, self._place)[:, self._names]
        if isinstance(assignment, OneTree):
            assert (weights.sum(axis=0) == 1).all()
            self._follow(weights.argmax(axis=0)[None], NO_WEIGHTS)
            return
        if isinstance(assignment, AllTrees):
            assert (weights == self._in_turn).all()
            self._reference.deal(assignment, entropy)
            return
        self._follow(np.tile(np.arange(assignment.n_trees)[:, None], weights.shape[1]), weights)

    def deal_by_errors(self, forest: Any, n_trees: int, entropy: Entropy) -> None:
        self._counter.deal_by_errors(forest, n_trees, entropy)
        weights = times_in_trees(self._counter, n_trees, self._place)[:, self._names]
        n_wrong = (forest.choices(self._reference._codes) != self._reference._target_codes).sum(axis=0)
        assert ((weights == 0) | (weights == 1)).all()
        assert not weights[:, n_wrong == 0].any()
        assert weights[:, n_wrong == forest.n_trees].all()
        self._follow(np.tile(np.arange(n_trees)[:, None], weights.shape[1]), weights)

    def _follow(self, positions: np.ndarray, weights: np.ndarray) -> None:
        self._reference._start(positions.astype(np.int32), weights.astype(np.uint8))

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[Twin, Twin]":
        parts = self._counter.hold_out(share, entropy)
        masks = []
        for part in parts:
            part.deal(AllTrees(1), entropy)
            masks.append(times_in_trees(part, 1, self._place)[0, self._names])
        np.testing.assert_array_equal(masks[0] + masks[1], np.ones(len(self._names)))
        training, held = (
            Twin(part, self._reference._part(mask.astype(bool))) for part, mask in zip(parts, masks, strict=True)
        )
        return training, held

    def divide(self, n_batches: int, entropy: Entropy) -> None:
        self._counter.divide(n_batches, entropy)
        masks = []
        for batch in range(n_batches):
            self._counter.take_turn(batch)
            self._counter.deal(AllTrees(1), entropy)
            masks.append(times_in_trees(self._counter, 1, self._place)[0, self._names])
        assert (np.sum(masks, axis=0) == 1).all()
        self._counter.take_turn(None)
        drawn = np.argmax(masks, axis=0)
        order = np.argsort(drawn, kind="stable")
        self._reference.divide(n_batches, GivenDraws(drawn))
        self.batches, self._names = drawn[order], self._names[order]
        np.testing.assert_array_equal(self._reference._codes[self._place], self._names)

    def take_turn(self, batch: int | None) -> None:
        self._both("take_turn", batch)
        self._in_turn = np.ones_like(self._in_turn) if batch is None else self.batches == batch

    def _both(self, method: str, *arguments: Any) -> None:
        getattr(self._counter, method)(*arguments)
        getattr(self._reference, method)(*arguments)

    def _agreed(self, method: str, *arguments: Any) -> Sealed[np.ndarray]:
        return agreed(getattr(self._counter, method)(*arguments), getattr(self._reference, method)(*arguments))

    # Questions, which both must answer alike.
    count_codes = partialmethod(_agreed, "count_codes")
    count_nodes = partialmethod(_agreed, "count_nodes")
    sum_residuals = partialmethod(_agreed, "sum_residuals")
    count_leads = partialmethod(_agreed, "count_leads")
    count_values = partialmethod(_agreed, "count_values")
    count_errors = partialmethod(_agreed, "count_errors")
    # What both are told.
    descend = partialmethod(_both, "descend")
    start_scores = partialmethod(_both, "start_scores")
    add_scores = partialmethod(_both, "add_scores")
    add_by_code = partialmethod(_both, "add_by_code")
    weigh_residuals = partialmethod(_both, "weigh_residuals")
    spread_residuals = partialmethod(_both, "spread_residuals")
    set_residual_window = partialmethod(_both, "set_residual_window")
    weigh_distances = partialmethod(_both, "weigh_distances")


def times_in_trees(counter: Counter, n_trees: int, index: int) -> np.ndarray:
    """How often each record is in each tree ``(n_trees, n_codes)``, by the code of the feature that names it."""
    wanted = np.zeros((n_trees, counter.domain.n_features), dtype=bool)
    wanted[:, index] = True
    counts = counter.count_codes(0, wanted)._value
    own = counts[:, counter.domain.offsets[index] : counter.domain.offsets[index + 1]]
    return own.sum(axis=2) if isinstance(counter.target, Classes) else own[:, :, 0]


def within(n_hits: Any, n_trials: int, share: float, n_tests: int = 1) -> bool:
    """Whether numbers of hits are those of a fair coin; of so many tests together one fails at most once in a million."""
    low, high = (bound(n_trials, share, FAILURE / (2 * n_tests)) for bound in (at_least, at_most))
    return bool(((np.asarray(n_hits) >= low) & (np.asarray(n_hits) <= high)).all())


def random_splits(domain: Domain, first: int, n_open: int, rng: np.random.Generator) -> tuple[Any, int]:
    """Splits of the nodes from ``first`` as ``descend`` takes them, some of them leaves; and the number of children."""
    features = rng.integers(-1 if first else 0, domain.n_features, n_open)
    n_children = np.where(features >= 0, rng.integers(2, 4, n_open), 0)
    routes = rng.integers(0, np.maximum(n_children, 1)[:, None], (n_open, int(domain.n_codes.max()))).astype(np.uint16)
    first_children = np.where(features >= 0, first + n_open + np.cumsum(n_children) - n_children, -1)
    return (first, features, routes, first_children), int(n_children.sum())


def grow_at_random(twin: Twin, n_trees: int, depth: int, rng: np.random.Generator) -> int:
    """Count and follow random splits of all levels; returns the number of nodes."""
    first, n_open = 0, n_trees
    for level in range(depth):
        wanted = rng.random((n_open, twin.domain.n_features)) < (1.0, 0.3)[level % 2]
        twin.count_codes(first, wanted)
        # A large level is asked in blocks.
        twin.count_codes(first + n_open // 2, wanted[n_open // 2 :][:1])
        twin.count_nodes(first, n_open)
        splits, n_children = random_splits(twin.domain, first, n_open, rng)
        twin.descend(*splits)
        first, n_open = first + n_open, n_children
        if not n_open:
            break
    twin.count_nodes(0, first + n_open)
    return first + n_open
