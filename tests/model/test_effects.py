"""Effects are partial dependence by the released trees, and their bands hold what noise has moved as often as they say.

Fits and noise are seeded, so that no test fails by chance.
"""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from tests.support import naive

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model
from dpforest.errors import ModelFileError
from dpforest.forest.bands import INDEPENDENT
from dpforest.growing.linear import direction_of
from dpforest.model import effects as module
from dpforest.model.checks import check_structure
from dpforest.model.dependence import Dependence, Given, Groups, prior_of_codes
from dpforest.model.effects import effects_of
from dpforest.parts.leaves import NoisyCounts, Rotated
from dpforest.parts.postprocess import EvenShrinkage, NonNegative, Shrinkage, held_counts
from dpforest.parts.voting import LogShares, Majority, MeanOfShares
from dpforest.schema.domain import Domain, Grid


@cache
def table(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": rng.normal(0, 10, n_rows),
            "k": rng.integers(0, 5, n_rows),
            "city": rng.choice(["Oslo", "Rome", "Nowhere"], n_rows),
            "word": rng.choice([f"w{index}" for index in range(40)], n_rows),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), unit="D"),
        }
    )
    X.loc[::7, "x"], X.loc[::11, "city"] = np.nan, None
    return X, np.where(X["x"].fillna(30) + 5 * X["k"] + 8 * rng.normal(size=n_rows) > 12, "yes", "no")


FEATURES = {
    "x": Numeric(),
    "k": Numeric(0, 4, integer=True),
    "city": Categorical(["Oslo", "Rome"]),
    "word": Categorical(),
    "day": Date("2024-01-01", "2024-12-31"),
}


@cache
def fitted(recipe="auto", epsilon=3.0, n_rows=600, **settings):
    X, y = table(n_rows)
    return DPForestClassifier(Schema(FEATURES, Classes(["no", "yes"])), epsilon, recipe=recipe, **settings).fit(X, y)


@cache
def fitted_mean(recipe="auto", epsilon=3.0, **settings):
    X, _ = table()
    schema = Schema(FEATURES, Bounded(-30, 60, name="amount"))
    return DPForestRegressor(schema, epsilon, recipe=recipe, **settings).fit(X, X["x"].fillna(0) + 5 * X["k"])


# --- the definition --------------------------------------------------------------------------------------------------


def naive_prior(forest, node, children):
    """How much of the codes of its feature leads from a node without counts to each child."""
    feature = int(forest.features[node])
    weights = prior_of_codes(forest.domain, feature)
    child, parent = node, forest.parents[node]
    while parent >= 0:
        if forest.features[parent] == feature:
            weights[forest.route(parent) != child - forest.first_children[parent]] = 0
        child, parent = parent, forest.parents[parent]
    return np.array([weights[forest.route(node) == index].sum() for index in range(len(children))])


def naive_dependence(forest, values, sizes, node, given):
    """What the tree below a node gives if some codes are given: one node at a time, as the definition says."""
    if forest.is_leaf[node]:
        return values[node]
    children = np.flatnonzero(forest.parents == node)
    feature = int(forest.features[node])
    if feature in given:
        return naive_dependence(forest, values, sizes, children[forest.route(node)[given[feature]]], given)
    weights = sizes[children] if sizes[children].sum() > 0 else naive_prior(forest, node, children)
    weights = weights / weights.sum()
    return sum(w * naive_dependence(forest, values, sizes, c, given) for w, c in zip(weights, children, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["auto", "jagannathan-2009", "consul-2020-ert", "fletcher-islam-2017", "li-2020"])
def test_dependence_is_that_of_a_walk_node_by_node(recipe):
    forest = fitted(recipe, n_trees=None if recipe == "auto" else 3, random_state=1).forest_
    dependence, sizes = Dependence.of(forest, forest.votes), held_counts(forest).sum(axis=1)
    for tree in range(forest.n_trees):  # one that releases labels alone has a count of 1 in each leaf
        mine = forest.trees == tree
        if not forest.variances[mine].any() and np.isin(sizes[mine & forest.is_leaf], (0, 1)).all():
            sizes[mine] = 0
    asked = np.unique(forest.features[~forest.is_leaf])
    rng = np.random.default_rng(0)
    for feature in asked.tolist():
        groups = Groups.of(forest, feature)
        other = int(rng.choice(asked[asked != feature]))
        pair = tuple(np.array([int(rng.integers(forest.domain.n_codes[each]))]) for each in (feature, other))
        for given, codes in (((feature,), (groups.codes,)), ((feature, other), pair)):
            trees = np.unique(forest.trees[np.isin(forest.features, given)])
            found = dependence.at(Given(given, codes))
            for place, point in enumerate(zip(*codes, strict=True)):
                by_feature = dict(zip(given, map(int, point), strict=True))
                expected = sum(naive_dependence(forest, forest.votes, sizes, tree, by_feature) for tree in trees)
                assert found[place] == pytest.approx(expected, abs=1e-9)


def test_codes_of_a_group_go_the_same_way_everywhere_and_those_of_two_groups_do_not():
    forest = fitted("consul-2020-ert", random_state=2).forest_
    for feature in np.unique(forest.features[~forest.is_leaf]).tolist():
        groups = Groups.of(forest, feature)
        ways = np.array([forest.route(node) for node in np.flatnonzero(forest.features == feature)])
        assert (ways == ways[:, groups.codes[groups.of_code]]).all()
        assert len(np.unique(ways, axis=1).T) == len(groups)
        assert (np.diff(groups.codes) > 0).all()


@pytest.mark.parametrize("recipe", ["jagannathan-2009", "auto"])
def test_effects_of_independent_features_are_partial_dependence(recipe):
    # Every combination of values is there equally often, and nothing is noisy: so are the sizes of nodes.
    cells = pd.DataFrame(list(product(range(4), range(3), ["a", "b"])), columns=["p", "q", "c"])
    X = pd.concat([cells] * 20, ignore_index=True)
    y = ((X["p"] > 1) & (X["c"] == "a")) | ((X["q"] == 2) & (X.index % 3 == 0))
    features = {"p": Numeric(0, 3, integer=True), "q": Numeric(0, 2, integer=True), "c": Categorical(["a", "b"])}
    model = DPForestClassifier(Schema(features, Classes([False, True])), np.inf, recipe=recipe, random_state=0).fit(X, y)
    forest = model.forest_
    if recipe == "auto":  # later trees count records by weight, so their sizes are not those of records
        model.forest_ = forest = forest.only(np.arange(forest.n_trees) == 0)
    found, tolerance = model.effects(), 1e-9 if recipe != "auto" else 1e-3  # votes are in whole steps
    for name, values in (("p", range(4)), ("q", range(3)), ("c", ["a", "b"])):
        votes = [model.predict_proba(X.assign(**{name: value})) for value in values]
        scores = [np.log(each[:, 1] / each[:, 0]) if forest.link == "softmax" else each[:, 1] for each in votes]
        means = np.mean(scores, axis=1)
        for value, mean in zip(values, means, strict=True) if (effect := found.of(name)) else ():
            part = part_of(effect, value)
            assert part.effects[0] == pytest.approx(mean - np.mean(means), abs=0.006 * np.ptp(means) + tolerance)
    assert found.features[0].strength > 0


def part_of(effect, value):
    """The part of an effect that a value falls in."""
    for part in effect.parts:
        inside = part.kind == "range" and (part.lower is None or part.lower <= value)
        if part.words == value or (inside and (part.upper is None or value < part.upper or part is effect.parts[-2])):
            return part
    raise AssertionError(value)


@pytest.mark.slow
@pytest.mark.parametrize("make", [fitted, fitted_mean])
@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_effects_are_centred_and_parts_are_all_values(make, recipe):
    model = make(recipe, random_state=1)
    found = model.effects()
    assert [effect.strength for effect in found.features] == sorted((e.strength for e in found.features), reverse=True)
    for effect in found.features:
        weights, values = (np.array([getattr(part, name) for part in effect.parts]) for name in ("share", "effects"))
        assert weights.sum() == pytest.approx(1)
        assert weights.min() >= 0
        assert weights @ values == pytest.approx(np.zeros(values.shape[1]), abs=1e-9 + 0.01 * np.ptp(values))
        kinds = [part.kind for part in effect.parts]
        assert kinds[-1] == "missing"
        if effect.kind == "category":
            assert kinds.count("other") == 1
        else:
            ranges = [part for part in effect.parts if part.kind == "range"]
            assert [part.upper for part in ranges[:-1]] == [part.lower for part in ranges[1:]]


@pytest.mark.slow
def test_columns_have_the_words_of_their_values():
    found = fitted("jagannathan-2009", epsilon=50.0, random_state=0).effects(0)
    assert {effect.kind for effect in found.features} == {"number", "whole number", "category", "date"}
    city, word = found.of("city"), found.of("word")
    assert [part.words for part in city.parts] == ["Oslo", "Rome", "other", "missing"]
    assert word.parts[0].words == "bucket 0"
    assert len(word.parts) == 66
    # A third of the records are in no listed city, a few have none.
    assert 0.25 < city.parts[2].share < 0.35
    assert 0.05 < city.parts[3].share < 0.15
    assert found.of("day").parts[0].lower == Date("2024-01-01", "2024-12-31").range[0]
    assert found.of("nobody") is None


@pytest.mark.slow
def test_two_classes_have_one_output_and_several_at_most_six_the_commonest():
    X, _ = table(400)
    labels = [f"class {index}" for index in range(9)]
    y = np.array(labels)[np.minimum(np.random.default_rng(0).geometric(0.3, 400) - 1, 8)]
    schema = Schema(FEATURES, Classes(labels))
    for recipe, scale in (("consul-2020", "probability"), ("auto", "log-odds")):
        found = DPForestClassifier(schema, 1000.0, recipe=recipe, random_state=0).fit(X, y).effects()
        assert found.scale == scale
        assert len(found.outputs) == module.MOST_CLASSES
        assert set(labels[:4]) <= set(found.outputs)
        assert all(len(part.effects) == 6 for effect in found.features for part in effect.parts)
    assert fitted(random_state=0).effects().outputs == ("yes",)
    assert fitted_mean(random_state=0).effects().outputs == ("amount",)


def test_base_is_the_mean_prediction():
    model = fitted("jagannathan-2009", epsilon=np.inf, random_state=0)
    assert model.effects().base[0] == pytest.approx(model.predict_proba(table()[0])[:, 1].mean(), abs=0.02)
    mean = fitted_mean("consul-2020-ert", epsilon=np.inf, random_state=0)
    assert mean.effects().base[0] == pytest.approx(mean.predict(table()[0]).mean(), abs=2)


@pytest.mark.slow
def test_a_pair_that_only_matters_together_is_the_strongest_pair():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((8000, 3)), columns=["a", "b", "c"])
    y = (X["a"] > 0.5) ^ (X["b"] > 0.5)
    schema = Schema({name: Numeric(0, 1) for name in X}, Classes([False, True]))
    model = DPForestClassifier(schema, 20.0, recipe="consul-2020-ert", max_depth=8, n_trees=5, random_state=0).fit(X, y)
    found = model.effects(3)
    pair = found.pairs[0]
    assert set(pair.features) == {"a", "b"}
    assert pair.strength > 3 * found.pairs[1].strength
    assert pair.strength > 3 * found.features[0].strength
    assert pair.stands_out
    corner = pair.effects[[0, 0, -2, -2], [0, -2, 0, -2], 0]  # the last cell is that of missing values
    assert (np.sign(corner) == [-1, 1, 1, -1]).all()
    assert [len(side) for side in pair.parts] == list(pair.effects.shape[:2])


def test_a_pair_that_adds_up_has_no_interaction():
    domain = Domain.of(Schema({"a": Categorical(["p"]), "b": Categorical(["q"])}, Classes([0, 1])), Grid(2))
    ways = [0, 1, 1]
    inner = [(1, ways, [[8.0, 2.0], [6.0, 4.0]]), (1, ways, [[6.0, 4.0], [4.0, 6.0]])]
    forest = NonNegative().refine(naive.plant(domain, Classes([0, 1]), (0, ways, inner), variance=1.0).summed())
    forest = replace(forest, votes=MeanOfShares().votes(forest))
    found = effects_of(forest, fitted().ledger_)
    assert [pair.strength for pair in found.pairs if pair.strength > 1e-12] == []
    assert found.features[0].strength == pytest.approx(0.1)


# --- bands -----------------------------------------------------------------------------------------------------------

BANDS = {
    "shares of counts": (NonNegative(), MeanOfShares(), NoisyCounts(), 60.0, "shares"),
    "shares pulled to the parent's": (Shrinkage(3.0), MeanOfShares(), NoisyCounts(), 200.0, "shares"),
    "log-odds of counts": (EvenShrinkage(3.0), LogShares(0.5), NoisyCounts(), 100.0, "softmax"),
    "log-odds of leads": (EvenShrinkage(3.0), LogShares(0.5), Rotated(0.15), 10.0, "softmax"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BANDS)
def test_bands_hold_the_effect_without_noise_as_often_as_they_say(name):
    # Noise is drawn anew for the leaves of one structure.
    refine, vote, leaf, variance, link = BANDS[name]
    model = fitted("consul-2020-ert", epsilon=np.inf, n_rows=8000, n_trees=3, max_depth=4, random_state=3)
    factors = np.array(leaf.noise(model.forest_.target) if isinstance(leaf, Rotated) else INDEPENDENT)
    exact, leaves, rng = model.forest_, model.forest_.is_leaf, np.random.default_rng(7)
    ledger = fitted("consul-2020-ert", random_state=1).ledger_

    def released(noise):
        counts = np.where(leaves[:, None], exact.counts + noise, np.nan)
        forest = replace(
            exact, counts=counts, variances=np.where(leaves, variance, np.nan), noise=np.tile(factors, (exact.n_trees, 1))
        ).summed()
        forest = refine.refine(forest)
        return effects_of(replace(forest, votes=vote.votes(forest), link=link), ledger, 0)

    truth, within = released(np.zeros(exact.counts.shape)), []
    for _ in range(60):
        own = rng.normal(size=exact.counts.shape) * np.sqrt(variance * factors[0])
        common = rng.normal(size=(exact.n_nodes, 1)) * np.sqrt(variance * max(factors[2], 0))
        found = released(own + common)
        for feature in ("k", "city"):
            expected = {part.words: part.effects[0] for part in truth.of(feature).parts if part.share > 0.02}
            shown = {part.words: part for part in found.of(feature).parts if part.words in expected}
            within += [abs(part.effects[0] - expected[words]) <= part.bands[0] for words, part in shown.items()]
    assert len(within) > 300
    assert 0.91 <= np.mean(within) <= 0.995, np.mean(within)


WITHOUT_BAND = {
    "labels": ({"recipe": "fletcher-islam-2017"}, "a label each"),
    "votes of whole trees": ({"recipe": "li-2020"}, "as a whole"),
    "no noise": ({"recipe": "consul-2020", "epsilon": np.inf}, "no noise"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_BAND)
def test_where_the_noise_is_not_known_there_is_no_band_and_a_sentence_says_why(name):
    settings, words = WITHOUT_BAND[name]
    found = fitted(**settings, random_state=0).effects()
    assert words in found.no_band
    assert all(part.bands is None for effect in found.features for part in effect.parts)
    assert all(effect.stands_out is None for effect in found.features)
    assert all(pair.bands is None for pair in found.pairs)


def test_majority_votes_are_told_from_shares():
    model = fitted("consul-2020", random_state=0)
    voted = replace(model.forest_, votes=Majority().votes(model.forest_))
    assert "as a whole" in effects_of(voted, model.ledger_).no_band


@pytest.mark.slow
def test_a_linear_release_has_bands_that_a_file_keeps(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((3000, 4)), columns=list("abcd"))
    y = X["a"] + 0.3 * X["b"] + 0.3 * rng.normal(size=3000) > 0.65
    schema = Schema({name: Numeric(0, 1) for name in X}, Classes([False, True]))
    model = DPForestClassifier(schema, 2.0, random_state=1).fit(X, y)
    assert (model.forest_.vote_noise > 0).sum() == 4
    found = model.effects()
    assert found.no_band is None
    assert (found.features[0].feature, found.features[0].stands_out) == ("a", True)
    assert all(part.bands[0] > 0 for part in found.features[0].parts)
    model.save(tmp_path / "m.dpf")
    assert load_model(tmp_path / "m.dpf").effects().features == found.features
    with pytest.raises(ModelFileError):
        check_structure(replace(model.forest_, vote_noise=-model.forest_.vote_noise))
    # Without what is kept of it, its noise is not known.
    forgotten = effects_of(replace(model.forest_, vote_noise=np.empty(0)), model.ledger_)
    assert "counts of their own" in forgotten.no_band


def test_noise_of_a_linear_release_is_a_part_of_its_votes():
    maps = ((0, np.array([[-64], [0], [64]])), (3, np.eye(3, dtype=np.int64)))
    sums, variances = np.array([50.0, 5.0, -8.0, 2.0]), np.array([25.0, 4.0, 4.0, 4.0])
    # Categories have a number each, with noise of its own.
    assert direction_of(maps, sums, variances, 0.0).noise == (0.1, 0.0)
    assert direction_of(maps, np.zeros(4), variances, 0.0).noise == (0.0, 0.0)


# --- every model -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
def test_printed_algorithms_have_effects_without_bands():
    X, y = table(300)
    features = {"k": FEATURES["k"], "city": FEATURES["city"]}
    model = DPForestClassifier(Schema(features, Classes(["no", "yes"])), 5.0, recipe="dong-2022", variant="published")
    found = model.fit(X[["k", "city"]], y).effects()
    assert "not recorded" in found.no_band
    assert found.features


@pytest.mark.slow
def test_of_a_long_list_some_values_are_left_out_and_counted():
    n = 70_000  # more codes than a table of routes has
    schema = Schema({"place": Categorical(range(n)), "k": Numeric(0, 4, integer=True)}, Classes([0, 1]))
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"place": rng.integers(0, n, 2000), "k": rng.integers(0, 5, 2000)})
    model = DPForestClassifier(schema, 5.0, recipe="auto", random_state=0).fit(X, (X["place"] < n / 2).astype(int))
    effect = model.effects().of("place")
    assert effect.left_out == n + 2 - len(effect.parts)
    assert len(effect.parts) == module.MOST_GROUPS + 2


def test_a_file_that_nobody_wrote_on_purpose_has_effects_too():
    model, rng = fitted("jagannathan-2009", n_trees=2, random_state=0), np.random.default_rng(0)
    for _ in range(8):
        changes = {}
        for name in ("counts", "variances", "shares", "votes"):
            changes[name] = np.array(getattr(model.forest_, name))
            hit = rng.random(changes[name].shape) < 0.3
            changes[name][hit] = rng.choice([0.0, 1e-300, 1e99, 5.0], hit.sum())
        assert effects_of(replace(model.forest_, **changes), model.ledger_).features
