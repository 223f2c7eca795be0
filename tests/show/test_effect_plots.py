"""Pictures of effects show the numbers of the model, and leaves of drawn trees have the colour of what they say."""

from functools import cache
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from tests.show.drawing import strict, texts
from tests.support.fitted import hostile_model, mean_model, small_model

from dpforest import Categorical, Classes, Date, DPForestClassifier, Numeric, Schema, plots
from dpforest.common.text import BAND_MEANS, TIMES, brief, percent
from dpforest.errors import ParameterError
from dpforest.model.effects import Effect, Effects, Part
from dpforest.show.pictures import axis_of, band_words, labelled, short_words
from dpforest.show.plots.canvas import COLOURS, GREY, tinted
from dpforest.show.plots.trees import paints

__all__ = ["strict"]
pytestmark = pytest.mark.slow


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


def test_hostile_names_and_several_classes_are_drawn():
    ax = plots.effects(hostile_model(random_state=3))[0]
    assert any("each class" in text for text in texts(ax))


def parts(*ends, weight=0.2):
    return tuple(Part(f"{a} to < {b}", "range", weight, (0.0,), None, a, b) for a, b in pairwise(ends))


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
    rows = [Part(word, "category", 0.2, (), None) for word in ("a", "b", "c", "other", "missing")]
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


# Trees


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


def test_nodes_have_the_colour_of_what_they_stand_for():
    model = mean_model("consul-2020", n_trees=1)
    assert model.forest_.depth > 1
    assert len(set(faces(plots.tree(model, max_depth=1)).values())) > 1
    adding = small_model("auto", random_state=1)
    assert adding.forest_.link == "softmax"
    assert not plots.tree(adding, max_depth=0).get_legend().get_texts()


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
