"""DiPriMe, DP-ERT, smooth sensitivity and DPRF_thesis as printed: they follow the printed laws, and leak as reviewed."""

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.published.opened import are_split, chances, fit, nodes_of, paths, rows_of, train, walk, with_one_more
from tests.recipes.tables import LETTERS, make_table

from dpforest import Categorical, Classes, Numeric, Schema, get_recipe
from dpforest.published import consul_2020
from dpforest.published import fletcher_islam_2017 as smooth
from dpforest.published import suihkonen_2023 as thesis
from dpforest.published.form import equal_parts, get_published
from dpforest.schema.domain import Domain

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
        tenth_is_chosen = log_ratio(recipe, epsilon, table, neighbour, lambda roots: roots[0].split.feature == 9, 1500)
        assert tenth_is_chosen > epsilon


SUBJECTS = {"fletcher-islam-2017": smooth, "suihkonen-2023": thesis}


@pytest.mark.parametrize("name", SUBJECTS)
def test_parts_of_equal_size_lose_more_than_dealing_record_by_record(name):
    """k records of class 0 in each of two parts, and one more of class 1 (docs/review.md, 2.8).

    With labels by permute-and-flip, which keep epsilon on their own part, the second part says 1 with
    a log-ratio of almost epsilon + log cosh epsilon.
    """
    assert SUBJECTS[name].equal_parts is equal_parts
    epsilon, k = 1.0, 6
    rows = rows_of([np.zeros(2 * k)], np.zeros(2 * k), [Numeric(0, 1)])
    more = with_one_more(rows, [0.0], 1)
    loss = math.log(chance_that_only_the_second_says_one(more, epsilon))
    loss -= math.log(chance_that_only_the_second_says_one(rows, epsilon))
    assert loss > 1.35 > epsilon
    assert loss == pytest.approx(epsilon + math.log(math.cosh(epsilon)), abs=0.06)


class Dealt:
    """A generator whose only permutation is given."""

    def __init__(self, order):
        self.order = np.array(order)

    def permutation(self, n):
        return self.order


def chance_that_only_the_second_says_one(rows, epsilon):
    """Over all places of the last record in the shuffle; the others are alike."""
    n, total = rows.n_rows, 0.0
    for index in range(n):
        order = np.insert(np.arange(n - 1), index, n - 1)
        first, second = (says_one(part.class_counts(), epsilon) for part in equal_parts(rows, 2, Dealt(order)))
        total += (1 - first) * second / n
    return total


def says_one(counts, epsilon):
    """Permute-and-flip on two classes."""
    wrong = math.exp(-epsilon * abs(int(counts[0]) - int(counts[1]))) / 2
    return wrong if counts[0] >= counts[1] else 1 - wrong


class TestSmoothSensitivity:
    RECIPE = get_recipe("fletcher-islam-2017")

    def spaces(self, *features):
        schema = Schema({f"f{index}": feature for index, feature in enumerate(features)}, Classes([0, 1]))
        return Domain.of(schema, self.RECIPE.grid)

    def test_splits_stay_inside_what_is_possible(self):
        spaces = self.spaces(Numeric(0, 3, integer=True), Categorical(LETTERS), Numeric(-1, 1))
        tree = smooth.RandomTree.draw(spaces, 6, 10_000, np.random.default_rng(2))
        low, high = np.zeros((len(tree.features), 3), dtype=int), np.tile(spaces.n_values - 1, (len(tree.features), 1))
        for node in np.flatnonzero(tree.features >= 0):
            feature, first = tree.features[node], tree.first_children[node]
            children = np.flatnonzero(tree.parents == node)
            assert children[0] == first
            assert len(children) == (2 if spaces.is_numeric[feature] else spaces.n_values[feature])
            assert high[node, feature] > low[node, feature]
            low[children], high[children] = low[node], high[node]
            if spaces.is_numeric[feature]:
                assert low[node, feature] < tree.thresholds[node] <= high[node, feature]
                high[first, feature], low[first + 1, feature] = tree.thresholds[node] - 1, tree.thresholds[node]
            else:
                low[children, feature] = high[children, feature] = np.arange(len(children))

    def test_trees_have_the_depth_and_fit_under_the_cap(self):
        spaces = self.spaces(*[Categorical(LETTERS)] * 6)
        rng = np.random.default_rng(0)
        whole, capped = (smooth.RandomTree.draw(spaces, 4, most, rng) for most in (10_000, 100))
        assert len(whole.features) == (3**5 - 1) // 2  # three letters, and no child for what is not listed
        assert len(capped.features) <= 100
        spent = smooth.RandomTree.draw(self.spaces(Categorical(LETTERS)), 4, 10_000, rng)
        assert len(spent.features) == 4

    def test_records_and_predictions_take_the_same_way(self):
        rng = np.random.default_rng(4)
        columns = [rng.integers(0, 5, 300), rng.random(300), rng.integers(-3, 9, 300)]
        columns[1][:40] = np.nan
        features = [Categorical(LETTERS), Numeric(0, 1), Numeric(-3, 8, integer=True)]
        rows = rows_of(columns, rng.integers(0, 2, 300), features)
        tree = smooth.RandomTree.draw(Domain.of(rows.schema, self.RECIPE.grid), 5, 10_000, rng)
        root = tree.to_nodes(np.arange(len(tree.features)))
        leaves = tree.leaves_of(rows)
        for record in range(300):
            assert walk(root, [column[record] for column in rows.columns]).counts == leaves[record]

    def test_labels_follow_their_law(self):
        counts = np.array([[0, 0, 0], [3, 2, 0], [4, 4, 1], [9, 0, 0]])
        law = smooth.label_chances(counts, 1.0)
        assert np.allclose(law[0], 1 / 3)
        assert law[1, 0] / law[1, 1] == pytest.approx(math.exp(math.e / 2))
        assert law[2, 0] == law[2, 1] == pytest.approx(law[2, 2] * math.exp(0.5))
        drawn = smooth.draw_labels(np.tile(counts, (20_000, 1)), 1.0, np.random.default_rng(0)).reshape(-1, 4)
        for leaf in range(4):
            assert np.allclose(np.bincount(drawn[:, leaf], minlength=3) / 20_000, law[leaf], atol=0.015)

    def test_without_noise_the_commonest_label_wins(self):
        law = smooth.label_chances(np.array([[2, 3], [1, 1], [0, 0]]), math.inf)
        assert law.tolist() == [[0, 1], [0.5, 0.5], [0.5, 0.5]]
        assert smooth.label_chances(np.array([[10_000, 0]]), 5.0).tolist() == [[1, 0]]

    def test_leaves_keep_one_record_of_their_label(self):
        rows = rows_of([[0.1, 0.9] * 50], [0, 1] * 50, [Numeric(0, 1)])
        root = train(self.RECIPE.name, rows, math.inf, depth=2)[0]
        assert root.counts.sum() == len(paths(root))
        leaf = walk(root, [0.5])
        assert sorted(leaf.counts.tolist()) == [0, 1]

    @pytest.mark.parametrize(("epsilon", "margin", "loss", "delta"), [(0.5, 4, 1.10, 0.0613), (1.0, 1, 2.13, 0.1384)])
    def test_label_loses_more_than_its_charge(self, epsilon, margin, loss, delta):
        """A leaf with a lead of j records, and one more record of the leading class (docs/review.md, 2.13)."""
        rare = smooth.label_chances(np.array([[margin + 3, 3], [margin + 4, 3]]), epsilon)[:, 1]
        assert math.log(rare[0] / rare[1]) == pytest.approx(loss, abs=0.01)
        assert rare[0] > 1.5 * math.exp(epsilon) * rare[1]
        assert rare[0] - math.exp(epsilon) * rare[1] == pytest.approx(delta, abs=5e-4)

    def test_loss_of_a_label_has_no_bound(self):
        losses = np.diff(smooth.log_odds(np.arange(8), 1.0))
        assert (losses[1:] / losses[:-1] > 2).all()
        assert losses[-1] > 300


class TestThesis:
    NAME = "suihkonen-2023"

    def test_budgets(self):
        budgets = thesis.Budgets.of(2.0, max_depth=5)
        assert (budgets.split, budgets.feature, budgets.label) == (0.1, 0.1, 1.0)
        assert 5 * (budgets.split + budgets.feature) + budgets.label == pytest.approx(2.0)

    def test_offers_of_a_number_lie_in_its_set_range(self):
        column = np.array([3.0, 9.0, 5.0, np.nan, 5.0])
        offers = thesis.Offers.of(column, Numeric(0, 11))
        assert np.allclose(offers.values, np.arange(1, 11))
        lefts = np.array([(column < value).sum() for value in offers.values])
        assert offers.balances.tolist() == (-abs(5 - 2 * lefts)).tolist()

    def test_points_are_the_same_at_every_node(self):
        rng = np.random.default_rng(0)
        rows = rows_of(rng.uniform(2, 4, (2, 500)), rng.integers(0, 2, 500), [Numeric(0, 11)] * 2)
        roots = [train(self.NAME, rows, 1.0, seed, depth=6)[0] for seed in range(5)]
        assert max(len(path) for root in roots for path in paths(root)) > 1
        cuts = {cut for root in roots for node in nodes_of(root) if node.split for cut in node.split.cuts}
        assert cuts <= set(np.linspace(0, 11, 12)[1:-1])

    def test_offers_of_a_category_are_those_that_occur(self):
        offers = thesis.Offers.of(np.array([4, 1, 1, 4, 4]), Categorical(LETTERS))
        assert offers.values.tolist() == [1, 4]
        assert offers.balances.tolist() == [-1, -1]

    def test_squared_error(self):
        targets, first = np.array([0.0, 1.0, 1.0, 0.5]), np.array([True, True, False, False])
        assert thesis.squared_error(targets, first) == pytest.approx(0.5 + 0.125)
        assert thesis.squared_error(targets, np.zeros(4, dtype=bool)) == pytest.approx(4 * targets.var())

    @pytest.mark.slow
    @pytest.mark.parametrize(("target", "epsilon", "lead"), [([0, 0, 1], 1.0, 0.5), ([0, 0, 0], 0.2, 0.3)])
    def test_label_follows_permute_and_flip_in_a_pure_leaf_too(self, target, epsilon, lead):
        """The other label of three records has chance exp(-lead epsilon_l) / 2."""
        rows = rows_of([[0.5] * 3], target, [Numeric(0, 1)])
        labels = [train(self.NAME, rows, epsilon, seed)[0].counts[1] for seed in range(4000)]
        assert np.mean(labels) == pytest.approx(math.exp(-lead) / 2, abs=0.03)

    def test_best_choices_without_noise(self):
        rng = np.random.default_rng(0)
        columns = [rng.random(200), rng.integers(0, 3, 200)]
        rows = rows_of(columns, columns[0] > 0.5, [Numeric(0, 1), Categorical(LETTERS)])
        root = train(self.NAME, rows, math.inf, depth=6)[0]
        assert root.split.feature == 0
        assert root.split.cuts[0] == pytest.approx(0.5, abs=0.1)
        right = [walk(root, record).counts[int(record[0] > 0.5)] for record in zip(*columns, strict=True)]
        assert np.mean(right) > 0.95

    def test_a_pure_table_shows(self):
        """Records of one class, and one more of the other: a single leaf or never (docs/review.md, 2.4)."""
        rng = np.random.default_rng(0)
        rows = rows_of([rng.random(30), rng.integers(0, 3, 30)], np.zeros(30), [Numeric(0, 1), Categorical(LETTERS)])
        more = with_one_more(rows, [0.5, 1], 1)
        assert (are_split(self.NAME, rows, 0.1, 50), are_split(self.NAME, more, 0.1, 50)) == ({False}, {True})

    @pytest.mark.parametrize(("sizes", "is_split"), [((4, 4), True), ((3, 5), False), ((5, 3), False), ((3, 30), False)])
    def test_a_split_that_leaves_a_child_fewer_than_four_records_is_not_made(self, sizes, is_split):
        values = np.repeat([0, 1], sizes)
        rows = rows_of([values], np.arange(len(values)) % 2, [Categorical(LETTERS)])
        assert are_split(self.NAME, rows, 0.1, 20) == {is_split}

    def test_a_discrete_feature_is_split_on_once_on_a_path_and_a_number_again(self):
        rng = np.random.default_rng(0)
        rows = rows_of(
            [rng.integers(0, 3, 400), rng.random(400)], rng.integers(0, 2, 400), [Categorical(LETTERS), Numeric(0, 1)]
        )
        found = [path for seed in range(20) for path in paths(train(self.NAME, rows, math.inf, seed)[0])]
        assert max(path.count(0) for path in found) == 1
        assert max(path.count(1) for path in found) > 1

    def test_k_splits_cost_more_than_one(self):
        """Features that win by their balanced split, and a record that makes all miss it (docs/review.md, 2.7)."""
        k, m, h = 6, 1200, 4
        budgets = thesis.Budgets(0.5, 0.5, 1.0)
        rows = table_for_k_splits(k, m, h)
        more = with_one_more(rows, [1, *[1] * (k - 1)], 1)
        before, after = (chance_of_first_feature(table, k, budgets) for table in (rows, more))
        loss, charged = math.log(after / before), budgets.split + budgets.feature
        assert loss > 2 * charged
        assert loss <= k * budgets.split + budgets.feature


def table_for_k_splits(k, m, h):
    """Feature 0 has a split of middling error; the others have a balanced good one and a bad one almost as balanced.

    There are m + h records of class 0, which the others call 0, and 3m/2 of class 1, which they call 1 or 2.
    """
    target = np.repeat([0, 1], [m + h, 3 * m // 2])
    others = np.repeat([0, 1, 2], [m + h, m, m // 2])
    middling = np.repeat([0, 1], [m + h + 37 * m // 100, len(target) - (m + h + 37 * m // 100)])
    features = [Categorical([0, 1]), *[Categorical([0, 1, 2])] * (k - 1)]
    return rows_of([middling, *[others] * (k - 1)], target, features)


def chance_of_first_feature(rows, k, budgets):
    """The exact chance that feature 0 is chosen, over all splits that the other features may draw."""
    targets = rows.target.astype(float)
    laws, errors = [], []
    for column in rows.columns[:2]:
        offers = thesis.Offers.of(column, Categorical(LETTERS))
        laws.append(chances(offers.balances, budgets.split_rate))
        errors.append(np.array([thesis.squared_error(targets, column == value) for value in offers.values]))
    total = 0.0
    for drawn in product(range(len(laws[1])), repeat=k - 1):
        scores = -np.array([errors[0][0], *errors[1][list(drawn)]])
        total += laws[1][list(drawn)].prod() * chances(scores, budgets.feature_rate)[0]
    return total
