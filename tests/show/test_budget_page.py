"""The page of budgets over time, and its twin."""

import json
import re
from datetime import timedelta
from functools import partial

import pytest
from report_budgets import BEGIN, at, page_budgets, spend
from report_models import SCRIPT
from test_report_content import Words
from typer.testing import CliRunner

from dpforest import Budget
from dpforest.budget import Loss
from dpforest.cli.main import commands
from dpforest.show.report.budget_page import _curve, budget_page_content, write_budget_page


@pytest.fixture
def budgets(path):
    return page_budgets(path)


def written(budgets, folder):
    write_budget_page(budgets, folder / "page.html")
    return Words((folder / "page.html").read_text()), json.loads((folder / "page.json").read_text())


def run(*words):
    return CliRunner().invoke(commands, ["budget", "report", *map(str, words)])


def test_the_page_and_its_twin_say_where_every_budget_stands(budgets, tmp_path):
    house, ward = budgets
    words, twin = written(budgets, tmp_path)
    assert (twin["format"], twin["head"], twin["entries"]) == ("dpforest-budget-report", house.verify(), 9)
    for budget, shown in zip(budgets, twin["datasets"], strict=True):
        for name in ("dataset", "unit", "spent", "left", "left_with_delta"):
            assert shown[name] == getattr(budget, name)
    assert "Cap, epsilon (ε)4 for each record" in words.text
    assert "Spent3 with 1 release reserved and not settled, at the worst" in words.text
    assert "It belongs to hospital, where 3 of ε = 4 is spent" in words.text
    assert "not settled, ε ≤ 1" in words.text
    assert house.verify() in words.text
    assert "Asked for by" in words.text
    assert "Ben Okri" in words.text
    assert twin["datasets"][1]["belongs_to"]["dataset"] == "hospital"
    assert twin["datasets"][0]["parts"] == [ward.dataset]


def test_hostile_names_are_text_and_nothing_is_loaded(budgets, tmp_path):
    words, twin = written(budgets, tmp_path)
    assert words.elements.count("script") == 1
    assert SCRIPT in words.text
    assert twin["datasets"][1]["dataset"] == f"{SCRIPT} ward"
    page = (tmp_path / "page.html").read_text()
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)


def test_neither_page_nor_twin_tells_when_a_release_ended(path, tmp_path):
    """Two files in which the same releases began at the same times, and ended in another order."""
    pages = []
    for place, order in enumerate([(0, 1), (1, 0)]):
        budget = at(BEGIN, lambda place=place: Budget.open(tmp_path / f"{place}.db", "ward-7", epsilon=4.0))
        reserve = partial(budget.reserve, "fit", outcomes=[Loss.pure(1.0)])
        begun = [at(BEGIN + timedelta(days=day), reserve) for day in (10, 20)]
        for which in order:
            budget.settle(begun[which], Loss.pure(0.5 + which / 4))
        content = budget_page_content([budget])
        content |= {"head": "", "written": ""}
        pages.append(content)
    assert pages[0] == pages[1]
    assert [row["spent_so_far"] for row in pages[0]["datasets"][0]["releases"]] == [0.5, 1.25]


def test_steps_are_where_releases_began_and_as_high_as_what_they_cost(budgets):
    content = budget_page_content(budgets[:1])
    curve = _curve(content["datasets"][0], content["written"])
    # A release by a clock that was ahead is drawn where the clock was repaired.
    assert curve["settled"] == "M0 300H250V262.5H500V262.5H750V150.0H1000"
    assert curve["spent"] == "M0 300H250V262.5H500V187.5H750V75.0H1000"
    assert curve["times"][0] == BEGIN.isoformat()[:10]
    assert [row["is_clock_wrong"] for row in content["datasets"][0]["releases"]] == [False, False, True]


@pytest.mark.slow
def test_long_histories_stay_small_on_the_page_and_whole_in_the_twin(path, tmp_path):
    budget = Budget.open(path, "busy", epsilon=1000.0)
    budget.reserve("the first is never settled", outcomes=[Loss.pure(1.0)])
    for _ in range(60):
        spend(budget, 1.0)
    words, twin = written([budget], tmp_path)
    assert len(twin["datasets"][0]["releases"]) == 61
    assert words.text.count("fit auto") == 40
    assert "21 earlier ones are left out here" in words.text
    assert "the first is never settled" in words.text


def test_a_loss_beyond_the_cap_is_an_alarm_and_stays_in_the_picture(path, tmp_path):
    budget = Budget.open(path, "ward-7", epsilon=1.0)
    reservation = budget.reserve("fit", outcomes=[Loss.pure(0.5)])
    with pytest.raises(Exception, match="entered in full"):
        budget.settle(reservation, Loss(float("inf"), float("inf")))
    words, _ = written([budget], tmp_path)
    assert "More was spent than the cap." in words.text
    assert "nan" not in (tmp_path / "page.html").read_text().split("<main>")[1]


def test_the_command_writes_one_data_set_or_all_and_nothing_over_a_budget(budgets, path, tmp_path):
    out = tmp_path / "all.html"
    assert run(path, "--out", out).exit_code == 0
    assert len(json.loads(out.with_suffix(".json").read_text())["datasets"]) == 2
    assert run(f"{path}::hospital", "--out", out).exit_code == 0
    assert len(json.loads(out.with_suffix(".json").read_text())["datasets"]) == 1
    before = path.read_bytes()
    for wrong in (path, tmp_path / "page.json", tmp_path / "no" / "page.html"):
        assert run(path, "--out", wrong).exit_code != 0
    assert run(tmp_path / "none.db", "--out", out).exit_code != 0
    assert path.read_bytes() == before


@pytest.mark.slow
def test_the_report_of_a_model_shows_the_data_set_above_and_repairs(budgets, tmp_path):
    from report_models import small_model
    from test_report_content import written as report_of

    words, _, twin = report_of(small_model(), tmp_path, budget=budgets[1])
    assert "It belongs to hospital: every release is charged there too, where 3 of ε = 4 is spent" in words.text
    assert "was repaired 1 time;" in words.text
    assert twin["budget"]["belongs_to"]["spent"] == 3.0
    assert twin["budget"]["repairs"][0]["confirmed_by"] == "Ben Okri"
