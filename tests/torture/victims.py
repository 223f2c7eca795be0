"""Fits on a budget in forked processes, which are killed or race each other; the store must know of every release."""

import gc
import os
import random
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from unittest import mock

from tests.torture.samples import FEATURES, rows

from dpforest import Budget, Classes, DPForestClassifier, Schema, load_model
from dpforest.budget import Loss
from dpforest.errors import BudgetError
from dpforest.privacy.gate import Gate

EPSILON = 0.125
SECONDS_TO_END = 300


def fit(budget=None, **named):
    X, schema = rows(), Schema(FEATURES, Classes(["no", "yes"]))
    model = DPForestClassifier(schema, epsilon=EPSILON, max_depth=3, n_trees=4, budget=budget)
    return model.fit(X, ["yes" if age > 50 else "no" for age in X["age"]], **named)


def in_a_folder(work, *given, **named):
    """What ``work`` gives in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return work(folder, *given, **named)


def in_a_child(work):
    """Run ``work`` in a forked process; gives its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BudgetError:
        code = 3
    finally:
        os._exit(code)


def noted_releases(note):
    """The methods of the gate that release something, by their names, each calling ``note`` when it has."""

    def noted(whole):
        def release(*arguments, **named):
            released = whole(*arguments, **named)
            note()
            return released

        return release

    return {name: noted(getattr(Gate, name)) for name in ("add_noise", "select")}


def kills(folder, n_runs, say=lambda text: None, seed=0):
    """Kill fits at random moments; raises at the first charge that is lost."""
    house = Budget.open(Path(folder, "budget.db"), dataset="house", epsilon=1e6)
    budget = Budget.open(house.path, dataset="ward-7", epsilon=1e6, belongs_to="house")
    model_path, marks, draw = Path(folder, "m.dpf"), Path(folder, "marks"), random.Random(seed)
    fit(budget)  # compiles
    began = time.perf_counter()
    fit(budget).save(model_path)
    seconds = time.perf_counter() - began + 0.02
    n_before, found = len(budget.history()), {"runs": 0, "released": 0, "settled": 0, "models": 0, "reserved": 0}
    for run in range(n_runs):
        model_path.unlink(missing_ok=True)
        marks.write_bytes(b"")

        def work():
            handle = os.open(marks, os.O_WRONLY | os.O_APPEND)
            with mock.patch.multiple(Gate, **noted_releases(lambda: os.write(handle, b"r"))):
                fit(budget).save(model_path)

        child = in_a_child(work)
        time.sleep(draw.uniform(0, 1.5 * seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        budget.verify()
        entered = budget.history()[n_before:]
        n_before += len(entered)
        released = marks.stat().st_size > 0
        assert len(entered) <= 1, f"run {run}: one fit was entered {len(entered)} times"
        assert entered or not released, f"run {run}: a release without a charge"
        if model_path.exists():
            assert entered[0]["state"] == "settled", f"run {run}: a model of a fit that was not settled"
            load_model(model_path)
        strays = {path.name for path in Path(folder).iterdir() if not path.name.startswith((".dpforest-", "budget.db"))}
        assert strays <= {"marks", "m.dpf"}, strays
        states = [entry["state"] for entry in entered]
        for name, is_so in (("runs", True), ("released", released), ("models", model_path.exists()),
                            ("settled", "settled" in states), ("reserved", "reserved" in states)):  # fmt: skip
            found[name] += is_so
        if run % 50 == 49:
            say(f"kills: {run + 1} of {n_runs}, {found['released']} after a release")
    releases = budget.history()
    assert house.history() == releases, "charged here and not above, or the other way round"
    assert budget.spent >= EPSILON * sum(entry["state"] == "reserved" for entry in releases)
    return found


def race(folder, n_processes, n_places, real_fits=True, n_parts=0):
    """Let processes race for a budget with room for ``n_places`` fits; gives how many got one.

    With parts they take turns to fit on data sets that belong to the one with that room, and have more of their own.
    """
    whole = Budget.open(Path(folder, "race.db"), dataset="ward-7", epsilon=EPSILON * n_places)
    parts = [Budget.open(whole.path, f"part {place}", 1e6, belongs_to="ward-7") for place in range(n_parts)] or [whole]
    gate, gate_end = os.pipe()
    fit()  # compiles, once for all

    def work(budget):
        os.close(gate_end)
        os.read(gate, 1)  # all begin when the pipe is closed
        if real_fits:
            fit(budget)
        else:
            budget.settle(budget.reserve("race", outcomes=[Loss.pure(EPSILON)]), Loss.pure(EPSILON))

    children = [in_a_child(partial(work, parts[place % len(parts)])) for place in range(n_processes)]
    os.close(gate)
    os.close(gate_end)
    codes = wait_for(children)
    assert set(codes) <= {0, 3}, f"processes ended with {sorted(set(codes))}"
    whole.verify()
    history = whole.history()
    n_fits = codes.count(0)
    assert n_fits == len(history) == n_places, (n_fits, len(history), n_places)
    assert all(entry["state"] == "settled" for entry in history)
    assert whole.spent <= EPSILON * n_places
    assert n_parts == 0 or sum(len(part.history()) for part in parts) == n_places
    return n_fits


def wait_for(children):
    """The exit codes; processes that do not end are killed, and that is a finding."""
    end, codes = time.monotonic() + SECONDS_TO_END, {}
    while waited := [child for child in children if child not in codes]:
        is_late = time.monotonic() > end
        for child in waited:
            if is_late:
                os.kill(child, signal.SIGKILL)
            ended, status = os.waitpid(child, 0 if is_late else os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
        assert not is_late, f"{len(waited)} processes wait for each other"
        time.sleep(0.01)
    return [codes[child] for child in children]


def memory_of_fits(folder, n_fits, warm=20):
    """Bytes by which memory grew over fits on one budget, after the first ones."""
    budget = Budget.open(Path(folder, "many.db"), dataset="ward-7", epsilon=1e6)
    for _ in range(warm):
        fit(budget)
    before = resident()
    for _ in range(n_fits):
        fit(budget)
    assert len(budget.history()) == n_fits + warm
    return resident() - before


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
