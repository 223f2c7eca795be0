"""What the report says, and that its twin says the same."""

import json
import math
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report_models import HOSTILE, SCRIPT, hostile_model, large_model, mean_model, small_model, table, wide_model

from dpforest import DPForestClassifier, get_recipe, list_recipes, load_model
from dpforest.audit import Subject, audit
from dpforest.common.jsonable import jsonable
from dpforest.common.text import MINUS, figure, percent, share_figure, visible
from dpforest.errors import LeakWarning, OutputError, ParameterError
from dpforest.model.doubts import measured_words
from dpforest.model.file import model_digest
from dpforest.model.signal import Signal
from dpforest.parts.leaves import NoisyCounts
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import group_loss
from dpforest.schema import Format
from dpforest.show.report import write_report
from dpforest.show.report.charges import MOST_BLOCKS, grouped_charges, picture
from dpforest.show.report.content import certainty, guarantee, report_content
from dpforest.show.report.drawing import Drawing
from dpforest.show.report.html import LabelWriter, script_json

TWO_MEGABYTES = 2_000_000
RECIPES = [(recipe["name"], "private") for recipe in list_recipes()]
RECIPES += [(recipe["name"], "published") for recipe in list_recipes() if recipe["published"]]


class Words(HTMLParser):
    """The text of a page, and the names of its elements."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.elements, self.attributes, self._inside = [], [], [], []
        self.feed(page)

    def handle_starttag(self, name, attributes):
        self.elements.append(name)
        self.attributes += attributes
        if name in ("script", "style"):
            self._inside.append(name)

    def handle_endtag(self, name):
        if self._inside and self._inside[-1] == name:
            self._inside.pop()

    def handle_data(self, text):
        if not self._inside:
            self.parts.append(text)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.parts))


def written(model, folder, audit=None, about=None, budget=None):
    """The page's words, its bytes and the twin of a report."""
    write_report(model, folder / "report.html", audit, about, budget)
    page = (folder / "report.html").read_bytes()

    def refuse(constant):
        raise AssertionError(f"JSON has no {constant}.")

    return Words(page.decode()), page, json.loads((folder / "report.json").read_text(), parse_constant=refuse)


def silently(make, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)
        return make(*arguments, **named)


def entry(recipe="auto", variant="private", **changed):
    bound = {
        "epsilon": 0.7, "claimed": 1.0, "delta": 0.0, "exceeds": False, "words": "in words",
        "confidence": 0.999, "n_tested": 2000
    }  # fmt: skip
    replay = {"n_pairs": 200, "n_refused": 0, "findings": [], "closest": 0.98, "seconds": 1.0}
    content = {"recipe": recipe, "variant": variant, "epsilon": 1.0, "delta": 0.0, "replay": replay, "lower_bound": bound}
    return content | {"verdict": "nothing found"} | changed


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "variant"), RECIPES)
def test_every_recipe_has_a_report_that_says_what_its_statement_says(recipe, variant, tmp_path):
    model = silently(small_model, recipe, variant, max_depth=3)
    words, page, twin = written(model, tmp_path)
    assert len(page) < TWO_MEGABYTES
    assert twin["guarantee"]["holds"] == model.privacy_.holds
    assert twin["guarantee"]["sentence"] == model.privacy_.sentence
    assert len(twin["trees"]["nodes"]) == model.forest_.n_nodes
    assert Ledger.from_dict(twin["whole_ledger"]) == model.ledger_
    if model.privacy_.holds:
        assert model.privacy_.sentence in words.text
    else:
        assert "No privacy guarantee holds for this model." in words.text
        for reason in model.privacy_.reasons:
            assert reason in words.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda: small_model(delta=1e-5), id="delta"),
        pytest.param(lambda: small_model(epsilon=math.inf, max_depth=3, n_trees=5), id="no noise"),
        pytest.param(lambda: small_model("consul-2020", epsilon=math.inf), id="no noise in a forest"),
        pytest.param(lambda: mean_model(), id="mean"),
        pytest.param(lambda: mean_model(delta=1e-5), id="mean with delta"),
        pytest.param(lambda: mean_model("consul-2020"), id="mean of a forest"),
        pytest.param(lambda: mean_model(epsilon=math.inf, max_depth=3), id="mean without noise"),
    ],
)
def test_other_kinds_of_models_have_reports_too(model, tmp_path):
    model = model()
    words, page, twin = written(model, tmp_path)
    assert len(page) < TWO_MEGABYTES
    assert twin["making"]["digest"] == model_digest(model)
    assert ("No privacy guarantee" in words.text) == (not model.privacy_.holds)


def test_a_page_without_guarantee_makes_no_claim(tmp_path):
    words, _, twin = written(small_model(random_state=1), tmp_path)
    assert "random_state was given" in words.text
    assert not re.search(r"\bprivate\b", words.text, re.IGNORECASE)
    assert "at most" not in words.text.split("1. What could someone learn about me?")[1].split("2. About this release")[0]
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


def test_several_rows_lose_as_groups_do(tmp_path):
    statement = small_model(delta=1e-5).privacy_
    rows = {row["units"]: row for row in guarantee(statement)["several"]}
    assert rows[1]["delta"] == pytest.approx(statement.delta)
    assert rows[10]["epsilon"] == pytest.approx(10 * statement.epsilon)
    assert rows[2]["delta"] == pytest.approx(statement.to_dict()["replace_one"]["delta"])
    assert group_loss(5.0, 0.01, 10) == (50.0, 1.0)
    assert group_loss(5.0, 0.0, 10) == (50.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["auto", "guan-2020", "li-2020", "li-2022", "liu-2022", "friedman-schuster-2010"])
def test_shares_of_the_ledger_add_up_and_every_charge_is_counted(recipe):
    ledger = small_model(recipe).ledger_
    groups = grouped_charges(ledger)
    assert sum(group["share"] for group in groups) == pytest.approx(1)
    assert sum(group["charges"] for group in groups) >= ledger.n_entries
    whole = picture(ledger)

    def check(block):
        if block["children"]:
            assert sum(part["share"] for part in block["children"]) == pytest.approx(block["share"])
        for part in block["children"]:
            check(part)

    check(whole)
    assert whole["cost"] == ledger.spent


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


def test_side_by_side_scopes_cost_the_largest_and_a_bootstrap_its_exponential():
    ledger = Ledger(make_accountant(10.0, 0.0))
    with ledger.scope("two parts", "parallel"):
        for name, amount in (("first", 1.0), ("second", 3.0)):
            with ledger.scope(name):
                ledger.charge("leaves", "geometric", amount)
    with ledger.scope("bootstrap", "bootstrap", copies=2):
        ledger.charge("leaves", "geometric", 0.5)
    parallel, bootstrap = picture(ledger)["children"]
    assert parallel["cost"] == 3
    assert bootstrap["cost"] == pytest.approx(2 * math.expm1(0.5))


@pytest.mark.slow
def test_picture_of_a_ledger_with_many_different_parts_stays_small():
    ledger = Ledger(make_accountant(1e6, 0.0))
    for tree in range(80):
        with ledger.scope("tree"):
            for level in range(60):
                ledger.charge(Purpose("splits", level=level), "permute-and-flip", 1e-3 * (tree + 1) + 1e-6 * level)
    n_blocks, stack = 0, [picture(ledger)]
    while stack:
        block = stack.pop()
        n_blocks += 1
        stack += block["children"]
    assert 60 <= n_blocks <= MOST_BLOCKS + 61 * 60


@pytest.mark.slow
def test_leaks_are_loud(tmp_path):
    words, _, twin = written(silently(small_model, "consul-2020", "published"), tmp_path)
    assert "Exact values were opened without protection." in words.text
    assert "none: a leak" in words.text
    assert twin["ledger"]["spent"] == "inf"
    assert twin["deployment"]["differential_privacy"]["holds"] is False


def test_schema_read_off_the_rows_is_loud_and_whoever_vouched_is_named(tmp_path):
    X, y = table()
    assumed = DPForestClassifier("assume-public", epsilon=1.0).fit(X, y)
    assert "were read off the rows" in written(assumed, tmp_path)[0].text
    assert "nobody is named" in written(small_model(), tmp_path)[0].text
    assert "The registrar" in written(mean_model(), tmp_path)[0].text


def test_audit_of_this_recipe_is_shown_and_others_are_said_to_be_others(tmp_path):
    model = small_model()
    audit = {"audits": [entry(), entry("li-2020")], "attacks": []}
    words, _, twin = written(model, tmp_path, audit)
    assert "Nothing was found." in words.text
    assert "0.7 with 99.9 % confidence" in words.text
    assert len(twin["audit"]["entries"]) == 1
    words = written(model, tmp_path, {"audits": [entry("li-2020"), entry(variant="published")], "attacks": []})[0]
    assert "The attached audit is not about this model" in words.text
    assert "li-2020" in words.text
    words = written(model, tmp_path)[0]
    assert "dpforest audit --recipe auto --json" in words.text


def test_broken_claims_are_shown_with_their_findings(tmp_path):
    replay = {"n_pairs": 200, "findings": [{"words": SCRIPT}], "closest": 0.0}
    words, _, twin = written(
        small_model(), tmp_path, {"audits": [entry(replay=replay, verdict="claim broken")], "attacks": []}
    )
    assert "Claim broken." in words.text
    assert SCRIPT in words.text
    assert words.elements.count("script") == 2
    assert twin["audit"]["entries"][0]["findings"] == [SCRIPT]


class OwnLeaf(NoisyCounts):
    """A leaf that the library knows nothing about."""


def own_model(name="mine", **parts):
    own = replace(get_recipe("jagannathan-2009"), name=name, title=SCRIPT, paper="My notebook", claim="proved", **parts)
    return small_model.__wrapped__(own)  # a recipe with parameters has no hash to be kept by


def top(words):
    """What stands before the figures of the guarantee."""
    return words.text.split("Privacy loss, epsilon")[0]


def test_the_form_that_the_library_proves_is_that_of_the_catalogue_alone(tmp_path):
    assert "the form that the library proves" in written(small_model(), tmp_path)[0].text
    for model in (own_model(), own_model(leaf=OwnLeaf()), own_model("auto", leaf=OwnLeaf())):
        words, _, twin = written(model, tmp_path)
        assert "the form that the library proves" not in words.text
        assert "as whoever trained the model wrote it" in words.text
        assert "proved (according to whoever wrote the recipe)" in words.text
        assert "My notebook (according to whoever wrote the recipe)" in words.text
        assert twin["deployment"]["implementation"]["own_recipe"] is True
        assert twin["deployment"]["implementation"]["status_of_published_claim"] is None
        assert twin["deployment"]["differential_privacy"]["proof"] == twin["whole_ledger"]["proof"] == model.privacy_.proof


def test_an_own_recipe_is_announced_above_the_guarantee(tmp_path):
    words, _, twin = written(own_model(), tmp_path)
    assert "This is an own recipe, which the library did not review." in top(words)
    assert "none was attached" in top(words)
    assert twin["guarantee"]["own_recipe"] is True
    assert "not reviewed" not in top(written(small_model(), tmp_path)[0])


def test_parts_from_outside_are_named_above_the_guarantee_also_of_a_model_from_a_file(tmp_path):
    model = own_model("auto", leaf=OwnLeaf())
    model.save(tmp_path / "m.dpf")
    for each in (model, load_model(tmp_path / "m.dpf")):
        words, page, twin = written(each, tmp_path)
        assert "Not proved by the library." in top(words)
        assert "OwnLeaf" in top(words)
        assert "was paid for in a ledger" not in words.text
        assert b'role="alert"' in page
        assert twin["guarantee"]["outside"] == list(model.privacy_.outside)
        assert twin["deployment"]["differential_privacy"]["not_proved"] == list(model.privacy_.outside)
    # The file keeps the name only, and by that name the catalogue has another recipe.
    assert (twin["making"]["title"], twin["making"]["paper"], twin["making"]["claim"]) == (None, None, None)


def test_an_audit_of_an_own_recipe_is_told_from_one_of_the_catalogue_by_the_same_name(tmp_path):
    own, listed = own_model("auto", leaf=OwnLeaf()), small_model()
    of_both = {"audits": [entry(), entry(own=True, verdict="claim broken")]}
    words = written(own, tmp_path, of_both)[0]
    assert "An audit broke the claim of this algorithm. " in top(words)
    assert "Do not rely on the figures below." in top(words)
    assert "Nothing was found." in written(listed, tmp_path, of_both)[0].text
    words = written(own, tmp_path, {"audits": [entry(own=True)]})[0]
    assert "it found nothing, which does not prove the claim" in top(words)
    words = written(own, tmp_path, {"audits": [entry()]})[0]
    assert "the one that was attached is about other algorithms" in top(words)
    assert "from dpforest.audit import Subject, audit" in words.text


def test_an_audit_says_whether_its_recipe_is_an_own_one():
    own = own_model("auto", leaf=OwnLeaf()).recipe
    assert [audit(Subject(recipe), 1, 0).to_dict()["own"] for recipe in ("auto", own)] == [False, True]


@pytest.mark.parametrize("audit", [[], {"recipe": "auto"}, {"audits": [{}]}, {"audits": [3]}, {"audits": [entry(replay=5)]}])
def test_audit_that_is_none_is_refused_and_nothing_is_written(audit, tmp_path):
    with pytest.raises(ParameterError, match="dpforest audit --json"):
        write_report(small_model(), tmp_path / "report.html", audit)
    assert not list(tmp_path.iterdir())


def test_page_cannot_take_the_place_of_its_twin(tmp_path):
    with pytest.raises(OutputError, match="twin"):
        write_report(small_model(), tmp_path / "report.json")
    with pytest.raises(OutputError):
        write_report(small_model(), tmp_path / "missing" / "report.html")


def test_drawn_rules_say_what_the_forest_says():
    for model in (
        small_model(),
        small_model("consul-2020"),
        mean_model(),
        mean_model("consul-2020"),
        mean_model(delta=1e-5),
    ):
        drawing, rules = Drawing(Signal.of(model.forest_, model.ledger_)).to_dict(), model.forest_.rules()
        assert drawing["rules"]
        for _, node, _, _, size, _, _, _, _, label, value, *_ in drawing["rules"]:
            rule = rules[node]
            assert label == (drawing["texts"].index(str(rule["class"])) if "class" in rule else None)
            assert value == rule.get("adds", rule["mean"] if "mean" in rule else rule["confidence"])
            assert size == round(rule["support"], 2)


def test_drawn_conditions_are_those_of_the_forest():
    forest = small_model("consul-2020").forest_
    drawing = Drawing(Signal.of(forest, small_model("consul-2020").ledger_)).to_dict()
    rules = {rule["node"]: rule for rule in forest.rules()}
    assert len(drawing["rules"]) == forest.n_nodes
    for row in drawing["rules"]:
        assert [drawing["texts"][number] for number in row[3]] == rules[row[1]]["conditions"]
        assert row[4] == pytest.approx(rules[row[1]]["support"], abs=0.01)


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
        assert f"{share_figure(row['low'])} to {share_figure(row['high'])}" in words.text
    measured = model.forest_.n_records
    if measured is None:
        assert forest["records"] is None
    else:
        assert forest["records"] == {"value": measured.value, "band": pytest.approx(1.96 * measured.deviation)}
        assert measured_words(measured).removesuffix(".") in words.text
    drawing = Drawing(Signal.of(model.forest_, model.ledger_)).to_dict()
    # Labels, and leaves in which nothing is counted, have no noise.
    assert all(("±" in row[5]) == (model.forest_.variances[row[1]] > 0) for row in drawing["rules"])


@pytest.mark.slow
@pytest.mark.parametrize("make", [small_model, mean_model])
@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_the_page_says_of_a_rule_what_its_sentence_says(make, recipe):
    # Little budget, so that leads and sizes may be 0; seeded, so that some are.
    model = make(recipe, epsilon=0.1, random_state=2)
    drawing = Drawing(Signal.of(model.forest_, model.ledger_)).to_dict()
    sentences = {
        rule["node"]: said for rule, said in zip(model.forest_.rules(), model.forest_.rules_text().split("\n"), strict=True)
    }
    corrects = {rule["node"] for rule in model.forest_.rules() if "adds" in rule}
    shown = [row[1:2] + row[4:] for row in drawing["rules"]]
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
    assert "trees add up" not in words.text
    (idle,) = [row["feature"] for row in twin["forest"]["importances"] if not row["asked"]]
    assert idle == model.forest_.domain.names[1 - int(model.forest_.features[0])]
    assert "not asked" in words.text
    assert "whose band reaches 0" in words.text


def test_recipes_that_release_labels_show_no_counts(tmp_path):
    words, _, twin = written(small_model("fletcher-islam-2017"), tmp_path)
    assert "releases one label for each leaf and no counts" in words.text
    assert twin["forest"]["balance"] is None
    assert twin["forest"]["reliability"] is None


def test_reliability_divides_all_records_and_all_leaves(tmp_path):
    reliability = report_content(small_model("consul-2020"))["forest"]["reliability"]
    assert sum(group["share"] for group in reliability["bins"]) == pytest.approx(1)
    assert sum(group["leaves"] for group in reliability["bins"]) == reliability["leaves"]
    above = sum(group["share"] for group in reliability["bins"] if group["from"] >= 3)
    assert reliability["standing_out"] == pytest.approx(above, abs=1e-9)


def test_hostile_names_are_text_and_nothing_else(tmp_path):
    words, page, twin = written(hostile_model(), tmp_path, {"audits": [entry(SCRIPT)], "attacks": []})
    assert words.elements.count("script") == 2
    assert "img" not in words.elements
    assert not [name for name, _ in words.attributes if name.startswith("on")]
    assert SCRIPT in words.text
    assert b"\xe2\x80\xae" not in page, "a direction mark would turn the text around it"
    assert [feature["name"] for feature in twin["inputs"]["features"]][:2] == HOSTILE[:2]
    assert twin["inputs"]["target"]["classes"] == [*HOSTILE, ["tuple", 1], 3.5]


@pytest.mark.slow
@pytest.mark.parametrize("make", [large_model, wide_model])
def test_page_of_a_large_model_is_under_two_megabytes_and_says_what_is_left_out(make, tmp_path):
    model = make()
    words, page, twin = written(model, tmp_path)
    assert len(page) < TWO_MEGABYTES
    assert f"of {model.forest_.n_nodes:,} nodes" in words.text
    assert len(twin["trees"]["nodes"]) == model.forest_.n_nodes
    assert "more" in words.text


def test_report_of_a_loaded_model_is_that_of_the_model(tmp_path):
    model = small_model()
    model.save(tmp_path / "m.dpf")
    first, second = report_content(model), report_content(load_model(tmp_path / "m.dpf"))
    assert jsonable(first) == jsonable(second)


def test_deployment_entry_leaves_to_people_what_only_they_know(tmp_path):
    entry_of = written(small_model(epsilon=8.0, delta=1e-5), tmp_path)[2]["deployment"]
    for name in entry_of["to_be_filled_in"]:
        part, field = name.split(".")
        assert entry_of[part][field] is None
    promise = entry_of["differential_privacy"]
    assert promise["definition"] == "approximate differential privacy"
    assert "zero-concentrated" in promise["accounting"]
    assert promise["mechanisms"] == ["geometric", "gaussian", "exponential"]
    assert entry_of["implementation"]["model_sha256"] == model_digest(small_model(epsilon=8.0, delta=1e-5))


def test_page_asks_for_nothing_from_elsewhere(tmp_path):
    words, page, _ = written(small_model(), tmp_path)
    assert not {name for name, _ in words.attributes} & {"src", "srcset", "action", "style", "background"}
    assert all(value.startswith("#") for name, value in words.attributes if name == "href")
    assert b"@import" not in page
    assert b"url(" not in page


def test_numbers_are_written_for_people():
    assert figure(1e-5) == "10⁻⁵"
    assert figure(12345.678) == "12,346"
    assert figure(math.inf) == "∞"
    assert figure(-0.5) == "\N{MINUS SIGN}0.5"
    assert figure(0.9999999999999999) == "1"
    assert percent(0.9999) == "over 99.9 %"
    assert percent(1e-9) == "under 0.1 %"


def test_text_for_scripts_and_pages_is_inert():
    assert script_json("</script>&\u2028") == '"\\u003c/script\\u003e\\u0026⟨U+2028⟩"'
    assert visible("a\u202eb\nc") == "a⟨U+202E⟩b↵c"
    assert LabelWriter()("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert "<details" in LabelWriter()("x" * 100)
    assert "<details" not in LabelWriter(room_for_rests=50)("x" * 100)
    assert len(LabelWriter(room=0)("x" * 100)) < 40


@pytest.mark.parametrize(("recipe", "released"), [("fletcher-islam-2017", "labels"), ("jagannathan-2009", "counts")])
def test_the_registry_entry_says_what_the_trees_release(tmp_path, recipe, released):
    _, _, twin = written(small_model(recipe=recipe), tmp_path)
    product = twin["deployment"]["deployment"]["data_product"]
    assert product["form"].endswith(f" with released {released}")
    assert f"{released} of nodes" in product["released"]


def test_how_text_files_were_read_is_among_what_was_assumed(tmp_path):
    model = small_model()
    assert report_content(model)["inputs"]["format"] is None
    model.schema_ = replace(model.schema_, format=Format(separator=";", missing_in={"x1": ["999"]}))
    write_report(model, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "How text files were read:</strong> <bdi>separator &#39;;&#39;, missing in x1 &#39;999&#39;</bdi>" in page
