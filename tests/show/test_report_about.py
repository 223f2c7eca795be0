"""What people say of a release, on the page and in its twin, and what stays open."""

import json
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
from tests.show.reading import entry, is_inert, lacks, written
from tests.support.fitted import HOSTILE, SCRIPT, hostile_model, mean_model, small_model

from dpforest import DPForestClassifier
from dpforest.errors import ParameterError
from dpforest.show.report import write_report
from dpforest.show.report.attached import FIELDS, FROM_A_PERSON, MOST_CHARACTERS, OPTIONS, about_content, unsaid
from dpforest.show.report.html import SECTIONS

ALL = {name: f"the {name} of it" for name in FIELDS} | {"release_date": "2026-07-25"}


def release(words):
    """The text of the section about the release."""
    return words.between("2. About this release", "3. What is not covered")


def test_what_is_said_stands_on_the_page_and_in_the_twin(tmp_path):
    DPForestClassifier.save_report(small_model(), tmp_path / "r.html", about={"purpose": "To plan beds"})
    assert json.loads((tmp_path / "r.json").read_text())["about"]["purpose"] == "To plan beds"
    words, _, twin = written(small_model(), tmp_path, about=ALL)
    for name, text in ALL.items():
        assert f"{FIELDS[name]}{text}" in release(words)
        assert twin["about"][name] == text
    assert "not stated" not in release(words)
    assert ALL["dataset"] in words.text.split("1. What could someone learn")[0]


def test_what_is_not_said_stays_visibly_open(tmp_path):
    words, _, twin = written(small_model(), tmp_path)
    for name in OPTIONS:
        assert f"{FIELDS[name]}not stated (fill it in with --{name.replace('_', '-')})" in release(words)
    for name in FIELDS.keys() - {*OPTIONS}:
        assert FIELDS[name].lower() in release(words).split("Also not stated")[1].split("--about FILE")[0]
    assert set(twin["about"].values()) == {None}
    words = written(small_model(), tmp_path, about={"purpose": "To plan beds", "contact": " "})[0]
    assert "PurposeTo plan beds" in release(words)
    assert "Contactnot stated" in release(words)
    assert "intended use" not in release(words)


def test_registry_fields_are_filled_and_only_open_ones_are_listed(tmp_path):
    entry_of = written(small_model(), tmp_path, about=ALL)[2]["deployment"]
    assert entry_of["to_be_filled_in"] == []
    assert {name: entry_of["deployment"][name] for name in FROM_A_PERSON} == {name: ALL[name] for name in FROM_A_PERSON}
    some = {"dataset": "Ward 7", "purpose": "To plan beds", "access": "staff"}
    entry_of = written(small_model(), tmp_path, about=some)[2]["deployment"]
    wanted = {*FROM_A_PERSON} - {"dataset", "access", "intended_use"}
    assert {*entry_of["to_be_filled_in"]} == {f"deployment.{name}" for name in wanted}
    assert entry_of["deployment"]["intended_use"] == "To plan beds"
    assert entry_of["implementation"]["trained_on"] == small_model().trained_on_


def test_the_file_of_the_guide_says_everything_that_can_be_said_and_a_registry_asks():
    assert {*FROM_A_PERSON, *OPTIONS} <= {*FIELDS}
    guide = Path(__file__).parents[2] / "docs" / "guide" / "report.md"
    (block,) = re.findall(r"^```toml\n(.*?)^```$", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert all(about_content(tomllib.loads(block)).values())


def test_files_may_hold_versions_without_quotes():
    said = about_content({"dataset_version": 3, "release_date": date(2026, 7, 25), "contact": None, "access": ""})
    assert (said["dataset_version"], said["release_date"]) == ("3", "2026-07-25")
    assert (said["contact"], said["access"]) == (None, None)
    assert unsaid(said) == [name for name in FIELDS if name not in ("dataset_version", "release_date")]


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"purpos": "x"}, f"about has no field 'purpos'. Known are: {', '.join(FIELDS)}."),
        ({3: "x"}, "about has no field 3"),
        ({"purpose": ["x"]}, "'purpose' must be a text, not a value of type list"),
        ({"purpose": True}, "'purpose' must be a text, not True"),
        ({"purpose": "x" * (MOST_CHARACTERS + 1)}, "'purpose' has 10,001 characters"),
        ({"release_date": "next week"}, "'release_date' must be a date such as 2026-07-25, not 'next week'"),
        ("purpose", "about must map fields to texts"),
        ([("purpose", "x")], "about must map fields to texts"),
    ],
)
def test_other_entries_are_refused_and_nothing_is_written(about, words, tmp_path):
    with pytest.raises(ParameterError, match=re.escape(words)):
        write_report(small_model(), tmp_path / "report.html", about=about)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_hostile_texts_are_text_and_nothing_else(tmp_path):
    names = [name for name in FIELDS if name != "release_date"]
    about = {name: text[:MOST_CHARACTERS] for name, text in zip(names, HOSTILE, strict=True)}
    words, page, twin = written(hostile_model(), tmp_path, about=about)
    assert is_inert(words, page)
    assert lacks(release(words), SCRIPT, "{{ 7 * 7 }}") == []
    assert SCRIPT in words.between("4. What was assumed to be public", "5. The budget")
    assert len(page) < 2_000_000
    assert [feature["name"] for feature in twin["inputs"]["features"]][:2] == HOSTILE[:2]
    assert twin["inputs"]["target"]["classes"] == [*HOSTILE, ["tuple", 1], 3.5]
    assert all(twin["about"][name] == text.strip() for name, text in about.items())


def test_the_page_says_when_the_model_was_trained_and_who_vouched(tmp_path):
    words, _, twin = written(mean_model(), tmp_path)
    assert f"Model trained on{mean_model().trained_on_}" in release(words)
    assert "Who vouched for what is publicThe registrar" in release(words)
    assert twin["making"]["trained_on"] == mean_model().trained_on_
    older = small_model.__wrapped__()
    older.trained_on_ = None
    words, _, twin = written(older, tmp_path)
    earlier = "Model trained onnot recorded (its file is of an earlier version)"
    assert lacks(release(words), "nobody is named", earlier) == []
    assert twin["deployment"]["implementation"]["trained_on"] is None


def test_there_is_a_place_to_sign_that_says_what_is_signed(tmp_path):
    words = written(small_model(), tmp_path, about={"purpose": "To plan beds"})[0]
    signed = release(words).split("Signature")[1]
    assert "I have read this report. The model with the hash above may be released for the purpose above." in signed
    assert lacks(signed, "Name", "Role", "Date") == []
    assert release(words).rstrip().endswith("Signature")
    assert "for the purpose above" not in release(written(small_model(), tmp_path)[0])


def test_nobody_signs_that_a_model_without_guarantee_may_be_released(tmp_path):
    seeded = small_model(random_state=1)
    signed = release(written(seeded, tmp_path)[0])
    assert "I have read this report, and that no privacy guarantee holds for this model." in signed
    assert "may be released" not in signed
    signed = release(written(small_model(), tmp_path, {"audits": [entry(verdict="claim broken")]})[0])
    assert "I have read this report, and that an audit broke the claim" in signed
    assert "may be released" not in signed


def test_the_first_section_answers_in_plain_words(tmp_path):
    words = written(small_model(), tmp_path)[0]
    before_figures = words.between("1. What could someone learn about me?", "In terms of differential privacy")
    said = ("can be at most 73.1 % sure that it was", "What is true of people like you is not hidden")
    assert lacks(before_figures, *said, "How sure someone can become") == []
    plain = before_figures.split("If someone has several rows")[0]
    assert not re.search("epsilon|delta|ε|δ|mechanism|ledger", plain)


def test_a_limit_that_hides_little_is_said_to_hide_little(tmp_path):
    words = written(small_model(epsilon=8.0), tmp_path)[0]
    certain = "they can be almost certain (over 99.9 %) that it was, and as certain that it was not."
    assert lacks(words, certain, "A limit this high hides little about any one record: ε is large.") == []
    assert "at most over" not in words
    assert "hides little" not in written(small_model(), tmp_path)[0]


def test_sections_are_numbered_as_they_are_listed_and_referred_to(tmp_path):
    page = written(small_model(), tmp_path)[1].decode()
    assert re.findall(r'<section id="([a-z]+)"', page) == [*SECTIONS]
    for number, (name, titles) in enumerate(SECTIONS.items(), 1):
        assert f'<h2 id="{name}-title">{number}. {titles[1]}</h2>' in page
    for name, number in re.findall(r'href="#([a-z]+)">section (\d+)<', page):
        assert [*SECTIONS].index(name) + 1 == int(number)
