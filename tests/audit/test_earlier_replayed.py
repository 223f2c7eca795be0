"""Fits from an earlier model under audit: nothing is found, and twins are whose choices are not what is charged."""

import warnings

import pytest
from tests.support.encoded import opened

from dpforest import Bounded, DPForestClassifier, DPForestRegressor, pipeline
from dpforest.audit.cases import generate
from dpforest.audit.replay import replay
from dpforest.audit.subject import Subject
from dpforest.errors import NothingLearntWarning
from dpforest.growing import earlier
from dpforest.privacy.bounds import Bound

pytestmark = pytest.mark.slow

TASKS = ("classification", "regression")
# The path of the model that fits start from.
STARTS: list[str] = []


class Started:
    """Fits start from the last of the earlier models."""

    def fit(self, X, y=None, **others):
        self.earlier_model = STARTS[-1]
        return super().fit(X, y, **others)


class StartedClassifier(Started, DPForestClassifier):
    pass


class StartedRegressor(Started, DPForestRegressor):
    pass


def replays(folder, seeds):
    """For each case whose fits succeed: the findings, whether the earlier model was kept, and the task.

    The earlier model is of some rows of the case; both tables of a case start from the same.
    """
    subject = Subject("auto", classifier=StartedClassifier, regressor=StartedRegressor)
    for seed in seeds:
        case = generate(seed, TASKS)
        kind = DPForestRegressor if isinstance(case.schema.target, Bounded) else DPForestClassifier
        rows, target = case.tables()[0]
        STARTS.append(str(folder / f"{len(STARTS)}.dpf"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingLearntWarning)
            kind(case.schema, epsilon=5.0, delta=0.1, random_state=seed).fit(rows[::2], target[::2]).save(STARTS[-1])
        (first, _), findings = replay(subject, case)
        if not first.failed:
            yield findings, first.public.get("forest_.n_earlier") != "int 0", subject.parts.task(case.schema)


def kinds_of(folder, *seeds):
    """The kinds of what is found in cases that once found it."""
    return {finding.kind for findings, _, _ in replays(folder, seeds) for finding in findings}


def test_fits_from_an_earlier_model_are_sound(tmp_path):
    found = list(replays(tmp_path, range(16)))
    assert [str(finding) for findings, _, _ in found for finding in findings] == []
    # Kept and left, of both tasks.
    assert {(kept, task) for _, kept, task in found} == {(kept, task) for kept in (True, False) for task in TASKS}
    assert len(found) > 9


def test_a_choice_that_is_told_too_small_a_bound_is_caught(monkeypatch, tmp_path):
    true = earlier.option_bound
    monkeypatch.setattr(earlier, "option_bound", lambda target: Bound(0, round(true(target).high * 0.9)))
    assert "bound" in kinds_of(tmp_path, 7, 19)


def test_a_choice_that_is_not_charged_is_caught(monkeypatch, tmp_path):
    def exact(counter, forest, amount, gate):
        """Looks at the scores themselves."""
        scores = earlier._mean_scores if isinstance(counter.target, Bounded) else earlier._class_scores
        left, kept = opened(scores(counter, forest, gate))[0]
        return bool(kept > left)

    monkeypatch.setattr(pipeline, "is_better", exact)
    assert kinds_of(tmp_path, 22, 30) & {"question", "public value"}
