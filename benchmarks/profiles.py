"""What a finished ledger loses by numeric composition: the curve of delta over epsilon of all its releases together.

For measuring only: floating point, a grid, and Gaussian noise in the place of discrete Gaussian noise. A curve holds if the
list of charges was fixed beforehand, however each release depends on the earlier ones.

The curve of a ledger is had in two ways: on a grid, as follows, and above it by a Gaussian one (``gaussian_rho``).

Composed from the last release to the first. If D is the curve of the releases after a step, then after a step whose loss has
the law P the curve is the mean of D(epsilon - loss). A choice of range s has one of two losses, t and t - s, and which t is
worst depends on what was released before, so it is the largest mean over t, at each epsilon of its own. That is the curve of
the worst adversary, who picks t anew each time. A dominating pair [zhu2022] takes the worst t at each epsilon before it is
composed, which no adversary can do: the variance of its loss is s**2 / 3, and s**2 / 4 is the most that a choice can have.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from benchmarks.core.results import NotMeasured
from dpforest.privacy import composition
from dpforest.privacy.ledger import Book

FINENESS = 8  # points of the grid in the root mean square of the sizes of steps
N_NODES = 17  # places of t, and points of a law of losses
LATTICE = 4.0  # the least variance of what is not known of noise on integers, so that it counts as Gaussian
REACH = 9.0  # the grid ends so many standard deviations of the whole loss from 0


@dataclass(frozen=True)
class Step:
    """One release: a choice whose log-ratio has range ``size``, or noise that a record moves by ``size`` deviations."""

    is_choice: bool
    size: float
    variance: float = math.inf  # of the noise, in units of the counts; infinite for noise that is not on integers


def steps_of(book: Book) -> list[Step]:
    """The releases of a book in rho, in their order; raises if some are about different records."""
    found = []
    for scopes, charge in composition.entries(book.root):
        if any(scope.kind != "sequential" for scope in scopes):
            raise NotMeasured("The curve of charges that are not all in sequence is not computed here.")
        ran = charge.mechanism.parameters
        if charge.mechanism.name == "exponential":
            step = Step(True, float(ran["rate"] * ran["width"]))
        else:
            step = Step(False, math.sqrt(ran["l2_squared"] / ran["variance"]), float(ran["variance"]))
        found += [step] * math.prod(scope.copies for scope in scopes)
    return found


def gaussian_rho(steps: list[Step]) -> float:
    """The rho of one Gaussian release whose curve is above that of all steps together.

    Privacy:
        Claim: whatever each step releases, and however it depends on earlier ones, the curve of all of them, for adding and
            for removing a record, is nowhere above that of one release with Gaussian noise of this rho.
        Because: let all that follows a step be dominated by Gaussian noise whose loss has the variance v. A choice of range
            s followed by it has, at worst, a loss that is t or t - s plus a normal one: log-ratios lie in an interval of
            length s, and what follows is convex in the ratio. Its density f is a mixture of two normal ones, and
            (log f)'' = -1/v + Var/v**2, where Var <= s**2/4 is the variance of the place given the sum. Beside a normal
            density g of variance w, 1/w = 1/v - s**2/(4 v**2), the ratio f/g is log-concave, so f - g is negative, then
            positive, then negative. Both have mass 1 and, since the mean of exp(loss) is 1, the same mean ratio; so g has
            the larger mean of each convex function of the ratio, and points of the curve are such means. Noise of variance
            m followed by it has Var = m v/(m + v), so w = v + m. For noise on integers that holds up to a relative error of
            exp(-60) if the noise given the sum has at least the variance LATTICE (Poisson summation). A larger v is valid.
        Assumes: the list of steps, with their sizes, was fixed beforehand; real arithmetic.
    """
    v = 0.0
    for step in reversed(steps):
        squared = step.size**2
        if step.is_choice:
            v = max(v, squared / 2)
            v = v * v / (v - squared / 4)
        elif step.variance > LATTICE:
            v = max(v, LATTICE * squared / (step.variance - LATTICE)) + squared
        else:
            raise NotMeasured("Noise is too narrow to count as Gaussian.")
    return v / 2


def epsilon_of(steps: list[Step], delta: float, by: Callable[[float], Iterator["Law"]]) -> float:
    """The epsilon at ``delta`` of all steps together; ``by`` gives the laws of losses of which a choice takes the worst."""
    deviations = [step.size / 2 if step.is_choice else step.size for step in steps]
    spread = math.sqrt(math.fsum(np.square(deviations)))
    fine = math.sqrt(np.mean(np.square(deviations))) / FINENESS
    grid = np.arange(-REACH * spread, REACH * spread + spread**2, fine)
    curve = np.maximum(-np.expm1(grid), 0.0)
    for step in reversed(steps):
        laws = by(step.size) if step.is_choice else [_noise(step.size)]
        curve = np.maximum.reduce([_mean(curve, grid, *law) for law in laws])
    return float(brentq(lambda epsilon: np.interp(epsilon, grid, curve) - delta, 0.0, grid[-1]))


Law = tuple[np.ndarray, np.ndarray]  # losses and their probabilities


def _mean(curve: np.ndarray, grid: np.ndarray, losses: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The mean of a curve that is moved by the losses. It is convex in exp(epsilon), so chords in it are above the curve."""
    ends, moved = np.exp(grid), np.zeros_like(curve)
    for loss, chance in zip(losses, chances, strict=True):
        at = grid - loss
        found = np.interp(np.exp(at), ends, curve)
        moved += chance * np.where(at < grid[0], -np.expm1(at), found)
    return moved


def _noise(size: float) -> Law:
    """Gaussian noise: the loss is normal with mean size**2 / 2 and variance size**2."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    return size**2 / 2 + size * nodes, weights / weights.sum()


def _two(t: float, s: float) -> Law:
    """The losses t and t - s, with the probabilities that two laws with these ratios have."""
    chance = -math.expm1(t - s) / -math.expm1(-s)
    return np.array([t, t - s]), np.array([chance, 1 - chance])


def worst(s: float) -> Iterator[Law]:
    """All that a choice of range s may lose."""
    return (_two(t, s) for t in np.linspace(0, s, N_NODES))


def halves(s: float) -> Iterator[Law]:
    """What a choice loses that is as likely as not to follow one record: less than some adversary can make it lose."""
    yield _two(s / 2, s)


def pair(s: float) -> Iterator[Law]:
    """The dominating pair of a choice of range s, whose curve is the largest of those for all t, at each epsilon."""
    losses = np.linspace(-s, s, N_NODES)
    slopes = np.diff(np.expm1((losses - s) / 2) ** 2 / -math.expm1(-s)) / -np.expm1(losses[:-1] - losses[1:])
    # The mass at a loss is how much the slope of the curve over exp(epsilon) changes there, times exp(loss).
    falls = np.concatenate([[-1.0], slopes * np.exp(-losses[1:]), [0.0]])
    yield losses, np.diff(falls) * np.exp(losses)
