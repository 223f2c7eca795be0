"""The section on what the model learnt: the page, its pictures and the twin say the same."""

import json
import re

import numpy as np
import pytest
from report_models import SCRIPT, hostile_model, large_model, mean_model, small_model
from test_report_page import browser, opened, reports  # noqa: F401

from dpforest.show.report import write_report
from dpforest.show.report.effects import MOST_EFFECTS, effects_content, effects_section, signed


def written(model, folder):
    write_report(model, folder / "r.html")
    page = (folder / "r.html").read_text()
    return re.search(r'<section id="effects".*?</section>', page, re.DOTALL)[0], json.loads((folder / "r.json").read_text())


def test_page_and_twin_have_the_values_of_the_model(tmp_path):
    model = small_model("jagannathan-2009", random_state=1)
    section, twin = written(model, tmp_path)
    found = model.effects()
    assert [effect["feature"] for effect in twin["effects"]["features"]] == [effect.feature for effect in found.features]
    assert twin["effects"]["scale"] == "probability"
    part, same = found.features[0].parts[0], twin["effects"]["features"][0]["parts"][0]
    assert same["effects"] == pytest.approx(part.effects)
    assert same["bands"] == pytest.approx(part.bands)
    assert signed(part.effects[0], part.bands[0]) in section
    assert np.array(twin["effects"]["pairs"][0]["effects"]).shape == found.pairs[0].effects.shape
    assert "probability of <bdi>1</bdi>" in section


def test_plain_values_are_json_and_complete():
    found = small_model(random_state=1).effects()
    content = json.loads(json.dumps(effects_content(found)))
    assert set(content) == {"outputs", "scale", "base", "features", "pairs", "no_band"}
    assert len(content["features"][0]["parts"]) == len(found.features[0].parts)


@pytest.mark.parametrize("make", [mean_model, lambda: small_model("fletcher-islam-2017", random_state=1), small_model])
def test_every_kind_of_model_has_the_section(make, tmp_path):
    section, twin = written(make(), tmp_path)
    assert "What the model learnt" in section
    assert section.count("<svg") == section.count("</svg>") > 0
    if twin["effects"]["no_band"]:
        assert twin["effects"]["no_band"] in section


def test_an_effect_in_words_has_a_sign_and_its_band():
    assert signed(0.3123, 0.05) == "+0.312 ± 0.050"
    assert signed(-0.3123, None) == "\N{MINUS SIGN}0.312"
    assert signed(0.0, None) == "0"


def test_a_forest_without_splits_says_so(tmp_path):
    model = small_model("consul-2020", epsilon=2.0, n_trees=2, random_state=5)
    whole = model.forest_
    model.forest_ = whole.without_children(np.arange(2))
    section, twin = written(model, tmp_path)
    model.forest_ = whole
    assert "No tree asks for any column" in section
    assert twin["effects"]["features"] == []


@pytest.mark.slow
def test_hostile_names_are_text_and_many_columns_are_cut(tmp_path):
    section, _ = written(hostile_model(random_state=3), tmp_path)
    assert SCRIPT not in section
    assert "&lt;script&gt;" in section
    assert "\u202e" not in section
    model = large_model()
    section, twin = written(model, tmp_path)
    assert section.count('<figure class="effect') <= MOST_EFFECTS + 2
    assert "weaker columns are left out here" in section
    assert len(twin["effects"]["features"]) == int(model.forest_.asked.sum())
    assert len(section) < 600_000


def test_a_picture_has_a_place_to_point_at_for_every_value():
    section = effects_section(small_model("jagannathan-2009", random_state=1).effects())
    for picture in section["pictures"]:
        assert picture.marks
        assert all(mark.start <= mark.stop and mark.said for mark in picture.marks)
        if picture.kind == "curve":
            assert picture.marks[0].start == 46
            assert picture.marks[-1].stop == 304


@pytest.mark.site
def test_a_column_is_chosen_and_read_by_keyboard(opened):  # noqa: F811
    page = opened("forest")
    choice, stage, detail = page.locator("#effect-choice"), page.locator("#effect-stage"), page.locator("#effect-detail")
    assert choice.locator("option").count() == page.locator("#effect-pictures figure").count() == 3
    first = stage.locator("figcaption strong").inner_text()
    choice.focus()
    page.keyboard.press("ArrowDown")
    assert stage.locator("figcaption strong").inner_text() != first
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    rows = stage.locator("tbody tr")
    said = rows.nth(0).locator("td").text_content()
    assert detail.inner_text() == f"{rows.nth(0).locator('th bdi').text_content()}: {said}"
    page.keyboard.press("End")
    assert detail.inner_text().startswith("missing: ")
    assert stage.locator(".hit.chosen").count() == 1
    stage.locator(".hit").nth(1).hover()
    assert rows.nth(1).locator("td").text_content() in detail.inner_text()


@pytest.mark.site
def test_pictures_are_seen_without_scripts_and_in_print(opened):  # noqa: F811
    page = opened("forest", java_script_enabled=False)
    assert page.locator("#effect-pictures svg:visible").count() == 3
    assert not page.locator("#effect-choice").is_visible()
    page.locator("#effect-pictures details summary").first.click()
    assert page.locator("#effect-pictures table:visible").count() == 1
    page = opened("forest")
    page.emulate_media(media="print")
    assert page.locator("#effect-pictures svg:visible").count() == 3
    assert not page.locator("#effect-stage").is_visible()
