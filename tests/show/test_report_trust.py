"""What a report says when a claim is not the library's, was broken, or is weaker than it looks."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.show.reading import entry, lacks, silently, written
from tests.support.fitted import SCRIPT, small_model

from dpforest import DPForestClassifier, get_recipe, list_recipes, load_model
from dpforest.audit import Subject, audit
from dpforest.errors import ParameterError, UncoveredWarning
from dpforest.parts.leaves import NoisyCounts
from dpforest.recipes.catalogue import fingerprint
from dpforest.recipes.planner import plan_forest
from dpforest.show.report import write_report

pytestmark = pytest.mark.slow

BASE = get_recipe("jagannathan-2009")


class OwnLeaf(NoisyCounts):
    """A leaf that the library knows nothing about."""


def own_model(name="mine", **parts):
    own = replace(BASE, name=name, title=SCRIPT, paper="My notebook", claim="proved", **parts)
    return small_model.__wrapped__(own)  # a recipe with parameters has no hash to be kept by


@dataclass(frozen=True)
class Careless(NoisyCounts):
    """A leaf from outside with a setting of its own."""

    times: int = 1


class OwnForest(DPForestClassifier):
    pass


def audited(recipe, **subject):
    return {"audits": [audit(Subject(recipe, **subject), n_pairs=1, n_fits=0).to_dict()]}


def top(words):
    """What stands before the figures of the guarantee."""
    return words.text.split("Privacy loss, epsilon")[0]


def test_an_audit_of_this_recipe_is_shown_and_others_are_said_to_be_others(tmp_path):
    model = small_model()
    words, _, twin = written(model, tmp_path, {"audits": [entry(), entry("li-2020")], "attacks": []})
    assert lacks(words, "Nothing was found.", "0.7 with 99.9 % confidence") == []
    assert len(twin["audit"]["entries"]) == 1
    words = written(model, tmp_path, {"audits": [entry("li-2020"), entry(variant="published")], "attacks": []})[0]
    assert lacks(words, "The attached audit is not about this model", "li-2020") == []
    assert "dpforest audit --recipe auto --json" in written(model, tmp_path)[0]


@pytest.mark.parametrize("audit", [[], {"recipe": "auto"}, {"audits": [{}]}, {"audits": [3]}, {"audits": [entry(replay=5)]}])
def test_an_audit_that_is_none_is_refused_and_nothing_is_written(audit, tmp_path):
    with pytest.raises(ParameterError, match="dpforest audit --json"):
        write_report(small_model(), tmp_path / "report.html", audit)
    assert not list(tmp_path.iterdir())


def test_an_own_recipe_is_announced_and_not_called_proved(tmp_path):
    listed = written(small_model(), tmp_path)[0]
    assert "the form that the library proves" in listed
    assert "not reviewed" not in top(listed)
    for model in (own_model(), own_model(leaf=OwnLeaf()), own_model("auto", leaf=OwnLeaf())):
        words, _, twin = written(model, tmp_path)
        assert "the form that the library proves" not in words
        by_its_author = [f"{said} (according to whoever wrote the recipe)" for said in ("proved", "My notebook")]
        assert lacks(words, "as whoever trained the model wrote it", *by_its_author) == []
        assert twin["deployment"]["implementation"]["own_recipe"] is True
        assert twin["deployment"]["implementation"]["status_of_published_claim"] is None
        assert twin["deployment"]["differential_privacy"]["proof"] == twin["whole_ledger"]["proof"] == model.privacy_.proof
    words, _, twin = written(own_model(), tmp_path)
    assert lacks(top(words), "This is an own recipe, which the library did not review.", "none was attached") == []
    assert twin["guarantee"]["own_recipe"] is True


def test_parts_from_outside_are_named_above_the_guarantee_also_of_a_model_from_a_file(tmp_path):
    model = own_model("auto", leaf=OwnLeaf())
    model.save(tmp_path / "m.dpf")
    for each in (model, load_model(tmp_path / "m.dpf")):
        words, page, twin = written(each, tmp_path)
        assert lacks(top(words), "Not proved by the library.", "OwnLeaf") == []
        assert "was paid for in a ledger" not in words
        assert b'role="alert"' in page
        assert twin["guarantee"]["outside"] == list(model.privacy_.outside)
        assert twin["deployment"]["differential_privacy"]["not_proved"] == list(model.privacy_.outside)
    # The file keeps the name only, and by that name the catalogue has another recipe.
    assert (twin["making"]["title"], twin["making"]["paper"], twin["making"]["claim"]) == (None, None, None)


def test_an_audit_of_an_own_recipe_is_told_from_one_of_the_catalogue_by_the_same_name(tmp_path):
    own, listed = own_model("auto", leaf=OwnLeaf()), small_model()
    assert [audit(Subject(recipe), 1, 0).to_dict()["own"] for recipe in ("auto", own.recipe)] == [False, True]
    of_both = {"audits": [entry(), entry(own=True, verdict="claim broken")]}
    broken = ("An audit broke the claim of this algorithm. ", "Do not rely on the figures below.")
    assert lacks(top(written(own, tmp_path, of_both)[0]), *broken) == []
    assert "Nothing was found." in written(listed, tmp_path, of_both)[0]
    words = written(own, tmp_path, {"audits": [entry(own=True)]})[0]
    assert "it found nothing, which does not prove the claim" in top(words)
    words = written(own, tmp_path, {"audits": [entry()]})[0]
    assert "the one that was attached is about other algorithms" in top(words)
    assert "from dpforest.audit import Subject, audit" in words


def test_an_audit_of_other_parts_under_the_same_name_is_not_taken(tmp_path):
    model = own_model(leaf=Careless(times=2))
    model.save(tmp_path / "m.dpf")
    for each in (model, load_model(tmp_path / "m.dpf")):
        for other in (replace(model.recipe, leaf=Careless(times=1)), replace(model.recipe, leaf=OwnLeaf())):
            words, _, twin = written(each, tmp_path, audited(other))
            assert twin["audit"]["entries"] == []
            assert "It is about: mine (with other parts)." in words
        words, _, twin = written(each, tmp_path, audited(model.recipe))
        assert len(twin["audit"]["entries"]) == 1
        assert "name only" not in words


def test_an_audit_of_another_estimator_is_not_taken(tmp_path):
    model = OwnForest(small_model().schema, recipe=BASE).fit([[0.0, 0.0, 0.0]], [0])
    for kind, n_entries in ((type("OtherForest", (DPForestClassifier,), {}), 0), (OwnForest, 1)):
        assert len(written(model, tmp_path, audited(BASE, classifier=kind))[2]["audit"]["entries"]) == n_entries


def test_parameters_that_were_set_are_parts_too_and_the_page_says_how_to_audit_them(tmp_path):
    model = small_model.__wrapped__("rana-2015", recipe_params={"k": 2}, max_depth=2)
    words, _, twin = written(model, tmp_path, audited("rana-2015"))
    assert twin["audit"]["entries"] == []
    assert "from dpforest.audit import Subject, audit" in words
    recipe = get_recipe("rana-2015").with_parameters({"k": 2})
    assert len(written(model, tmp_path, audited(recipe))[2]["audit"]["entries"]) == 1


def test_without_a_fingerprint_an_audit_is_said_to_be_matched_by_name(tmp_path):
    model = small_model()
    assert "name only" in written(model, tmp_path, {"audits": [entry()]})[0].text
    assert "name only" not in written(model, tmp_path, audited("auto"))[0].text
    model.save(tmp_path / "m.dpf")
    older = load_model(tmp_path / "m.dpf")
    content = older.privacy_.to_dict()
    del content["fingerprint"]
    older.privacy_ = type(older.privacy_).from_dict(content)
    words, _, twin = written(older, tmp_path, audited("auto"))
    assert len(twin["audit"]["entries"]) == 1
    assert "name only" in words


def test_fingerprints_are_the_same_in_every_process_and_differ_between_recipes():
    listed = {recipe["name"]: fingerprint(get_recipe(recipe["name"])) for recipe in list_recipes()}
    assert len({*listed.values()}) == len(listed)
    code = (
        "import json; from dpforest import get_recipe, list_recipes; from dpforest.recipes.catalogue import fingerprint; "
        "print(json.dumps({each['name']: fingerprint(get_recipe(each['name'])) for each in list_recipes()}))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(other.stdout) == listed


def test_every_part_counts_for_a_fingerprint_and_a_copy_has_it():
    planners = (plan_forest, partial(plan_forest, 1), partial(plan_forest, 2), Careless(3).release)
    changes = [{"leaf": Careless(2)}, {"leaf": OwnLeaf()}, {"n_trees": 11}, *({"planner": each} for each in planners)]
    found = [fingerprint(replace(BASE, **parts)) for parts in changes]
    assert found == [fingerprint(replace(BASE, **parts)) for parts in changes]
    assert len({*found, fingerprint(BASE)}) == 1 + len(changes)
    for name in ("auto", "guan-2020"):
        assert fingerprint(replace(get_recipe(name))) == fingerprint(get_recipe(name))


def test_parts_that_cannot_be_shown_have_no_fingerprint_and_no_error():
    endless = ()
    for _ in range(5000):
        endless = (endless,)
    assert fingerprint(replace(BASE, stop=endless)) == ""


def test_a_claim_that_an_audit_broke_is_no_longer_promised(tmp_path):
    replay = {"n_pairs": 200, "findings": [{"words": SCRIPT}], "closest": 0.0}
    broken = {"audits": [entry(replay=replay, verdict="claim broken")], "attacks": []}
    words, _, twin = written(small_model(), tmp_path, broken)
    assert words.text.count("claimed; an audit broke it") == 2
    assert words.elements.count("script") == 2
    promised = ("if someone thought it 50 : 50", "This model is differentially private with epsilon = 1")
    assert lacks(words, *(f"If the claim were true: {promise}" for promise in promised)) == []
    assert lacks(words, "Claim broken.", SCRIPT, "Then this holds whatever else they know") == []
    assert twin["audit"]["entries"][0]["findings"] == [SCRIPT]
    promise = twin["deployment"]["differential_privacy"]
    assert (promise["holds"], promise["why_not"]) == (False, ["an audit broke the claim"])
    promise = written(small_model(), tmp_path, {"audits": [entry()]})[2]["deployment"]["differential_privacy"]
    assert (promise["holds"], promise["why_not"]) == (True, [])


def test_what_parts_from_outside_draw_and_do_is_not_asserted(tmp_path):
    words, _, twin = written(own_model(leaf=OwnLeaf()), tmp_path)
    unknown = "no seed was given. What the parts from outside draw is not known."
    declared = ("As declared, all nodes of a level hold different records", "If what is declared is true: if someone")
    assert lacks(words, unknown, *declared, "Then this holds whatever else they know") == []
    implementation = twin["deployment"]["implementation"]
    for name in ("samplers", "randomness"):
        assert implementation[name].endswith("not known of the parts from outside")
    words, _, twin = written(own_model(), tmp_path)
    assert "not known" not in twin["deployment"]["implementation"]["samplers"]
    assert lacks(words, "No seed was given.", "own recipe 'mine' made of the library's parts") == []


def test_notes_that_weaken_the_promise_are_said_with_it(tmp_path):
    X, y = [[0.0, 1.0, 0.0]] * 40, [0, 1] * 20
    schema = replace(small_model().schema, n_rows=40)
    last = DPForestClassifier(schema, epsilon=1.0, delta=0.1, max_rows_per_person=1)
    with pytest.warns(UncoveredWarning) as caught:
        make_pipeline(StandardScaler(), last).fit(X, y, dpforestclassifier__groups=list(range(40)))
    (warned,) = [str(each.message) for each in caught if each.category is UncoveredWarning]
    assert warned.startswith("The guarantee covers the forest alone; steps of the Pipeline")
    assert warned.endswith("as they are.")
    large = (
        "delta = 0.1 is larger than 1 / (number of rows), 1 / 40: so large a delta would also allow whole records, drawn by "
        "lot, to be published; choose delta well below 1 / rows"
    )
    assert f" Note: {large}. Note: {warned}" in str(last.privacy_)
    assert "rows without an id" not in str(last.privacy_)
    assert lacks(written(last, tmp_path)[0].text.split("How sure someone can become")[0], large, warned) == []


def test_small_words_of_the_page_are_right(tmp_path):
    own, several = own_model("auto", leaf=OwnLeaf()), [entry(), entry("li-2020", own=True), entry("li-2020", "published")]
    named = "It is about: auto (the library's), li-2020 (own recipe), li-2020 (as printed)."
    assert named in written(own, tmp_path, {"audits": several})[0]
    proved = "What is provedEach part and their combination are proved by the library, beside its code."
    measured = "not declared; the fit measured it with noise (section 10)."
    printed = silently(small_model, "li-2020", "published", max_depth=2)
    for model, *said in (
        (small_model(), "dpforest report MODEL --out PAGE --audit FILE", measured, proved),
        (small_model("jagannathan-2009", max_depth=1), "not declared; it stays protected.", "at most 1 question deep"),
        (printed, "--recipe li-2020 --variant published --json"),
    ):
        assert lacks(written(model, tmp_path)[0], *said) == []
