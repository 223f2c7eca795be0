"""An audit says beforehand how long it takes, and how far it is."""

import json
import re

import pytest
from tests.audit.test_audit_command import run

from dpforest.audit import lower_bound
from dpforest.audit.attack import realistic_table
from dpforest.audit.duration import Course, attack_seconds, audit_seconds
from dpforest.audit.runner import audit, subjects
from dpforest.audit.subject import Subject
from dpforest.common.progress import Step
from dpforest.common.text import duration


def test_steps_of_all_tasks_are_parts_of_one_course():
    shown = []
    course = Course(shown.append, [{"replays": 2.0, "fits": 6.0}, {"fits": 2.0}])
    first, second = course.task(0, "first: "), course.task(1, "second: ")
    first(Step("replay 1 of 2", 1, 2, "replays"))
    first(Step("fits", 3, 6, "fits"))
    first("an event")
    second(Step("fits", 1, 1, "fits"))
    assert course.seconds == 10
    assert [(str(step), step.done, step.total) for step in shown] == [
        ("first: replay 1 of 2", 1_000, 10_000),
        ("first: fits", 5_000, 10_000),
        ("first: an event", 5_000, 10_000),
        ("second: fits", 10_000, 10_000),
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.3, "a moment"), (20.4, "about 20 seconds"), (100, "about 2 minutes"), (4_000, "about 67 minutes"),
     (7_300, "about 2 hours")],
)  # fmt: skip
def test_a_duration_is_said_in_the_unit_that_people_use(seconds, words):
    assert duration(seconds) == words


# The recipes, and how many replays and fits: of all recipes few.
CASES = {
    "the default": (("auto", "private"), 10, 40),
    "a cheap recipe": (("fletcher-islam-2017", "private"), 10, 40),
    "every recipe": (("all", "all"), 1, 8),
}


@pytest.mark.slow
@pytest.mark.parametrize("title", CASES)
def test_the_steps_of_an_audit_follow_its_course_to_the_end(title, monkeypatch):
    monkeypatch.setattr(lower_bound, "LEAST_PILOT", 4)
    names, n_pairs, n_fits = CASES[title]
    chosen, steps = subjects(*names), []
    course = Course(steps.append, audit_seconds(chosen, n_pairs, n_fits))
    assert course.seconds > 0
    for number, subject in enumerate(chosen):
        audit(subject, n_pairs, n_fits, course.task(number, ""))
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == steps[-1].total


@pytest.mark.slow
def test_an_attack_is_expected_to_take_some_time():
    X, y, schema = realistic_table("survey")
    (seconds,) = attack_seconds(Subject("auto"), X, y, schema, 80).values()
    assert seconds > 0


@pytest.mark.slow
def test_the_command_says_it_before_it_starts_and_json_is_alone_on_standard_output():
    result = run("--recipe", "fletcher-islam-2017", "--pairs", "4", "--trials", "40", "--json")
    assert re.fullmatch(r"This takes (a moment|about \d+ (seconds?|minutes?)) on this machine\.\n", result.stderr)
    assert json.loads(result.stdout)["attacks"] == []
