"""Effects of features and of pairs of them, as values that plots, reports and programs share. Released values only."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Part:
    """Some values of a feature that the model treats alike: ``lower <= value < upper``, a category, or missing."""

    words: str
    kind: str  # "range", "category", "other" or "missing"
    share: float  # of the records, as released sizes say
    effects: tuple[float, ...]  # one for each output
    bands: tuple[float, ...] | None  # half the width of the 95 % band of each effect; None if it is not known
    lower: float | None = None  # of a range; None where it has no bound; of dates, days or seconds since the start of 1970
    upper: float | None = None


@dataclass(frozen=True)
class Effect:
    """How one feature moves the prediction: an effect for each part of its values."""

    feature: str
    kind: str  # "number", "whole number", "date" or "category"
    strength: float  # the standard deviation of the effect over the records, by released weights
    stands_out: bool | None  # whether some effect is over three standard deviations of its noise; None if that is not known
    parts: tuple[Part, ...]
    left_out: int = 0  # values of a long list for which no effect was worked out


@dataclass(frozen=True)
class Interaction:
    """What two features do together beside what each does alone: an effect for each pair of parts, of the first output."""

    features: tuple[str, str]
    strength: float
    stands_out: bool | None
    parts: tuple[tuple[Part, ...], tuple[Part, ...]]  # of each feature; their effects are left empty
    effects: np.ndarray  # (n_parts of the first, n_parts of the second, n_outputs)
    bands: np.ndarray | None


@dataclass(frozen=True)
class Effects:
    """Effects of all features that the model asks for and of pairs of them, the strongest first.

    ``outputs`` names what moves: the second of two classes, up to six classes, or the target. ``base`` is the mean of each,
    on the same ``scale``: "log-odds", "probability" or "target".
    """

    outputs: tuple[Any, ...]
    scale: str
    base: tuple[float, ...]
    features: tuple[Effect, ...]
    pairs: tuple[Interaction, ...]
    no_band: str | None  # a sentence that says why some or all effects have no band; None if all have one

    def of(self, feature: str) -> Effect | None:
        """The effect of a feature by its name; None if the model does not ask for it."""
        return next((effect for effect in self.features if effect.feature == feature), None)
