"""The command, the page, the fixture: what people run and read."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.audit.broken import TWINS
from tests.support.chances import FAILURE
from typer.testing import CliRunner

from dpforest import get_recipe
from dpforest.audit import audit_recipe, runner
from dpforest.audit import lower_bound as bounds
from dpforest.audit.lower_bound import lower_bound
from dpforest.audit.report import HEAD, cells, write_html
from dpforest.audit.runner import Audit, audit, subjects
from dpforest.cli.audit import _show_step
from dpforest.cli.main import commands
from dpforest.common.work import Step
from dpforest.errors import ParameterError
from dpforest.parts.leaves import NoisyCounts

pytestmark = pytest.mark.slow


def run(*arguments):
    return CliRunner().invoke(commands, ["audit", *arguments])


@pytest.fixture
def sure(monkeypatch):
    """A lower bound that is above a kept claim once in a million runs."""
    monkeypatch.setattr(runner, "lower_bound", partial(lower_bound, confidence=1 - FAILURE))


def test_nothing_found_is_exit_code_0_a_table_and_a_page(tmp_path, sure):
    path = tmp_path / "audit.html"
    result = run("--recipe", "consul-2020-ert", "--pairs", "5", "--trials", "200", "--html", str(path))
    assert result.exit_code == 0, result.output
    assert "nothing found" in result.output
    text = path.read_text("utf-8")
    assert "consul-2020-ert" in text
    assert "data:image/png;base64," in text


def test_a_printed_algorithm_is_exit_code_1_json_alone_and_its_pair_of_tables():
    result = run("--recipe", "dong-2022", "--variant", "published", "--pairs", "3", "--trials", "800", "--json")
    assert result.exit_code == 1
    assert result.stderr == ""
    content = json.loads(result.stdout)
    (found,) = content["audits"]
    assert content["attacks"] == []
    assert found["verdict"] == "claim broken"
    assert found["lower_bound"]["exceeds"]
    assert found["lower_bound"]["epsilon"] > 1
    assert "and the same with (" in found["lower_bound"]["words"]
    assert {finding["kind"] for finding in found["replay"]["findings"]} >= {"opened", "public value"}


def test_both_variants_are_audited_where_both_exist():
    assert [subject.variant for subject in subjects("consul-2020", "all")] == ["private", "published"]
    assert [subject.variant for subject in subjects("mu-2016", "all")] == ["private"]
    every = subjects("all", "all", 0.5, 1e-6)
    assert len({(subject.name, subject.variant) for subject in every}) == len(every) == 22 + 10
    assert {(subject.epsilon, subject.delta) for subject in every} == {(0.5, 1e-6)}


def test_parts_can_be_left_out():
    found = audit_recipe("auto", n_pairs=3)
    assert found.bound is None
    assert cells(found.to_dict())[HEAD.index("ε is at least")] == ""
    assert Audit("auto", "private", 1.0, 0.0, None, None).verdict == "nothing found"


def test_a_broken_recipe_raises_with_the_place_and_the_pair():
    subject = TWINS["rows by position"]
    with pytest.raises(AssertionError, match=r"(?s)claim of .* is broken.*\.py:\d+ in .*and the same with"):
        audit_recipe(subject.recipe, n_pairs=10, classifier=subject.classifier)


def test_the_page_stands_alone_and_names_are_escaped(tmp_path):
    recipe, path = replace(get_recipe("jagannathan-2009"), name="<script>alert(1)</script>"), tmp_path / "audit.html"
    write_html(path, [audit_recipe(recipe, n_pairs=3).to_dict()], [])
    text = path.read_text("utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "http" not in text.replace("http-equiv", "")
    assert "Findings</h2><p>None." in text


def session(folder, test, *words):
    """What a pytest session in a folder of its own prints."""
    (folder / "test_mine.py").write_text(test)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, str(folder)]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


FIXTURE = """
import sys

def test_other_tests_pay_nothing(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin('dpforest.audit.plugin')
    assert not {'numpy', 'dpforest.audit.runner'} & set(sys.modules)

def test_sound(audit_recipe):
    from dpforest import get_recipe
    assert audit_recipe(get_recipe('jagannathan-2009'), n_pairs=3).verdict == 'nothing found'

def test_broken(audit_recipe):
    from tests.audit.broken import TWINS
    audit_recipe(TWINS['bound halved'].recipe, n_pairs=10)
"""
BARE = """
import sys

def test_nothing_is_loaded():
    assert not [name for name in sys.modules if 'dpforest' in name]
"""


@pytest.mark.parametrize("way", ["option", "conftest"])
def test_the_plugin_is_loaded_where_it_is_asked_for_and_imports_nothing_before_its_fixture(tmp_path, way):
    if way == "conftest":
        (tmp_path / "conftest.py").write_text("pytest_plugins = ['dpforest.audit']\n")
        assert "1 passed" in session(tmp_path, FIXTURE, "-k", "pay_nothing")
    else:
        said = session(tmp_path, FIXTURE, "-p", "dpforest.audit")
        assert "1 failed, 2 passed" in said, said
        assert "The claim of" in said
        assert "1 passed" in session(tmp_path, BARE)  # which does not ask


def test_a_recipe_whose_every_fit_is_refused_does_not_pass():
    class Spends(NoisyCounts):
        def release(self, statistics, amount, gate, target, purpose, most=1):
            return super().release(statistics, 2 * amount, gate, target, purpose, most)

    with pytest.raises(ParameterError, match=r"Every fit of recipe 'mine' was refused, .* tried\. .*Budget"):
        audit_recipe(replace(get_recipe("jagannathan-2009"), name="mine", leaf=Spends()), n_pairs=5)


def test_steps_of_an_audit_are_counted_to_the_end_for_each_kind_of_work(monkeypatch):
    monkeypatch.setattr(bounds, "LEAST_PILOT", 4)
    told = []
    for subject in subjects("auto", "private"):
        audit(subject, 10, 40, partial(_show_step, told.append, "mine: "))
    bars = {}
    assert all(step.startswith("mine: ") for step in told)
    for step in (step for step in told if isinstance(step, Step)):
        assert step.done > bars.get(step.unit, (0, 0))[0]
        bars[step.unit] = step.done, step.total
    assert len(bars) == 3  # replays, pilot fits and fits
    assert all(done == total for done, total in bars.values())
