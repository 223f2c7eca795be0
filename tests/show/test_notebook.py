"""What notebooks show: small, escaped, and the same facts as the plain text."""

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.show.reading import Words, lacks

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.errors import LeakWarning
from dpforest.show.report.html import panel

HOSTILE = "<script>alert(1)</script>\u202e'\"&\0\n"


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    schema = Schema({"age": Numeric(0, 120, integer=True), HOSTILE: Categorical([HOSTILE, "b"])}, Classes(["no", HOSTILE]))
    X = np.empty((2000, 2), dtype=object)
    X[:, 0], X[:, 1] = rng.integers(0, 120, 2000), "b"
    return DPForestClassifier(schema, 1.0).fit(X, rng.choice(["no", HOSTILE], 2000))


@pytest.mark.parametrize("what", ["schema_", "privacy_", "ledger_"])
def test_what_a_notebook_shows_is_small_escaped_and_asks_for_nothing(model, what):
    text = getattr(model, what)._repr_html_()
    seen = Words(text)
    assert "script" not in seen.elements
    assert not {name for name, _ in seen.attributes} & {"src", "href", "style", "onload"}
    assert "url(" not in text
    assert "\u202e" not in text
    assert len(text) < 5000
    # Colours are those of the notebook, but for lines that are seen on any ground.
    assert not re.search(r"#[0-9a-f]{3}", text)
    assert "<" + "div" in text
    assert not repr(getattr(model, what)).startswith("<div")


def test_a_schema_shows_its_columns_and_values(model):
    seen = Words(model.schema_._repr_html_())
    assert "0 to 120, whole numbers" in seen.text
    assert "<script>alert(1)</script>" in seen.text
    many = Schema(
        {f"c{index}": Categorical(range(100)) for index in range(60)}, Bounded(), n_rows=1000, vouched_by="The office"
    )
    assert lacks(Words(many._repr_html_()), "and 92 more", "and 21 more", "1,000, declared public", "The office") == []
    dates = Schema({"day": Date(), "at": Date(time=True)}, Classes([0, 1]))
    assert {"date", "point in time"} <= set(Words(dates._repr_html_()).parts)


def test_a_statement_shows_its_sentence_and_whether_it_holds(model):
    seen = Words(model.privacy_._repr_html_()).text
    assert "the guarantee holds" in seen
    assert model.privacy_.sentence[:100] in seen


def test_a_ledger_shows_what_the_loss_was_spent_on(model):
    seen = Words(model.ledger_._repr_html_())
    shares = [float(word.removesuffix(" %")) for word in seen.parts if word.endswith(" %")]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    assert f"{model.ledger_.n_entries} charge" in seen.text
    assert sum(int(word) for word in seen.parts if word.isdigit()) == model.ledger_.n_entries


def test_a_ledger_of_what_was_opened_says_so(model):
    printed = DPForestClassifier(model.schema_, 1.0, recipe="dong-2022", variant="published")
    with pytest.warns(LeakWarning):
        printed.fit([[1, "b"], [2, "b"]] * 20, ["no", HOSTILE] * 20)
    assert "opened without protection" in Words(printed.ledger_._repr_html_()).text


def loud(text):
    found = re.search(r'<strong class="dpforest-alarm">(.*?)</strong>', text)
    return found[1] if found else ""


@pytest.mark.filterwarnings("ignore::dpforest.errors.NothingLearntWarning")
def test_the_loudest_thing_is_that_no_guarantee_holds(model):
    assert not any(loud(part._repr_html_()) for part in (model.schema_, model.privacy_, model.ledger_))
    seeded = DPForestClassifier(model.schema_, 1.0, random_state=0).fit([[1, "b"]] * 20, ["no"] * 20)
    assert "NO guarantee holds" in loud(seeded.privacy_._repr_html_())
    exact = DPForestClassifier(model.schema_, np.inf).fit([[1, "b"]] * 20, ["no"] * 20)
    assert "NO bound on the loss" in loud(exact.ledger_._repr_html_())
    assert "no bound" in Words(exact.ledger_._repr_html_()).text
    assert "NO guarantee holds" in loud(replace(model.schema_, source="assume-public")._repr_html_())


def test_each_note_of_a_statement_is_a_paragraph_of_its_own(model):
    noted = replace(model.privacy_, notes=("chosen by a private search", "delta = 1 is larger than 1 / (number of rows)"))
    text = noted._repr_html_()
    assert text.count("<p><bdi>Note: ") == 2
    assert "<p><bdi>Note: chosen by a private search.</bdi></p>" in text
    assert f"<p><bdi>{noted.sentence}</bdi></p>" in text


def test_pieces_are_escaped_cut_and_isolated():
    text = panel("<t>", ["a & b"], [("<b>", "x" * 10_000), *[("n", "1")] * 44])
    assert lacks(text, "<strong>&lt;t&gt;<", "<p><bdi>a &amp; b</bdi></p>", "<bdi>&lt;b&gt;</bdi>", "and 5 more") == []
    assert "<thead>" not in text
    assert "x" * 80 not in text
