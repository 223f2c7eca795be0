"""Printed forms of DPDF, DiffPID3 and SuLQ-ID3: what they do, and where the claim of the first breaks."""

import math
from itertools import product

import numpy as np
import pytest
from tests.published.opened import chances, depth_of, fit, nodes_of, paths, rows_of, train, with_one_more
from tests.recipes.tables import LETTERS, make_table

from dpforest import Categorical, Numeric, get_recipe
from dpforest.parts.allocation import EveryQuery
from dpforest.published import blum_2005
from dpforest.published import fletcher_islam_2015_dpdf as dpdf
from dpforest.published import friedman_schuster_2010 as diffpid3
from dpforest.published.form import Node, Split, laplace
from dpforest.published.trees import Values, prune_tree


def test_budgets_of_a_query_are_table_1_of_the_paper():
    printed = {1: [0.011, 0.028, 0.056, 0.111, 0.222], 4: [0.003, 0.007, 0.014, 0.028, 0.056]}
    for place, beta in enumerate([0.1, 0.25, 0.5, 1.0, 2.0]):
        for tau, epsilons in printed.items():
            plan = EveryQuery().plan(beta / tau, depth=4)
            assert [round(amount, 3) for amount in (*plan.splits, *plan.counts)] == [epsilons[place]] * 9
            assert round(dpdf.epsilon_per_query(beta, tau, delta=5), 3) == epsilons[place]
        assert round(diffpid3.epsilon_per_query(beta, delta=5), 3) == beta / 10


class TestDpdf:
    RECIPE = get_recipe("fletcher-islam-2015-dpdf")

    def test_what_is_spent_is_the_budget_of_table_1(self, monkeypatch):
        scales, plain = [], dpdf.laplace
        monkeypatch.setattr(dpdf, "laplace", lambda *given: scales.append(given[1]) or plain(*given))
        fit(self.RECIPE.name, *make_table("categorical", 2), epsilon=2.0)
        assert np.allclose(scales, 36 / 2.0)

    def test_gini_and_its_sensitivity_are_those_of_the_paper(self):
        rng = np.random.default_rng(0)
        columns = [rng.integers(0, 3, 50), rng.random(50)]
        rows = rows_of(columns, rng.integers(0, 3, 50), [Categorical(LETTERS), Numeric(0, 1)], n_classes=3)
        records = np.arange(10, 45)
        table = Values.of(rows, self.RECIPE)
        values = [columns[0], np.floor(columns[1] * 5)]
        naive = [-sum(gini_of(rows.target[records][v[records] == k]) for k in np.unique(v)) / 35 for v in values]
        assert np.allclose(table.gini(records), naive)
        assert (table.gini(records[:0]) == 0).all()
        assert dpdf.local_sensitivity(1) == 0.5
        assert dpdf.local_sensitivity(100) == pytest.approx(0.0196, abs=5e-5)

    def test_missing_values(self):
        rows = rows_of([[0, 3, 4], [0.0, np.nan, 1.0]], [0, 1, 1], [Categorical(LETTERS), Numeric(0, 1)])
        first, second = Values.of(rows, self.RECIPE).attributes
        assert (first.split.n_children, first.values.tolist()) == (3, [0, 2, 2])
        assert (second.split.n_children, second.values.tolist()) == (5, [0, 4, 4])

    def test_a_size_is_the_signed_sum_of_the_noisy_counts(self, monkeypatch):
        """Line 15: 150 - 80 is below 100, though the absolute values of eq. 26 sum to 230."""
        rows = rows_of([np.arange(200) % 2] * 2, np.arange(200) // 2 % 2, [Categorical(LETTERS)] * 2)
        for noisy, is_split in [((150.0, -80.0), False), ((150.0, 80.0), True)]:
            monkeypatch.setattr(dpdf, "laplace", lambda *given, noisy=noisy: np.array(noisy))
            root = dpdf.Dpdf(Values.of(rows, self.RECIPE), 1.0, 1, 100, np.random.default_rng(0))
            assert bool(root.build_tree(np.arange(200), np.arange(2), d=1).children) is is_split

    def test_stops_below_a_hundred_records_and_at_pure_nodes(self):
        two = [Categorical(LETTERS)] * 2
        for n_rows, target, depth in [(99, [0, 1], 0), (100, [0, 1], 1), (100, [0, 0], 0)]:
            rows = rows_of([np.arange(n_rows) % 2] * 2, np.resize(target, n_rows), two)
            root = train(self.RECIPE.name, rows, math.inf)[0]
            assert depth_of(root) == depth

    def test_an_attribute_is_used_once_on_a_path_and_by_one_root(self):
        rng = np.random.default_rng(1)
        rows = rows_of(rng.integers(0, 3, (5, 20_000)), rng.integers(0, 2, 20_000), [Categorical(LETTERS)] * 5)
        roots = train(self.RECIPE.name, rows, 50.0, n_trees=4)
        assert len({root.split.feature for root in roots}) == 4
        for root in roots:
            assert all(len(set(path)) == len(path) for path in paths(root))

    def test_pruning_is_strict(self):
        def parent(*children):
            counts = [Node(np.array(child, dtype=float)) for child in children]
            return Node(np.array([50.0, 50.0]), Split(0, cuts=(0.5,)), counts)

        cases = [([50, 50], [(25, 25), (25, 25)], True), ([50, 50], [(30, 20), (20, 30)], True)]
        cases += [([10, 90], [(30, 30), (10, 30)], False), ([10, 90], [(60, 60), (-5, 45)], False)]
        for counts, children, kept in cases:
            node = parent(*children)
            node.counts = np.array(counts, dtype=float)
            prune_tree(node)
            assert bool(node.children) is kept
        above = Node(np.array([5.0, 95.0]), Split(0, cuts=(0.5,)), [parent((50, 51), (51, 50)), Node(np.ones(2))])
        above.children[0].counts = np.array([20.0, 80.0])
        prune_tree(above)
        assert not above.children

    @pytest.mark.parametrize(("n_attributes", "printed"), [(2, 2.20), (20, 2.79)])
    def test_choice_with_noisy_sizes_loses_more_than_its_charge(self, n_attributes, printed):
        """One record, and another that shares only its first attribute (docs/review.md, 2.1)."""
        features = [Categorical([0, 1])] * n_attributes
        rows = rows_of([[0]] * n_attributes, [0], features)
        more = with_one_more(rows, [0, *[1] * (n_attributes - 1)], 1)
        epsilon, noisy_size = 0.222, 100
        laws = [
            chances(table.gini(np.arange(table.rows.n_rows)), dpdf.choice_rate(epsilon, noisy_size))
            for table in (Values.of(rows, self.RECIPE), Values.of(more, self.RECIPE))
        ]
        loss = math.log(laws[0][0] / laws[1][0])
        assert loss == pytest.approx(printed, abs=0.01)
        assert loss > 9 * epsilon

    def test_loss_of_the_choice_has_no_bound(self):
        rates = [dpdf.choice_rate(0.01, noisy_size) for noisy_size in (100, 10_000, 1_000_000)]
        assert rates[2] > 50 * rates[1] > 2500 * rates[0]

    def test_line_16_asks_a_level_too_many(self):
        """A path of records that no attribute tells apart, and one more of them (docs/review.md, 2.1).

        Outputs above both counts have a log-ratio of epsilon at each of delta + 1 nodes; the budget pays for delta.
        """
        delta = self.RECIPE.depth + 1
        rows = rows_of(np.zeros((7, 300)), np.arange(300) % 2, [Categorical(LETTERS)] * 7)
        more = with_one_more(rows, [0] * 7, 1)
        path = [train(self.RECIPE.name, table, math.inf)[0] for table in (rows, more)]
        epsilon, loss, n_choices = dpdf.epsilon_per_query(1.0, 1, delta), 0.0, 0
        while True:
            output = path[1].counts + 10
            distances = [np.abs(output - node.counts).sum() for node in path]
            loss += epsilon * (distances[0] - distances[1])
            if not path[0].children:
                break
            n_choices += 1
            path = [node.children[0] for node in path]
        assert loss == pytest.approx((delta + 1) * epsilon)
        assert loss > delta * epsilon * 1.19
        assert n_choices == delta
        assert loss + n_choices * epsilon == pytest.approx(11 / 9)


class TestDiffPid3:
    NAME = "friedman-schuster-2010"

    def test_what_is_asked_with_which_noise(self, monkeypatch):
        asked, plain = [], diffpid3.laplace
        monkeypatch.setattr(diffpid3, "laplace", lambda *given: asked.append(given[:2]) or plain(*given))
        fit(self.NAME, *make_table("categorical", 2), epsilon=20.0)
        assert {scale for _, scale in asked} == {10 / 20.0}
        assert asked[0][0] == 400
        # A size at every node, class counts at the leaves only.
        assert {np.shape(counts) for counts, _ in asked} == {(), (2,)}
        assert 0 < sum(np.ndim(counts) for counts, _ in asked) < len(asked) / 2

    def test_choice_has_the_global_sensitivity(self):
        assert diffpid3.choice_rate(0.2) == 0.2 / (2 * 0.5) == dpdf.choice_rate(0.2, noisy_size=1)

    def test_stops_below_a_hundred_records_and_not_at_pure_nodes(self):
        three = [Categorical(["a", "b"])] * 3
        for n_rows, depth in [(99, 0), (100, 1), (200, 2), (400, 3), (800, 3)]:
            cells = np.arange(n_rows)
            rows = rows_of([cells % 2, cells // 2 % 2, cells // 4 % 2], np.zeros(n_rows), three)
            root = train(self.NAME, rows, math.inf, depth=3)[0]
            assert depth_of(root) == depth

    def test_the_deepest_path_asks_two_queries_at_each_of_delta_levels(self, monkeypatch):
        """Records that no attribute tells apart: all nodes beside their path are empty (docs/review.md, 2.1)."""
        sizes, choices, plain, choose = [], [], diffpid3.laplace, diffpid3.exponential_choice
        monkeypatch.setattr(diffpid3, "laplace", lambda *given: sizes.append(np.sum(given[0])) or plain(*given))
        monkeypatch.setattr(diffpid3, "exponential_choice", lambda *given: choices.append(given) or choose(*given))
        rows = rows_of(np.zeros((7, 300)), np.arange(300) % 2, [Categorical(LETTERS)] * 7)
        root = train(self.NAME, rows, math.inf, depth=4)[0]
        assert depth_of(root) == 4
        assert sizes.count(300) + len(choices) == 2 * 5

    def test_class_counts_are_sums_of_those_of_the_leaves(self):
        rng = np.random.default_rng(1)
        rows = rows_of(rng.integers(0, 3, (3, 2000)), rng.integers(0, 2, 2000), [Categorical(LETTERS)] * 3)
        root = train(self.NAME, rows, 1.0)[0]
        for node in nodes_of(root):
            if node.children:
                assert np.allclose(node.counts, sum(child.counts for child in node.children))

    def test_noise_in_floating_point_shows_the_count(self):
        """Noisy counts near 0: from 1 they are multiples of 2**-54, from 0 they need not be (docs/review.md, 2.18)."""
        rng = np.random.default_rng(0)
        outputs = [laplace(np.full(100_000, count), 1.0, rng) for count in (0, 1)]
        is_fine = [np.any((noisy * 2.0**54 % 1 != 0) & (np.abs(noisy) < 0.1)) for noisy in outputs]
        assert is_fine == [True, False]


def gini_of(target):
    shares = np.bincount(target) / max(len(target), 1)
    return len(target) * (1 - np.square(shares).sum())


# --- noisy gain ------------------------------------------------------------------------------------------------------

NAME = "blum-2005"
FEATURES = {"a": Categorical(["u", "v"]), "b": Categorical(["u", "v", "w"]), "x": Numeric(0, 1)}


def random_rows(n_rows, seed):
    """Opened rows whose class follows the second feature."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 2, n_rows), rng.integers(0, 3, n_rows), rng.random(n_rows)
    target = np.where(rng.random(n_rows) < 0.9, columns[1] % 2, rng.integers(0, 2, n_rows))
    return rows_of(columns, target, FEATURES)


def entropy(counts):
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


class Watched:
    """Stands for ``laplace``: keeps what is asked and at which scale, and releases the same on every table."""

    def __init__(self):
        self.asked, self._rng = [], np.random.default_rng(11)

    def __call__(self, counts, scale, rng):
        self.asked.append((counts.copy(), scale))
        return self._rng.normal(20, 20, counts.shape)


@pytest.mark.parametrize(("depth", "n_trees"), [(1, 1), (2, 1), (2, 3)])
def test_in_real_numbers_a_record_loses_all_of_the_budget_and_no_more(depth, n_trees, monkeypatch):
    """The loss of Laplace noise is the move of what is asked over its scale, with one more record and the same answers."""
    rows, budget, losses = random_rows(40, 1), 0.7, []
    monkeypatch.setattr(blum_2005, "laplace", before := Watched())
    one = train(NAME, rows, budget, depth=depth, n_trees=n_trees)
    for a, b, x, label in product(range(2), range(3), (0.1, 0.9), range(2)):
        monkeypatch.setattr(blum_2005, "laplace", after := Watched())
        two = train(NAME, with_one_more(rows, (a, b, x), label), budget, depth=depth, n_trees=n_trees)
        assert [paths(tree) for tree in one] == [paths(tree) for tree in two]
        pairs = zip(before.asked, after.asked, strict=True)
        losses.append(sum(np.abs(more - less).sum() / scale for (less, scale), (more, _) in pairs))
    # Below the root a feature is used and asks nothing, though m still counts it.
    idle = budget / (depth + 1) / 3 * sum(range(depth))
    assert losses == pytest.approx([budget - idle] * len(losses))


def test_queries_have_the_budgets_of_the_thesis(monkeypatch):
    monkeypatch.setattr(blum_2005, "laplace", seen := Watched())
    train(NAME, random_rows(40, 1), 0.6, depth=1)
    d, m = 2, 3
    root, leaves = seen.asked[: 2 * m], seen.asked[2 * m :]
    assert [1 / scale for _, scale in root] == pytest.approx([0.6 / (2 * d * m)] * 6)
    assert [1 / scale for _, scale in leaves] == pytest.approx([0.6 / d] * len(leaves))
    for (counts, _), (sizes, _) in zip(root[::2], root[1::2], strict=True):
        np.testing.assert_array_equal(counts.sum(axis=1), sizes)


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_root_has_the_largest_information_gain(seed):
    rows = random_rows(60, seed)
    rows = rows_of(rows.columns, np.random.default_rng(seed).integers(0, 2, 60), FEATURES)
    gains = []
    for column in (rows.columns[0], rows.columns[1], np.minimum((rows.columns[2] * 5).astype(int), 4)):
        parts = [np.bincount(rows.target[column == value], minlength=2) for value in np.unique(column)]
        gains.append(entropy(rows.class_counts()) - sum(part.sum() / 60 * entropy(part) for part in parts))
    (root,) = train(NAME, rows, math.inf, depth=1)
    assert root.split.feature == int(np.argmax(gains))


def test_what_is_no_share_adds_nothing_to_the_gain():
    counts, sizes = np.array([[8.0, 2.0], [-3.0, 5.0], [4.0, 4.0]]), np.array([10.0, 4.0, -1.0])
    assert blum_2005.gain(counts, sizes) == pytest.approx(8 * math.log2(0.8) + 2 * math.log2(0.2))


def test_a_path_uses_an_attribute_once_and_ends_where_all_are_used():
    (root,) = train(NAME, random_rows(200, 3), math.inf, depth=9)
    assert {len(path) for path in paths(root)} == {3}
    assert all(len(set(path)) == 3 for path in paths(root))


def test_the_noise_is_that_of_laplace_and_the_model_is_called_not_private_for_it():
    assert blum_2005.laplace is laplace
    (reason,) = fit(NAME, *make_table("numeric", 2)).privacy_.reasons
    assert "floating point; in real numbers the claim would hold" in reason
