"""The speed benchmark: same work for all, and rows that say what they are or why they are not."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.core.process import ROOT, Worker
from benchmarks.core.results import NotMeasured
from benchmarks.speed import cases, floor, run, worker
from benchmarks.speed.cases import FULL, QUICK, wanted
from benchmarks.speed.profile import WATCHED, watched
from benchmarks.speed.systems import draw_table
from dpforest.errors import ParameterError

pytestmark = pytest.mark.slow

HAS_LIGHTGBM = importlib.util.find_spec("lightgbm") is not None


@pytest.fixture(autouse=True)
def _briefly(monkeypatch):
    """Workers in this process warm and test on few rows, and repeat what is short no more than they are asked to."""
    for name, value in {"SHORT_SECONDS": 0.0, "WARM_ROWS": 300, "N_TEST": 500, "N_SMALL_FITS": 5, "N_SMALL_WARM": 2}.items():
        monkeypatch.setattr(worker, name, value)


def ask(action, system, **other):
    if "LightGBM" in system and not HAS_LIGHTGBM:
        pytest.skip("needs lightgbm")
    shape = {"n_rows": 300, "n_features": 3, "n_trees": 2, "depth": 2} | other
    return worker.answer({"action": action, "system": system, "shape": shape, "threads": 2, "repeats": 2})


# What is measured


def test_each_case_is_there_once_and_every_part_is_in_the_whole():
    for scale in (FULL, QUICK):
        found = wanted(scale)
        assert len(set(found)) == len(found)
        for part in cases.PARTS:
            assert set(wanted(scale, (part,))) <= set(found)
    assert max(dict(case.parameters)["n_rows"] for case in wanted(QUICK)) == 20_000
    assert not set(wanted(QUICK)) & set(wanted(FULL))
    with pytest.raises(ParameterError, match="no part 'sped'"):
        wanted(FULL, ("sped",))
    files = [case for case in wanted(FULL, ("parquet",), 5_000) if case.variant == "file fit"]
    assert {dict(case.parameters)["n_rows"] for case in files} == {5_000}


# How it is measured


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_bare_pass_counts_as_numpy_does(threads):
    X, y = draw_table(500, 5)
    packed, levels = floor.pack(X, y), floor.nodes_of(500, 4, seed=0)
    found = floor.bare_pass(packed, levels, threads)()
    assert packed.max() < floor.WIDTH
    assert (packed % 2 == y).all()
    for level, (nodes, cells) in enumerate(zip(levels, found, strict=True)):
        n_cells = (1 << level) * floor.WIDTH
        for column, own in zip(packed, cells, strict=True):
            expected = np.bincount(nodes.astype(np.int64) * floor.WIDTH + column, minlength=n_cells)
            assert (own == expected).all()


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset on Linux only")
def test_the_peak_of_memory_is_that_of_a_known_array_even_when_it_is_gone():
    """In a process of its own, as it is measured: others hold memory and threads that come and go."""
    code = """if True:
        import numpy as np
        from benchmarks.core.process import peak_bytes, start_watching
        held = start_watching()
        array = np.ones(8 * 2**20)  # 64 MiB
        del array
        print(peak_bytes() - held)
        held = start_watching()
        print(peak_bytes() - held)"""
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    first, second = map(int, shown.split())
    assert 60 * 2**20 < first < 80 * 2**20
    assert second < 30 * 2**20  # a new watch forgets the old peak


SYSTEMS = [*cases.OURS, *cases.PEERS]


@pytest.mark.parametrize("system", [*SYSTEMS[:2], *(pytest.param(each, marks=pytest.mark.night) for each in SYSTEMS[2:])])
def test_every_system_can_be_trained(system):
    answer = ask("fit", system)
    assert len(answer["runs"]) == 2
    assert answer["table_bytes"] == 300 * (3 * 4 + 8)
    assert answer["peak_bytes"] >= 0
    if system in cases.OURS:
        parts = [encoding + growing for encoding, growing in zip(answer["encoding"], answer["growing"], strict=True)]
        assert parts == pytest.approx(answer["runs"])


@pytest.mark.parametrize("system", cases.BY_DEFAULT)
def test_what_people_run_is_timed_and_tested(system):
    answer = ask("fit", system, n_rows=500, n_features=20, **cases.NOT_SET)
    assert len(answer["runs"]) == 2
    assert 0 < answer["accuracy"] <= 1


@pytest.mark.parametrize("system", cases.FULL.predicting)
def test_every_predictor_can_predict(system):
    assert len(ask("predict", system)["runs"]) == 2


def test_serial_shares_small_fits_and_bare_passes_are_timed():
    answer = ask("serial share", cases.PURE_PLAN, n_features=20, **cases.NOT_SET)
    assert len(answer["one_thread"]) == len(answer["runs"]) == 2
    assert len(ask("small fit", cases.FULL_DATA, n_rows=100)["runs"]) == 5
    assert len(ask("count", cases.BARE_PASS)["runs"]) == 2


def test_a_profile_has_all_parts_and_leaves_methods_as_they_were():
    methods = [getattr(owner, name) for named in WATCHED.values() for owner, name in named]
    parts = ask("profile", cases.DISJOINT)["parts"]
    assert set(parts) == set(WATCHED)
    assert all(seconds > 0 for part, seconds in parts.items() if part != "residuals")  # which disjoint trees do not have
    with pytest.raises(RuntimeError, match="within"), watched():
        raise RuntimeError("within")
    assert methods == [getattr(owner, name) for named in WATCHED.values() for owner, name in named]


def test_runs_stop_early_where_they_are_long(monkeypatch):
    monkeypatch.setattr(worker, "SHORT_SECONDS", 5.0)
    assert worker.repeat(lambda: 2.0, 5) == [2.0] * 5
    lengths = {1.0: 5, 1e-3: worker.MOST_SHORT, 0.4 * worker.REPEAT_SECONDS: 2, 2 * worker.REPEAT_SECONDS: 1}
    assert {seconds: len(worker.repeat(lambda seconds=seconds: seconds, 2)) for seconds in lengths} == lengths


def test_a_worker_is_ours_whatever_the_folder_has_says_what_went_wrong_and_goes_on(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    request = {"action": "count", "system": "", "shape": {"n_rows": 50, "n_features": 2, "n_trees": 1, "depth": 2}}
    request |= {"threads": 1, "repeats": 1}
    with Worker("benchmarks.speed.worker", 1) as workers:
        with pytest.raises(NotMeasured, match="KeyError: 'dance'"):
            workers.ask(request | {"action": "dance"}, alone=False)
        assert len(workers.ask(request, alone=False)["runs"]) >= 1


class Silent:
    """Stands in for workers: answers at once, or fails for one system."""

    def __init__(self, broken=""):
        self.broken, self.asked = broken, []

    def ask(self, request, alone):
        self.asked.append(request["system"])
        if request["system"] == self.broken:
            raise NotMeasured("out of memory")
        return {"runs": [0.3, 0.1, 0.2], "encoding": [0.1, 0.05, 0.1], "one_thread": [0.4, 0.3, 0.3], "peak_bytes": 5}


def a_run(workers):
    return run.Run(FULL, 3, [], workers, set(cases.goal_cases(FULL)))


def test_a_row_has_best_and_median_and_the_facts_of_the_machine():
    found = a_run(Silent()).measure(FULL.case(cases.FULL_DATA, "fit"))
    assert (found["seconds"], found["median"], found["encoding"], found["n_runs"]) == (0.1, 0.2, 0.05, 3)
    assert found["one_thread"] == 0.3
    assert {"processor", "cores", "versions"} <= set(found["machine"])
    assert found["threads"] >= 1
    assert found["seed"] == cases.SEED
    json.dumps(found)


def test_a_case_that_fails_or_whose_library_is_missing_is_a_row_with_the_reason(monkeypatch):
    found = a_run(Silent(broken=cases.FOREST)).measure(FULL.case(cases.FOREST, "fit"))
    assert found["absent"] == "out of memory"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    workers = Silent()
    assert "lightgbm is not installed" in a_run(workers).measure(FULL.case(cases.LIGHTGBM, "fit"))["absent"]
    assert workers.asked == []
