"""Plots show what the model released, and no name can break them."""

import importlib.util
import math
import re
import subprocess
import sys
import warnings
from functools import cache
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from tests.support.fitted import HOSTILE, hostile_model, mean_model, small_model, table

from dpforest import Categorical, Classes, Date, DPForestClassifier, DPSearchCV, Numeric, Schema, plots
from dpforest.common.text import BAND_MEANS, TIMES, brief, count_words, in_brackets, percent, share_words
from dpforest.errors import DPForestError, LeakWarning, ParameterError
from dpforest.evaluation import evaluate_privately
from dpforest.model.effects import Effect, Effects, ValuePart
from dpforest.model.importances import importances_of
from dpforest.model.signal import Signal
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.show.pictures import axis_of, band_words, labelled, short_words
from dpforest.show.plots.canvas import COLOURS, GREY, drawable, tinted
from dpforest.show.plots.trees import paints
from dpforest.show.report.content import report_content

mpl.use("Agg")
pytestmark = pytest.mark.slow
OF_MODELS = [plots.budget_by_level, plots.tree, plots.importances, plots.leaf_noise]


@pytest.fixture(autouse=True)
def strict():
    """Every warning is an error but those of fits, and figures neither come from another test nor outlive this."""
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LeakWarning)
        yield
    plt.close("all")


def texts(ax):
    ax.figure.canvas.draw()
    return [text.get_text() for text in ax.figure.findobj(mpl.text.Text) if text.get_text()]


def fitted(recipe="auto", epsilon=2.0, bounded=False, **settings):
    """A model of its own, which a test may change."""
    return (mean_model if bounded else small_model).__wrapped__(recipe, epsilon=epsilon, **settings)


def widths(ax):
    return np.array([bar.get_width() for bar in ax.patches])


def bar_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@cache
def city_model(recipe="consul-2020", epsilon=8.0, **settings):
    rng = np.random.default_rng(0)
    X = np.empty((800, 3), dtype=object)
    X[:, 0], X[:, 1] = rng.random(800), rng.choice(["Oslo", "Rome", "Lima"], 800)
    X[:, 2] = rng.choice(np.arange("2024-01-01", "2024-12-31", dtype="datetime64[D]"), 800).astype(str)
    y = np.where((X[:, 1] == "Oslo") | (X[:, 0] > 0.7), "yes", "no")
    features = {"x": Numeric(0, 1), "city": Categorical(["Oslo", "Rome", "Lima"]), "day": Date("2024-01-01", "2024-12-31")}
    schema = Schema(features, Classes(["no", "yes"]), one_row_per_person=True)
    return DPForestClassifier(schema, epsilon, recipe=recipe, random_state=0, **settings).fit(X, y)


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


# Evaluations


@cache
def scored(epsilon):
    X, y = table(1500, seed=4)
    return evaluate_privately(small_model(), X, y, epsilon)


def test_a_curve_is_drawn_with_its_area_and_band():
    evaluation = scored(1.0)
    ax = plots.roc(evaluation)
    assert re.search(r"area under the curve: [01]\.\d+ ± 0\.0\d+", ax.get_title(loc="left"))
    drawn = ax.lines[1].get_ydata()
    assert drawn[0] == 0
    assert drawn[-1] == 1
    assert list(drawn[1:-1]) == [point["true_positives"] for point in evaluation.details["roc"]]
    assert ax.patches  # the band of noise
    assert not plots.roc(scored(math.inf).to_dict()).patches
    _, given = plt.subplots()
    assert plots.roc(evaluation, ax=given) is given


def test_calibration_leaves_out_bins_with_too_few_records():
    content = scored(math.inf).to_dict()
    content["calibration"][3] |= {"share": None, "margin": None, "sampling": None}
    known = [point for point in content["calibration"] if point["share"] is not None]
    ax = plots.calibration(content)
    (marks,) = (line for line in ax.lines if line.get_marker() == "o")
    assert list(marks.get_ydata()) == pytest.approx([point["share"] for point in known])
    assert "share of 1" in ax.get_ylabel()


@pytest.mark.parametrize("draw", [plots.roc, plots.calibration])
def test_an_evaluation_without_curves_is_refused(draw):
    X, _ = table(200, seed=4)
    for wrong in (evaluate_privately(mean_model(), X[:, :2], X[:, 2], 1.0), small_model(), {}, None):
        with pytest.raises(ParameterError, match="There is no such curve"):
            draw(wrong)


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
        zip(model.schema_.features, model.feature_importances_, strict=True)
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


# Effects


def test_panels_are_the_strongest_features_and_pairs_in_order():
    model = city_model()
    drawn, found = plots.effects(model, most=3, pairs=1), model.effects(1)
    titles = [ax.get_title(loc="left").removesuffix(" (within the noise)") for ax in drawn]
    assert titles[:3] == [effect.feature for effect in found.features[:3]]
    assert titles[3] == " \N{MULTIPLICATION SIGN} ".join(found.pairs[0].features)
    assert any("probability of yes" in text for text in texts(drawn[0]))


def test_curves_and_bars_have_the_steps_bands_names_and_widths_of_their_effects():
    model = city_model()
    ranges = [part for part in model.effects(0).of("x").parts if part.kind == "range"]
    ax = plots.effects(model, "x")
    assert ax.lines[0].get_ydata()[:-1] == pytest.approx([part.effects[0] for part in ranges])
    outline = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert outline.max() == pytest.approx(max(part.effects[0] + part.bands[0] for part in ranges))
    assert outline.min() == pytest.approx(min(part.effects[0] - part.bands[0] for part in ranges))
    ax, parts_ = plots.effects(model, "city"), model.effects(0).of("city").parts
    assert [label.get_text() for label in ax.get_yticklabels()] == [part.words for part in parts_]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([part.effects[0] for part in parts_])


def test_a_picture_without_a_band_says_why():
    assert any("no noise was added" in text for text in texts(plots.effects(city_model(epsilon=np.inf))[0]))
    assert any("a label each" in text for text in texts(plots.effects(city_model("fletcher-islam-2017"), "x")))


def test_what_cannot_be_drawn_is_refused_or_said():
    model = city_model.__wrapped__()
    with pytest.raises(ParameterError, match="no feature 'nobody'"):
        plots.effects(model, "nobody")
    for wrong in ({"most": 0}, {"pairs": -1}, {"most": 1.5}):
        with pytest.raises(ParameterError, match="whole number"):
            plots.effects(model, **wrong)
    model.forest_ = model.forest_.without_children(np.arange(model.forest_.n_trees))
    assert "nothing to draw" in texts(plots.effects(model)[0])[0]
    assert "moves nothing" in texts(plots.effects(model, "x"))[0]


def parts(*ends, weight=0.2):
    return tuple(ValuePart(f"{a} to < {b}", "range", weight, (0.0,), None, a, b) for a, b in pairwise(ends))


AXES = {
    "between bounds": ("number", parts(0.0, 1.0, 4.0), [0, 0.25, 1]),
    "whole numbers stand in the middle of their step": ("whole number", parts(1.0, 2.0, 3.0, 3.0), [0, 1 / 3, 2 / 3, 1]),
    "without a bound": ("number", parts(None, 1.0, 2.0, None), [0, 1 / 3, 2 / 3, 1]),
}


@pytest.mark.parametrize("name", AXES)
def test_values_have_their_place_along_the_axis(name):
    kind, shown, expected = AXES[name]
    axis = axis_of(Effect("x", kind, 1.0, None, shown))
    assert axis.ends == pytest.approx(expected)
    assert axis.ticks
    assert all(-0.001 <= place <= 1.001 for place, _ in axis.ticks)


def test_an_axis_without_bounds_is_logarithmic_if_it_has_to_be_and_leaves_out_rare_ends():
    far = parts(None, -1e12, -100.0, -1.0, 0.0, 1.0, 100.0, 1e12, None)
    axis = axis_of(Effect("x", "number", 1.0, None, far))
    assert axis.ends[4] == pytest.approx(0.5)
    assert 0.01 < axis.ends[6] - axis.ends[5] < axis.ends[7] - axis.ends[6] < 0.5
    assert (0.5, "0") in axis.ticks
    rare = (*parts(None, -1e12, weight=0.001), *parts(-1e12, 0.0, 1.0, 2.0), *parts(2.0, None, weight=0.001))
    axis = axis_of(Effect("x", "number", 1.0, None, rare))
    assert [part.words for part in axis.ranges] == [part.words for part in rare[1:-1]]
    # What is left out far away does not stretch the axis: an end without a bound is as wide as the ranges between.
    assert axis.ends == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_words_along_axes_are_short_and_months_have_names():
    written = [brief(value) for value in (8.67362e-19, 0.0572205, 37.0, 12345.6, 2.19902e12)]
    assert written == [f"8.67{TIMES}10⁻¹⁹", "0.0572", "37", "12,346", f"2.2{TIMES}10¹²"]
    first, inner = parts(None, 0.0572205, 1.5)
    assert [short_words(part) for part in (first, inner)] == ["< 0.0572", "0.0572"]
    month = axis_of(Effect("day (month)", "whole number", 1.0, None, parts(1.0, 5.0, 12.0)))
    assert [words for _, words in month.ticks] == ["Jan", "Apr", "Jul", "Oct"]
    rows = [ValuePart(word, "category", 0.2, (), None) for word in ("a", "b", "c", "other", "missing")]
    assert labelled(rows, 4, 9) == [0, 1, 2, 3, 4]
    assert labelled(parts(*map(float, range(17))), 4, 9) == [0, 5, 10, 15]


def test_what_is_said_of_bands_fits_the_panels_that_are_drawn():
    known, unknown = (Effect(name, "number", 1.0, told, parts(0.0, 1.0)) for name, told in (("x", True), ("z", None)))
    found = Effects(("yes",), "log-odds", (0.0,), (known, unknown), (), "There is no band here.")
    assert band_words(found, (known,)) == BAND_MEANS
    assert band_words(found, (unknown,)) == "There is no band here."
    assert band_words(found, (known, unknown)) == f"{BAND_MEANS} There is no band here."


def test_one_effect_is_drawn_whole_and_its_words_fit():
    ax = plots.effects(city_model("auto", 1.0), "day")
    effect = city_model("auto", 1.0).effects(0).of("day")
    most = max(abs(value) + band for part in effect.parts for value, band in zip(part.effects, part.bands, strict=True))
    assert ax.get_ylim()[1] >= most
    ax.figure.canvas.draw()
    (title,) = [text for text in ax.findobj(mpl.text.Text) if "missing values" in text.get_text()]
    assert title.get_window_extent().x1 <= ax.figure.bbox.x1


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


def faces(ax):
    return {text.get_text(): text.get_bbox_patch().get_facecolor()[:3] for text in ax.texts if text.get_bbox_patch()}


def test_leaves_have_the_colour_of_their_class_the_deeper_the_surer():
    model = city_model(n_trees=1, max_depth=3)
    boxes = faces(plots.tree(model, max_depth=3))
    leaves = [rule for rule in model.forest_.rules() if rule["leaf"]]
    assert {rule["class"] for rule in leaves} == {"no", "yes"}
    for rule in leaves:
        colour = COLOURS[["no", "yes"].index(rule["class"])]
        said = f"{rule['class']}  {percent(rule['confidence'])}"
        face = next(face for text, face in boxes.items() if text.startswith(said))
        assert face == pytest.approx(tinted(colour, 2 * rule["confidence"] - 1), abs=0.05)
    dark = [sum(tinted(COLOURS[0], strength)) for strength in (0, 0.5, 1)]
    assert dark == sorted(dark, reverse=True)


def test_a_legend_says_what_colours_mean():
    legend = [text.get_text() for text in plots.tree(city_model(n_trees=1, max_depth=3)).get_legend().get_texts()]
    assert legend == ["no", "yes", "the darker, the surer"]
    of_labels = plots.tree(city_model("fletcher-islam-2017")).get_legend().get_texts()
    assert not any("surer" in text.get_text() for text in of_labels)
    of_means = [text.get_text() for text in plots.tree(mean_model("consul-2020", n_trees=1)).get_legend().get_texts()]
    assert [text.split()[0] for text in of_means] == ["mean", "mean"]


def test_more_classes_than_colours_share_grey():
    labels = list(range(9))
    schema = Schema({"k": Categorical(labels)}, Classes(labels), one_row_per_person=True)
    y = np.repeat(labels, 50)
    model = DPForestClassifier(schema, 200.0, recipe="jagannathan-2009", n_trees=1, max_depth=1, random_state=0)
    tree = model.fit(y[:, None], y).forest_
    found = paints(tree, labels_only=False)
    colours = {int(tree.shares[node].argmax()): found.colours[node] for node in np.flatnonzero(tree.is_leaf)}
    assert len({colours[label] for label in range(6)} - {GREY}) == 6
    assert colours[8] == GREY
    assert "other classes" in [name for name, _, _ in found.key]


@pytest.mark.parametrize("strength", [0.0, 1.0])
@pytest.mark.parametrize("colour", COLOURS[:-1])
def test_black_text_can_be_read_on_every_leaf(colour, strength):
    def linear(part):
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    light = sum(by * linear(part) for by, part in zip((0.2126, 0.7152, 0.0722), tinted(colour, strength), strict=True))
    assert (light + 0.05) / 0.05 > 4.5


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
