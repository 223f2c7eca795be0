"""DiPriMe and DP-ERT as printed: they follow the printed laws, and leak as the review says."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.published.opened import fit, rows_of, with_one_more
from tests.recipes.tables import make_table

from dpforest import Categorical, Numeric, get_recipe
from dpforest.published import consul_2020
from dpforest.published.form import get_published

MEDIANS = "consul-2020"


@pytest.mark.parametrize("n_classes", [2, 4, None])
def test_without_noise_a_learnable_table_is_learnt(n_classes):
    X, y, schema = make_table("numeric", n_classes)
    settings = {"epsilon": math.inf, "n_trees": 3, "max_depth": 4, "random_state": 1, "recipe_params": {"part": False}}
    assert fit(MEDIANS, X, y, schema, **settings).score(X, y) > 0.7


def median_recipe(n_trees=1, depth=1, rho=0.5, k=1, part=True):
    recipe = get_recipe(MEDIANS).with_parameters({"rho": rho, "k": k, "part": part})
    return replace(recipe, n_trees=n_trees, depth=depth)


def assert_follows(drawn, weights):
    """Frequencies of what was drawn agree with weights, to four standard errors."""
    total = sum(weights.values())
    counts = Counter(drawn)
    assert set(counts) <= set(weights)
    for value, weight in weights.items():
        share = weight / total
        assert abs(counts[value] - share * len(drawn)) < 4 * math.sqrt(len(drawn) * share * (1 - share)) + 1


class TestPrintedLaws:
    """The probabilities of §3 and Algorithm 3, by drawing many times."""

    EPSILON_1 = 0.6

    def test_budget_of_line_12(self, monkeypatch):
        seen = []
        monkeypatch.setattr(consul_2020, "fit_tree", lambda *arguments: seen.append(arguments))
        rows = rows_of([np.zeros(6)], np.zeros(6), {"x": Numeric(0, 1)})
        for part, epsilon in ((True, 2.0), (False, 0.5)):
            consul_2020.train(rows, 2.0, median_recipe(4, 5, rho=0.25, part=part), np.random.default_rng(0))
            data, _, n_levels, split, leaf = seen[-1]
            assert split.keywords["epsilon_1"] == pytest.approx(epsilon * 0.25 / (2 * 5))
            assert leaf.keywords["epsilon_2"] == pytest.approx(epsilon * 0.75)
            assert (n_levels, data.n_rows) == (5, 1 if part else 6)

    def draw(self, rows, ranges, n, n_features=1):
        rng = np.random.default_rng(5)
        return [consul_2020.find_split(rows, ranges, self.EPSILON_1, n_features, rng) for _ in range(n)]

    def test_index_of_the_median(self):
        values = np.array([0.1, 0.2, 0.4, np.nan, 0.3, 0.5])
        rows = rows_of([values], np.zeros(6), {"x": Numeric(10, 11)})
        drawn = [split.cuts[0] for split in self.draw(rows, {0: (10.0, 11.0)}, 6000)]
        weights = {j: math.exp(-self.EPSILON_1 / 2 * abs(6 - 2 * j)) for j in range(1, 7)}
        # The fifth value has no known successor and the sixth none at all: both fall back on the public range.
        weights[0] = weights.pop(5) + weights.pop(6)
        assert_follows([0 if cut >= 10 else math.floor(cut * 10) for cut in drawn], weights)

    def test_subset_of_categories(self):
        column = np.repeat([0, 1, 2, 3, 4], [4, 3, 2, 1, 2])  # 4 is unlisted
        rows = rows_of([column], np.zeros(12), {"c": Categorical([*"abcd"])})
        drawn = [split.groups[0] for split in self.draw(rows, {0: (0, 1, 2, 3)}, 6000)]
        sizes = {(0,): 4, (1,): 3, (2,): 2, (0, 1): 7, (0, 2): 6, (1, 2): 5, (0, 1, 2): 9}
        assert_follows(drawn, {group: math.exp(-self.EPSILON_1 / 2 * abs(12 - 2 * n)) for group, n in sizes.items()})

    @pytest.mark.slow
    @pytest.mark.parametrize("n_classes", [2, None])
    def test_attribute_by_squared_error(self, n_classes):
        y = np.repeat([0, 1], 100)
        first, second = np.where(np.arange(200) % 10 == 0, 1 - y, y), np.arange(200) % 2
        rows = rows_of([first, second], y, [Categorical(["a", "b"])] * 2, n_classes)
        drawn = [split.feature for split in self.draw(rows, {0: (0, 1), 1: (0, 1)}, 4000, n_features=2)]
        errors = {0: 200 * 0.1 * 0.9, 1: 200 * 0.25}
        assert_follows(drawn, {a: math.exp(-self.EPSILON_1 / 8 * error) for a, error in errors.items()})

    def test_ranges_shrink_and_run_out(self):
        ranges = {0: (0.0, 1.0), 1: (0, 1, 2)}
        left, right = consul_2020.split_range(ranges, consul_2020.Split(0, cuts=(0.25,)))
        assert (left[0], right[0]) == ((0.0, 0.25), (0.25, 1.0))
        left, right = consul_2020.split_range(ranges, consul_2020.Split(1, groups=((0, 2), (1,))))
        assert left == {0: (0.0, 1.0), 1: (0, 2)}
        assert right == {0: (0.0, 1.0)}
        left, right = consul_2020.split_range(ranges, consul_2020.Split(0, cuts=(1.0,)))
        assert left[0] == (0.0, 1.0)
        assert right == {1: (0, 1, 2)}


def log_ratio(recipe, epsilon, table, neighbour, event, n_runs):
    """Logarithm of how much likelier an event is on the neighbour; one success is given to the table for caution."""
    rng, printed = np.random.default_rng(11), get_published(recipe.name)
    hits = [sum(event(printed.train(rows, epsilon, recipe, rng)) for _ in range(n_runs)) for rows in (table, neighbour)]
    return math.log(hits[1] / (hits[0] + 1))


class TestLeaks:
    """For each leak, two tables that differ by one record, and an event whose odds change by more than exp(epsilon)."""

    @pytest.mark.slow
    def test_2_7_candidates_of_many_features_for_the_price_of_one(self):
        # Nine copies of a feature have a good and a bad balanced split, as likely; the added record makes the bad one
        # likelier in all of them at once. The tenth feature has a single split, better than bad and worse than good.
        sizes = np.array([301, 100, 100, 300])  # {a, b} against {c, d}, and {a, c} against {b, d}: both off by one
        copy = np.repeat(np.arange(4), sizes)
        y = (copy < 2).astype(int)
        tenth = np.where(np.arange(len(y)) % 10 == 0, 1 - y, y)
        table = rows_of([copy] * 9 + [tenth], y, [Categorical([*"abcd"])] * 9 + [Categorical(["a", "b"])])
        neighbour = with_one_more(table, [1] * 10, 1)
        recipe, epsilon = median_recipe(k=10, rho=0.9), 2.2
        tenth_is_chosen = log_ratio(recipe, epsilon, table, neighbour, lambda roots: roots[0].feature == 9, 1500)
        assert tenth_is_chosen > epsilon
