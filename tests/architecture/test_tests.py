"""Tests do not measure time, and hide no warning but one that they name."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLOCKS = {"perf_counter", "perf_counter_ns", "process_time", "thread_time"}  # time.monotonic is for giving up
HIDES = {"filterwarnings", "simplefilter"}


def measured(tree):
    """Lines that read a clock for how long something takes, or any clock in an assertion."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield node.lineno
        if isinstance(node, ast.Assert):
            names = {(part.value.id, part.attr) for part in ast.walk(node) if is_attribute_of_a_name(part)}
            yield from [node.lineno] * any(module == "time" for module, _ in names)


def is_attribute_of_a_name(node):
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def hidden(tree):
    """Lines that ignore all warnings, or some for a whole module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HIDES:
            given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            yield from [node.lineno] * (given == ["ignore"] and len(node.args) == 1 and not node.keywords)
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from (n.lineno for n in ast.walk(statement) if isinstance(n, ast.Attribute) and n.attr in HIDES)


def test_no_test_measures_time_or_hides_warnings_that_it_does_not_name():
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    assert len(paths) > 50
    texts = {path: path.read_text("utf-8") for path in paths}
    # Few files have such a word at all, and to read the others takes long.
    words = re.compile("|".join([*CLOCKS, *HIDES, r"\btime\."]))
    trees = {path.name: ast.parse(text) for path, text in texts.items() if words.search(text)}
    assert [f"{name}:{line}" for name, tree in trees.items() for find in (measured, hidden) for line in find(tree)] == []


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (measured, "start = time.perf_counter()"),
        (measured, "def test():\n    assert time.monotonic() - begin < 3"),
        (hidden, "warnings.simplefilter('ignore')"),
        (hidden, "warnings.simplefilter('ignore', UserWarning)"),
        (hidden, "pytestmark = pytest.mark.filterwarnings('ignore::UserWarning')"),
        (hidden, "@pytest.mark.filterwarnings('ignore')\ndef test():\n    pass"),
        (hidden, "def test():\n    warnings.simplefilter('ignore')"),
    ],
)
def test_what_is_not_wanted_is_found(find, text):
    assert list(find(ast.parse(text)))


def test_a_warning_that_all_tests_hide_is_named_with_its_module():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    for entry in settings.get("filterwarnings", []):
        action, message, category, module = entry.split(":")
        assert action == "error" or (message and category and module and not module.startswith("dpforest"))
