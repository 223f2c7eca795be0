"""The privacy statement: what is guaranteed, for whom, and why it may not hold. Public values only."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from dpforest.common.text import as_html, counted, jsonable, roughly
from dpforest.errors import UNCOVERED, shown_up
from dpforest.forest.tree import Estimate
from dpforest.privacy.accountants import is_whole
from dpforest.privacy.amounts import sum_up

UNITS = ("record", "person")
# The page that says what is promised for which two tables; every statement leads to it.
NEIGHBOURS = "docs/neighbours.md"
OTHER_PAIRS = f"For other pairs of tables see {NEIGHBOURS}."
# Said with every statement, because no model can promise it.
NOT_COVERED = (
    "copies of the raw table, and whoever may read them",
    "other releases from the same records: their losses add up",
    "how long training took",
    "what was learnt from the rows before the fit, such as by a scaler, an imputer, an encoder or a choice of columns",
)
# The beginnings of notes that weaken the promise; other notes only explain it.
LARGE_DELTA = "delta = {:.3g} is larger than 1 / (number of rows)"
WEAKENING = (UNCOVERED.partition(";")[0], LARGE_DELTA.partition("{")[0])


@dataclass(frozen=True)
class Before:
    """The statement on the earlier model of a fit: its own loss, and a fingerprint."""

    epsilon: float
    delta: float
    unit: str
    holds: bool
    recipe: str
    trained_on: str | None
    digest: str | None  # the hash that its file carries
    row_epsilon: float | None = None  # as of a statement

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Before":
        """The object written by ``asdict``; raises for impossible values."""
        texts = content["unit"], content["recipe"], content["trained_on"] or "", content["digest"] or ""
        epsilon, delta = float(content["epsilon"]), float(content["delta"])
        sound = isinstance(content["holds"], bool) and content["unit"] in UNITS and epsilon >= 0 and 0 <= delta <= 1
        if not sound or not all(isinstance(text, str) for text in texts):
            raise ValueError("An earlier model has a loss, a unit and a name.")
        return cls(**{**content, "epsilon": epsilon, "delta": delta, "row_epsilon": _row_epsilon(content)})


@dataclass(frozen=True)
class Statement:
    """The privacy promise of a fitted model, its unit, and the reasons why it may not hold.

    ``holds`` is True only when the stated loss covers everything that the model reveals about its records. ``unit`` is what
    is added or removed: a record, or a person with all records that carry its id, of which at most ``rows`` were used.
    """

    epsilon: float
    delta: float
    holds: bool
    reasons: tuple[str, ...] = ()
    adjacency: str = "add-remove"
    unit: str = "record"
    recipe: str = ""
    variant: str = "private"
    public: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = NOT_COVERED
    seeded: bool = False  # whether the noise came from a seed instead of the operating system
    rows: int = 1  # the most records of one unit of privacy that were used
    own_recipe: bool = False  # whether the recipe is not one of the library's catalogue
    outside: tuple[str, ...] = ()  # names of types and functions that ran and are not the library's
    earlier: tuple[Before, ...] = ()  # models that the fit started from, the oldest first
    fingerprint: str = ""  # a hash of the recipe's parts; empty if not known, as in files of earlier versions
    row_epsilon: float | None = None  # of persons: the loss of one row more or less, at ``delta``; None if not known

    @property
    def proof(self) -> str:
        """A phrase on who proved that the charges cover the releases; see ``proof_in_words``."""
        return proof_in_words(self.recipe, self.variant, self.own_recipe, self.outside)

    @property
    def cautions(self) -> tuple[str, ...]:
        """The notes that weaken the promise."""
        return tuple(note for note in self.notes if note.startswith(WEAKENING))

    @property
    def sentence(self) -> str:
        """The promise and who proved it, or why there is none, in whole sentences."""
        if not self.holds:
            return "No privacy guarantee holds for this model: " + "; ".join(self.reasons) + "."
        if self.outside:
            promise = f"{self._promise}{self._since}"
            return f"Not proved by the library: {self.proof}. If what they declare is true, this model {promise}"
        proof = f" {self.proof[0].upper()}{self.proof[1:]}." if self.own_recipe else ""
        return f"This model {self._promise}{proof}{self._since}"

    def __str__(self) -> str:
        cautions = self.cautions if self.holds else ()
        notes = (f"Note: {note.removesuffix('.')}." for note in cautions)
        return " ".join([self.sentence, *notes, OTHER_PAIRS])

    _repr_html_ = as_html

    @property
    def _promise(self) -> str:
        """The end of a sentence that begins "This model": the guarantee and, where delta is 0, what it means for odds."""
        loss = f"epsilon = {self.epsilon:.4g}" + (f" and delta = {self.delta:.3g}" if self.delta else "")
        used = f" (all rows that carry one id, of which the fit uses at most {self.rows})" if self.unit == "person" else ""
        odds = shown_up(_odds(self.epsilon), 3)  # "at most" is said of it
        promise = (
            f"is differentially private with {loss}: for any two tables that differ by adding or removing one "
            f"{self.unit}{used}, any result of training is at most {odds} (e^epsilon) times as probable with one table as "
            "with the other"
        )
        if self.delta:
            return f"{promise}, plus a probability of at most {self.delta:.3g} (delta)."
        return (
            f"{promise}. So whatever someone concludes from the model, the odds that a given {self.unit} was in the table "
            f"change by a factor of at most {odds}."
        )

    @property
    def in_all(self) -> tuple[float, float, str]:
        """Epsilon and delta of this fit and all earlier models together, and their common unit.

        Privacy:
            Claim: what is said of a unit that was in the tables of all these fits.
            Because: losses add up, whatever a later fit makes of earlier releases (basic composition). If some of them
                protect persons and others records, the sum is that of a record: ``row_loss`` of each.
            Assumes: the guarantees of all of them hold.
        """
        parts: list[Statement | Before] = [self, *self.earlier]
        of_persons = all(part.unit == "person" for part in parts)
        losses = [(part.epsilon, part.delta) if of_persons else row_loss(part) for part in parts]
        epsilon, delta = (sum_up(amounts) for amounts in zip(*losses, strict=True))
        return epsilon, min(delta, 1.0), "person" if of_persons else "record"

    @property
    def _since(self) -> str:
        """A sentence on the models that the fit started from; empty if there are none."""
        if not self.earlier:
            return ""
        epsilon, delta, unit = self.in_all
        whose = [
            f"epsilon = {part.epsilon:.4g}" + (f", trained on {part.trained_on}" if part.trained_on else "")
            for part in self.earlier
        ]
        loss = f"epsilon = {shown_up(epsilon, 4)}" + (f" and delta = {shown_up(delta, 3)}" if delta else "")
        return (
            f" This is about the table of this fit. The fit started from {counted(len(whose), 'earlier model')} "
            f"({'; '.join(whose)}), taken as public: a {unit} that was used there too loses at most {loss} in all."
        )

    def to_dict(self) -> dict[str, Any]:
        """The statement as plain values, ready for JSON (an infinite epsilon is the text "inf")."""
        epsilon, delta = group_loss(self.epsilon, self.delta, 2)
        content = asdict(self) | {"proof": self.proof, "replace_one": {"epsilon": epsilon, "delta": delta}}
        content["odds"] = _odds(self.epsilon)
        for part in (content, *content["earlier"]):
            if part["row_epsilon"] is None:  # as in files of earlier versions, whose digest stays as it was
                del part["row_epsilon"]
        if self.earlier:
            epsilon, delta, unit = self.in_all
            content["in_all"] = {"epsilon": epsilon, "delta": delta, "unit": unit}
        else:
            del content["earlier"]  # as in files of earlier versions
        return jsonable(content)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Statement":
        """The statement written by ``to_dict``; raises for impossible values."""
        names = ("holds", "adjacency", "unit", "recipe", "variant")
        if not isinstance(content["holds"], bool):
            raise ValueError("A statement holds or does not.")
        rows = content.get("rows", 1)
        if content["unit"] not in UNITS or not is_whole(rows) or rows < 1 or (rows > 1 and content["unit"] == "record"):
            raise ValueError("A record is one row; a person has at least one.")
        return cls(
            epsilon=float(content["epsilon"]),
            delta=float(content["delta"]),
            reasons=tuple(content["reasons"]),
            public=tuple(content["public"]),
            notes=tuple(content["notes"]),
            not_covered=tuple(content["not_covered"]),
            seeded=bool(content.get("seeded", False)),
            rows=rows,
            own_recipe=bool(content.get("own_recipe", False)),
            outside=tuple(content.get("outside", ())),
            earlier=tuple(map(Before.from_dict, content.get("earlier", ()))),
            fingerprint=str(content.get("fingerprint", "")),
            row_epsilon=_row_epsilon(content),
            **{name: content[name] for name in names},
        )


def group_loss(epsilon: float, delta: float, units: int) -> tuple[float, float]:
    """Epsilon and delta for several units at once (group privacy); two, if neighbours replace a record."""
    grown = delta * math.fsum(math.exp(min(step * epsilon, 700.0)) for step in range(units)) if delta else 0.0
    return units * epsilon, min(1.0, grown)


def row_loss(part: Statement | Before) -> tuple[float, float]:
    """Epsilon and delta for one row more or less, whatever unit is protected.

    Where persons are, and only their loss is known, the person with the row takes the place of the one without.
    """
    if part.unit == "record":
        return part.epsilon, part.delta
    return group_loss(part.epsilon, part.delta, 2) if part.row_epsilon is None else (part.row_epsilon, part.delta)


def _row_epsilon(content: dict[str, Any]) -> float | None:
    """The entry of that name, if there is one; raises unless it is a loss of persons."""
    if content.get("row_epsilon") is None:
        return None
    if not float(content["row_epsilon"]) >= 0 or content["unit"] != "person":
        raise ValueError("The loss of one row of a person is at least 0.")
    return float(content["row_epsilon"])


def proof_in_words(recipe: str, variant: str, own_recipe: bool, outside: Sequence[str]) -> str:
    """A phrase on who proved that the charges of a fit with this recipe cover its releases."""
    name = f"own recipe {recipe!r}" if own_recipe else f"recipe {recipe!r} of the library"
    if outside:
        return (
            f"{name} with parts from outside the library ({', '.join(outside)}): the library composed what its parts "
            "declare; they were not proved here"
        )
    if own_recipe:
        return (
            f"{name} made of the library's parts: each part is proved there, the combination was composed by its rules and "
            "was not reviewed"
        )
    if variant == "published":
        return f"{name} as its paper prints it: the library proves its own form of it, not the printed one"
    return f"{name}: each part and their combination are proved beside the code"


def large_delta(delta: float, declared: int | None, measured: Estimate | None) -> list[str]:
    """A note in a list if delta is above 1 / (public or released number of rows); else none."""
    rows = declared if declared is not None else 0 if measured is None else measured.value
    if delta * rows <= 1:
        return []
    about = "" if declared is not None else "about "
    return [
        f"{LARGE_DELTA.format(delta)}, {about}1 / {rows:,.0f}: so large a delta would also allow whole records, drawn by "
        "lot, to be published; choose delta well below 1 / rows"
    ]


def sample_words(share: Fraction, declared: int | None, measured: Estimate | None, unit: str) -> str:
    """A note on the secret sample of this share that a model was trained on."""
    rows = declared if declared is not None else 0 if measured is None else max(measured.value, 0)
    return (
        f"trained on a secret sample of about {roughly(float(share) * rows)} rows: each {unit} took part with probability "
        f"{float(share):.2g}; the sample is part of the guarantee, which holds as long as nobody learns who was in it"
    )


def _odds(epsilon: float) -> float:
    """The factor exp(epsilon), infinite beyond the largest float."""
    return math.exp(epsilon) if epsilon < 700 else math.inf
