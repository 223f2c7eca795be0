"""The secret sample of a large table that a fit is made from. Sees public values and a released number of rows."""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpforest.errors import ParameterError, shown
from dpforest.parts.part import Part
from dpforest.parts.shape import Facts
from dpforest.privacy.amplification import SHARE_STEPS

# The records that a plan can use: so many of each class (of two, if there are fewer), or in all for a number.
ROWS_OF_CLASS, ROWS_OF_NUMBER = 1_000_000, 2_000_000
# A sample is drawn if the table has so many times these rows: below, it would save little.
WORTHWHILE = 1.25


@dataclass(frozen=True)
class SecretSample(Part):
    """Each record takes part with the same probability, by a secret coin of its own; persons do, if they are protected.

    What is lost in records is won back in budget, so that a large table costs no more time than the sample. ``rows`` is how
    many records are wanted, or 0 for all; by default it is what the plan can use.

    Privacy:
        Claim: what is (e, d)-DP on the sample is (log(1 + q (exp(e) - 1)), q d)-DP on the table, with q the probability.
        Because: ``privacy.amplification``.
        Assumes: q is public or follows from released values; the coins are independent and stay secret, and all that is
            released after they are drawn is charged to a book of that share.
    """

    rows: float | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            return
        if isinstance(self.rows, bool) or not (self.rows == 0 or 1 <= self.rows < math.inf):
            raise ParameterError(f"sample_rows must be a number of at least 1, or 0 for all rows, not {shown(self.rows)}.")

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked for a sample, and not the plan."""
        return bool(self.rows)

    @property
    def needs_rows(self) -> bool:
        return self.rows != 0

    def share(self, facts: Facts) -> Fraction:
        """The probability with which a record takes part."""
        wanted, least = self.rows, 1.0
        if wanted is None:
            wanted = ROWS_OF_NUMBER if facts.n_classes is None else ROWS_OF_CLASS * max(facts.n_classes, 2)
            least = WORTHWHILE
        if wanted == 0 or math.isinf(facts.epsilon) or facts.n_rows <= least * wanted:
            return Fraction(1)
        return Fraction(max(math.floor(SHARE_STEPS * wanted / facts.n_rows), 1), SHARE_STEPS)


ALL_ROWS = SecretSample(0)
