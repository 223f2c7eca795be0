"""DiPriMe and DP-ERT as printed: they train on all kinds of table, follow the printed laws, leak as the review says."""

import math
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpforest import (
    Bounded,
    Categorical,
    Classes,
    DPForestClassifier,
    DPForestRegressor,
    Numeric,
    Schema,
    get_recipe,
    load_model,
)
from dpforest.errors import LeakWarning, ParameterError
from dpforest.recipes.published import consul_2020, consul_2020_ert
from dpforest.records.base import Rows

MEDIANS, RANDOM = "consul-2020", "consul-2020-ert"
SECTIONS = {MEDIANS: ("2.2", "2.3", "2.7", "2.8"), RANDOM: ("2.2",)}
NOT_PRIVATE = [(MEDIANS, "2 classes"), (MEDIANS, "regression"), (RANDOM, "regression")]
N_ROWS = 90

NUMBERS = {"x0": Numeric(0, 1), "x1": Numeric(-5, 5, integer=True), "x2": Numeric(0, 1000)}
WORDS = {"c0": Categorical(["a", "b"]), "c1": Categorical([*"abcdefghijklmn"]), "c2": Categorical(["only"])}
FEATURES = {"numeric": NUMBERS, "categorical": WORDS, "mixed with missing values": NUMBERS | WORDS}
TARGETS = {"2 classes": Classes(["no", "yes"]), "4 classes": Classes([*"wxyz"]), "regression": Bounded(-10, 30)}


def table(features, target, seed=0):
    """Features, target and schema; the target depends on the first feature, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    columns, schema = {}, Schema(FEATURES[features], TARGETS[target], one_row_per_person=True)
    for name, part in schema.features.items():
        drawn = rng.integers(len(part.categories), size=N_ROWS) if isinstance(part, Categorical) else rng.random(N_ROWS)
        if isinstance(part, Categorical):
            columns[name] = np.array(part.categories, dtype=object)[drawn]
        else:
            columns[name] = np.round(part.lower + drawn * (part.upper - part.lower), 0 if part.integer else 3)
    frame = pd.DataFrame(columns)
    signal = frame.iloc[:, 0].rank(pct=True).to_numpy() - 1e-9
    if features.startswith("mixed"):
        frame = frame.mask(rng.random(frame.shape) < 0.2)
    if isinstance(schema.target, Bounded):
        return frame, -10 + 40 * signal, schema
    labels = schema.target.labels
    return frame, np.array(labels)[(signal * len(labels)).astype(int)], schema


def fit(recipe, X, y, schema, **parameters):
    kind = DPForestClassifier if isinstance(schema.target, Classes) else DPForestRegressor
    parameters = {"epsilon": 4.0, "n_trees": 3, "max_depth": 3, "random_state": 1} | parameters
    return kind(schema, recipe=recipe, variant="published", **parameters).fit(X, y)


class TestEveryKindOfTable:
    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [4.0, math.inf])
    @pytest.mark.parametrize("part", [True, False])
    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize("features", FEATURES)
    @pytest.mark.parametrize("recipe", [MEDIANS, RANDOM])
    @pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
    def test_trains_predicts_saves_and_loads(self, recipe, features, target, part, epsilon, tmp_path):
        X, y, schema = table(features, target)
        model = fit(recipe, X, y, schema, epsilon=epsilon, recipe_params={"part": part})
        assert model.forest_.n_trees == 3
        assert model.forest_.depth <= 3
        predicted = model.predict(X)
        if isinstance(schema.target, Bounded):
            assert predicted.min() >= -10
            assert predicted.max() <= 30
        else:
            assert set(predicted) <= set(schema.target.labels)
            np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        model.save(tmp_path / "model.dpf")
        loaded = load_model(tmp_path / "model.dpf")
        np.testing.assert_array_equal(loaded.predict(X), predicted)
        assert loaded.privacy_ == model.privacy_
        rules = model.forest_.rules()
        assert len(rules) == model.forest_.n_nodes
        assert [rule["rule"] for rule in rules[:3]] == ["always"] * 3
        assert np.isfinite(model.feature_importances_).all()

    @pytest.mark.parametrize("recipe", [MEDIANS, RANDOM])
    @pytest.mark.parametrize("target", ["4 classes", "regression"])
    @pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
    def test_trains_on_nothing(self, recipe, target):
        X, y, schema = table("mixed with missing values", target)
        model = fit(recipe, X[:0], y[:0], schema)
        assert len(model.predict(X)) == N_ROWS

    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
    def test_learns_without_noise(self, target):
        X, y, schema = table("numeric", target)
        model = fit(MEDIANS, X, y, schema, epsilon=math.inf, recipe_params={"part": False})
        score = model.score(X, y)
        assert score > 0.9

    @pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
    def test_refuses_a_share_that_leaves_nothing(self):
        for rho in (0.0, 1.0):
            with pytest.raises(ParameterError, match="split_share"):
                fit(MEDIANS, *table("numeric", "2 classes"), recipe_params={"rho": rho})


class TestStatement:
    @pytest.mark.parametrize(("recipe", "target"), NOT_PRIVATE)
    def test_nothing_is_promised_and_every_reason_is_named(self, recipe, target):
        with pytest.warns(LeakWarning) as caught:
            model = fit(recipe, *table("numeric", target), random_state=None)
        assert len(caught) == 1
        assert not model.privacy_.holds
        assert model.privacy_.epsilon == math.inf
        assert len(model.privacy_.reasons) == len(SECTIONS[recipe])
        for section, reason in zip(SECTIONS[recipe], model.privacy_.reasons, strict=True):
            assert reason.startswith(recipe)
            assert reason.endswith(f"(docs/review.md, {section})")

    def test_random_trees_keep_their_claim_for_classes(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = fit(RANDOM, *table("numeric", "2 classes"), epsilon=1.5, random_state=None)
        assert model.privacy_.holds
        assert model.privacy_.reasons == ()
        assert model.privacy_.epsilon == pytest.approx(1.5)
        assert any("keeps its claim for classification" in note for note in model.privacy_.notes)

    def test_random_trees_for_classes_are_those_of_the_private_variant(self):
        X, y, schema = table("mixed with missing values", "4 classes")
        printed = fit(RANDOM, X, y, schema)
        private = printed.__class__(**printed.get_params() | {"variant": "private"}).fit(X, y)
        np.testing.assert_array_equal(printed.predict_proba(X), private.predict_proba(X))


def rows_of(columns, target, features, kind):
    return Rows(tuple(np.asarray(column) for column in columns), np.asarray(target), Schema(features, kind))


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
        rows = rows_of([np.zeros(6)], np.zeros(6, dtype=int), {"x": Numeric(0, 1)}, Classes([0, 1]))
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
        rows = rows_of([values], np.zeros(6, dtype=int), {"x": Numeric(10, 11)}, Classes([0, 1]))
        drawn = [split.cuts[0] for split in self.draw(rows, {0: (10.0, 11.0)}, 6000)]
        weights = {j: math.exp(-self.EPSILON_1 / 2 * abs(6 - 2 * j)) for j in range(1, 7)}
        # The fifth value has no known successor and the sixth none at all: both fall back on the public range.
        weights[0] = weights.pop(5) + weights.pop(6)
        assert_follows([0 if cut >= 10 else math.floor(cut * 10) for cut in drawn], weights)

    def test_subset_of_categories(self):
        column = np.repeat([0, 1, 2, 3, 4], [4, 3, 2, 1, 2])  # 4 is unlisted
        rows = rows_of([column], np.zeros(12, dtype=int), {"c": Categorical([*"abcd"])}, Classes([0, 1]))
        drawn = [split.groups[0] for split in self.draw(rows, {0: (0, 1, 2, 3)}, 6000)]
        sizes = {(0,): 4, (1,): 3, (2,): 2, (0, 1): 7, (0, 2): 6, (1, 2): 5, (0, 1, 2): 9}
        assert_follows(drawn, {group: math.exp(-self.EPSILON_1 / 2 * abs(12 - 2 * n)) for group, n in sizes.items()})

    @pytest.mark.slow
    @pytest.mark.parametrize("target", [Classes([0, 1]), Bounded(0, 1)])
    def test_attribute_by_squared_error(self, target):
        y = np.repeat([0, 1], 100)
        first, second = np.where(np.arange(200) % 10 == 0, 1 - y, y), np.arange(200) % 2
        features = {"first": Categorical(["a", "b"]), "second": Categorical(["a", "b"])}
        rows = rows_of([first, second], y if target.kind == "classes" else y.astype(float), features, target)
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


# A feature that cannot be split: the root is the leaf, and nothing but leaves is released.
BARE = {"c": Categorical(["only"])}


def log_ratio(recipe, epsilon, table, neighbour, event, n_runs, printed=consul_2020):
    """Logarithm of how much likelier an event is on the neighbour; one success is given to the table for caution."""
    rng = np.random.default_rng(11)
    hits = [sum(event(printed.train(rows, epsilon, recipe, rng)) for _ in range(n_runs)) for rows in (table, neighbour)]
    return math.log(hits[1] / (hits[0] + 1))


class TestLeaks:
    """For each leak, two tables that differ by one record, and an event whose odds change by more than exp(epsilon)."""

    @pytest.mark.slow
    @pytest.mark.parametrize("printed", [consul_2020, consul_2020_ert])
    def test_2_2_mean_with_noise_scaled_by_the_exact_size(self, printed):
        recipe = median_recipe() if printed is consul_2020 else replace(get_recipe(RANDOM), n_trees=1)
        one = rows_of([[0]], [0.0], BARE, Bounded(0, 1))
        two = rows_of([[0, 0]], [0.0, 1.0], BARE, Bounded(0, 1))
        near_half = log_ratio(recipe, 0.1, one, two, lambda roots: abs(roots[0].counts[1] - 0.5) < 0.4, 4000, printed)
        assert near_half > 0.4  # about log 2 where 0.1 is charged

    @pytest.mark.parametrize("printed", [consul_2020, consul_2020_ert])
    def test_2_2_empty_leaf_differs_from_a_leaf_with_one_record(self, printed):
        recipe = median_recipe() if printed is consul_2020 else replace(get_recipe(RANDOM), n_trees=1)
        none = rows_of([np.zeros(0, dtype=int)], np.zeros(0), BARE, Bounded(0, 1))
        one = rows_of([[0]], [0.5], BARE, Bounded(0, 1))
        on_a_bound = log_ratio(recipe, 0.5, none, one, lambda roots: roots[0].counts[1] in (0.0, 1.0), 1000, printed)
        assert on_a_bound > 6  # impossible for an empty leaf, likely for one record

    @pytest.mark.slow
    def test_2_3_threshold_between_two_records(self):
        eta = 1e-4
        features, target = {"x": Numeric(0, 1)}, Classes([0, 1])
        table = rows_of([[0.2, 0.8]], [0, 0], features, target)
        neighbour = rows_of([[0.2, 0.2 + eta, 0.8]], [0, 0, 0], features, target)

        def between(roots):
            return 0.2 <= roots[0].cuts[0] <= 0.2 + eta

        assert log_ratio(median_recipe(), 1.0, table, neighbour, between, 2000) > 5

    @pytest.mark.slow
    def test_2_7_candidates_of_many_features_for_the_price_of_one(self):
        # Nine copies of a feature have a good and a bad balanced split, as likely; the added record makes the bad one
        # likelier in all of them at once. The tenth feature has a single split, better than bad and worse than good.
        sizes = np.array([301, 100, 100, 300])  # {a, b} against {c, d}, and {a, c} against {b, d}: both off by one
        copy = np.repeat(np.arange(4), sizes)
        y = (copy < 2).astype(int)
        tenth = np.where(np.arange(len(y)) % 10 == 0, 1 - y, y)
        parts = {f"f{index}": Categorical([*"abcd"]) for index in range(9)} | {"tenth": Categorical(["a", "b"])}
        table = rows_of([copy] * 9 + [tenth], y, parts, Classes([0, 1]))
        more = [np.append(copy, 1)] * 9 + [np.append(tenth, 1)]
        neighbour = rows_of(more, np.append(y, 1), parts, Classes([0, 1]))
        recipe, epsilon = median_recipe(k=10, rho=0.9), 2.2
        tenth_is_chosen = log_ratio(recipe, epsilon, table, neighbour, lambda roots: roots[0].feature == 9, 1500)
        assert tenth_is_chosen > epsilon

    @pytest.mark.slow
    def test_2_8_equal_parts_move_other_records(self):
        table = rows_of([[0, 0]], [0, 0], BARE, Classes([0, 1]))
        neighbour = rows_of([[0, 0, 0]], [0, 0, 1], BARE, Classes([0, 1]))

        def moved(roots):
            (low_1, high_1), (low_2, high_2) = roots[0].counts, roots[1].counts
            return low_1 >= 2 and high_1 >= 1 and low_2 <= 0 and high_2 >= 1

        # ln(exp(3e)/3 + 2 exp(e)/3) = 2.1 where e = 1 is charged to the leaves.
        recipe, epsilon = median_recipe(n_trees=2, rho=0.01), 1 / 0.99
        assert log_ratio(recipe, epsilon, table, neighbour, moved, 10_000) > epsilon
