"""A recipe of your own by module:NAME on every command, and the folder that begins one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import done, refused, run, write_people

from dpforest.cli.options import named_recipe
from dpforest.errors import ParameterError
from dpforest.parts.recipe import Recipe

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
    "lacks an import": ("own_lacks:RECIPE", "own_lacks.py, line 1: ModuleNotFoundError: No module named 'nobody'"),
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
def test_a_model_by_an_own_recipe_is_trained_used_audited_and_reported(here):
    write_people()
    own = ("--recipe", "own_mine:RECIPE")
    plan = json.loads(done("plan", "--schema", "ill.json", "--epsilon", 1, "--rows", 400, *own, "--json"))
    choices = {line["what"]: line["value"] for line in plan["choices"]}
    assert (choices["depth"], choices["a leaf releases"]) == ("2", "NoisyCounts")
    said = done("fit", "t.csv", "--schema", "ill.json", "--epsilon", 8, *own, "--out", "m.dpf")
    assert "Own recipe 'mine' made of the library's parts" in said
    (here / "audit.json").write_text(run("audit", *own, "--pairs", 3, "--trials", 0, "--json").stdout)
    (here / "own_mine.py").unlink()  # a model needs the recipe no more
    del sys.modules["own_mine"]
    done("predict", "m.dpf", "t.csv", "--out", "p.csv")
    done("evaluate", "m.dpf", "t.csv", "--public")
    assert "own recipe 'mine'" in done("ledger", "m.dpf", "--json")
    done("report", "m.dpf", "--out", "r.html", "--audit", "audit.json")
    report = json.loads((here / "r.json").read_text("utf-8"))
    assert "wn recipe 'mine'" in json.dumps(report["guarantee"])
    (entry,) = report["audit"]["entries"]
    assert (entry["verdict"], report["audit"]["by_name_only"]) == ("nothing found", False)


@pytest.mark.slow
def test_an_own_recipe_is_shown_with_its_ledger_and_whose_proof_it_is(here):
    shown = done("recipes", "own_mine:RECIPE", "--epsilon", 0.5)
    assert "Total: epsilon = 0.5" in shown
    assert "Proof: own recipe 'mine' made of the library's parts" in shown
    assert "As printed" not in shown
    assert json.loads(done("recipes", "own_mine:RECIPE", "--json"))["ledger"]["spent"] == 1.0
    said = refused("audit", "--recipe", "own_mine:RECIPE", "--variant", "published")
    assert "'mine' has no published variant" in said


# New recipes by what is changed in them, and the tests of theirs that notice.
LEAF, AUDIT = "test_a_record_moves_a_leaf_by_what_is_stated_and_no_less", "test_an_audit_finds_nothing"
CHANGED = {
    "as_begun": (("", ""), set()),
    "l1_too_small": (("l1=4 *", "l1=3 *"), {LEAF, AUDIT}),
    "l2_too_small": (("l2_squared=6 *", "l2_squared=5 *"), {LEAF, AUDIT}),
    "l1_too_large": (("l1=4 *", "l1=5 *"), {LEAF}),
}


@pytest.mark.slow
def test_the_tests_of_a_new_recipe_pass_and_notice_a_wrong_constant(here):
    for name, ((old, new), _) in CHANGED.items():
        done("recipes", "new", name)
        assert sorted(path.name for path in Path(name).iterdir()) == sorted([f"{name}.py", "README.md", f"test_{name}.py"])
        assert not [path for path in Path(name).iterdir() if "$" in path.read_text("utf-8")]
        part = Path(name, f"{name}.py")
        assert old in part.read_text("utf-8")
        part.write_text(part.read_text("utf-8").replace(old, new) if old else part.read_text("utf-8"), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHANGED]
    said = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=300).stdout
    failed = re.findall(r"^FAILED (\w+)/.*::(\w+)", said, re.MULTILINE)
    assert {name: {test for where, test in failed if where == name} for name in CHANGED} == {
        name: tests for name, (_, tests) in CHANGED.items()
    }
    assert "8 failed, 8 passed" in said


@pytest.mark.slow
def test_a_new_recipe_passes_its_audit(here):
    done("recipes", "new", "my_leaves")
    # Nothing is found, but once in a thousand audits that have a lower bound; so it gets fits in which nothing can be. In a
    # process of its own: the workers of this one may have begun where there is no such module.
    words = ["audit", "--recipe", "my_leaves:RECIPE", "--pairs", "10", "--trials", "8", "--json"]
    found = subprocess.run([sys.executable, "-m", "dpforest.cli", *words], cwd="my_leaves", capture_output=True, check=True)
    (audit,) = json.loads(found.stdout)["audits"]
    assert (audit["own"], audit["verdict"], audit["replay"]["n_pairs"]) == (True, "nothing found", 10)


@pytest.mark.slow
def test_a_new_recipe_is_written_over_nothing(here):
    done("recipes", "new", "my_leaves")
    Path("other").mkdir()
    Path("other", "README.md").write_text("mine")
    before = {path: path.read_bytes() for path in here.rglob("*.*")}
    for arguments in (["my_leaves"], ["others", "--out", "other"], ["others", "--out", "my_leaves"]):
        assert "is there already, and nothing was written" in refused("recipes", "new", *arguments)
    for name in ("my-leaves", "class", "numpy", "statistics", "dpforest", "../up"):
        assert refused("recipes", "new", name)
    assert {path: path.read_bytes() for path in here.rglob("*.*")} == before


def test_the_guide_shows_the_part_that_a_new_recipe_has():
    root = Path(__file__).parents[2]
    text = (root / "src" / "dpforest" / "cli" / "template" / "recipe.py.txt").read_text("utf-8")
    part = text[text.index("@dataclass") : text.index("RECIPE = ")].strip()
    assert part in (root / "docs" / "guide" / "recipes.md").read_text("utf-8")
