"""The day on which a model was trained: of the beginning of the fit, kept in its file, unknown in earlier files."""

import re
from datetime import UTC, datetime

import numpy as np
import pytest

import dpforest.fitting
import dpforest.search.estimator
from dpforest import Classes, DPForestClassifier, DPSearchCV, Numeric, Schema, load_model
from dpforest.fitting import Algorithm
from dpforest.model.file import model_digest, today

X = np.random.default_rng(0).uniform(0, 1, (200, 1))
Y = (X[:, 0] > 0.5).astype(int)
MODEL = DPForestClassifier(Schema({"x": Numeric(0, 1)}, Classes([0, 1])), recipe="jagannathan-2009")


def test_a_fit_knows_its_day_and_no_time_of_day():
    before, day = datetime.now(UTC).date().isoformat(), MODEL.fit(X, Y).trained_on_
    assert before <= day <= today()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)


def test_the_day_is_that_on_which_the_fit_began(monkeypatch):
    days = iter(["2026-07-25", "2026-07-26"])
    monkeypatch.setattr(dpforest.fitting, "today", lambda: next(days))
    seen = []
    sealed = dpforest.fitting.seal_table

    def watched(*arguments):
        seen.append(next(days))
        return sealed(*arguments)

    monkeypatch.setattr("dpforest.estimators.seal_table", watched)
    assert MODEL.fit(X, Y).trained_on_ == "2026-07-25"
    assert seen == ["2026-07-26"]


def test_of_a_search_it_is_that_on_which_the_search_began(monkeypatch):
    monkeypatch.setattr(dpforest.search.estimator, "today", lambda: "2026-07-25")
    monkeypatch.setattr(dpforest.fitting, "today", lambda: "2026-07-26")
    search = DPSearchCV(MODEL, {"max_depth": [1, 2]}, epsilon=1.0).fit(X, Y)
    assert search.best_estimator_.trained_on_ == "2026-07-25"


def test_a_file_keeps_the_day_and_its_digest_covers_it(tmp_path):
    model = MODEL.fit(X, Y)
    model.trained_on_ = "2026-07-25"
    model.save(tmp_path / "m.dpf")
    loaded, digest = load_model(tmp_path / "m.dpf"), model_digest(model)
    assert (loaded.trained_on_, model_digest(loaded)) == ("2026-07-25", digest)
    model.trained_on_ = "2026-07-26"
    assert model_digest(model) != digest


def test_a_fit_that_fails_leaves_no_day_of_an_older_one(monkeypatch):
    model = DPForestClassifier(MODEL.schema, recipe="jagannathan-2009").fit(X, Y)

    def fail(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(dpforest.fitting, "Algorithm", lambda: Algorithm(fail))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "trained_on_")
