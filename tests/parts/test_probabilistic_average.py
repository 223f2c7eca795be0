"""Labels that are drawn by their shares: by the right law, and the same each time."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.support import naive
from tests.support.planted import voting
from tests.support.strategies import TWO, mixed_table, recipe_of

from dpforest import Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.parts.voting import ProbabilisticAverage
from dpforest.schema.domain import Grid

CUBE = Schema({name: Numeric(0, 1) for name in "abc"}, Classes(["low", "mid", "high"]))


def cube_model():
    """A model whose single leaf holds shares 0.2, 0.3 and 0.5, and a record of every cell of its domain."""
    middles = (np.arange(24) + 0.5) / 24
    X = np.array(list(itertools.product(middles, repeat=3)))
    recipe = recipe_of(vote=ProbabilisticAverage(), grid=Grid(24), depth=1)
    model = DPForestClassifier(CUBE, math.inf, recipe=recipe, random_state=0).fit(X[:9], ["low"] * 9)
    leaf = voting(naive.plant(model.forest_.domain, CUBE.target, [2, 3, 5]))
    model.forest_ = replace(leaf, draws=True)
    return model, X


def test_probabilistic_averaging_draws_labels_by_their_shares():
    model, X = cube_model()
    np.testing.assert_allclose(model.predict_proba(X[:5]), [[0.2, 0.3, 0.5]] * 5, atol=1e-8)
    predicted = model.predict(X)
    seen = [int((predicted == label).sum()) for label in ("low", "mid", "high")]
    assert stats.chisquare(seen, np.array([0.2, 0.3, 0.5]) * len(X)).pvalue > 1e-6


def test_a_record_gets_the_same_label_each_time_alone_and_in_any_company():
    model, X = cube_model()
    indices = np.random.default_rng(4).permutation(len(X))[:60]
    together = model.predict(X)
    assert (model.predict(X[indices]) == together[indices]).all()
    assert [model.predict(X[[index]])[0] for index in indices[:20]] == together[indices[:20]].tolist()


def test_a_class_without_a_share_is_never_drawn():
    model, X = cube_model()
    for shares in ([0, 4, 0], [1, 0, 0], [0, 0, 2], [3, 0, 1]):
        model.forest_ = replace(model.forest_, votes=np.array([shares], dtype=float))
        drawn = set(model.predict(X).tolist())
        assert drawn == {label for label, share in zip(("low", "mid", "high"), shares, strict=True) if share}


@pytest.mark.parametrize("vote", ["probabilistic", "majority", "threshold"])
def test_a_saved_model_draws_labels_as_before_or_not_at_all(vote, tmp_path):
    X, y, _ = mixed_table(150, seed=2)
    model = DPForestClassifier(
        TWO, recipe="bojarski-2015", recipe_params={"vote": vote}, n_trees=3, max_depth=3, random_state=3
    ).fit(X, y)
    model.save(tmp_path / "m.dpf")
    back = load_model(tmp_path / "m.dpf")
    assert back.forest_.draws is model.forest_.draws is (vote == "probabilistic")
    assert (back.predict(X) == model.predict(X)).all()
    if vote != "probabilistic":
        assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()
