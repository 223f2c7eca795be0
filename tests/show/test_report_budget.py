"""What the report says of the budget of a data set, and which of its releases is the model's."""

import pytest
from report_models import SCRIPT, small_model, table
from test_report_content import written

from dpforest import Budget, DPForestClassifier, DPSearchCV
from dpforest.budget import Loss
from dpforest.errors import ParameterError

X, Y = table()
RECIPE = "jagannathan-2009"


@pytest.fixture
def budget(tmp_path):
    return Budget.open(tmp_path / "b.db", "ward-7", epsilon=3.0, delta=1e-6)


def fit(budget, epsilon=1.0, **changed):
    """A model of a recipe that costs its epsilon, whatever is drawn."""
    return DPForestClassifier(small_model().schema, epsilon=epsilon, recipe=RECIPE, budget=budget, **changed).fit(X, Y)


def section(words):
    """The text of the section about the budget."""
    return words.text.split("5. The budget of the data set")[1].split("6. Where the loss went")[0]


def test_without_a_budget_the_page_says_that_it_cannot_tell(tmp_path):
    words, _, twin = written(small_model(), tmp_path)
    assert "No budget was attached" in section(words)
    assert "--budget FILE::DATASET" in section(words)
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
    assert shown["head"] == budget.verify()
    assert [release["what"] for release in shown["releases"]] == [f"fit {RECIPE}", f"fit {RECIPE}", "fit li-2020"]
    text = section(words)
    assert "Cap, epsilon (ε)3 at δ = 10⁻⁶, for each record" in text
    assert "Spent1.75 with 1 release reserved and not settled, at the worst" in text
    assert "Left1.25 for one more release" in text
    assert "not settled, ε ≤ 0.25" in text
    assert budget.verify() in text


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


def test_two_releases_that_look_alike_are_not_told_apart(budget, tmp_path):
    fit(budget)
    words, _, twin = written(fit(budget), tmp_path, budget=budget)
    assert twin["budget"]["alike"] == 2
    assert "2 releases have the algorithm, the cost and the day of this model; one of them may be it." in section(words)
    assert section(words).count("may be this model") == 2


def test_a_model_that_was_not_charged_here_is_noticed(budget, tmp_path):
    words, _, twin = written(small_model(), tmp_path, budget=budget)
    assert twin["budget"]["alike"] == 0
    assert "No release of this budget has the algorithm, the cost and the day of this model." in section(words)


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
    words, _, twin = written(small_model(), tmp_path, budget=budget)
    assert words.elements.count("script") == 2
    assert section(words).count(SCRIPT) == 2
    assert twin["budget"]["dataset"] == SCRIPT


@pytest.mark.slow
def test_of_many_releases_the_last_are_on_the_page_and_all_in_the_twin(tmp_path):
    budget = Budget.open(tmp_path / "b.db", "ward-7", epsilon=1000.0)
    for number in range(50):
        budget.settle(budget.reserve(f"fit number {number}", outcomes=[Loss.pure(1.0)]), Loss.pure(1.0))
    words, _, twin = written(small_model(), tmp_path, budget=budget)
    assert len(twin["budget"]["releases"]) == 50
    assert "fit number 49" in section(words)
    assert "fit number 9 " not in section(words)
    assert "10 more earlier releases are left out here" in section(words)


def test_another_thing_than_a_budget_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"budget must be what Budget\.open gives, or None, not 'b\.db'"):
        small_model().save_report(tmp_path / "r.html", budget="b.db")
    assert not list(tmp_path.iterdir())


def test_a_position_is_what_the_properties_say(budget):
    fit(budget, 0.5)
    position = budget.position()
    for name in ("dataset", "unit", "spent", "left", "left_with_delta"):
        assert position[name] == getattr(budget, name)
    assert (position["epsilon"], position["delta"]) == (budget.cap.epsilon, budget.cap.delta)
    assert position["releases"] == budget.history()
    assert position["head"] == budget.verify()
    assert position["reserved"] == 0
