"""Record and replay: fits on a table and on its neighbour, with every release of the second frozen to that of the first.

What may differ then is what each mechanism is handed, within the bound that it was told. All else that differs is a leak,
since a fit sees nothing else of the rows.
"""

import logging
import math
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.audit.cases import Case, generate
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Diverged, Query, Tape, chance_of_one_table, cost, largest_block
from dpforest.errors import DPForestError, ParameterError
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.privacy.accountants import zcdp_epsilon
from dpforest.privacy.bounds import Blocks, Bound
from dpforest.privacy.ledger import Book

# Measured losses are sums of exact fractions, charges are rounded floats: they may differ by roundings.
SLACK = Fraction(1, 10**9)
MOST_SHRINKING = 80


@dataclass(frozen=True)
class Finding:
    """Something that tells two neighbouring tables apart and was not paid for."""

    kind: str  # "public value", "question", "bound", "charge", "loss", "opened" or "not an integer"
    what: str
    where: str
    case: Case | None = field(default=None, compare=False)
    detail: str = field(default="", compare=False)

    def __str__(self) -> str:
        pair = "" if self.case is None else f"\n  {self.case}"
        return f"{self.kind}: {self.what} ({self.where}){': ' + self.detail if self.detail else ''}{pair}"

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "case"} | {"words": str(self)}


@dataclass
class Fit:
    """Everything public that one fit showed, and what its mechanisms were asked."""

    tape: Tape
    public: dict[str, Any] = field(default_factory=dict)
    failed: bool = False  # refused by the library
    crashed: str = ""  # by an error that is not the library's
    shows_its_ledger: bool = True

    def last_question(self, otherwise: str) -> str:
        """Where the last question to the gate was asked."""
        return self.tape.queries[-1].where if self.tape.queries else otherwise


@dataclass(frozen=True)
class Replays:
    """The findings of a number of replayed cases."""

    n_pairs: int
    n_refused: int  # fits that both tables refuse in the same words, such as a recipe without a zCDP proof
    findings: tuple[Finding, ...]
    closest: float  # the largest share of a claim that one record was seen to use
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"findings": [finding.to_dict() for finding in self.findings]}


def replay_many(
    subject: Subject, n_pairs: int = 1000, first_case: int = 0, progress: Callable[[int], None] = lambda done: None
) -> Replays:
    """The findings of generated cases; those that differ only in their case are reported once, with a small case."""
    begin, found = time.perf_counter(), dict[Finding, Finding]()
    n_refused, closest = 0, 0.0
    for seed in range(first_case, first_case + n_pairs):
        case = generate(seed, subject.parts.tasks, with_delta=not isinstance(subject.parts.sample, PoissonBootstrap))
        # A recipe that draws a sample of large tables draws one of some small ones, too.
        own = subject.on_sample(len(case.rows) / 2) if seed % 4 == 3 and subject.draws_samples else subject
        fits, findings = replay(own, case)
        n_refused += fits[0].failed and not findings
        if not findings:
            closest = max([closest, *(float(used / Fraction(paid)) for used, paid, _ in _totals(*fits) if paid > 0)])
        for finding in findings:
            if finding not in found:
                found[finding] = smallest(own, finding)
        progress(seed - first_case + 1)
    if n_pairs and n_refused == n_pairs:  # a subject that cannot run must not pass
        said = " ".join(line.strip() for line in fits[0].public["error"])
        raise ParameterError(f"Every fit of recipe {subject.name!r} was refused, so nothing could be tried. {said}")
    return Replays(n_pairs, n_refused, tuple(found.values()), closest, time.perf_counter() - begin)


def replay(subject: Subject, case: Case) -> tuple[tuple[Fit, Fit], list[Finding]]:
    """The fits on the two tables of a case, the second with the releases of the first, and what tells them apart."""
    tables = case.tables()
    first = run_fit(subject, case, *tables[0], Tape(case.seed, case.extra_first, has_extra=case.larger_first))
    script, has_extra = first.tape.queries, not case.larger_first
    second = run_fit(subject, case, *tables[1], Tape(case.seed, case.extra_first, script, has_extra))
    findings = differences(first, second)
    if first.crashed and not findings:
        findings = [Finding("crash", "fits fail by an error that is not the library's", first.crashed)]
    if not findings:
        findings = [*unpaid_moves(first, second, case.sign), *_within_claim(case, first)]
    return (first, second), [replace(item, case=case) for item in findings]


def differences(first: Fit, second: Fit) -> list[Finding]:
    """What was opened exactly, and what the second fit, which had the releases of the first, asked or showed otherwise."""
    leaks = [] if first.tape.ledger is None else first.tape.ledger.leaks
    opened = [Finding("opened", f"exact values: {leak.reason}", leak.label) for leak in leaks]
    return [*opened, *_asked_alike(first, second), *_shown_alike(first, second)]


def unpaid_moves(first: Fit, second: Fit, sign: int = 1) -> list[Finding]:
    """Moves of what mechanisms were handed beyond the stated bounds, or beyond what was charged.

    The fits must have asked the same. ``sign`` is 1 if the second has one record more, -1 if it has one less.
    """
    lists = [*_within_deltas(first, second)]
    _keep_common(first, second)
    return [*lists, *_within_bounds(first, second, sign), *_within_charges(first, second)]


def smallest(subject: Subject, finding: Finding) -> Finding:
    """The same finding on a case with fewer rows, found by leaving rows out as long as it stays."""
    case, n_tries = finding.case, 0
    assert case is not None
    size = max(1, len(case.rows) // 2)
    while size >= 1 and n_tries < MOST_SHRINKING:
        for start in range(0, len(case.rows), size):
            n_tries += 1
            fewer = case.without(range(start, start + size))
            again = [item for item in replay(subject, fewer)[1] if item == finding]
            if again:
                finding, case = again[0], fewer
                break
        else:
            size //= 2
    return finding


def run_fit(subject: Subject, case: Case, X: np.ndarray, y: np.ndarray, tape: Tape) -> Fit:
    """One fit on a tape, with everything it shows: attributes, messages, errors, saved bytes."""
    claimed = replace(subject, epsilon=case.epsilon, delta=case.delta)
    model = claimed.estimator(case.schema, case.n_trees, case.max_depth)
    fit, steps = Fit(tape), list[str]()
    with _listening(fit.public):
        try:
            with tape.watching(model):
                model.fit(X, y, progress=steps.append)
        except Diverged as parted:
            fit.public["parted"] = str(parted)
        except Exception as error:
            fit.failed = isinstance(error, DPForestError)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            fit.crashed = "" if fit.failed else f"{frame.filename}:{frame.lineno} in {frame.name}"
            fit.public["error"] = tuple(_error_lines(error))
        fit.public["progress"] = tuple(steps)
        if hasattr(model, "forest_"):
            with tempfile.TemporaryDirectory() as folder:
                model.save(Path(folder) / "model.dpf")
                fit.public["saved bytes"] = (Path(folder) / "model.dpf").read_bytes()
    fit.shows_its_ledger = getattr(model, "ledger_", tape.ledger) is tape.ledger
    fit.public |= dict(flattened("", vars(model)))
    fit.public |= dict(flattened("class", _class_values(type(model))))
    return fit


def _error_lines(error: BaseException | None) -> Iterator[str]:
    """The text of an error, and of those that are shown as its cause."""
    while error is not None:
        yield "".join(traceback.format_exception_only(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _class_values(kind: type[Any]) -> dict[str, Any]:
    """The values that a class and its bases hold beside code and documentation, but for those of scikit-learn."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        if not base.__module__.startswith(("sklearn", "builtins"))
        for name, value in vars(base).items()
        if not (name.startswith("__") or callable(value) or isinstance(value, property | staticmethod | classmethod))
    }


@contextmanager
def _listening(public: dict[str, Any]) -> Iterator[None]:
    """Enter in ``public`` the warnings, log lines and printed text of the block."""
    lines, printed = list[str](), StringIO()
    handler = logging.Handler(level=0)
    form = logging.Formatter("%(name)s %(levelname)s %(message)s")  # with the exception, if it has one
    handler.emit = lambda record: lines.append(form.format(record))  # type: ignore[method-assign]
    # Compilers talk while a kernel is new, which is no matter of rows.
    handler.addFilter(lambda record: not record.name.startswith("numba"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(0)
    try:
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(printed), redirect_stderr(printed):
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    public["warnings"] = tuple(f"{item.category.__name__}: {item.message}" for item in caught)
    public["log lines"], public["printed"] = tuple(lines), printed.getvalue()


def flattened(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every value below an object in a form that can be compared, with its path."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        # Bytes, so that two missing values are the same; type and shape are shown too.
        yield path, (str(value.dtype), value.shape, value.tobytes())
    elif isinstance(value, dict):
        yield f"{path}.keys", tuple(map(repr, value))
        for key, item in value.items():
            yield from flattened(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list | tuple | np.ndarray):
        yield f"{path}.length", len(value)
        for index, item in enumerate(value):
            yield from flattened(f"{path}[{index}]", item)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from flattened(f"{path}.{item.name}", getattr(value, item.name))
    elif getattr(type(value), "__slots__", ()) and not hasattr(value, "__dict__"):
        for name in type(value).__slots__:
            yield from flattened(f"{path}.{name}", getattr(value, name, None))
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        for name, item in vars(value).items():
            yield from flattened(f"{path}.{name}", item)
    else:
        yield path, f"{type(value).__name__} {value!r}"


def _asked_alike(first: Fit, second: Fit) -> Iterator[Finding]:
    """A finding if the two fits ask different questions, or if something public about a question differs."""
    for one, two in zip(first.tape.queries, second.tape.queries, strict=False):
        mine, other = one.public(), two.public()
        for name in mine:
            if mine[name] != other[name]:
                what = f"{name} of {one.label!r}" if name != "label" else name
                yield Finding("question", what, one.where, detail=_against(mine[name], other[name]))
                return
    n_asked = len(first.tape.queries), len(second.tape.queries)
    if n_asked[0] != n_asked[1] or "parted" in second.public:
        errors = [line for fit in (first, second) for line in fit.public.get("error", ())]
        words = [second.public.get("parted", _against(*n_asked)), *errors]
        where = (second if second.tape.queries else first).last_question("fit")
        yield Finding("question", "number of questions", where, detail=" ".join(words).strip())


def _shown_alike(first: Fit, second: Fit) -> Iterator[Finding]:
    """A finding if attributes, errors, warnings, log lines, printed text or saved bytes of the two fits differ."""
    if "parted" in second.public:
        return  # an unfinished fit shows less, and that was reported
    for name in sorted(first.public.keys() | second.public.keys()):
        mine, other = first.public.get(name), second.public.get(name)
        if mine != other:
            where = f"last question: {first.last_question('before the first question')}"
            yield Finding("public value", name.lstrip("."), where, detail=_against(mine, other))
            return


def _questions(first: Fit, second: Fit) -> list[tuple[Query, Query]]:
    """Each question of the two fits, which have asked the same."""
    return list(zip(first.tape.queries, second.tape.queries, strict=True))


def _within_bounds(first: Fit, second: Fit, sign: int) -> Iterator[Finding]:
    """A finding where the input of a mechanism moves beyond its stated bound, or in more than one node for each tree."""
    for one, two in _questions(first, second):
        if not all(np.issubdtype(query.values.dtype, np.integer) for query in (one, two)):
            yield Finding("not an integer", f"what {one.label!r} is handed", one.where, detail=str(one.values.dtype))
        if not all(np.issubdtype(run.released.dtype, np.integer) for run in one.runs):
            yield Finding("not an integer", f"what {one.label!r} releases", one.where)
        move = sign * (two.values.astype(object) - one.values.astype(object))
        times = max(one.times, two.times)
        if isinstance(one.stated, Bound):
            moved = move if one.valid is None else np.where(one.valid, move, 0)
            rows = moved.reshape(len(moved), -1) if moved.size else np.zeros((0, 1), dtype=object)
            inside = rows if one.valid is None else rows[one.valid.reshape(rows.shape)]
            changed = [row for row in rows if row.any()]
            low, high = min(inside.ravel(), default=0), max(inside.ravel(), default=0)
            # Rows that the record is not in do not move at all, whatever the bound says of those it is in.
            if changed and (min(low, 0) < times * min(one.stated.low, 0) or max(high, 0) > times * max(one.stated.high, 0)):
                detail = f"moves by {low} .. {high}, stated {one.stated.low} .. {one.stated.high}"
                yield Finding("bound", f"scores of {one.label!r}", one.where, detail=detail)
            if len(changed) > one.copies:
                detail = f"{len(changed)} nodes, for {one.copies} trees"
                yield Finding("bound", f"nodes that move in {one.label!r}", one.where, detail=detail)
        elif isinstance(one.stated, Blocks):
            l1 = largest_block(move, one.stated.sizes)
            if l1 > times * one.copies * one.stated.l1:
                detail = f"a block moves by {l1} in L1, stated {one.copies} x {one.stated.l1}"
                yield Finding("bound", f"values of {one.label!r}", one.where, detail=detail)
        elif one.stated is not None:
            l1, l2 = int(np.abs(move).sum()), int((move * move).sum())
            if l1 > times * one.copies * one.stated.l1 or l2 > times**2 * one.copies * one.stated.l2_squared:
                stated = f"{one.copies} x ({one.stated.l1}, {one.stated.l2_squared})"
                detail = f"L1 and squared L2 move by {l1} and {l2}, stated {stated}"
                yield Finding("bound", f"values of {one.label!r}", one.where, detail=detail)


def _within_deltas(first: Fit, second: Fit) -> Iterator[Finding]:
    """A finding where a list names a value below its threshold, or one that one table alone has with more than its delta.

    By the law of the noise, summed up: not by the bound that the mechanism took.
    """
    total = 0.0
    for one, two in _questions(first, second):
        chance = sum(chance_of_one_table(*runs) for runs in zip(one.runs, two.runs, strict=True))
        if any((run.released < run.threshold).any() for run in one.runs if run.texts is not None):
            yield Finding("bound", f"named below the threshold of {one.label!r}", one.where)
        if chance > one.delta * (1 + float(SLACK)):
            detail = f"{chance:.4g} against {one.delta:.4g}"
            yield Finding("bound", f"delta of {one.label!r}", one.where, detail=detail)
        total += one.delta
    stated = sum(book.accountant.threshold_delta for book in first.tape.books)
    if total > stated * (1 + float(SLACK)):
        detail = f"{total:.4g} against {stated:.4g}"
        yield Finding("loss", "the deltas of lists are more than their book has", "lists", detail=detail)


def _keep_common(first: Fit, second: Fit) -> None:
    """Leave in the runs of lists the values that occur in both tables: their counts are what noise hides."""
    for one, two in _questions(first, second):
        for index, pair in enumerate(zip(one.runs, two.runs, strict=True)):
            if any(run.texts is None for run in pair):
                continue
            common = sorted(pair[0].counts.keys() & pair[1].counts.keys())
            for query, run in zip((one, two), pair, strict=True):
                values = np.array([run.counts[text] for text in common], dtype=np.int64)
                query.runs[index] = replace(run, values=values, texts=tuple(common))


def _within_charges(first: Fit, second: Fit) -> Iterator[Finding]:
    """A finding where a run was not charged, or the move of its input costs more than was paid; also for all together."""
    for one, two in _questions(first, second):
        if one.runs and one.n_charges == 0:
            yield Finding("charge", f"none for {one.label!r}", one.where)
        elif any(run.n_charges == 0 for run in one.runs):
            yield Finding("charge", f"after the draw for {one.label!r}", one.where)
        elif (used := cost(one, two)) > one.copies * Fraction(one.amount) * (1 + SLACK):
            detail = f"{one.unit} {float(used):.4g} against {one.copies * one.amount:.4g}"
            yield Finding("charge", f"too little for {one.label!r}", one.where, detail=detail)
    for used, paid, unit in _totals(first, second):
        if used > Fraction(paid) * (1 + SLACK):
            where = max(_questions(first, second), key=lambda pair: cost(*pair))[0].where
            detail = f"{unit} {float(used):.4g} against {paid:.4g}"
            yield Finding("loss", "one record uses more than all charges together", where, detail=detail)


def _within_claim(case: Case, fit: Fit) -> Iterator[Finding]:
    """A finding if the books together pass the claim, or if the model shows another ledger."""
    ledger = fit.tape.ledger
    if ledger is None or fit.failed:
        return
    for query in fit.tape.queries:
        if query.drawn > (share := query.book.accountant.share):
            what = f"the sample that {query.label!r} is about is larger than its book says"
            yield Finding("loss", what, query.where, detail=f"{query.drawn} was drawn, {share} is counted on")
            break
    if not fit.shows_its_ledger:
        yield Finding("charge", "the model shows another ledger than the one that was charged", "ledger_")
    deltas = [book.accountant.delta for book in ledger.books]
    epsilon = math.fsum(map(_loss, ledger.books))
    if epsilon > case.epsilon * (1 + float(SLACK)) or math.fsum(deltas) > case.delta:
        detail = f"({epsilon:.4g}, {math.fsum(deltas):.2g}) against ({case.epsilon:g}, {case.delta:g})"
        yield Finding("loss", "all charges together are more than was claimed", fit.last_question("fit"), detail=detail)


def _loss(book: Book) -> float:
    """The epsilon of a book on the table: after a secret sample, if it is about one."""
    delta, share = book.accountant.noise_delta, float(book.accountant.share)
    inside = zcdp_epsilon(book.total, delta) if delta else book.total
    return math.log1p(share * math.expm1(inside)) if share < 1 else inside


def _totals(first: Fit, second: Fit) -> Iterator[tuple[Fraction, float, str]]:
    """For each book, the loss of the extra record, what was charged in all, and the unit of both."""
    for book in first.tape.books:
        own = [pair for pair in _questions(first, second) if pair[0].book is book]
        used = sum((_factor(one, own) * cost(one, two) for one, two in own), Fraction(0))
        yield used, book.total, book.accountant.unit


def _factor(query: Query, pairs: list[tuple[Query, Query]]) -> Fraction:
    """The factor by which a bootstrap changes a loss: (exp(e) - 1)/e, with e all charges inside."""
    factor = Fraction(1)
    for index, scope in enumerate(query.scopes):
        if scope.kind == "bootstrap":
            # The very scope: bootstraps of several trees may be charged alike.
            inside = sum(one.amount for one, _ in pairs if len(one.scopes) > index and one.scopes[index] is scope)
            factor *= Fraction(math.expm1(inside)) / Fraction(inside)
    return factor


def _against(mine: Any, other: Any) -> str:
    """Two values in words, each cut if it is long."""
    return " against ".join(text if len(text) <= 60 else f"{text[:57]}..." for text in map(repr, (mine, other)))
