"""Rational rates, by which the exact samplers are told how strong to be. Public values only."""

from dataclasses import dataclass
from fractions import Fraction

from dpforest.errors import ParameterError

# A score difference times a numerator must stay below 2**63, see MOST_DIFFERENCE.
NUMERATOR_BITS = 17
DENOMINATOR_BITS = 55
MOST_DIFFERENCE = 1 << 45


@dataclass(frozen=True)
class Rate:
    """A positive fraction ``numerator / denominator`` that fits 64-bit arithmetic."""

    numerator: int
    denominator: int

    @classmethod
    def below(cls, value: Fraction) -> "Rate":
        """The largest short fraction that is not above ``value``.

        Privacy: none by itself. Rounding down means weaker selection or more noise, so what is charged for ``value`` covers
        what is run. For values from 2**-38 to 2**17 the loss of sharpness is below one part in 60,000.
        """
        if value <= 0:
            raise ParameterError(f"A rate must be positive, not {float(value):.3g}.")
        bits = NUMERATOR_BITS - 1 - (value.numerator.bit_length() - value.denominator.bit_length())
        # The difference of lengths can be one too large, which would leave a numerator of one bit less.
        bits += int(value * Fraction(2) ** bits) < 1 << (NUMERATOR_BITS - 1)
        bits = min(max(bits, 0), DENOMINATOR_BITS)
        numerator = int(value * (1 << bits))
        if numerator == 0:
            raise ParameterError(
                f"The budget leaves a rate of {float(value):.3g} for one step, below 2**-{DENOMINATOR_BITS}. "
                "Raise epsilon, or use fewer trees or levels."
            )
        return cls(min(numerator, (1 << NUMERATOR_BITS) - 1), 1 << bits)
