"""The commands of a budget, and fit and evaluate on one; names of data sets can hold anything."""

import json

import pyarrow.csv
import pytest
from tests.cli import hostile
from tests.cli.command import ILL, done, people, typed
from tests.cli.hostile import assert_harmless
from tests.torture import victims

from dpforest import Budget, load_model
from dpforest.budget import Loss
from dpforest.errors import BudgetError

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done("budget", "create", "budget.db::ward-7", "--epsilon", 2, "--delta", 1e-6)
    return tmp_path


def test_fit_and_evaluate_are_charged_until_the_cap():
    pyarrow.csv.write_csv(people(), "t.csv")
    ILL.to_file("s.json")
    charged = ("--budget", "budget.db::ward-7")
    fit = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, *charged, "--out")
    done(*fit, "ward.dpf")
    done("evaluate", "ward.dpf", "t.csv", "--epsilon", 0.5, *charged)
    assert "ward.dpf is there already" in typed(*fit, "ward.dpf").err
    refused = typed(*fit, "more.dpf")
    assert refused.code == 1
    assert "0.5" in refused.err
    assert "cap of 2" in refused.err
    (facts,) = json.loads(done("budget", "show", "budget.db", "--json"))
    assert (facts["spent"], facts["left"], facts["releases"], facts["reserved"]) == (1.5, 0.5, 2, 0)


def test_a_history_without_releases_says_so():
    told = done("budget", "history", "budget.db::ward-7")
    assert told == "No release was charged to the budget of ward-7 so far.\n"


def test_show_and_history_tell_of_what_is_reserved():
    budget = Budget.open("budget.db", dataset="ward-7")
    budget.settle(budget.reserve("fit [bold]x", outcomes=[Loss.pure(1.0)]), Loss.pure(0.5))
    budget.reserve("fit y", outcomes=[Loss.pure(0.25)])
    shown = done("budget", "show", "budget.db::ward-7")
    assert "0.75 of epsilon = 2 at delta = 1e-06" in shown
    assert "█" * 15 + "░" * 25 in shown
    assert "1 of 2 releases" in shown
    listed = done("budget", "history", "budget.db::ward-7")
    assert all(words in listed for words in ("fit [bold]x", "not settled", "time (UTC)"))
    history = json.loads(done("budget", "history", "budget.db::ward-7", "--json"))
    assert [item["spent"] for item in history] == [0.5, 0.75]
    assert history[1]["loss"] is None


def test_verify_finds_the_anchor_or_refuses():
    said = done("budget", "verify", "budget.db")
    assert "for 1 data set." in said
    head = said.split("Head: ")[1].strip()
    done("budget", "verify", "budget.db", "--anchor", head)
    for anchor, words in ((head[:8], "An anchor is a whole hash"), ("0" * 64, "set back")):
        refused = typed("budget", "verify", "budget.db", "--anchor", anchor)
        assert (refused.code, words in refused.err) == (1, True)


def test_export_holds_every_entry_and_the_head(folder):
    done("budget", "export", "budget.db", "--out", "budget.json")
    content = json.loads((folder / "budget.json").read_text())
    assert content["head"] == content["entries"][-1]["hash"]
    assert content["entries"][0]["dataset"] == "ward-7"


def test_a_part_is_made_and_shown_with_what_it_belongs_to():
    made = done("budget", "create", "budget.db::bed-1", "--epsilon", 1, "--belongs-to", "ward-7")
    assert "It belongs to 'ward-7'" in made
    budget = Budget.open("budget.db", dataset="bed-1")
    budget.settle(budget.reserve("fit", outcomes=[Loss.pure(0.5)]), Loss.pure(0.5))
    said = "belongs to ward-7, where 0.5 of epsilon = 2 at delta = 1e-06 is spent"
    assert said in done("budget", "show", "budget.db::bed-1")
    assert said in done("budget", "verify", "budget.db")
    assert "fit (bed-1)" in done("budget", "history", "budget.db::ward-7")
    _, facts = json.loads(done("budget", "show", "budget.db", "--json"))
    assert (facts["belongs_to"]["dataset"], facts["belongs_to"]["spent"], facts["left"]) == ("ward-7", 0.5, 0.5)


# --- names that can hold anything ------------------------------------------------------------------------------------

NAMES = [*(text for text in hostile.TEXTS if len(text) <= 1000), "half a pair \ud800", "nothing\0here", "\U0001f332" * 200]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_of_a_data_set_is_only_a_name(name, tmp_path):
    path = tmp_path / "b.db"
    budget = Budget.open(path, dataset=name, epsilon=1.0)
    budget.settle(budget.reserve(name, outcomes=[Loss.pure(0.5)]), Loss.pure(0.5))
    assert Budget.open(path, dataset=name).history()[0]["what"] == name
    assert budget.verify()
    with pytest.raises(BudgetError) as caught:
        budget.reserve(name, outcomes=[Loss.pure(5.0)])
    assert_harmless(str(caught.value))
    assert_harmless(repr(budget))
    for words in (("show", path), ("history", f"{path}::{name}"), ("verify", path)):
        assert_harmless(done("budget", *words))
    part = Budget.open(path, dataset="part", epsilon=1.0, belongs_to=name)
    with pytest.raises(BudgetError, match="belongs to") as caught:
        part.reserve(name, outcomes=[Loss.pure(0.6)])
    assert_harmless(str(caught.value))
    for words in (("show", path), ("history", f"{path}::{name}"), ("report", path, "--out", tmp_path / "page.html")):
        assert_harmless(done("budget", *words))
    shown = json.loads(done("budget", "show", path, "--json"))
    assert shown[0]["dataset"] == name


def test_a_model_and_its_report_hold_the_name_as_text_and_no_path(tmp_path):
    name = "</script><img src=x onerror=alert(2)> [bold]\x1b[31m"
    folder = tmp_path / "a folder of the machine"
    folder.mkdir()
    model = victims.fit(Budget.open(folder / "b.db", dataset=name, epsilon=1.0))
    model.save(tmp_path / "m.dpf")
    twin = load_model(tmp_path / "m.dpf")
    assert twin.budget is None
    assert twin.privacy_ == model.privacy_
    twin.save_report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<img src=x" not in page
    for written in ("m.dpf", "r.html", "r.json"):
        assert folder.name.encode() not in (tmp_path / written).read_bytes()
