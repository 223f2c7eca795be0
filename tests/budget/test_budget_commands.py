"""The commands of a budget, and fit and evaluate on one."""

import json

import pyarrow.csv
import pytest
from tests.cli.command import ILL, done, people, typed

from dpforest import Budget
from dpforest.budget import Loss

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
