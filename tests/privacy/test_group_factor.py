"""With delta a person with k rows loses k**2 times the rho of one: choices attain it as counts do.

Rows that are dealt to disjoint trees by coins of their own lose less.
"""

import math
import re
from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from tests.support.gates import scale_of

from dpforest.parts.criteria import MaxOperator
from dpforest.privacy.accountants import make_accountant, zcdp_log_delta, zcdp_rho
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Classes

DECISION = Path(__file__).parents[2] / "docs" / "adr" / "0018-the-unit-person.md"
ORDERS = (1.001, 1.5, 2.0, 5.0, 20.0)


# --- choices --------------------------------------------------------------------------------------------------------


def scores(k, weight, added):
    """Scores of a split by each of two features, on a table to which ``added`` equal records are added.

    The first feature tells classes apart, but for k / 2 records that the second tells better. In the second, the added
    records fall where the other class leads by more than k.
    """
    table = np.zeros((2, 2, 2), dtype=np.int64)  # by first feature, second feature, class
    table[0, 1, 0] = table[1, 0, 1] = 4 * k
    table[0, 0, 1] = k // 2
    table[0, 0, 0] = added
    children = weight * np.stack([table.sum(axis=1), table.sum(axis=0)])
    return MaxOperator().score(children, Classes([0, 1]))


def renyi(first, second, alpha):
    return float(np.logaddexp.reduce(alpha * first + (1 - alpha) * second)) / (alpha - 1)


@pytest.mark.parametrize("weight", [1, 255], ids=["records", "weighted"])
@pytest.mark.parametrize("k", [2, 4, 10, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_k_equal_rows_lose_by_a_choice_of_the_max_operator_what_is_stated_and_nearly_all_of_it(k, weight, epsilon):
    """Fails if the accountant multiplies, or divides, by 0.9 k**2."""
    accountant = make_accountant(epsilon, 1e-6, k)
    zeros, bound = Sealed(np.zeros((1, 2), dtype=np.int64)), MaxOperator().bound(weight)
    rate = float(scale_of(accountant, "select", zeros, None, bound, accountant.budget, "split"))
    before, after = (rate * scores(k, weight, added) for added in (0, k))
    laws = [law - np.logaddexp.reduce(law) for law in (before, after)]
    worst = max(renyi(*pair, alpha) / alpha for pair in (laws, laws[::-1]) for alpha in ORDERS)
    assert worst <= accountant.of_unit(accountant.budget) * (1 + 1e-9)
    assert worst > 0.97 * k**2 * accountant.budget


# --- rows that are dealt to disjoint trees --------------------------------------------------------------------------


def squares(k, n_trees):
    """The law of the sum over trees of the squared number of a person's k rows in it, each row in a tree of its own draw."""
    law = Counter()
    for places in combinations_with_replacement(range(k), k):  # which rows share a tree, as sizes of the trees
        sizes = Counter(places).values()
        if sorted(sizes, reverse=True) == list(Counter(places).values()) and len(sizes) == max(places) + 1:
            ways = math.factorial(k) / math.prod(map(math.factorial, sizes))
            same = math.prod(math.factorial(number) for number in Counter(sizes).values())
            chance = ways / same * math.perm(n_trees, len(sizes)) / n_trees**k
            law[sum(size * size for size in sizes)] += chance
    return law


def mixed_delta(rho, epsilon, k, n_trees):
    """A delta at which a person is protected if a record loses rho in its tree: the mean over where the rows are."""
    return sum(chance * math.exp(zcdp_log_delta(rho * square, epsilon)) for square, chance in squares(k, n_trees).items())


def test_the_law_of_squares_is_a_law_and_that_of_two_rows_in_ten_trees_is_known():
    for k, n_trees in ((2, 10), (5, 10), (8, 3)):
        law = squares(k, n_trees)
        assert math.fsum(law.values()) == pytest.approx(1)
        assert math.fsum(s * p for s, p in law.items()) == pytest.approx(k + k * (k - 1) / n_trees)
    assert squares(2, 10) == pytest.approx({2: 0.9, 4: 0.1})


def test_the_decision_has_what_rows_dealt_to_disjoint_trees_would_gain():
    text = DECISION.read_text("utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(lines) == 3
    for k, *cells in lines:
        for n_trees, cell in zip((10, 50, 100), cells, strict=True):
            usual = zcdp_rho(1.0, 1e-6) / int(k) ** 2
            low, high = usual, int(k) ** 2 * usual
            for _ in range(12):
                middle = (low + high) / 2
                low, high = (middle, high) if mixed_delta(middle, 1.0, int(k), n_trees) <= 1e-6 else (low, middle)
            assert float(cell) == pytest.approx(low / usual, rel=0.01), (k, n_trees, low / usual)
