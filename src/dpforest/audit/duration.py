"""How long an audit takes on this machine, from a few of its own fits, and how much of it is done.

Times are estimates: replays differ in size, and which pair of tables most fits are made on is known only after the pilot.
Sees the tables that the audit sees.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

from dpforest.audit.attack import World, exposed_record, look_often
from dpforest.audit.fits import FITS, PILOT, seconds_of_fits
from dpforest.audit.lower_bound import pilot_fits
from dpforest.audit.pairs import pairs_for
from dpforest.audit.replay import REPLAYS, nth_case, replay
from dpforest.audit.subject import Subject
from dpforest.common.progress import Step
from dpforest.schema import Schema

# Replays from which it is told how long one takes. Their cases differ, and so do the times.
N_TIMED = 8
# The expected seconds of each stage of a task, by what its steps of progress count, in the order of the stages.
Stages = Mapping[str, float]


def audit_seconds(subjects: Sequence[Subject], n_pairs: int, n_fits: int) -> list[Stages]:
    """The expected seconds of the stages of ``audit`` for each subject, from a few replays and a few fits of each."""
    found: list[dict[str, float]] = [{} for _ in subjects]
    if n_pairs:
        for subject, stages in zip(subjects, found, strict=True):
            stages[REPLAYS] = n_pairs * _seconds_of_replays(subject, min(n_pairs, N_TIMED))
    if n_fits:
        pairs = [pairs_for(subject) for subject in subjects]
        tasks = [(subject, pair) for subject, own in zip(subjects, pairs, strict=True) for pair in own]
        times = iter(seconds_of_fits(tasks))
        for own, stages in zip(pairs, found, strict=True):
            each = [next(times) / effective_n_jobs(-1) for _ in own]
            stages[PILOT] = 2 * pilot_fits(n_fits) * sum(each) if len(own) > 1 else 0.0
            stages[FITS] = n_fits * median(each) if own else 0.0
    return list(found)


def attack_seconds(subject: Subject, X: Any, y: Any, schema: Schema, n_fits: int) -> Stages:
    """The expected seconds of an ``attack``, from a few of its fits."""
    world, n_jobs = World.plant(subject, X, y, schema, exposed_record(X, y, schema)), effective_n_jobs(-1)
    each = fmean(Parallel(n_jobs=-1)(delayed(_timed_look)(world) for _ in range(n_jobs)))
    return {FITS: n_fits / 2 * each / n_jobs}


def _seconds_of_replays(subject: Subject, n_timed: int) -> float:
    """The mean seconds of a replay."""
    replay(*nth_case(subject, 0))  # the first loads kernels and fills caches
    start = time.perf_counter()
    for seed in range(n_timed):
        replay(*nth_case(subject, seed))
    return (time.perf_counter() - start) / n_timed


def _timed_look(world: World) -> float:
    """The seconds of a pair of fits of an attack."""
    look_often(world, 1)
    start = time.perf_counter()
    look_often(world, 1)
    return time.perf_counter() - start


@dataclass
class Course:
    """Several tasks as one: shows each step of a task as a part of all, in expected milliseconds."""

    show: Callable[[str], None]
    tasks: Sequence[Stages]
    _done: int = field(default=0, init=False)

    @property
    def seconds(self) -> float:
        """The expected seconds of all tasks."""
        return sum(sum(stages.values()) for stages in self.tasks)

    def task(self, number: int, title: str) -> Callable[[str], None]:
        """The function that is told the steps of one task."""
        stages, before = self.tasks[number], sum(sum(earlier.values()) for earlier in self.tasks[:number])

        def told(step: str) -> None:
            if isinstance(step, Step):
                names = list(stages)
                passed = sum(stages[name] for name in names[: names.index(step.unit)])
                seconds = before + passed + stages[step.unit] * step.done / step.total
                self._done = round(1000 * seconds)
            self.show(Step(title + step, self._done, round(1000 * self.seconds)))

        return told
