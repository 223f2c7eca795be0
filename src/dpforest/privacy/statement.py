"""The privacy statement: what is guaranteed, for whom, and why it may not hold. Public values only."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from dpforest.privacy.accountants import is_whole

UNITS = ("record", "person")
# Said with every statement, because no model can promise it.
NOT_COVERED = (
    "copies of the raw table, and whoever may read them",
    "other releases from the same records: their losses add up",
    "how long training took",
)


@dataclass(frozen=True)
class Statement:
    """What a fitted model promises.

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
    rows: int = 1  # of one unit that were used, at most

    def __str__(self) -> str:
        if not self.holds:
            return "No privacy guarantee: " + "; ".join(self.reasons) + "."
        odds = _odds(self.epsilon)
        loss = f"epsilon = {self.epsilon:.4g}" + (f", delta = {self.delta:.3g}" if self.delta else "")
        used = f" (at most {self.rows} of whose rows are used)" if self.unit != "record" else ""
        return (
            f"{loss}, adding or removing one {self.unit}{used}: whatever someone concludes from the model, the odds that a "
            f"given {self.unit} was in the table change by a factor of at most {odds:.3g}"
            + (f", except with probability {self.delta:.3g}." if self.delta else ".")
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON (an infinite epsilon is the text "inf")."""
        content = asdict(self)
        for name in ("reasons", "public", "notes", "not_covered"):
            content[name] = list(content[name])
        # A group of two records (or persons), the standard step to replace-one neighbours.
        replace = (2 * self.epsilon, self.delta * (1 + math.exp(min(self.epsilon, 700.0))))
        content["replace_one"] = {"epsilon": replace[0], "delta": min(1.0, replace[1]) if self.delta else 0.0}
        content["odds"] = _odds(self.epsilon)
        return _without_infinity(content)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Statement":
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
            **{name: content[name] for name in names},
        )


def _odds(epsilon: float) -> float:
    """The factor exp(epsilon), infinite beyond the largest float."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def _without_infinity(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinity(item) for key, item in value.items()}
    return "inf" if value == math.inf else value
