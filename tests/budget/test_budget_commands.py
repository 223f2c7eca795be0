"""The commands of a budget, and fit and evaluate on one."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dpforest import Budget, Classes, Numeric, Schema
from dpforest.budget import Loss

pytestmark = pytest.mark.slow


def run(*words, cwd):
    return subprocess.run([sys.executable, "-m", "dpforest.cli", *map(str, words)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    ended = run("budget", "create", "budget.db::ward-7", "--epsilon", 2, "--delta", 1e-6, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    return tmp_path


def test_fit_and_evaluate_are_charged_until_the_cap(folder):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(300)})
    table["well"] = (table["a"] > 0.5).astype(int)
    table.to_csv(folder / "ward.csv", index=False)
    schema = Schema({"a": Numeric(0, 1)}, Classes([0, 1], name="well"))
    (folder / "ward.schema.json").write_text(json.dumps(schema.to_dict()))
    fit = [
        "fit",
        "ward.csv",
        "--schema",
        "ward.schema.json",
        "--epsilon",
        1,
        "--out",
        "ward.dpf",
        "--budget",
        "budget.db::ward-7",
    ]
    ended = run(*fit, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    score = ["evaluate", "ward.dpf", "ward.csv", "--epsilon", 0.5, "--budget", "budget.db::ward-7"]
    ended = run(*score, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    taken = run(*fit, cwd=folder)
    assert taken.returncode == 1
    assert "ward.dpf is there already" in taken.stderr
    refused = run(*["more.dpf" if word == "ward.dpf" else word for word in fit], cwd=folder)
    assert refused.returncode == 1
    assert "0.5" in refused.stderr
    assert "cap of 2" in refused.stderr
    (facts,) = json.loads(run("budget", "show", "budget.db", "--json", cwd=folder).stdout)
    assert (facts["spent"], facts["left"], facts["releases"], facts["reserved"]) == (1.5, 0.5, 2, 0)


def test_a_history_without_releases_says_so(folder):
    told = run("budget", "history", "budget.db::ward-7", cwd=folder).stdout
    assert told == "No release was charged to the budget of ward-7 so far.\n"


def test_show_and_history_tell_of_what_is_reserved(folder):
    budget = Budget.open(folder / "budget.db", dataset="ward-7")
    budget.settle(budget.reserve("fit [bold]x", outcomes=[Loss.pure(1.0)]), Loss.pure(0.5))
    budget.reserve("fit y", outcomes=[Loss.pure(0.25)])
    shown = run("budget", "show", "budget.db::ward-7", cwd=folder).stdout
    assert "0.75 of epsilon = 2 at delta = 1e-06" in shown
    assert "█" * 15 + "░" * 25 in shown
    assert "1 of 2 releases" in shown
    listed = run("budget", "history", "budget.db::ward-7", cwd=folder).stdout
    assert "fit [bold]x" in listed
    assert "not settled" in listed
    assert "time (UTC)" in listed
    history = json.loads(run("budget", "history", "budget.db::ward-7", "--json", cwd=folder).stdout)
    assert [item["spent"] for item in history] == [0.5, 0.75]
    assert history[1]["loss"] is None


def test_verify_finds_the_anchor_or_refuses(folder):
    ended = run("budget", "verify", "budget.db", cwd=folder)
    assert ended.returncode == 0
    assert "for 1 data set." in ended.stdout
    head = ended.stdout.split("Head: ")[1].strip()
    assert run("budget", "verify", "budget.db", "--anchor", head, cwd=folder).returncode == 0
    cut = run("budget", "verify", "budget.db", "--anchor", head[:8], cwd=folder)
    assert (cut.returncode, "An anchor is a whole hash" in cut.stderr) == (1, True)
    refused = run("budget", "verify", "budget.db", "--anchor", "0" * 64, cwd=folder)
    assert refused.returncode == 1
    assert "set back" in refused.stderr


def test_export_holds_every_entry_and_the_head(folder):
    assert run("budget", "export", "budget.db", "--out", "budget.json", cwd=folder).returncode == 0
    content = json.loads((folder / "budget.json").read_text())
    assert content["head"] == content["entries"][-1]["hash"]
    assert content["entries"][0]["dataset"] == "ward-7"


def test_a_part_is_made_and_shown_with_what_it_belongs_to(folder):
    made = run("budget", "create", "budget.db::bed-1", "--epsilon", 1, "--belongs-to", "ward-7", cwd=folder)
    assert (made.returncode, "It belongs to 'ward-7'" in made.stdout) == (0, True)
    budget = Budget.open(folder / "budget.db", dataset="bed-1")
    budget.settle(budget.reserve("fit", outcomes=[Loss.pure(0.5)]), Loss.pure(0.5))
    for words in (["show", "budget.db::bed-1"], ["verify", "budget.db"]):
        assert (
            "belongs to ward-7, where 0.5 of epsilon = 2 at delta = 1e-06 is spent"
            in run("budget", *words, cwd=folder).stdout
        )
    assert "fit (bed-1)" in run("budget", "history", "budget.db::ward-7", cwd=folder).stdout
    _, facts = json.loads(run("budget", "show", "budget.db", "--json", cwd=folder).stdout)
    assert (facts["belongs_to"]["dataset"], facts["belongs_to"]["spent"], facts["left"]) == ("ward-7", 0.5, 0.5)


@pytest.mark.parametrize(
    "words",
    [
        ["create", "budget.db::bed-1", "--epsilon", 2, "--belongs-to", "ward-8"],
        ["create", "budget.db::bed-1", "--epsilon", 2, "--belongs-to", "ward-7", "--unit", "person"],
        ["repair-clock", "budget.db", "--by", "Ana"],
        ["repair-clock", "budget.db", "--by", "Ana", "--confirm", "0" * 12],
        ["report", "budget.db", "--out", "budget.json"],
        ["report", "none.db", "--out", "page.html"],
        ["create", "budget.db::ward-7", "--epsilon", 2, "--delta", 1e-6],
        ["create", "budget.db", "--epsilon", 2],
        ["create", "other.db::a", "--epsilon", "inf"],
        ["show", "none.db"],
        ["show", "none.db::a"],
        ["history", "budget.db::ward-8"],
        ["verify", "none.db"],
        ["export", "budget.db", "--out", "budget.db"],
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(folder, words):
    ended = run("budget", *words, cwd=folder)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Refused.")
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["budget.db"]
