"""A list of more categories than a table of routes holds is split by runs, which is the same forest in another form."""

import re

import numpy as np
import pandas as pd
import pytest

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model
from dpforest.errors import ParameterError, SchemaError
from dpforest.parts.proposals import Menu, OneAgainstRest, OneChildPerValue, RandomSubsets
from dpforest.schema import domain as domains
from dpforest.schema.domain import MOST_TABLED, Domain, Grid, entries_of

NAMES = [f"v{index}" for index in range(600)]
FEATURES = {"x": Numeric(0, 1), "place": Categorical(NAMES), "flag": Categorical(["no", "yes"])}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    own = np.where(rng.random(n) < 0.4, 7, rng.integers(0, len(NAMES) + 1, n))  # the last is not listed
    X = pd.DataFrame({"x": rng.random(n), "place": [f"v{i}" for i in own], "flag": rng.choice(["no", "yes"], n)})
    X.loc[::17, "place"] = None
    return X, np.where((own == 7) ^ (X["x"].to_numpy() > 0.8), "b", "a")


def fitted(recipe, **parameters):
    X, y = rows(600)
    schema = Schema(FEATURES, Classes(["a", "b"]))
    return DPForestClassifier(schema, recipe=recipe, epsilon=8.0, random_state=3, **parameters).fit(X, y)


def fitted_both_ways(monkeypatch, recipe, **parameters):
    """The same fit with a table for each route and, if tables hold fewer codes, with runs."""
    by_tables = fitted(recipe, **parameters)
    monkeypatch.setattr(domains, "MOST_TABLED", 500)
    by_runs = fitted(recipe, **parameters)
    assert by_tables.forest_.domain.is_wide.tolist() == [False, False, False]
    assert by_runs.forest_.domain.is_wide.tolist() == [False, True, False]
    return by_tables, by_runs


def routes_of(forest):
    return [forest.route(node).tolist() for node in np.flatnonzero(~forest.is_leaf)]


# Recipes that ask for categories by runs alone; li-2022 tests trees on held-out records, bojarski-2015 draws splits.
@pytest.mark.parametrize("recipe", ["rana-2015", "li-2017", "bojarski-2015", "li-2022", "guan-2020"])
def test_runs_and_tables_give_the_same_forest(monkeypatch, recipe):
    tables, runs = (model.forest_ for model in fitted_both_ways(monkeypatch, recipe, n_trees=3, max_depth=4))
    assert (runs.features == 1).any()
    assert runs.routes.shape[1] < 500 < tables.routes.shape[1] == len(NAMES) + 2
    for name in ("trees", "parents", "levels", "first_children", "features", "splits", "counts", "variances", "votes"):
        assert getattr(runs, name).tolist() == getattr(tables, name).tolist(), name
    assert routes_of(runs) == routes_of(tables)
    assert runs.rules() == tables.rules()


def test_trees_in_sequence_and_predictions_are_the_same_by_runs(monkeypatch, tmp_path):
    tables, runs = fitted_both_ways(monkeypatch, "auto", n_trees=3, max_depth=3)
    X, _ = rows(400, seed=1)
    assert (runs.forest_.features == 1).any()
    assert runs.predict_proba(X).tolist() == tables.predict_proba(X).tolist()
    leaves = [model.forest_.leaves(np.zeros((3, 1), dtype=np.uint8)).tolist() for model in (tables, runs)]
    assert leaves[0] == leaves[1]
    runs.save(tmp_path / "m.dpf")
    again = load_model(tmp_path / "m.dpf")
    assert again.predict_proba(X).tolist() == runs.predict_proba(X).tolist()
    assert routes_of(again.forest_) == routes_of(tables.forest_)
    assert again.forest_.rules() == tables.forest_.rules()


def test_a_bounded_target_is_the_same_by_runs(monkeypatch):
    X, y = rows(600)
    model = DPForestRegressor(Schema(FEATURES, Bounded(0, 1)), epsilon=8.0, random_state=3)
    by_tables = model.fit(X, y == "b").forest_
    monkeypatch.setattr(domains, "MOST_TABLED", 500)
    by_runs = model.fit(X, y == "b").forest_
    assert (by_runs.features == 1).any()
    assert by_runs.votes.tolist() == by_tables.votes.tolist()
    assert routes_of(by_runs) == routes_of(by_tables)


def wide_domain():
    schema = Schema({"c": Categorical(range(MOST_TABLED)), "d": Categorical(["u", "v"])}, Classes(["a", "b"]))
    return Domain.of(schema, Grid())


def test_codes_and_routes_are_as_wide_as_the_domain_needs():
    def dtype(n):
        return Domain.of(Schema({"c": Categorical(range(n))}, Classes([0, 1])), Grid()).dtype

    assert [dtype(n) for n in (254, 255, MOST_TABLED - 2, MOST_TABLED - 1)] == [np.uint8, np.uint16, np.uint16, np.uint32]
    assert wide_domain().route_width == 4  # that of "d", which is that of a run too


def test_a_route_of_a_wide_list_is_read_as_it_was_written():
    domain = wide_domain()
    for start, stop in ((0, 1), (65_535, 65_537), (65_537, 65_538), (0, 65_538)):
        entries = entries_of(np.array([[start, stop]]))
        assert domain.runs(np.array([0]), entries).tolist() == [[start, stop]]
        route = domain.route(0, entries[0])
        assert np.flatnonzero(route == 0).tolist() == list(range(start, stop))
        assert len(route) == domain.n_codes[0]
    assert domain.runs(np.array([1, -1]), np.ones((2, 4), dtype=np.uint16)).tolist() == [[-1, -1], [-1, -1]]


def test_a_wide_list_is_offered_against_the_rest_only():
    domain = wide_domain()
    assert set(OneChildPerValue().fixed(domain).features) == {1}
    assert set(RandomSubsets().drawn(domain, 2, np.random.default_rng(0)).features) == {1}
    routes = OneAgainstRest().fixed(domain)
    assert np.count_nonzero(routes.features == 0) == domain.n_codes[0]
    only_wide, menu = Domain(domain.derived[:1], domain.cuts[:1]), Menu((OneChildPerValue(),))
    fixed, reach = menu.fixed(only_wide), np.ones((1, only_wide.total_codes), dtype=bool)
    with pytest.raises(ParameterError, match="offers no split"):
        menu.propose(only_wide, fixed, reach, np.random.default_rng(0))


def test_more_codes_than_the_cap_are_refused_with_the_name_of_the_feature(monkeypatch):
    monkeypatch.setattr(domains, "MOST_CODES", 12)
    schema = Schema({"f0": Categorical(range(10)), "f1": Categorical(range(11))}, Classes(["a", "b"]))
    with pytest.raises(SchemaError, match="'f1' has 13 codes; the most is 12"):
        Domain.of(schema, Grid())


@pytest.mark.parametrize("export", ["to_json", "to_onnx"])
def test_an_export_of_a_split_on_a_wide_list_is_refused_with_a_sentence(monkeypatch, export):
    pytest.importorskip("onnx")
    _, runs = fitted_both_ways(monkeypatch, "rana-2015", n_trees=3)
    with pytest.raises(ParameterError, match="all categories of 'place'"):
        getattr(runs, export)()


def test_a_printed_algorithm_refuses_a_wide_list_before_rows_are_opened():
    schema = Schema({"c": Categorical(range(MOST_TABLED))}, Classes(["a", "b"]))
    X, y = pd.DataFrame({"c": [0, 1, 2, 3]}), ["a", "b", "a", "b"]
    with pytest.raises(SchemaError, match=re.escape("a table of the categories of 'c' for each split")):
        DPForestClassifier(schema, recipe="friedman-schuster-2010", variant="published", epsilon=1.0).fit(X, y)


@pytest.mark.parametrize(
    ("n_names", "delta"),
    [
        pytest.param(100_000, 1e-6, marks=pytest.mark.slow),
        pytest.param(1_000_000, 0.0, marks=pytest.mark.night),
        pytest.param(1_000_000, 1e-6, marks=pytest.mark.night),
    ],
)
def test_a_list_of_very_many_values_gives_a_small_forest(n_names, delta, tmp_path):
    names, n = [f"v{index}" for index in range(n_names)], 20_000
    schema = Schema({"x": Numeric(0, 1), "place": Categorical(names)}, Classes(["a", "b"]))
    rng = np.random.default_rng(0)
    often = rng.random(n) < 0.4
    places = np.where(often, n_names - 1, rng.integers(0, len(names), n))
    X = pd.DataFrame({"x": rng.random(n), "place": [names[index] for index in places]})
    y = np.where(often ^ (rng.random(n) < 0.05), "b", "a")
    model = DPForestClassifier(schema, epsilon=1.0, delta=delta, random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.8  # the one value that tells the classes apart was found
    assert model.forest_.routes.nbytes < 1 << 20
    model.save(tmp_path / "m.dpf")
    assert (load_model(tmp_path / "m.dpf").predict(X) == model.predict(X)).all()
    assert any(f"place = {names[-1]}" in rule["rule"] for rule in model.forest_.rules())
