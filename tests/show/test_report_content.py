"""What the report says of guarantee, ledger, inputs and forest, and that its twin says the same."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.show.reading import lacks, silently, written
from tests.support.fitted import large_model, mean_model, small_model, table, wide_model

from dpforest import DPForestClassifier, load_model
from dpforest.common.text import MINUS, figure, jsonable, percent, share_figure, visible
from dpforest.errors import OutputError
from dpforest.model.file import model_digest
from dpforest.model.signal import Signal, measured_words
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import group_loss
from dpforest.schema import Format
from dpforest.show.charges import MOST_BLOCKS, grouped_charges, picture
from dpforest.show.report import write_report
from dpforest.show.report.content import certainty, guarantee, report_content
from dpforest.show.report.drawing import MOST_EFFECTS, Drawing, effects_section, script_json, signed
from dpforest.show.report.html import LabelWriter

TWO_MEGABYTES = 2_000_000


def drawing_of(model):
    return Drawing(Signal.of(model.forest_, model.ledger_)).to_dict()


# Guarantee


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: small_model(epsilon=math.inf, max_depth=3, n_trees=5),
        lambda: small_model("consul-2020", epsilon=math.inf),
        lambda: mean_model(delta=1e-5),
        lambda: mean_model("consul-2020"),
        lambda: mean_model(epsilon=math.inf, max_depth=3),
    ],
    ids=["no noise", "no noise in a forest", "mean with delta", "mean of a forest", "mean without noise"],
)
def test_other_kinds_of_models_have_reports_too(make, tmp_path):
    model = make()
    words, page, twin = written(model, tmp_path)
    assert len(page) < TWO_MEGABYTES
    assert twin["making"]["digest"] == model_digest(model)
    assert ("No privacy guarantee" in words) == (not model.privacy_.holds)
    assert_effects(words, page, twin)


def assert_effects(words, page, twin):
    """The section on what the model learnt has a picture for each effect and says why there is no band."""
    section = re.search(rb'<section id="effects".*?</section>', page, re.DOTALL)[0]
    assert section.count(b"<svg") == section.count(b"</svg>") > 0
    assert lacks(words, "What the model learnt", *filter(None, [twin["effects"]["no_band"]])) == []


def test_a_page_without_guarantee_makes_no_claim(tmp_path):
    words, _, twin = written(small_model(random_state=1), tmp_path)
    assert "random_state was given" in words
    assert not re.search(r"\bprivate\b", words.text, re.IGNORECASE)
    assert "at most" not in words.between("1. What could someone learn about me?", "2. About this release")
    assert twin["guarantee"]["certainty"] == []
    assert twin["guarantee"]["odds"] is None


def test_odds_follow_from_epsilon():
    assert certainty(0.5, math.log(3)) == pytest.approx(0.75)
    assert certainty(0.5, -math.log(3)) == pytest.approx(0.25)
    assert certainty(0.1, 0.0) == pytest.approx(0.1)
    assert certainty(0.5, 1e6) < 1
    # e**1 / (1 + e**1)
    assert "73.1 %" in percent(certainty(0.5, 1.0))


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.5, 1.0, 3.0])
def test_no_text_says_that_odds_change_by_less_than_they_may(tmp_path, epsilon):
    model = small_model(epsilon=epsilon)
    words, _, _ = written(model, tmp_path)
    for text in (str(model.privacy_), words.text):
        said = re.findall(r"[Oo]dds [a-z ]*change by a factor of at most ([\d.]+)\.", text)
        assert said
        assert all(math.exp(epsilon) <= float(factor) < 1.01 * math.exp(epsilon) for factor in said)


def test_several_rows_lose_as_groups_do():
    statement = small_model(delta=1e-5).privacy_
    rows = {row["units"]: row for row in guarantee(statement)["several"]}
    assert rows[1]["delta"] == pytest.approx(statement.delta)
    assert rows[10]["epsilon"] == pytest.approx(10 * statement.epsilon)
    assert rows[2]["delta"] == pytest.approx(statement.to_dict()["replace_one"]["delta"])
    assert group_loss(5.0, 0.01, 10) == (50.0, 1.0)
    assert group_loss(5.0, 0.0, 10) == (50.0, 0.0)


@pytest.mark.slow
def test_leaks_and_schemas_read_off_the_rows_are_loud_and_whoever_vouched_is_named(tmp_path):
    words, _, twin = written(silently(small_model, "consul-2020", "published"), tmp_path)
    assert lacks(words, "Exact values were opened without protection.", "none: a leak") == []
    assert twin["ledger"]["spent"] == "inf"
    assert twin["deployment"]["differential_privacy"]["holds"] is False
    assumed = DPForestClassifier("assume-public", epsilon=1.0).fit(*table())
    for model, said in (
        (assumed, "were read off the rows"),
        (small_model(), "nobody is named"),
        (mean_model(), "The registrar"),
    ):
        assert said in written(model, tmp_path)[0]


# Ledger


def test_scopes_that_are_alike_are_drawn_once_with_their_number():
    ledger = Ledger(make_accountant(10.0, 0.0))
    for tree in range(50):
        with ledger.scope(Purpose("tree", tree=tree + 1)):
            ledger.charge(Purpose("splits", level=0), "permute-and-flip", 0.05)
            ledger.charge("leaves", "geometric", 0.05)
    (block,) = picture(ledger)["children"]
    assert (block["count"], block["label"], block["last"]) == (50, "tree 1", "tree 50")
    groups = {group["label"]: group for group in grouped_charges(ledger)}
    assert groups["leaves"]["charges"] == 50
    assert groups["leaves"]["share"] == pytest.approx(0.5)
    assert groups["splits of level #"]["levels"] == [0]


@pytest.mark.slow
def test_picture_of_a_ledger_with_many_different_parts_stays_small():
    ledger = Ledger(make_accountant(1e6, 0.0))
    for tree in range(80):
        with ledger.scope("tree"):
            for level in range(60):
                ledger.charge(Purpose("splits", level=level), "permute-and-flip", 1e-3 * (tree + 1) + 1e-6 * level)
    n_blocks, stack = 0, [picture(ledger)]
    while stack:
        stack += stack.pop()["children"]
        n_blocks += 1
    assert 60 <= n_blocks <= MOST_BLOCKS + 61 * 60


# Forest


@pytest.mark.parametrize(
    "make", [small_model, lambda: small_model("consul-2020"), mean_model, lambda: mean_model("consul-2020")]
)
def test_drawn_rules_say_what_the_forest_says(make):
    model = make()
    drawing, rules = drawing_of(model), model.forest_.rules()
    assert drawing["rules"]
    for _, node, _, conditions, size, _, _, _, _, label, value, *_ in drawing["rules"]:
        rule = rules[node]
        assert [drawing["texts"][number] for number in conditions] == rule["conditions"]
        assert label == (drawing["texts"].index(str(rule["class"])) if "class" in rule else None)
        assert value == rule.get("adds", rule["mean"] if "mean" in rule else rule["confidence"])
        assert size == round(rule["support"], 2)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_every_noisy_figure_of_the_forest_has_a_band(recipe, tmp_path):
    model = small_model(recipe, epsilon=2.0, random_state=1)  # seeded, so that the records stand out of the noise
    words, _, twin = written(model, tmp_path)
    forest = twin["forest"]
    assert all(0 <= row["low"] <= row["high"] <= 1 for row in forest["balance"]["classes"])
    assert forest["balance"]["size_band"] > 0
    assert all(row["band"] >= 0 for row in forest["importances"])
    assert forest["reliability"]["low"] <= forest["reliability"]["high"]
    for row in forest["balance"]["classes"]:
        assert f"{share_figure(row['low'])} to {share_figure(row['high'])}" in words
    measured = model.forest_.n_records
    if measured is None:
        assert forest["records"] is None
    else:
        assert forest["records"] == {"value": measured.value, "band": pytest.approx(1.96 * measured.deviation)}
        assert measured_words(measured).removesuffix(".") in words
    # Labels, and leaves in which nothing is counted, have no noise.
    assert all(("±" in row[5]) == (model.forest_.variances[row[1]] > 0) for row in drawing_of(model)["rules"])


@pytest.mark.slow
@pytest.mark.parametrize("make", [small_model, mean_model])
@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_the_page_says_of_a_rule_what_its_sentence_says(make, recipe):
    # Little budget, so that leads and sizes may be 0; seeded, so that some are.
    model = make(recipe, epsilon=0.1, random_state=2)
    rules = model.forest_.rules()
    sentences = dict(zip((rule["node"] for rule in rules), model.forest_.rules_text().split("\n"), strict=True))
    corrects = {rule["node"] for rule in rules if "adds" in rule}
    shown = [row[1:2] + row[4:] for row in drawing_of(model)["rules"]]
    assert any("(may be 0)" in (lead or size) for _, _, size, _, _, lead, *_ in shown)
    for node, _, size, _, _, lead, _, _, value, _ in shown:
        sentence = sentences[node].replace("-", MINUS)
        number, _, unsure = size.partition(" (")
        assert f", about {number} records" in sentence
        assert sentence.endswith("(may be 0)") == bool(unsure)
        assert lead is None or f" by a lead of {lead}, about" in sentence
        if node not in corrects:
            assert value in sentence.replace(" (", ", ").replace(")", "") or f"({value})" in sentence


def test_one_tree_is_not_said_to_add_up_and_columns_in_no_split_are_not_asked(tmp_path):
    model = mean_model(n_trees=1, max_depth=1, random_state=1)
    words, _, twin = written(model, tmp_path)
    assert model.forest_.link == "sum"
    assert "trees add up" not in words
    (idle,) = [row["feature"] for row in twin["forest"]["importances"] if not row["asked"]]
    assert idle == model.forest_.domain.names[1 - int(model.forest_.features[0])]
    assert lacks(words, "not asked", "whose band reaches 0") == []


@pytest.mark.parametrize(("recipe", "released"), [("fletcher-islam-2017", "labels"), ("jagannathan-2009", "counts")])
def test_what_trees_release_is_said_and_nothing_else_is_shown(tmp_path, recipe, released):
    words, page, twin = written(small_model(recipe, random_state=1), tmp_path)
    product = twin["deployment"]["deployment"]["data_product"]
    assert product["form"].endswith(f" with released {released}")
    assert f"{released} of nodes" in product["released"]
    is_of_labels = released == "labels"
    assert ("releases one label for each leaf and no counts" in words) == is_of_labels
    assert (twin["forest"]["balance"] is None, twin["forest"]["reliability"] is None) == (is_of_labels,) * 2
    assert_effects(words, page, twin)


def test_reliability_divides_all_records_and_all_leaves():
    reliability = report_content(small_model("consul-2020"))["forest"]["reliability"]
    assert sum(group["share"] for group in reliability["bins"]) == pytest.approx(1)
    assert sum(group["leaves"] for group in reliability["bins"]) == reliability["leaves"]
    above = sum(group["share"] for group in reliability["bins"] if group["from"] >= 3)
    assert reliability["standing_out"] == pytest.approx(above, abs=1e-9)


# What the model learnt


def test_effects_on_page_and_twin_are_those_of_the_model(tmp_path):
    model = small_model("jagannathan-2009", random_state=1)
    words, _, twin = written(model, tmp_path)
    found = model.effects()
    assert [effect["feature"] for effect in twin["effects"]["features"]] == [effect.feature for effect in found.features]
    assert twin["effects"]["scale"] == "probability"
    part, same = found.features[0].parts[0], twin["effects"]["features"][0]["parts"][0]
    assert same["effects"] == pytest.approx(part.effects)
    assert same["bands"] == pytest.approx(part.bands)
    assert lacks(words, signed(part.effects[0], part.bands[0]), "probability of 1") == []
    assert np.array(twin["effects"]["pairs"][0]["effects"]).shape == found.pairs[0].effects.shape
    assert set(twin["effects"]) == {"outputs", "scale", "base", "features", "pairs", "no_band"}
    for drawn in effects_section(found)["pictures"]:
        assert drawn["marks"]
        assert all(mark["start"] <= mark["stop"] and mark["said"] for mark in drawn["marks"])
        if drawn["kind"] == "curve":
            assert (drawn["marks"][0]["start"], drawn["marks"][-1]["stop"]) == (46, 304)


def test_a_forest_without_splits_says_so(tmp_path):
    model = small_model.__wrapped__("consul-2020", epsilon=2.0, n_trees=2, random_state=5)
    model.forest_ = model.forest_.without_children(np.arange(2))
    words, _, twin = written(model, tmp_path)
    assert "No tree asks for any column" in words
    assert twin["effects"]["features"] == []


# Names, sizes and figures


@pytest.mark.slow
@pytest.mark.parametrize("make", [large_model, wide_model])
def test_page_of_a_large_model_is_under_two_megabytes_and_says_what_is_left_out(make, tmp_path):
    model = make()
    words, page, twin = written(model, tmp_path)
    assert len(page) < TWO_MEGABYTES
    assert lacks(words, f"of {model.forest_.n_nodes:,} nodes", "more") == []
    assert len(twin["trees"]["nodes"]) == model.forest_.n_nodes
    assert len(twin["effects"]["features"]) == int(model.forest_.asked.sum())
    if make is large_model:
        assert page.count(b'<figure class="effect') <= MOST_EFFECTS + 2
        assert "weaker columns are left out here" in words


def test_report_of_a_loaded_model_is_that_of_the_model(tmp_path):
    model = small_model()
    model.save(tmp_path / "m.dpf")
    first, second = report_content(model), report_content(load_model(tmp_path / "m.dpf"))
    assert jsonable(first) == jsonable(second)


@pytest.mark.slow
def test_deployment_entry_leaves_to_people_what_only_they_know(tmp_path):
    model = small_model(epsilon=8.0, delta=1e-5)
    entry_of = written(model, tmp_path)[2]["deployment"]
    for name in entry_of["to_be_filled_in"]:
        part, field = name.split(".")
        assert entry_of[part][field] is None
    promise = entry_of["differential_privacy"]
    assert promise["definition"] == "approximate differential privacy"
    assert "zero-concentrated" in promise["accounting"]
    assert promise["mechanisms"] == ["geometric", "gaussian", "exponential"]
    assert entry_of["implementation"]["model_sha256"] == model_digest(model)


def test_a_page_asks_for_nothing_from_elsewhere_and_is_not_its_twin(tmp_path):
    words, page, _ = written(small_model(), tmp_path)
    assert not {name for name, _ in words.attributes} & {"src", "srcset", "action", "style", "background"}
    assert all(value.startswith("#") for name, value in words.attributes if name == "href")
    assert b"@import" not in page
    assert b"url(" not in page
    with pytest.raises(OutputError, match="twin"):
        write_report(small_model(), tmp_path / "other.json")
    with pytest.raises(OutputError):
        write_report(small_model(), tmp_path / "missing" / "report.html")


def test_numbers_are_written_for_people():
    assert [figure(value) for value in (1e-5, 12345.678, math.inf, 0.9999999999999999)] == ["10⁻⁵", "12,346", "∞", "1"]
    assert figure(-0.5) == "\N{MINUS SIGN}0.5"
    assert [percent(0.9999), percent(1e-9)] == ["over 99.9 %", "under 0.1 %"]
    assert [signed(0.3123, 0.05), signed(0.0, None)] == ["+0.312 ± 0.050", "0"]
    assert signed(-0.3123, None) == "\N{MINUS SIGN}0.312"


def test_text_for_scripts_and_pages_is_inert():
    assert script_json("</script>&\u2028") == '"\\u003c/script\\u003e\\u0026⟨U+2028⟩"'
    assert visible("a\u202eb\nc") == "a⟨U+202E⟩b↵c"
    assert LabelWriter()("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert "<details" in LabelWriter()("x" * 100)
    assert "<details" not in LabelWriter(room_for_rests=50)("x" * 100)
    assert len(LabelWriter(room=0)("x" * 100)) < 40


def test_how_text_files_were_read_is_among_what_was_assumed(tmp_path):
    model = small_model.__wrapped__()
    assert report_content(model)["inputs"]["format"] is None
    model.schema_ = replace(model.schema_, format=Format(separator=";", missing_in={"x1": ["999"]}))
    assert "How text files were read: separator ';', missing in x1 '999'" in written(model, tmp_path)[0]
