"""Exact laws of samplers: their sources run on coins that branch; and what compiled samplers drew, compared with a law."""

import heapq
import itertools
import math
import types
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from tests.support.chances import FAILURE


class NeedsCoin(Exception):
    """The run asks for a coin that it has not been given yet; ``weights`` are the chances of its sides."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights


class Restart(Exception):
    """A rejection sampler begins again."""


class Coins:
    """Sides of coins given in advance; stands where the compiled code has its words."""

    def __init__(self, sides, restarts_at=None):
        self.sides, self.used, self.rounds, self.restarts_at = sides, 0, 0, restarts_at

    def pick(self, weights) -> int:
        if self.used == len(self.sides):
            raise NeedsCoin(weights)
        self.used += 1
        return self.sides[self.used - 1]

    def flip(self, chance: float) -> bool:
        return chance >= 1 or (chance > 0 and self.pick((1 - chance, chance)) == 1)

    def begin_round(self, name) -> None:
        if name == self.restarts_at:
            self.rounds += 1
            if self.rounds > 1:
                raise Restart


def uniform_coin(n, words, cursor):
    words.begin_round("uniform_below")
    return 0 if n == 1 else words.pick((1 / n,) * n)


COINS = {
    "uniform_below": uniform_coin,
    "bernoulli": lambda p, q, words, cursor: words.flip(p / q),
    "next_word": lambda words, cursor: np.uint64(words.pick((0.5, 0.5))),
    "bernoulli_exp_product": lambda p, q, r, s, words, cursor: words.flip(math.exp(-(p / q) * (r / s))),
    "bernoulli_exp_one": lambda words, cursor: words.flip(math.exp(-1)),
    "bernoulli_exp": lambda p, q, words, cursor: words.flip(math.exp(-p / q)),
    "bernoulli_exp_square": lambda p, q, r, s, words, cursor: words.flip(math.exp(-(p / q) * (r / s))),
}


def on_coins(function, *names, **more):
    """The source of a compiled function, with the named samplers below it replaced by coins."""
    source = getattr(function, "py_func", function)
    return types.FunctionType(source.__code__, source.__globals__ | {name: COINS[name] for name in names} | more)


def exact_law(run, tolerance=1e-10, restarts_at=None) -> tuple[Counter, float]:
    """Probability of each output of ``run(coins)``, and the mass that was left unexplored (0 .. tolerance)."""
    law, open_mass, rejected, n_runs = Counter(), 1.0, 0.0, 0
    heap = [(-1.0, ())]
    while heap and open_mass > tolerance:
        n_runs += 1
        assert n_runs < 100_000, "the sampler does not come to an end"
        negative, sides = heapq.heappop(heap)
        coins = Coins(sides, restarts_at)
        try:
            law[run(coins)] -= negative
        except Restart:
            rejected -= negative
        except NeedsCoin as needed:
            for side, weight in enumerate(needed.weights):
                heapq.heappush(heap, (negative * weight, (*sides, side)))
            continue
        open_mass += negative
    left = sum(-negative for negative, _ in heap)
    accepted = 1 - rejected
    return Counter({output: chance / accepted for output, chance in law.items()}), left / accepted


def largest_norms(moves):
    """The largest L1 and squared L2 norm of what each of many records moves."""
    flat = [np.ravel(move) for move in moves]
    return max(int(np.abs(move).sum()) for move in flat), max(int(np.square(move).sum()) for move in flat)


def permute_and_flip_law(scores, rate: float) -> np.ndarray:
    """Exact probabilities of a choice, summed over all orders of the candidates."""
    accept = np.exp(rate * (np.array(scores, dtype=float) - max(scores)))
    law = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for candidate in order:
            law[candidate] += left * accept[candidate]
            left *= 1 - accept[candidate]
    return law / math.factorial(len(scores))


def exponential_law(scores, rate: float) -> np.ndarray:
    weights = np.exp(rate * (np.array(scores, dtype=float) - max(scores)))
    return weights / weights.sum()


def renyi(first: np.ndarray, second: np.ndarray, alpha: float) -> float:
    """The Rényi divergence of two laws, given as logarithms."""
    return float(np.logaddexp.reduce(alpha * first + (1 - alpha) * second)) / (alpha - 1)


def assert_law(law: Counter, left: float, expected: dict) -> None:
    for output in set(law) | set(expected):
        assert law[output] == pytest.approx(expected.get(output, 0.0), abs=left + 1e-12), output


def assert_drawn_from(draws: np.ndarray, law: dict[int, float]) -> None:
    """Chi-square test with cells of at least 10 expected draws; fails a sound sampler with probability FAILURE."""
    outcomes = sorted(law)
    observed = Counter(draws.tolist())
    cells, seen, chance = [], 0, 0.0
    for outcome in outcomes:
        seen, chance = seen + observed.pop(outcome, 0), chance + law[outcome]
        if chance * draws.size >= 10:
            cells.append((seen, chance))
            seen, chance = 0, 0.0
    rest_seen, rest_chance = seen + sum(observed.values()), max(0.0, 1 - sum(chance for _, chance in cells))
    last_seen, last_chance = cells.pop()
    cells.append((last_seen + rest_seen, last_chance + rest_chance))
    seen, expected = np.array(cells).T
    assert len(cells) > 1
    assert stats.chisquare(seen, expected * draws.size / expected.sum()).pvalue > FAILURE


def assert_even_and_independent(draws: np.ndarray, n: int) -> None:
    """Each of n values is as likely as any other, and so is each pair of successive ones, all but twice in a million."""
    if n > 1:
        assert stats.chisquare(np.bincount(draws, minlength=n)).pvalue > FAILURE
        assert stats.chisquare(np.bincount(n * draws[::2] + draws[1::2], minlength=n * n)).pvalue > FAILURE


def assert_parts_vary(draw, n_tables: int = 2_000) -> None:
    """The first of two parts of 50 records has a binomial size; equal parts of a shuffle would have no variance at all."""
    sizes = np.array([np.count_nonzero(draw(seed) == 0) for seed in range(n_tables)])
    assert_drawn_from(sizes, dict(enumerate(stats.binom(50, 0.5).pmf(np.arange(51)).tolist())))


def assert_same_law(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Two-sample chi-square test; fails two sound samplers with probability FAILURE."""
    both = np.concatenate([ours, theirs])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 31)[1:-1], method="nearest"))
    table = [np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1) for sample in (ours, theirs)]
    table = np.array(table)
    table = table[:, table.sum(axis=0) >= 20]
    assert table.shape[1] > 1
    assert stats.chi2_contingency(table).pvalue > FAILURE


class GivenDraws:
    """Coins that were given beforehand, in the place of those that are drawn for each record."""

    def __init__(self, drawn):
        self._drawn = drawn

    def draw_for_records(self, kernel, values, *arguments):
        values[...] = self._drawn
