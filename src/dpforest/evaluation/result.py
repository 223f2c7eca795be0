"""What an evaluation gives: figures with their bands, curves, and what they cost. Public and released values only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpforest.common.jsonable import jsonable
from dpforest.common.text import loss_words
from dpforest.errors import ParameterError
from dpforest.privacy.ledger import Ledger

FORMAT, VERSION = "dpforest-evaluation", 2


@dataclass(frozen=True)
class Score:
    """A named figure and how far it may be off.

    The exact figure is within ``margin + binning`` with a probability of about 95 %: ``margin`` is the band of the noise,
    ``binning`` the most that counting predicted shares in bins can change. ``sampling`` is how far the figure of other rows
    like these may lie from it, again in 95 of 100 cases; NaN if that is not known.
    """

    name: str
    value: float
    margin: float = 0.0
    sampling: float = math.nan
    binning: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model on a table, and the ledger of what they cost: None if the table is public.

    ``unit`` is who pays: each record or, of whose rows at most ``rows`` were counted, each person.
    ``details`` has what is more than a figure: curves, figures by threshold, the confusion matrix, subgroups, a comparison.
    """

    scores: tuple[Score, ...]
    n_rows: float
    ledger: Ledger | None = None
    n_rows_margin: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "record"

    @property
    def rows(self) -> int:
        """The most rows of one unit that were counted."""
        return 1 if self.ledger is None else self.ledger.rows

    @property
    def epsilon(self) -> float:
        """What the scores cost."""
        return 0.0 if self.ledger is None else self.ledger.spent

    def at(self, threshold: float) -> dict[str, Any]:
        """The figures of two classes at the released threshold nearest to this one; it costs nothing more."""
        rows = self.details.get("thresholds")
        if not rows:
            raise ParameterError("Thresholds are for two classes whose labels follow from shares; this model has others.")
        return min(rows, key=lambda row: abs(row["threshold"] - threshold))

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values, ready for JSON; a score that has no value is None."""
        rows = {"n_rows": self.n_rows, "n_rows_margin": self.n_rows_margin, "public": self.ledger is None}
        ledger = None if self.ledger is None else self.ledger.to_dict()
        loss = None if ledger is None else loss_words(self.epsilon, self.unit, self.rows)
        cost = {"epsilon": self.epsilon, "unit": self.unit, "rows": self.rows, "loss": loss}
        head = {"format": FORMAT, "version": VERSION, **rows, **cost, "scores": self.scores}
        return jsonable({**head, **self.details, "ledger": ledger})
