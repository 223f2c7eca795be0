"""A gate that keeps each mechanism's input (not private) and can repeat another fit's releases."""

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.mechanisms import Entropy, KNorm, Rate
from dpforest.privacy.bounds import Blocks, Bound, Sensitivity
from dpforest.privacy.events import Purpose, as_purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Book, Ledger, Scope
from dpforest.records.coins import draw_poisson

PACKAGE = Path(__file__).parents[1]
# Frames that pass a question on; whoever called them asked it.
GATE_FILES = (str(PACKAGE / "privacy" / "gate.py"), str(PACKAGE / "audit"), contextlib.__file__)


class Diverged(Exception):
    """A replayed fit asks what the recorded one did not, so its answers cannot be frozen."""


@dataclass(frozen=True)
class MechanismRun:
    """One run of a mechanism: what it was handed, the rate or variance it ran at, and what it released."""

    mechanism: str
    spread: Fraction
    values: np.ndarray
    valid: np.ndarray | None
    released: np.ndarray
    n_charges: int  # entered before it ran
    # Of a list: the texts that the values are counts of, the threshold, and what was named.
    texts: tuple[str, ...] | None = None
    threshold: int = 0
    named: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()  # of the blocks of a joint draw

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The public shape of the values; None for a list, whose texts are not public."""
        return self.values.shape if self.texts is None else None

    @property
    def counts(self) -> dict[str, int]:
        """The count of each text of a list; empty for what is no list."""
        return {} if self.texts is None else dict(zip(self.texts, self.values.tolist(), strict=True))


@dataclass
class Query:
    """One question to the gate: what was stated and charged, and the runs of mechanisms that answer it."""

    purpose: Purpose
    stated: Bound | Sensitivity | Blocks | None
    amount: float
    valid: np.ndarray | None
    where: str
    book: Book
    scopes: tuple[Scope, ...]
    times: int = 1  # how often the extra record is in the bootstrap that is asked about
    delta: float = 0.0  # what was stated of a list, for texts that only one of the tables has
    drawn: Fraction = Fraction(1)  # the share of the secret sample that was drawn before
    runs: list[MechanismRun] = field(default_factory=list)
    n_charges: int = 0

    @property
    def values(self) -> np.ndarray:
        """The values that the mechanisms were handed, all nodes together."""
        return np.concatenate([run.values for run in self.runs]) if self.runs else np.zeros(0, dtype=np.int64)

    @property
    def label(self) -> str:
        return str(self.purpose)

    @property
    def unit(self) -> str:
        return self.book.accountant.unit

    @property
    def copies(self) -> int:
        """How many trees, or other equal steps on the same records, the charge stands for."""
        return int(np.prod([scope.copies for scope in self.scopes]))

    def public(self) -> dict[str, Any]:
        """Everything about the question that must not depend on rows."""
        return {
            "label": self.label,
            "bound": self.stated,
            "amount": self.amount,
            "delta": self.delta,
            "shape": [run.shape for run in self.runs],
            "candidates": None if self.valid is None else self.valid.tobytes(),
            "scope": tuple((scope.label, scope.kind, scope.copies) for scope in self.scopes),
            "runs": tuple((run.mechanism, run.spread, run.shape, run.threshold, run.sizes) for run in self.runs),
            "candidates of runs": tuple(None if run.valid is None else run.valid.tobytes() for run in self.runs),
            "charges": self.n_charges,
        }


@dataclass
class Tape:
    """A record of what one fit asks. With ``script``, the queries of another fit, mechanisms release what they did there."""

    seed: int
    extra_first: bool
    script: "list[Query] | None" = None
    has_extra: bool = False  # whether this fit has the extra record
    queries: list[Query] = field(default_factory=list)
    noise_of_list: list[Any] | None = None  # while a list is drawn, the name and the spread of its noise
    ledger: Ledger | None = None  # of the fit that is watched, when it has made a gate
    _asking: Query | None = None
    _n_before: int = 0
    _entropy: "TapeEntropy | None" = None

    @contextlib.contextmanager
    def question(
        self,
        ledger: Ledger,
        purpose: Purpose | str,
        stated: Bound | Sensitivity | Blocks | None,
        amount: float,
        valid: np.ndarray | None = None,
        delta: float = 0.0,
    ) -> Iterator[None]:
        if self.script is not None and len(self.queries) == len(self.script):
            raise Diverged(f"'{purpose}' is asked after all that the other fit asked")
        copy = None if valid is None else np.array(valid)
        book, scopes = ledger.books[-1], ledger.open_scopes
        query = Query(as_purpose(purpose), stated, amount, copy, _asked_at(), book, scopes, delta=delta)
        if self._entropy is not None:
            query.drawn = self._entropy.share
            if any(scope.kind == "bootstrap" for scope in scopes) and self.has_extra:
                query.times = self._entropy.n_drawn_last
        self.queries.append(query)
        self._asking, self._n_before = query, ledger.n_entries
        try:
            yield
        finally:
            self._asking, query.n_charges = None, ledger.n_entries - self._n_before

    def run(
        self,
        mechanism: str,
        spread: Fraction,
        values: np.ndarray,
        valid: np.ndarray | None,
        draw: Callable[[], np.ndarray],
        sizes: tuple[int, ...] = (),
    ) -> np.ndarray:
        """The values from a mechanism, or from the same run of the script."""
        if self._asking is None:
            # Nobody asked, so nobody pays: a question that is charged nothing, with the line of whoever ran it.
            assert self.ledger is not None
            with self.question(self.ledger, f"{mechanism} outside of a question", None, 0.0, valid):
                return self.run(mechanism, spread, values, valid, draw, sizes)
        runs = self._asking.runs
        if self.script is None:
            released = np.array(draw())
        else:
            there = self.script[len(self.queries) - 1].runs
            if len(runs) >= len(there) or there[len(runs)].values.shape != values.shape:
                raise Diverged(f"{self._asking.label!r} is asked about other nodes or candidates")
            released = there[len(runs)].released.copy()
        assert self.ledger is not None
        n_charges, mask = self.ledger.n_entries - self._n_before, None if valid is None else np.array(valid)
        runs.append(MechanismRun(mechanism, spread, np.array(values), mask, released, n_charges, sizes=sizes))
        return released

    def name(
        self, mechanism: str, spread: Fraction, counts: dict[str, int], least: int, draw: Callable[[], dict[str, int]]
    ) -> dict[str, int]:
        """The noisy counts of named values, or those of the same run of the script."""
        assert self._asking is not None
        assert self.ledger is not None
        if self.script is None:
            self.noise_of_list = [mechanism, spread]
            try:
                named = draw()
            finally:
                (mechanism, spread), self.noise_of_list = self.noise_of_list, None
        else:
            there = self.script[len(self.queries) - 1].runs
            if len(there) != 1 or there[0].texts is None:
                raise Diverged(f"{self._asking.label!r} is no list in the other fit")
            named = dict(zip(there[0].named, there[0].released.tolist(), strict=True))
        texts, n_charges = tuple(sorted(counts)), self.ledger.n_entries - self._n_before
        values, released = (np.array([*found], dtype=np.int64) for found in (map(counts.get, texts), named.values()))
        self._asking.runs.append(
            MechanismRun(mechanism, spread, values, None, released, n_charges, texts, least, tuple(named))
        )
        return named

    @property
    def books(self) -> list[Book]:
        return [] if self.ledger is None else self.ledger.books

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Have this tape in all gates that an estimator makes while the block runs."""
        make_gate = model._make_gate
        model._make_gate = lambda ledger, random_state: self.watch(make_gate(ledger, random_state))
        try:
            yield
        finally:
            del model._make_gate

    def watch(self, gate: Gate) -> Gate:
        """The gate with this tape in it; its coins are those of the tape."""
        self.ledger = gate.ledger
        kind = type(gate)
        gate.__class__ = type(f"Watched{kind.__name__}", (_Watching, kind), {"tape": self})
        self._entropy = gate.entropy = TapeEntropy(self.seed, self.extra_first, self.has_extra)
        return gate


class _Watching(Gate):
    tape: Tape

    def select(self, scores: Any, valid: Any, bound: Bound, amount: float, purpose: Any, *more: Any, **named: Any) -> Any:
        with self.tape.question(self.ledger, purpose, bound, amount, valid):
            return super().select(scores, valid, bound, amount, purpose, *more, **named)

    def add_noise(self, values: Any, sensitivity: Sensitivity, amount: float, purpose: Any) -> tuple[np.ndarray, float]:
        with self.tape.question(self.ledger, purpose, sensitivity, amount):
            return super().add_noise(values, sensitivity, amount, purpose)

    def add_joint_noise(self, values: Any, blocks: Blocks, amount: float, purpose: Any) -> tuple[np.ndarray, np.ndarray]:
        with self.tape.question(self.ledger, purpose, blocks, amount):
            return super().add_joint_noise(values, blocks, amount, purpose)

    def name_frequent(self, counts: Any, amount: float, delta: float, purpose: Any) -> list[str]:
        with self.tape.question(self.ledger, purpose, Sensitivity(1, 1), amount, delta=delta):
            return super().name_frequent(counts, amount, delta, purpose)

    def _choose(self, name: str, rate: Rate, scores: np.ndarray, valid: np.ndarray) -> np.ndarray:
        draw = super()._choose
        spread = Fraction(rate.numerator, rate.denominator)
        return self.tape.run(name, spread, scores, valid, lambda: draw(name, rate, scores, valid))

    def _add_noise(self, values: np.ndarray, spread: Rate | Fraction) -> np.ndarray:
        draw = super()._add_noise
        if self.tape.noise_of_list is not None:
            self.tape.noise_of_list[:] = _noise(spread)
            return draw(values, spread)
        return self.tape.run(*_noise(spread), values, None, lambda: draw(values, spread))

    def _add_joint_noise(self, values: np.ndarray, sizes: tuple[int, ...], rate: Rate) -> np.ndarray:
        draw, spread = super()._add_joint_noise, Fraction(rate.numerator, rate.denominator)
        return self.tape.run(KNorm.name, spread, values, None, lambda: draw(values, sizes, rate), sizes)

    def _named(self, counts: dict[str, int], spread: Rate | Fraction, least: int) -> dict[str, int]:
        draw = super()._named
        return self.tape.name(*_noise(spread), counts, least, lambda: draw(counts, spread, least))


def _noise(spread: Rate | Fraction) -> tuple[str, Fraction]:
    """The name of the noise that has this rate or variance, and the rate or variance as a fraction."""
    if isinstance(spread, Rate):
        return "geometric", Fraction(spread.numerator, spread.denominator)
    return "gaussian", spread


class TapeEntropy(Entropy):
    """Coins that two fits share: those of a record do not change when one more record comes first or last."""

    def __init__(self, seed: int, extra_first: bool, has_extra: bool = False) -> None:
        super().__init__(seed)
        self.seeded = False  # statements must be those of a usual fit
        self._seed, self._extra_first, self._n_streams = seed, extra_first, 0
        self._has_extra = has_extra
        self.share = Fraction(1)  # of the sample that was drawn
        self.n_drawn_last = 1  # the largest number that a bootstrap drew for the record that was drawn last: the extra one

    def draw_for_records(self, kernel: Callable[..., int], values: np.ndarray, *arguments: Any) -> None:
        # Kernels fill item after item from one stream, so all draws of the n-th record lie before those of the next,
        # and a longer table begins with the draws of a shorter one; or ends, where the extra record is the first.
        drawn = np.empty(values.size, dtype=values.dtype)
        Entropy(self._next_seed()).run(kernel, drawn.size, *arguments, drawn)
        n_records = values.shape[-1]
        by_record = drawn.reshape(n_records, -1) if n_records else drawn.reshape(0, 1)
        if kernel is draw_poisson:
            self.n_drawn_last = int(by_record[-1:].max(initial=1))
        if self._extra_first:
            by_record = by_record[::-1]
        values[...] = by_record.T.reshape(values.shape)

    def sample_records(
        self, draw: Callable[[int, Fraction, Entropy], np.ndarray], n_records: int, share: Fraction
    ) -> np.ndarray:
        # Of a secret sample the extra record is always a part: what it costs then is what its book is charged.
        self.share *= share
        kept = draw(n_records - self._has_extra, share, Entropy(self._next_seed()))
        if not self._has_extra:
            return kept
        return np.concatenate([[0], kept + 1] if self._extra_first else [kept, [n_records - 1]])

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self._next_seed())

    def _next_seed(self) -> int:
        self._n_streams += 1
        return (self._seed * 1_000_003 + self._n_streams) % 2**32


def _asked_at() -> str:
    """The file, line and function that asked the gate, as text."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(GATE_FILES):
        frame = frame.f_back
    if frame is None:
        return "unknown"
    path = Path(frame.f_code.co_filename)
    shown = path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE.parent) else path
    return f"{shown}:{frame.f_lineno} in {frame.f_code.co_name}"


def chance_of_one_table(one: MechanismRun, two: MechanismRun) -> float:
    """The chance that a list names a value of one table alone; 0 for other releases."""
    alone = one.counts.keys() ^ two.counts.keys()
    return sum(
        _tail(one, one.threshold - count) for run in (one, two) for text, count in run.counts.items() if text in alone
    )


def _tail(run: MechanismRun, least: int) -> float:
    """The probability that the noise of a run is at least ``least``."""
    spread = float(run.spread)
    reach = 40 / spread if run.mechanism == "geometric" else 40 * math.sqrt(spread)
    noise = np.arange(-math.ceil(reach), math.ceil(reach) + 1)
    masses = np.exp(-np.abs(noise) * spread if run.mechanism == "geometric" else -(noise**2) / (2 * spread))
    return float(masses[noise >= least].sum() / masses.sum())


def cost(one: Query, two: Query) -> Fraction:
    """What the move between two answers to one question costs, at the rates and variances that its mechanisms ran at.

    Of one copy of the extra record; what the copies of a bootstrap cost together is the matter of its scope.
    """
    costs = (_run_cost(*runs, one.unit) for runs in zip(one.runs, two.runs, strict=True))
    return sum(costs, Fraction(0)) / max(one.times, two.times)


def _run_cost(before: MechanismRun, after: MechanismRun, unit: str) -> Fraction:
    """The loss by the move of a mechanism's input, at its rate or variance.

    By the law of the mechanism, not by the stated bound: the spread of the moves among the candidates of a node for a
    choice, the norm of the move for noise.
    """
    move = after.values.astype(object) - before.values.astype(object)
    if before.mechanism == "gaussian":
        return Fraction(int((move * move).sum())) / (2 * before.spread)
    if before.mechanism == "geometric":
        losses = [before.spread * int(np.abs(move).sum())]
    elif before.mechanism == "k-norm":
        losses = [before.spread * largest_block(move, before.sizes)]
    else:
        valid = np.ones(move.shape, dtype=bool) if before.valid is None else before.valid
        spreads = [max(row[held]) - min(row[held]) for row, held in zip(move, valid, strict=True) if held.any()]
        losses = [before.spread * int(spread) for spread in spreads]
    if unit == "epsilon":
        return sum(losses, Fraction(0))
    return sum((loss**2 for loss in losses), Fraction(0)) / (8 if before.mechanism == "exponential" else 2)


def largest_block(move: np.ndarray, sizes: tuple[int, ...]) -> int:
    """The largest L1 of the blocks of these sizes, which follow one another in ``move``."""
    return max(int(np.abs(block).sum()) for block in np.split(move, np.cumsum(sizes)[:-1]))
