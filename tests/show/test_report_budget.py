"""What reports and pages say of budgets: where each stands, over time, and which release is a model's."""

import json
import re
from datetime import timedelta
from functools import partial

import pytest
from tests.budget.stores import spend
from tests.show.budgets import BEGIN, at, page_budgets
from tests.show.reading import Words, is_inert, lacks, written
from tests.support.fitted import SCRIPT, small_model, small_schema, table
from typer.testing import CliRunner

from dpforest import Budget, DPForestClassifier, DPSearchCV
from dpforest.budget import Loss
from dpforest.cli.main import commands
from dpforest.errors import ParameterError
from dpforest.show.report import write_budget_page
from dpforest.show.report.attached import budget_page_content, curve_of

X, Y = table()
RECIPE = "jagannathan-2009"


def fit(budget, epsilon=1.0, **changed):
    """A model of a recipe that costs its epsilon, whatever is drawn."""
    return DPForestClassifier(small_schema(), epsilon=epsilon, recipe=RECIPE, budget=budget, **changed).fit(X, Y)


def section(words):
    """The text of the section about the budget."""
    return words.between("5. The budget of the data set", "6. Where the loss went")


def test_without_a_budget_the_page_cannot_tell(tmp_path):
    with pytest.raises(ParameterError, match=r"budget must be what Budget\.open gives, or None, not 'b\.db'"):
        small_model().save_report(tmp_path / "r.html", budget="b.db")
    assert not list(tmp_path.iterdir())
    words, _, twin = written(small_model(), tmp_path)
    assert lacks(section(words), "No budget was attached", "--budget FILE::DATASET") == []
    assert twin["budget"] is None


def test_the_position_and_all_releases_are_shown(budget, tmp_path):
    fit(budget, 0.5)
    model = fit(budget)
    budget.reserve("fit li-2020", outcomes=[Loss.pure(0.25)])
    before = budget.export()
    words, _, twin = written(model, tmp_path, budget=budget)
    assert budget.export() == before
    shown = twin["budget"]
    assert (shown["dataset"], shown["unit"], shown["epsilon"], shown["delta"]) == ("ward-7", "record", 3.0, 1e-6)
    assert (shown["spent"], shown["left"], shown["reserved"]) == (budget.spent, budget.left, 1)
    assert budget.position()["releases"] == budget.history()
    assert shown["head"] == budget.verify()
    assert [release["what"] for release in shown["releases"]] == [f"fit {RECIPE}", f"fit {RECIPE}", "fit li-2020"]
    said = ("Cap, epsilon (ε)3 at δ = 10⁻⁶, for each record", "Left1.25 for one more release", "not settled, ε ≤ 0.25")
    spent = "Spent1.75 with 1 release reserved and not settled, at the worst"
    assert lacks(section(words), *said, spent, budget.verify()) == []


def test_the_models_release_is_told_by_algorithm_cost_and_day(budget, tmp_path):
    other, model = fit(budget, 0.5), fit(budget)
    words, _, twin = written(model, tmp_path, budget=budget)
    assert [release["is_alike"] for release in twin["budget"]["releases"]] == [False, True]
    assert section(words).count("this model") == 1
    assert f"fit {RECIPE} this model ε = 1" in section(words)
    words, _, twin = written(other, tmp_path, budget=budget)
    assert [release["is_alike"] for release in twin["budget"]["releases"]] == [True, False]
    other.trained_on_ = "2020-01-01"
    assert written(other, tmp_path, budget=budget)[2]["budget"]["alike"] == 0
    other.trained_on_ = None
    assert written(other, tmp_path, budget=budget)[2]["budget"]["alike"] == 1


def test_releases_that_look_alike_are_not_told_apart_and_none_is_noticed(budget, tmp_path):
    words, _, twin = written(small_model(), tmp_path, budget=budget)
    assert twin["budget"]["alike"] == 0
    assert "No release of this budget has the algorithm, the cost and the day of this model." in section(words)
    fit(budget)
    words, _, twin = written(fit(budget), tmp_path, budget=budget)
    assert twin["budget"]["alike"] == 2
    assert "2 releases have the algorithm, the cost and the day of this model; one of them may be it." in section(words)
    assert section(words).count("may be this model") == 2


def test_fits_with_delta_and_searches_are_found_too(budget, tmp_path):
    with_delta = fit(budget, 0.5, delta=1e-6)
    words, _, twin = written(with_delta, tmp_path, budget=budget)
    assert twin["budget"]["alike"] == 1
    assert "this model" in section(words)
    other = Budget.open(tmp_path / "c.db", "ward-8", epsilon=3.0)
    search = DPSearchCV(DPForestClassifier(small_model().schema), {"max_depth": [1, 2]}, epsilon=1.0, budget=other)
    found = search.fit(X, Y).best_estimator_
    words, _, twin = written(found, tmp_path, budget=other)
    assert [release["what"] for release in twin["budget"]["releases"]] == ["search"]
    assert twin["budget"]["alike"] == 1


def test_a_budget_for_persons_is_said_not_to_fit_a_model_for_records(tmp_path):
    persons = Budget.open(tmp_path / "p.db", "ward-7", epsilon=1.0, unit="person")
    words = written(small_model(), tmp_path, budget=persons)[0]
    assert "The budget counts for each person, this model for each record" in section(words)


def test_hostile_names_of_data_sets_and_releases_are_text(tmp_path):
    budget = Budget.open(tmp_path / "b.db", SCRIPT, epsilon=1.0)
    budget.reserve(SCRIPT, outcomes=[Loss.pure(0.1)])
    words, page, twin = written(small_model(), tmp_path, budget=budget)
    assert is_inert(words, page)
    assert section(words).count(SCRIPT) == 2
    assert twin["budget"]["dataset"] == SCRIPT


@pytest.mark.slow
def test_of_many_releases_the_last_are_in_the_report_and_all_in_its_twin(tmp_path):
    budget = Budget.open(tmp_path / "b.db", "ward-7", epsilon=1000.0)
    for number in range(50):
        spend(budget, 1.0, f"fit number {number}")
    words, _, twin = written(small_model(), tmp_path, budget=budget)
    assert len(twin["budget"]["releases"]) == 50
    assert "fit number 49" in section(words)
    assert "fit number 9 " not in section(words)
    assert "10 more earlier releases are left out here" in section(words)


# The page of budgets


@pytest.fixture
def budgets(path):
    return page_budgets(path)


def page_of(budgets, folder):
    write_budget_page(budgets, folder / "page.html")
    return Words((folder / "page.html").read_text()), json.loads((folder / "page.json").read_text())


def run(*words):
    return CliRunner().invoke(commands, ["budget", "report", *map(str, words)])


def test_the_page_and_its_twin_say_where_every_budget_stands(budgets, tmp_path):
    house, ward = budgets
    words, twin = page_of(budgets, tmp_path)
    assert (twin["format"], twin["head"], twin["entries"]) == ("dpforest-budget-report", house.verify(), 9)
    for budget, shown in zip(budgets, twin["datasets"], strict=True):
        for name in ("dataset", "unit", "spent", "left", "left_with_delta"):
            assert shown[name] == getattr(budget, name)
    said = ("Cap, epsilon (ε)4 for each record", "Spent3 with 1 release reserved and not settled, at the worst")
    above = ("It belongs to hospital, where 3 of ε = 4 is spent", "not settled, ε ≤ 1", "clock wrong")
    assert lacks(words, *said, *above, house.verify()) == []
    assert twin["datasets"][1]["belongs_to"]["dataset"] == "hospital"
    assert twin["datasets"][0]["parts"] == [ward.dataset]


def test_hostile_names_are_text_and_nothing_is_loaded(budgets, tmp_path):
    words, twin = page_of(budgets, tmp_path)
    assert words.elements.count("script") == 1
    assert SCRIPT in words
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
    curve = curve_of(content["datasets"][0], content["written"])
    # A release by a clock that was ahead is drawn where the next one is.
    assert curve["settled"] == "M0 300H250V262.5H500V262.5H750V150.0H1000"
    assert curve["spent"] == "M0 300H250V262.5H500V187.5H750V75.0H1000"
    assert curve["times"][0] == BEGIN.isoformat()[:10]
    assert [row["is_clock_wrong"] for row in content["datasets"][0]["releases"]] == [False, False, True, False]


@pytest.mark.slow
def test_long_histories_stay_small_on_the_page_and_whole_in_the_twin(path, tmp_path):
    budget = Budget.open(path, "busy", epsilon=1000.0)
    budget.reserve("the first is never settled", outcomes=[Loss.pure(1.0)])
    for _ in range(60):
        spend(budget, 1.0, "fit auto")
    words, twin = page_of([budget], tmp_path)
    assert len(twin["datasets"][0]["releases"]) == 61
    assert words.text.count("fit auto") == 40
    assert lacks(words, "21 earlier ones are left out here", "the first is never settled") == []


def test_a_loss_beyond_the_cap_is_an_alarm_and_stays_in_the_picture(path, tmp_path):
    budget = Budget.open(path, "ward-7", epsilon=1.0)
    reservation = budget.reserve("fit", outcomes=[Loss.pure(0.5)])
    with pytest.raises(Exception, match="entered in full"):
        budget.settle(reservation, Loss(float("inf"), float("inf")))
    words, _ = page_of([budget], tmp_path)
    assert "More was spent than the cap." in words
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
def test_the_report_of_a_model_shows_the_data_set_above(budgets, tmp_path):
    words, _, twin = written(small_model(), tmp_path, budget=budgets[1])
    above = "It belongs to hospital: every release is charged there too, where 3 of ε = 4 is spent"
    assert lacks(words, above) == []
    assert twin["budget"]["belongs_to"]["spent"] == 3.0
