"""What a report says when a claim is not the library's, was broken, or is weaker than it looks."""

import importlib
import json
import linecache
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

import pytest
from report_models import small_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_report_content import OwnLeaf, entry, own_model, silently, written

from dpforest import DPForestClassifier, get_recipe, list_recipes, load_model
from dpforest.audit import Subject, audit
from dpforest.errors import UncoveredWarning
from dpforest.parts.leaves import NoisyCounts
from dpforest.recipes.fingerprint import fingerprint
from dpforest.recipes.planner import plan_forest

pytestmark = pytest.mark.slow

BASE = get_recipe("jagannathan-2009")


@dataclass(frozen=True)
class Careless(NoisyCounts):
    """A leaf from outside with a setting of its own."""

    times: int = 1


class OwnForest(DPForestClassifier):
    pass


def audited(recipe, **subject):
    return {"audits": [audit(Subject(recipe, **subject), n_pairs=1, n_fits=0).to_dict()]}


def test_an_audit_of_other_parts_under_the_same_name_is_not_taken(tmp_path):
    model = own_model(leaf=Careless(times=2))
    model.save(tmp_path / "m.dpf")
    for each in (model, load_model(tmp_path / "m.dpf")):
        for other in (replace(model.recipe, leaf=Careless(times=1)), replace(model.recipe, leaf=OwnLeaf())):
            words, _, twin = written(each, tmp_path, audited(other))
            assert twin["audit"]["entries"] == []
            assert "It is about: mine (with other parts)." in words.text
        words, _, twin = written(each, tmp_path, audited(model.recipe))
        assert len(twin["audit"]["entries"]) == 1
        assert "name only" not in words.text


def test_an_audit_of_another_estimator_is_not_taken(tmp_path):
    model = OwnForest(small_model().schema, recipe=BASE).fit([[0.0, 0.0, 0.0]], [0])
    for kind, n_entries in ((type("OtherForest", (DPForestClassifier,), {}), 0), (OwnForest, 1)):
        assert len(written(model, tmp_path, audited(BASE, classifier=kind))[2]["audit"]["entries"]) == n_entries


def test_parameters_that_were_set_are_parts_too_and_the_page_says_how_to_audit_them(tmp_path):
    model = small_model.__wrapped__("rana-2015", recipe_params={"k": 2}, max_depth=2)
    words, _, twin = written(model, tmp_path, audited("rana-2015"))
    assert twin["audit"]["entries"] == []
    assert "from dpforest.audit import Subject, audit" in words.text
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
    assert "name only" in words.text


def test_fingerprints_are_the_same_in_every_process_and_differ_between_recipes():
    listed = {recipe["name"]: fingerprint(get_recipe(recipe["name"])) for recipe in list_recipes()}
    assert len({*listed.values()}) == len(listed)
    code = (
        "import json; from dpforest import get_recipe, list_recipes; from dpforest.recipes.fingerprint import fingerprint; "
        "print(json.dumps({each['name']: fingerprint(get_recipe(each['name'])) for each in list_recipes()}))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(other.stdout) == listed


@pytest.mark.parametrize("name", ["auto", "guan-2020"])
def test_a_copy_of_a_recipe_has_its_fingerprint(name):
    assert fingerprint(replace(get_recipe(name))) == fingerprint(get_recipe(name))


@pytest.mark.parametrize(
    "parts",
    [
        {"leaf": Careless(2)},
        {"leaf": OwnLeaf()},
        {"n_trees": 11},
        {"planner": plan_forest},
        {"planner": partial(plan_forest, 1)},
        {"planner": partial(plan_forest, 2)},
        {"planner": Careless(3).release},
    ],
)
def test_every_part_counts_for_a_fingerprint(parts):
    changed = fingerprint(replace(BASE, **parts))
    assert changed == fingerprint(replace(BASE, **parts))
    assert changed != fingerprint(BASE)


class Keeper:
    """A part that is no dataclass and may hold anything."""

    def __init__(self, kept):
        self.kept = kept


def test_parts_that_hold_one_another_or_much_else_have_a_fingerprint():
    first, second = Keeper(1), Keeper(2)
    first.kept, second.kept = second, first
    doubled = Keeper(3)
    for _ in range(60):  # 2 ** 60 ways lead to the innermost
        doubled = Keeper([doubled, doubled])
    for part in (first, doubled, Keeper(json), Keeper(sys.stdout)):
        assert len(fingerprint(replace(BASE, stop=part))) == 64


def test_code_from_outside_that_was_rewritten_has_another_fingerprint(tmp_path, monkeypatch):
    """Else an audit of what it was would be shown with a model of what it is."""
    text = "from dpforest.parts.leaves import NoisyCounts\nclass Leaf(NoisyCounts):\n    def four(self):\n        return 4\n"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    found = []
    for content in (text, text, text.replace("4", "1")):
        (tmp_path / "own_leaf.py").write_text(content)
        importlib.invalidate_caches()
        linecache.clearcache()
        sys.modules.pop("own_leaf", None)
        leaf = importlib.import_module("own_leaf").Leaf()
        found.append(fingerprint(replace(get_recipe("jagannathan-2009"), leaf=leaf)))
    monkeypatch.delitem(sys.modules, "own_leaf")
    assert found[0] == found[1] != found[2]


def test_parts_that_cannot_be_read_have_no_fingerprint_and_no_error():
    endless = Keeper(None)
    for _ in range(5000):
        endless = Keeper(endless)
    leaf = OwnLeaf()
    object.__setattr__(leaf, "endless", endless)
    deep = replace(BASE, name="mine", leaf=leaf, parameters={})
    assert len(fingerprint(deep)) == 64  # no field of the leaf
    assert fingerprint(replace(deep, stop=endless)) == ""


def test_a_claim_that_an_audit_broke_is_no_longer_promised(tmp_path):
    broken = {"audits": [entry(verdict="claim broken")]}
    words, _, twin = written(small_model(), tmp_path, broken)
    assert words.text.count("claimed; an audit broke it") == 2
    assert "If the claim were true: if someone thought it 50 : 50" in words.text
    assert "Then this holds whatever else they know" in words.text
    assert "If the claim were true: This model is differentially private with epsilon = 1" in words.text
    promise = twin["deployment"]["differential_privacy"]
    assert (promise["holds"], promise["why_not"]) == (False, ["an audit broke the claim"])
    promise = written(small_model(), tmp_path, {"audits": [entry()]})[2]["deployment"]["differential_privacy"]
    assert (promise["holds"], promise["why_not"]) == (True, [])


def test_what_parts_from_outside_draw_and_do_is_not_asserted(tmp_path):
    words, _, twin = written(own_model(leaf=OwnLeaf()), tmp_path)
    assert "no seed was given. What the parts from outside draw is not known." in words.text
    assert "As declared, all nodes of a level hold different records" in words.text
    assert "If what is declared is true: if someone" in words.text
    assert "Then this holds whatever else they know" in words.text
    implementation = twin["deployment"]["implementation"]
    for name in ("samplers", "randomness"):
        assert implementation[name].endswith("not known of the parts from outside")
    words, _, twin = written(own_model(), tmp_path)
    assert "not known" not in twin["deployment"]["implementation"]["samplers"]
    assert "No seed was given." in words.text


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
    words = written(last, tmp_path)[0]
    assert large in words.text.split("How sure someone can become")[0]
    assert warned in words.text.split("How sure someone can become")[0]


def test_what_is_proved_is_said_without_the_recipes_name(tmp_path):
    text = written(small_model(), tmp_path)[0].text
    assert "What is provedEach part and their combination are proved by the library, beside its code." in text
    assert "own recipe 'mine' made of the library's parts" in written(own_model(), tmp_path)[0].text


def test_small_words_of_the_page_are_right(tmp_path):
    own = own_model("auto", leaf=OwnLeaf())
    words = written(own, tmp_path, {"audits": [entry(), entry("li-2020", own=True), entry("li-2020", "published")]})[0]
    assert "It is about: auto (the library's), li-2020 (own recipe), li-2020 (as printed)." in words.text
    words = written(small_model(), tmp_path)[0]
    assert "dpforest report MODEL --out PAGE --audit FILE" in words.text
    assert "not declared; the fit measured it with noise (section 10)." in words.text
    words = written(small_model("jagannathan-2009", max_depth=1), tmp_path)[0]
    assert "not declared; it stays protected." in words.text
    assert "at most 1 question deep" in words.text
    words = written(silently(small_model, "li-2020", "published", max_depth=2), tmp_path)[0]
    assert "--recipe li-2020 --variant published --json" in words.text
