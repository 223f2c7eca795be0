"""An evaluation in the report, on a page of its own and in plots: of this model only, the same in all, with any names."""

import copy
import json

import numpy as np
import pytest
from tests.show.reading import Words, is_inert, lacks, written
from tests.support.fitted import HOSTILE, SCRIPT, hostile_model, mean_model, small_model, table

from dpforest.errors import OutputError, ParameterError
from dpforest.evaluation import evaluate_privately, evaluate_public
from dpforest.show.report import write_evaluation
from dpforest.show.report.evaluations import _verdict


def of_small(epsilon=1.0, **asked):
    X, y = table(2000, seed=5)
    return evaluate_privately(small_model(), X, y, epsilon, **asked)


def report_of(model, evaluation, folder):
    """The words and the twin of a report with an evaluation."""
    words, _, twin = written(model, folder, evaluation=evaluation)
    return words.between("9. How good the model is", "10. The forest"), twin


def test_the_report_shows_what_was_evaluated_and_its_twin_has_the_same(tmp_path):
    evaluation = of_small(by="x0", compare=small_model())
    words, twin = report_of(small_model(), evaluation, tmp_path)
    assert twin["evaluation"] == evaluation.to_dict()
    assert twin["evaluation"]["ledger"]["spent"] == 1
    parts = ("that are private", "ε = 1", "ROC curve of '1'", "Calibration", "By x0", "under 2", "(missing)")
    assert lacks(words, *parts, "recall of '1'") == []
    assert "cannot be told" in words or "is better on such rows" in words
    # The same file can be read back.
    again, _ = report_of(small_model(), json.loads(json.dumps(twin["evaluation"])), tmp_path)
    assert again == words


def test_who_loses_how_much_is_said_on_the_page_in_the_report_and_in_both_files(tmp_path):
    X, _ = table(2000, seed=5)
    people = {"groups": np.arange(len(X)) // 4, "max_rows_per_person": 2}
    for asked, said, wider in (
        ({}, "Each record of this table loses ε = 0.3 by these scores. Somebody with several rows loses that for each of "
         "them: with five rows 1.5.", "if people have several rows, it may lie further"),
        (people, "Each person in this table loses ε = 0.3 by these scores, however many rows they have",
         "It allows for rows of one person"),
    ):  # fmt: skip
        evaluation = of_small(0.3, **asked)
        words, twin = report_of(small_model(), evaluation, tmp_path)
        write_evaluation(evaluation, tmp_path / "page.html")
        page = Words((tmp_path / "page.html").read_text("utf-8")).text
        assert lacks(words, said, wider) == lacks(page, said, wider) == []
        of_page, utility = json.loads((tmp_path / "page.json").read_text()), twin["deployment"]["evaluation"]["utility"]
        unit = "person" if asked else "record"
        for content in (of_page, twin["evaluation"], utility):
            assert said in content["loss"]
            assert (content["unit"], content["rows"]) == (unit, 2 if asked else 1)
        assert of_page["version"] == 2
        assert f"Cost to each {unit}" in page


def test_a_file_from_before_persons_is_about_records_and_its_words_are_the_librarys_own(tmp_path):
    content = of_small(0.3).to_dict()
    for name in ("unit", "rows"):
        del content[name]
    words, twin = report_of(small_model(), content | {"version": 1, "loss": "It costs nothing."}, tmp_path)
    assert "with five rows 1.5" in words
    assert "It costs nothing" not in words
    assert twin["evaluation"]["unit"] == "record"
    for wrong in ({"unit": "village"}, {"rows": 2}, {"unit": "person", "rows": 0}):
        with pytest.raises(ParameterError, match="evaluation must be the JSON file"):
            report_of(small_model(), content | wrong, tmp_path)


@pytest.mark.parametrize(
    ("value", "task", "said"),
    [
        (0.02, "classes", "This model is better"),
        (-0.02, "classes", "The other model is better"),
        (-0.02, "number", "This model is better"),
        (0.01, "classes", "cannot be told"),
        (None, "number", "cannot be told"),
    ],
)
def test_which_model_is_better_is_said_if_noise_and_luck_allow_it(value, task, said):
    score = {"name": "difference", "value": value, "margin": 0.008, "sampling": 0.008}
    assert said in _verdict({"scores": [score], "difference": "difference"}, task)


def test_a_report_without_an_evaluation_says_how_to_make_one(tmp_path):
    with pytest.raises(OutputError):
        write_evaluation(of_small(), tmp_path / "page.json")
    words, twin = report_of(small_model(), None, tmp_path)
    assert "No evaluation was attached." in words
    assert twin["evaluation"] is None
    assert twin["deployment"]["evaluation"]["utility"] is None


def test_a_number_and_public_rows_have_a_section_too(tmp_path):
    X, _ = table(500, seed=6)
    found = evaluate_public(mean_model(), X[:, :2], X[:, 2], by="x1", compare=mean_model("consul-2020"))
    words, _ = report_of(mean_model(), found, tmp_path)
    parts = ("said to be public", "These figures are exact", "R2", "By x1", "mean absolute error less that of the other")
    assert lacks(words, *parts) == []
    assert "ROC" not in words
    assert found.to_dict()["loss"] is None


def test_an_evaluation_of_another_model_is_refused(tmp_path):
    for other in (mean_model(), small_model(epsilon=2.0)):
        with pytest.raises(ParameterError, match="not of this model"):
            report_of(other, of_small(), tmp_path)
    content = of_small().to_dict() | {"model": None}
    with pytest.raises(ParameterError, match="not of this model"):
        report_of(small_model(), content, tmp_path)
    assert not (tmp_path / "report.html").exists()


SPOILT = ["format", "scores", "n_rows", "thresholds", "groups", "roc", "calibration", "confusion", "task", "labels"]


def test_what_is_no_evaluation_is_refused(tmp_path):
    plain, whole = of_small().to_dict(), of_small(by="x0", compare=small_model()).to_dict()
    unnamed = copy.deepcopy(plain)
    unnamed["thresholds"][0]["scores"][0]["name"] = "none"
    huge = plain | {"n_rows": 10**400}  # which JSON can hold, and no float
    wrong = [whole | {name: {"a": 1} if isinstance(whole[name], list) else [{"b": SCRIPT}]} for name in SPOILT]
    wrong.append({name: value for name, value in whole.items() if name != "task"})
    for evaluation in (*wrong, huge, unnamed, [], "text", {}):
        with pytest.raises(ParameterError, match="evaluation must be the JSON file"):
            write_evaluation(evaluation, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_page_has_any_names_and_nothing_active(tmp_path):
    model = hostile_model()
    X = np.empty((50, 4), dtype=object)
    X[:, 0], X[:, 1], X[:, 2], X[:, 3] = HOSTILE[1], 0.5, 1, "other"
    y = np.empty(50, dtype=object)
    y[:] = [HOSTILE[0]] * 50
    write_evaluation(evaluate_privately(model, X, y, 5.0, by=HOSTILE[0], compare=model), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    words = Words(page)
    assert is_inert(words, page.encode(), n_scripts=1)
    assert SCRIPT in words
    assert len(page) < 300_000
