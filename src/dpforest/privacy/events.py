"""What a ledger holds: charges, leaks and scopes as typed values; text is made where it is shown. Public values only."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

from dpforest.common.text import jsonable

KINDS = ("sequential", "parallel", "bootstrap")
# The kinds of purpose that most charges have.
SPLITS, COUNTS, LEAVES = "splits", "counts", "leaves"
# The parameter of a mechanism that names frequent values: the part of delta that it takes.
THRESHOLD_DELTA = "delta"
# The mechanism that releases the best of several runs, and its parameter for the delta at which its rho holds.
SELECTION, AT_DELTA = "private selection", "at_delta"
# Before ``FORMAT`` 2 a ledger kept a purpose as one text. These are taken apart; any other text is a kind as it stands.
FORMAT = 2
OLD_LABELS = tuple(
    re.compile(pattern.replace("#", "[0-9]{1,9}"), re.DOTALL)
    for pattern in (
        r"(?P<kind>splits|counts) of level (?P<level>#)(?:: (?P<step>.+))?",
        r"(?P<kind>first look): (?P<step>pairs)",
        r"(?P<kind>drop tree|choose ensemble) of subset (?P<subset>#)(?:, round (?P<round>#))?",
        r"(?P<kind>tree) (?P<tree>#)",
        r"(?P<n_trees>#) (?P<kind>disjoint trees)",
    )
)


@dataclass(frozen=True)
class Purpose:
    """The purpose of a release, or the steps in a scope. Parts from outside the library have kinds of their own."""

    kind: str
    step: str | None = None  # the name of the step, of a release that is made in several steps
    tree: int | None = None  # the number of the tree, from 1
    level: int | None = None  # the level of the nodes; that of the roots is 0
    subset: int | None = None  # the number of the subset of trees that are judged together, from 1
    round: int | None = None  # the number of the round of judging, or of trees on batches, from 1
    n_trees: int | None = None  # how many trees a scope is about

    def __str__(self) -> str:
        return self.words(self.level)

    def words(self, level: object) -> str:
        """The purpose as text, with ``level`` in the place of the level's number; None leaves the level out."""
        words = self.kind if self.n_trees is None else f"{self.n_trees} {self.kind}"
        parts = ((" {}", self.tree), (" of level {}", level), (" of subset {}", self.subset), (", round {}", self.round))
        return words + "".join(form.format(value) for form, value in (*parts, (": {}", self.step)) if value is not None)

    @property
    def without_numbers(self) -> "Purpose":
        """The kind and the step, without the numbers in which like purposes differ."""
        return Purpose(self.kind, self.step)

    def to_dict(self, name: str, is_old: bool) -> dict[str, Any]:
        """The purpose as plain values, its kind under ``name``; with ``is_old`` one text, as earlier versions wrote it."""
        if is_old:
            return {name: str(self)}
        values = {part: getattr(self, part) for part in PARTS}
        return {name: self.kind, **{part: value for part, value in values.items() if value is not None}}

    @classmethod
    def from_dict(cls, content: dict[str, Any], name: str, is_old: bool) -> "Purpose":
        """The purpose that ``to_dict`` wrote."""
        return _old_purpose(content[name]) if is_old else cls(content[name], *(content.get(part) for part in PARTS))


PARTS = tuple(part.name for part in fields(Purpose) if part.name != "kind")


def as_purpose(what: Purpose | str) -> Purpose:
    """The purpose itself; for a text, a purpose of that kind."""
    return what if isinstance(what, Purpose) else Purpose(what)


def _old_purpose(label: str) -> Purpose:
    """The purpose that a label of an earlier version stands for."""
    for pattern in OLD_LABELS:
        if found := pattern.fullmatch(label):
            parts: dict[str, Any] = {name: value for name, value in found.groupdict().items() if value is not None}
            parts |= {name: int(value) for name, value in parts.items() if name not in ("kind", "step")}
            purpose = Purpose(**parts)
            if str(purpose) == label:
                return purpose
    return Purpose(label)


@dataclass(frozen=True)
class Mechanism:
    """The name of a mechanism, with the parameters that determine its loss.

    Parameters are how far one record moves the value, and how strongly the mechanism ran. Choices have the ``width`` of
    their bound and a ``rate``, geometric and K-norm noise ``l1`` and a ``rate``, Gaussian noise ``l2_squared`` and a
    ``variance``.
    Where noisy counts decide which values are named, also the ``threshold`` that they must reach, and the ``delta`` of the
    protected unit for values that only its records have. The best of several runs has the ``gamma`` of their number, the
    loss ``of_one_run``, and the delta ``at_delta`` for which its rho stands. Ledgers of earlier versions have no parameters.
    """

    name: str
    parameters: Mapping[str, Fraction] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Charge:
    """One release: its purpose, its mechanism, and its cost for a record in the unit of its book."""

    purpose: Purpose
    mechanism: Mechanism
    amount: float

    @property
    def label(self) -> str:
        return str(self.purpose)


@dataclass(frozen=True)
class Leak:
    """An exact value that was opened without a mechanism. Its cost is infinite."""

    purpose: Purpose
    reason: str
    amount: ClassVar[float] = math.inf
    mechanism: ClassVar[Mechanism] = Mechanism("none")

    @property
    def label(self) -> str:
        return str(self.purpose)


@dataclass
class Scope:
    """Charges, leaks and inner scopes, with the rule (one of ``KINDS``) by which their costs add up."""

    purpose: Purpose
    kind: str = "sequential"
    copies: int = 1  # how many equal steps on the same records the scope stands for
    children: "list[Charge | Leak | Scope]" = field(default_factory=list)
    # Sums that are kept, so that a long fit does not add up all charges at each new one: ``known`` is the cost of the whole
    # scope once it is closed, ``settled`` that of its first ``n_settled`` children. Neither includes leaks.
    known: "Fraction | float | None" = field(default=None, compare=False, repr=False)
    settled: "Fraction | float" = field(default=Fraction(0), compare=False, repr=False)
    n_settled: int = field(default=0, compare=False, repr=False)

    @property
    def label(self) -> str:
        return str(self.purpose)


Entry = Charge | Leak | Scope


def to_dict(entry: Entry, is_old: bool) -> dict[str, Any]:
    """An entry as plain values, ready for JSON; fractions and infinity are texts."""
    if isinstance(entry, Scope):
        children = [to_dict(child, is_old) for child in entry.children]
        return entry.purpose.to_dict("scope", is_old) | {"kind": entry.kind, "copies": entry.copies, "children": children}
    if isinstance(entry, Leak):
        return entry.purpose.to_dict("leak", is_old) | {"reason": entry.reason}
    parameters = {name: str(value) for name, value in entry.mechanism.parameters.items()}
    known = {"parameters": parameters} if parameters else {}
    amount = jsonable(entry.amount)
    return entry.purpose.to_dict("charge", is_old) | {"mechanism": entry.mechanism.name, **known, "amount": amount}


def scope_from_dict(content: dict[str, Any], is_old: bool) -> Scope:
    """The scope that ``to_dict`` wrote, with everything inside it; raises if its kind is not known."""
    if content["kind"] not in KINDS:
        raise ValueError(f"A scope is one of {KINDS}.")
    children = [_from_dict(child, is_old) for child in content["children"]]
    return Scope(Purpose.from_dict(content, "scope", is_old), content["kind"], int(content["copies"]), children)


def _from_dict(content: dict[str, Any], is_old: bool) -> Entry:
    if "scope" in content:
        return scope_from_dict(content, is_old)
    if "leak" in content:
        return Leak(Purpose.from_dict(content, "leak", is_old), content["reason"])
    parameters = {name: Fraction(value) for name, value in content.get("parameters", {}).items()}
    purpose = Purpose.from_dict(content, "charge", is_old)
    return Charge(purpose, Mechanism(content["mechanism"], parameters), float(content["amount"]))
