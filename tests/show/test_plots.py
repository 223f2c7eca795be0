"""Plots show what the model released, and no name can break them."""

import importlib.util
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from tests.show.drawing import strict, texts
from tests.support.fitted import HOSTILE, hostile_model

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, DPSearchCV, Numeric, Schema, plots
from dpforest.common.text import brief, count_words, in_brackets, percent, share_words
from dpforest.errors import DPForestError, LeakWarning, ParameterError
from dpforest.model.importances import importances_of
from dpforest.model.signal import Signal
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.show.plots.canvas import drawable
from dpforest.show.report.content import report_content

__all__ = ["strict"]
pytestmark = pytest.mark.slow
GALLERY = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("plot_*.py"))
OF_MODELS = [plots.budget_by_level, plots.tree, plots.importances, plots.leaf_noise]


def fitted(recipe="auto", epsilon=2.0, delta=0.0, n_rows=400, bounded=False, **settings):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": rng.random(n_rows), "whole": rng.integers(0, 9, n_rows), "city": rng.choice(["Oslo", "Rome"], n_rows)}
    )
    features = {"x": Numeric(0, 1), "whole": Numeric(0, 9, integer=True), "city": Categorical(["Oslo", "Rome", "Lima"])}
    if bounded:
        schema = Schema(features, Bounded(-1, 3), one_row_per_person=True)
        return DPForestRegressor(schema, epsilon, delta, recipe=recipe, **settings).fit(X, 2 * X["x"])
    schema = Schema(features, Classes(["no", "yes"]), one_row_per_person=True)
    y = np.where(X["x"] > 0.5, "yes", "no")
    return DPForestClassifier(schema, epsilon, delta, recipe=recipe, **settings).fit(X, y)


def widths(ax):
    return np.array([bar.get_width() for bar in ax.patches])


def bar_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


# Axes


@pytest.mark.parametrize("draw", [*OF_MODELS, plots.effects], ids=lambda draw: draw.__name__)
def test_a_plot_takes_a_fitted_model_alone_and_any_axes(draw):
    model, before = fitted(), dict(mpl.rcParams)
    _, ax = plt.subplots()
    assert draw(model, ax=ax) is ax
    assert ax.texts or ax.patches or ax.lines
    assert len(plt.get_fignums()) == 1
    first, second = (np.atleast_1d(draw(model))[0].figure for _ in range(2))
    assert first is not second
    assert dict(mpl.rcParams) == before
    search = DPSearchCV(DPForestClassifier(), {})
    for unfitted in (DPForestClassifier(), search):
        with pytest.raises(ValueError, match="not fitted"):
            draw(unfitted)
    search.best_estimator_ = model
    with pytest.raises(ParameterError, match=r"A DPSearchCV was given\. .*: search\.best_estimator_\."):
        draw(search)
    with pytest.raises(ParameterError, match=r"A Pipeline was given\. .*: pipeline\[-1\]\."):
        draw(make_pipeline(model))


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    without = lambda name, *rest: None if name == "matplotlib" else found(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(DPForestError, match=r"pip install 'dpforest\[plots\]'"):
        plots.importances(fitted())


def test_importing_the_plots_does_not_import_matplotlib():
    code = "import sys, dpforest.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Accuracy by epsilon


def test_curves_are_means_with_standard_errors_and_levels_are_named_lines():
    ax = plots.accuracy_by_epsilon(
        {"a": {10: [0.9, 0.8], 0.1: [0.5, 0.7]}, "b": {1: 0.6}}, no_privacy=0.95, majority=[0.5, 0.52]
    )
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[0.1, 0.6], [10, 0.85]])
    np.testing.assert_allclose(ax.lines[1].get_xydata(), [[1, 0.6]])
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    # Of two scores the standard error is half their distance.
    assert (heights.min(), heights.max()) == pytest.approx((0.5, 0.9))
    assert [line.get_ydata()[0] for line in ax.lines[2:]] == pytest.approx([0.95, 0.51])
    assert {"no privacy", "majority class"} <= set(texts(ax))


def test_the_epsilon_axis_has_plain_numbers_and_names_do_not_overlap():
    ax = plots.accuracy_by_epsilon({epsilon: [0.5] for epsilon in (0.01, 0.1, 1, 10, 100)})
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_xticklabels(which="both")] == ["0.01", "0.1", "1", "10", "100"]
    assert ax.get_xscale() == "log"
    ax = plots.accuracy_by_epsilon({f"system {k}": {1: [0.6 + k / 1e4], 2: [0.6 + k / 1e4]} for k in range(8)}, majority=0.6)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 9
    assert not any(a.overlaps(b) for index, a in enumerate(boxes) for b in boxes[:index])


@pytest.mark.parametrize(
    "results",
    [{}, {"a": {}}, {"a": {np.inf: [1]}}, {"a": {0: [1]}}, {"a": {1: []}}, {"a": {"x": [1]}}, {1: [1], "a": {1: [1]}}],
)
def test_results_without_a_place_on_the_axes_are_refused(results):
    with pytest.raises(ParameterError):
        plots.accuracy_by_epsilon(results)


# Budget by level


def amounts(ax, unit):
    """The sum of what the texts beside the bars say in a unit."""
    return sum(float(found) for text in ax.texts for found in re.findall(rf"{unit} ([\d.e+-]+)", text.get_text()))


@pytest.mark.parametrize("bounded", [False, True])
def test_books_in_two_units_add_up_as_epsilon(bounded):
    model = fitted(delta=1e-6, bounded=bounded)
    rows, rest = model.ledger_.books
    assert (rows.accountant.unit, rest.accountant.unit) == ("epsilon", "rho")
    ax = plots.budget_by_level(model)
    shares = dict(zip(bar_names(ax), widths(ax), strict=True))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["number of rows"] == pytest.approx(rows.total / model.ledger_.spent)
    assert amounts(ax, "epsilon") == pytest.approx(rows.total, rel=0.01)
    assert amounts(ax, "rho") == pytest.approx(rest.total, rel=0.01)


def test_levels_are_shown_from_the_root_to_the_leaves_with_their_charges():
    ax = plots.budget_by_level(fitted("consul-2020", max_depth=2))
    assert bar_names(ax) == ["splits, level 0", "splits, level 1", "leaves"]
    np.testing.assert_allclose(widths(ax), [0.25, 0.25, 0.5])


def model_with(ledger):
    model = fitted()
    model.ledger_ = ledger
    return model


def test_copies_multiply_and_of_parallel_scopes_the_largest_counts():
    ledger = Ledger(make_accountant(2.0, 0.0))
    with ledger.scope("parts", "parallel"):
        with ledger.scope("small part"):
            ledger.charge("errors", "geometric", 0.1)
        with ledger.scope("large part"), ledger.scope("each tree", copies=4):
            ledger.charge(Purpose("splits", "centres", level=0), "exponential", 0.05)
            ledger.charge(Purpose("splits", level=0), "exponential", 0.05)
            ledger.charge("leaves", "geometric", 0.1)
    ledger.charge(Purpose("counts", level=0), "geometric", 0.2)
    ax = plots.budget_by_level(model_with(ledger))
    shares = dict(zip(bar_names(ax), widths(ax), strict=True))
    assert shares == pytest.approx({"centres": 0.2, "counts, level 0": 0.2, "splits, level 0": 0.2, "leaves": 0.4})
    assert any("small part" in text for text in texts(ax))


def test_steps_inside_a_bootstrap_share_what_it_costs_outside():
    ledger = Ledger(make_accountant(5.0, 0.0))
    with ledger.scope("each tree", copies=2), ledger.scope("Poisson bootstrap", "bootstrap"):
        ledger.charge(Purpose("splits", level=0), "permute-and-flip", 0.25)
        ledger.charge("leaves", "geometric", 0.75)
    ledger.charge("number of rows", "geometric", 1.0)
    ax = plots.budget_by_level(model_with(ledger))
    outside = 2 * np.expm1(1.0)
    shares = dict(zip(bar_names(ax), widths(ax), strict=True))
    assert shares["leaves"] == pytest.approx(0.75 * outside / (1 + outside))
    assert amounts(ax, "epsilon") == pytest.approx(ledger.spent, rel=0.01)


def test_a_loss_without_bound_has_no_shares_and_the_plot_says_so():
    assert "no bound: every release is exact" in texts(plots.budget_by_level(fitted(epsilon=np.inf)))[0]
    with pytest.warns(LeakWarning):
        model = fitted("li-2020", variant="published")
    assert "exact values were opened" in texts(plots.budget_by_level(model))[0]
    ledger = Ledger(make_accountant(1.0, 0.0))
    ledger.charge("leaves", "geometric", 0.5)
    ledger.leak("range", "for a test")
    assert any("no bound" in text for text in texts(plots.budget_by_level(model_with(ledger))))


# Importances


def test_bars_are_the_importances_the_largest_first_or_alone():
    model = fitted(epsilon=50.0, random_state=1)  # else by chance no tree may ask about a feature
    ax = plots.importances(model)
    np.testing.assert_allclose(widths(ax), np.sort(model.feature_importances_)[::-1])
    assert dict(zip(bar_names(ax), widths(ax), strict=True)) == dict(
        zip(model.feature_names_in_, model.feature_importances_, strict=True)
    )
    for found in importances_of(model.forest_, model.ledger_):
        low, high = (min(max(found.value + sign * 1.96 * found.deviation, 0.0), 1.0) for sign in (-1, 1))
        assert in_brackets(share_words(found.value, low, high)) in texts(ax)
    assert ax.get_xlim()[1] <= 1
    ax = plots.importances(model, most=2)
    np.testing.assert_allclose(widths(ax), np.sort(model.feature_importances_)[:0:-1])
    assert "the 2 largest of 3 columns" in texts(ax)
    with pytest.raises(ParameterError, match="most"):
        plots.importances(model, most=0)


# Leaf noise


def points(ax):
    return np.concatenate([np.asarray(dots.get_offsets()) for dots in ax.collections])


@pytest.mark.parametrize(
    ("name", "bounded"),
    [("auto", False), ("jagannathan-2009", False), ("li-2022", False), ("auto", True), ("consul-2020-ert", True)],
)
def test_the_plot_and_the_report_say_the_same_about_leaves(name, bounded):
    model = fitted(name, bounded=bounded, random_state=5)  # else sizes below 0 may by chance move the points
    signal, leaves = Signal.of(model.forest_, model.ledger_), model.forest_.is_leaf
    ax = plots.leaf_noise(model)
    np.testing.assert_allclose(np.sort(points(ax)[:, 1]), np.sort(signal.ratios[leaves][signal.ratios[leaves] > 0]))
    said = report_content(model)["forest"]["reliability"]
    part = in_brackets(share_words(said["standing_out"], said["low"], said["high"]))
    assert f"{part} of the released records" in ax.get_title(loc="left")
    # Where the points pass 3 is the share that both give.
    reached = points(ax)[points(ax)[:, 1] >= said["threshold"], 0]
    assert reached.max(initial=0) == pytest.approx(said["standing_out"])
    assert {line.get_ydata()[0] for line in ax.lines[1:]} == {1.0, said["threshold"]}


@pytest.mark.parametrize(
    ("name", "release", "settings"),
    [
        ("fletcher-islam-2017", "labels", {}),
        ("fletcher-islam-2017", "labels", {"epsilon": np.inf}),
        ("consul-2020", "exact", {"epsilon": np.inf}),
        ("auto", "exact", {"epsilon": np.inf, "bounded": True}),
        ("consul-2020", "printed", {"variant": "published"}),
    ],
)
def test_where_no_noise_is_known_neither_the_plot_nor_the_report_gives_a_share(name, release, settings):
    model = fitted(name, **settings)
    content = report_content(model)["forest"]
    assert content["release"] == Signal.of(model.forest_, model.ledger_).release == release
    assert content["reliability"] is None
    assert not any("%" in text and "of the released records" in text for text in texts(plots.leaf_noise(model)))


def test_without_noise_points_are_the_counts_and_labels_have_no_size_to_show():
    model = fitted("consul-2020", epsilon=np.inf)
    ax = plots.leaf_noise(model)
    sizes = model.forest_.counts[model.forest_.is_leaf].sum(axis=1)
    np.testing.assert_allclose(np.sort(points(ax)[:, 1]), np.sort(sizes[sizes > 0]))
    assert "counts without noise" in ax.get_title(loc="left")
    for name, epsilon in (("fletcher-islam-2017", np.inf), ("suihkonen-2023", 1.0)):
        model = fitted(name, epsilon)
        assert "no counts" in texts(plots.leaf_noise(model))[0]
        assert not any("records" in text for text in texts(plots.tree(model, max_depth=20)))


# Tree


def test_leaves_show_class_share_and_size_with_their_bands():
    model = fitted("consul-2020", n_trees=2, max_depth=2)
    ax = plots.tree(model, 1, max_depth=2)
    ax.get_legend().remove()
    shown = texts(ax)
    for rule in model.forest_.rules():
        if rule["tree"] == 1 and rule["leaf"]:
            words = share_words(rule["confidence"], rule["low"], rule["high"])
            share = "\n".join([f"{rule['class']}  {words[0]}", *(f"({word})" for word in words[1:])])
            assert f"{share}\n{count_words(rule['support'], rule['support_band'], 'records')}" in shown
    assert shown.count("yes") == shown.count("no") == 3


def test_questions_are_those_of_the_tree():
    model = fitted("consul-2020", n_trees=1, max_depth=1, epsilon=np.inf)
    shown = texts(plots.tree(model))
    yes, no = (rule for rule in model.forest_.rules() if rule["leaf"])
    name, cut = yes["rule"].split(" < ")
    assert f"{name} < {brief(float(cut))}?\n{model.forest_.counts[0].sum():.0f} records" in shown
    assert shown.index("yes") < shown.index("no")
    assert any(f"{no['class']}  {percent(no['confidence'])}" in text for text in shown)


def test_additive_trees_say_what_they_add():
    model = fitted(epsilon=20.0)
    assert model.forest_.link == "softmax"
    number = int(model.forest_.trees[model.forest_.levels.argmax()])
    leaves = [rule for rule in model.forest_.rules() if rule["tree"] == number and rule["leaf"]]
    adds = [f"{rule['class']}  {rule['adds']:+.3g}" for rule in leaves]
    shown = "\n".join(texts(plots.tree(model, max_depth=20)))
    assert any(text in shown for text in adds)
    assert "log-odds" in shown
    model = fitted(delta=1e-5, epsilon=20.0, bounded=True, n_trees=2, max_depth=2)
    assert model.forest_.link == "sum"
    assert "mean" in "\n".join(texts(plots.tree(model, 0, max_depth=20)))
    assert re.search(r"^adds [+-]", "\n".join(texts(plots.tree(model, 1, max_depth=20))), re.MULTILINE)


def test_what_lies_deeper_is_an_ellipsis_and_what_is_not_there_is_refused():
    model = fitted("consul-2020", n_trees=1, max_depth=3)
    assert texts(plots.tree(model, max_depth=2)).count("…") == 4
    assert texts(plots.tree(model, max_depth=0)).count("…") == 1
    assert "…" not in texts(plots.tree(model, max_depth=3))
    for wrong in ({"number": 1}, {"number": -1}, {"number": True}, {"max_depth": -1}, {"max_depth": 1.5}):
        with pytest.raises(ParameterError):
            plots.tree(model, **wrong)


def test_of_many_children_the_largest_are_shown():
    rng = np.random.default_rng(0)
    words = [f"word {index}" for index in range(12)]
    sizes = [5] * 9 + [300, 200, 100]
    X = pd.DataFrame({"word": np.repeat(words, sizes)})
    schema = Schema({"word": Categorical(words)}, Classes([0, 1]), one_row_per_person=True)
    model = DPForestClassifier(schema, epsilon=20.0, recipe="jagannathan-2009", n_trees=1, max_depth=1)
    model.fit(X, rng.integers(0, 2, len(X)))
    shown = texts(plots.tree(model))
    assert {"word 9", "word 10", "word 11", "and 11 more"} <= set(shown)
    assert "word 3" not in shown


def test_a_tree_of_one_leaf_is_one_box():
    model = fitted("consul-2020", n_trees=1, max_depth=1)
    model.forest_ = model.forest_.without_children(np.array([0]))
    ax = plots.tree(model)
    assert len(ax.texts) == 1
    assert "records" in ax.texts[0].get_text()
    for draw in OF_MODELS:
        draw(model).figure.canvas.draw()


def overlapping(ax):
    """Pairs of boxes of a tree that overlap."""
    ax.figure.canvas.draw()
    boxes = [text.get_bbox_patch().get_window_extent() for text in ax.texts if text.get_bbox_patch()]
    return [(a, b) for index, a in enumerate(boxes) for b in boxes[:index] if a.overlaps(b)]


@pytest.mark.parametrize("name", ["auto", "jagannathan-2009"])
def test_hostile_names_neither_warn_nor_overlap_nor_become_formulas(name):
    model = hostile_model(name, random_state=3)
    for draw in OF_MODELS:
        ax = draw(model)
        assert all(len(line) < 100 for text in texts(ax) for line in text.replace("$", "").split("\n"))
        assert not any(re.search(r"(?<!\\)\$", text) for text in texts(ax))
    plots.accuracy_by_epsilon({name: {1: [0.5, 0.6]} for name in HOSTILE}).figure.canvas.draw()
    _, small = plt.subplots(figsize=(5, 3))
    assert overlapping(plots.tree(model)) == overlapping(plots.tree(model, ax=small)) == []


def test_names_are_never_typeset_as_tex():
    with mpl.rc_context({"text.usetex": True}):
        model = fitted()
        written = [*plots.importances(model).get_yticklabels(), *plots.tree(model).texts]
        written += plots.accuracy_by_epsilon({"50% $": {1: [0.5]}}).texts
    assert len(written) > 5
    assert not any(text.get_usetex() for text in written)


@pytest.mark.parametrize(
    ("name", "room", "shown"),
    [
        ("a" * 10_000, 10, "a" * 10 + "…"),
        ("a" * 10, 10, "a" * 10),
        ("\ud800x", 10, "x"),
        ("two\n  lines", 20, "two lines"),
        ("$a$", 20, r"\$a\$"),
        ("\u202e\x00", 20, "(blank)"),
        ("漢 and", 20, "□ and"),
        (("a", 1), 20, "('a', 1)"),
    ],
)
def test_names_are_cut_cleaned_and_never_empty(name, room, shown):
    assert drawable(name, room) == shown


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_a_gallery_script_runs_and_leaves_a_figure(script):
    pytest.importorskip("statsmodels")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        found = runpy.run_path(str(script))
    assert isinstance(found["figure"], mpl.figure.Figure)
    found["figure"].canvas.draw()
    title, _, text = found["__doc__"].strip().partition("\n\n")
    assert "\n" not in title
    assert text


def test_every_plot_has_a_gallery_script():
    assert {script.stem.removeprefix("plot_") for script in GALLERY} == set(plots.__all__)
