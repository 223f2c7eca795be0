"""One line says that kernels are compiled, where somebody looks, and only then."""

import gc
import subprocess
import sys

import pytest
from numba.core import event

from dpforest.common.work import WORDS, heard, said

NO_KERNELS = """
import sys
from numba.core import event
told = event.RecordingListener()
event.register("numba:compile", told)
{}
sys.exit(len(told.buffer))
"""
WITHOUT_A_FIT = {
    "everything is imported": "from dpforest import *; import dpforest.cli.main, dpforest.estimators, dpforest.audit",
    "the version is shown": "import dpforest.cli.main as cli; cli.commands(['--version'], standalone_mode=False)",
}


def compile_one_for_another():
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        pass


@pytest.mark.parametrize("is_seen", [True, False])
def test_compiling_is_said_once_where_somebody_looks(monkeypatch, capsys, is_seen):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_seen, raising=False)
    with said():
        compile_one_for_another()
        compile_one_for_another()
    assert capsys.readouterr().err == f"dpforest: {WORDS}\n" * is_seen


def test_whoever_hears_it_says_it_alone(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    told = []
    with heard(lambda begins: told.append((begins, gc.isenabled()))), said():
        compile_one_for_another()
    assert told == [(True, False), (False, True)]
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("code", WITHOUT_A_FIT.values(), ids=WITHOUT_A_FIT)
def test_nothing_is_compiled_before_a_fit(tmp_path, monkeypatch, code):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert subprocess.run([sys.executable, "-c", NO_KERNELS.format(code)]).returncode == 0
