"""A recipe of your own by module:NAME on every command, and the folder that begins one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_commands import folder, run

from dpforest.cli.own_recipes import named_recipe
from dpforest.errors import ParameterError
from dpforest.parts.recipe import Recipe

__all__ = ["folder"]

N_ROWS = 400
MINE = """
from dataclasses import replace
from dpforest import get_recipe

RECIPE = replace(get_recipe("friedman-schuster-2010"), name="mine", depth=2)
NUMBER = 3
"""
BROKEN = {
    "no such module": ("nowhere:RECIPE", "There is no module 'nowhere'"),
    "no such package": ("nowhere.inside:RECIPE", "There is no module 'nowhere.inside'"),
    "no such name": ("own_mine:RECIP", "has no value 'RECIP'. Its recipes are RECIPE."),
    "no recipe": ("own_mine:NUMBER", "own_mine:NUMBER is no Recipe: its type is int."),
    "a file": ("own_mine.py:RECIPE", "is named as module:NAME"),
    "a path": ("folder/own_mine:RECIPE", "is named as module:NAME"),
    "no name": ("own_mine:", "is named as module:NAME"),
    "raises": ("own_raises:RECIPE", "own_raises.py, line 2: ZeroDivisionError: division by zero"),
    "exits": ("own_exits:RECIPE", "own_exits.py, line 1: SystemExit: 3"),
    "is no Python": ("own_text:RECIPE", "own_text.py, line 1: SyntaxError"),
    "lacks what it imports": (
        "own_lacks:RECIPE",
        "own_lacks.py, line 1: ModuleNotFoundError: No module named 'nobody'",
    ),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with modules, in which a command is typed."""
    texts = {"mine": MINE, "raises": "\n1 / 0", "exits": "exit(3)", "text": "a b", "lacks": "import nobody"}
    for name, text in texts.items():
        (tmp_path / f"own_{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in texts:
        sys.modules.pop(f"own_{name}", None)


def test_a_name_without_a_colon_is_one_of_the_catalogue():
    assert named_recipe("mu-2016") == "mu-2016"


def test_a_recipe_is_taken_from_a_module_in_the_folder(here):
    recipe = named_recipe("own_mine:RECIPE")
    assert isinstance(recipe, Recipe)
    assert recipe.name == "mine"


@pytest.mark.parametrize("title", BROKEN)
def test_what_cannot_be_taken_is_refused_in_words(title, here):
    text, said = BROKEN[title]
    with pytest.raises(ParameterError) as refused:
        named_recipe(text)
    assert said in str(refused.value)


@pytest.mark.slow
def test_a_model_by_an_own_recipe_is_trained_used_audited_and_reported(folder):
    (folder / "mine.py").write_text(MINE)
    own = ("--recipe", "mine:RECIPE")
    plan = run("plan", "--schema", "ill.schema.json", "--epsilon", 1, "--rows", N_ROWS, *own, "--json", cwd=folder)
    assert plan.returncode == 0, plan.stderr
    choices = {line["what"]: line["value"] for line in json.loads(plan.stdout)["choices"]}
    assert (choices["depth"], choices["a leaf releases"]) == ("2", "NoisyCounts")
    done = run("fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 8, *own, "--out", "m.dpf", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Own recipe 'mine' made of the library's parts" in done.stdout
    audited = run("audit", *own, "--pairs", 3, "--trials", 0, "--json", cwd=folder)
    assert audited.returncode == 0, audited.stderr
    (folder / "audit.json").write_text(audited.stdout)
    (folder / "mine.py").unlink()  # a model needs the recipe no more
    assert run("predict", "m.dpf", "t.csv", "--out", "p.csv", cwd=folder).returncode == 0
    assert run("evaluate", "m.dpf", "t.csv", "--public", cwd=folder).returncode == 0
    assert "own recipe 'mine'" in run("ledger", "m.dpf", "--json", cwd=folder).stdout
    done = run("report", "m.dpf", "--out", "r.html", "--audit", "audit.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "r.json").read_text("utf-8"))
    assert "wn recipe 'mine'" in json.dumps(report["guarantee"])
    (entry,) = report["audit"]["entries"]
    assert (entry["verdict"], report["audit"]["by_name_only"]) == ("nothing found", False)


@pytest.mark.slow
def test_an_own_recipe_is_shown_with_its_ledger_and_whose_proof_it_is(here):
    shown = run("recipes", "own_mine:RECIPE", "--epsilon", 0.5, cwd=here)
    assert shown.returncode == 0, shown.stderr
    assert "Total: epsilon = 0.5" in shown.stdout
    assert "Proof: own recipe 'mine' made of the library's parts" in shown.stdout
    assert "As printed" not in shown.stdout
    assert json.loads(run("recipes", "own_mine:RECIPE", "--json", cwd=here).stdout)["ledger"]["spent"] == 1.0


@pytest.mark.slow
def test_the_printed_form_of_an_own_recipe_is_refused(here):
    done = run("audit", "--recipe", "own_mine:RECIPE", "--variant", "published", cwd=here)
    assert done.returncode == 1
    assert "'mine' has no published variant" in done.stderr


def run_tests(folder):
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder that ``dpforest recipes new`` writes."""
    done = run("recipes", "new", "my_leaves", cwd=(above := tmp_path_factory.mktemp("new")))
    assert done.returncode == 0, done.stderr
    return above / "my_leaves"


@pytest.mark.slow
def test_a_new_recipe_passes_its_tests_and_its_audit(begun):
    assert sorted(path.name for path in begun.iterdir()) == ["README.md", "my_leaves.py", "test_my_leaves.py"]
    assert not [path for path in begun.iterdir() if "$" in path.read_text("utf-8")]
    tested = run_tests(begun)
    assert tested.returncode == 0, tested.stdout
    assert "4 passed" in tested.stdout
    # Nothing is found, but once in a thousand audits that have a lower bound; so it gets fits in which nothing can be.
    done = run("audit", "--recipe", "my_leaves:RECIPE", "--pairs", 10, "--trials", 8, "--json", cwd=begun)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["audits"]
    assert (found["own"], found["verdict"], found["replay"]["n_pairs"]) == (True, "nothing found", 10)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [("l1=4 *", "l1=3 *"), ("l2_squared=6 *", "l2_squared=5 *"), ("l1=4 *", "l1=5 *")])
def test_a_new_recipe_with_a_wrong_constant_fails_its_tests(begun, tmp_path, wrong):
    for path in begun.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    part = tmp_path / "my_leaves.py"
    assert wrong[0] in part.read_text("utf-8")
    part.write_text(part.read_text("utf-8").replace(*wrong), "utf-8")
    tested = run_tests(tmp_path)
    assert tested.returncode == 1
    assert "FAILED test_my_leaves.py::test_a_record_moves_a_leaf_by_what_is_stated_and_no_less" in tested.stdout
    assert ("FAILED test_my_leaves.py::test_an_audit_finds_nothing" in tested.stdout) == (wrong[1] != "l1=5 *")


@pytest.mark.slow
def test_a_new_recipe_is_written_over_nothing(begun):
    before = {path.name: path.read_bytes() for path in begun.glob("*.*")}
    (begun.parent / "other").mkdir()
    (begun.parent / "other" / "README.md").write_text("mine")
    for arguments in (["my_leaves"], ["others", "--out", "other"], ["others", "--out", "my_leaves"]):
        done = run("recipes", "new", *arguments, cwd=begun.parent)
        assert done.returncode == 1, arguments
        assert "is there already, and nothing was written" in done.stderr
    assert {path.name: path.read_bytes() for path in begun.glob("*.*")} == before
    assert [path.name for path in (begun.parent / "other").iterdir()] == ["README.md"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my-leaves", "class", "numpy", "statistics", "dpforest", "../up"])
def test_a_name_that_cannot_be_a_module_of_its_own_is_refused(name, tmp_path):
    done = run("recipes", "new", name, cwd=tmp_path)
    assert done.returncode == 1
    assert not [*tmp_path.iterdir()]


def test_the_guide_shows_the_part_that_a_new_recipe_has():
    root = Path(__file__).parents[2]
    text = (root / "src" / "dpforest" / "cli" / "template" / "recipe.py.txt").read_text("utf-8")
    part = text[text.index("@dataclass") : text.index("RECIPE = ")].strip()
    assert part in (root / "docs" / "guide" / "recipes.md").read_text("utf-8")
