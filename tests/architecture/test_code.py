"""Every source file and test: claims stand beside private parts, a file is one thought, and no test measures time."""

import ast
import doctest
import importlib.util
import re
import tomllib
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import dpforest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dpforest"
TEXTS = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
MOST_LINES, LEAST_LINES = 450, 40
REVIEWED = ("records/", "privacy/", "mechanisms/", "parts/", "growing/", "pipeline.py", "fitting.py")
# What makes a gate or coins, seals or opens a value, states a bound, charges, says how charges add up, proves something, or
# imports what sees rows.
CRITICAL = re.compile(
    r"\b(?:Gate|Entropy|Sealed|Sensitivity|Bound|Blocks)\(|\._value\b|\.(?:scope|charge|leak)\(|\bClaim:"
    r"|\bfrom dpforest\.records(?!\.base\b)"
)
# Recipes have a file for each paper; an entry point is no more than that.
SHORT = {"audit/plugin.py", "cli/__main__.py", "plots.py"}


def load_check():
    spec = importlib.util.spec_from_file_location("check_claims", ROOT / "scripts" / "check_claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


def test_every_part_has_its_claim_and_every_key_its_entry():
    assert load_check()(PACKAGE, ROOT / "docs" / "references.bib") == []


def test_a_part_without_claim_is_found(tmp_path):
    (tmp_path / "parts" / "criteria").mkdir(parents=True)
    part = 'class Bare:\n    """Scores. [nobody1900]"""\n    def score(self):\n        pass\n'
    (tmp_path / "parts" / "criteria" / "bare.py").write_text(part)
    bibliography = tmp_path / "references.bib"
    bibliography.write_text("")
    found = load_check()(tmp_path, bibliography)
    assert any("Bare has no 'Because:'" in line for line in found)
    assert any("nobody1900" in line for line in found)


@pytest.mark.parametrize("path", [path for path, text in TEXTS.items() if ">>> " in text])
def test_examples_give_what_they_show(path):
    failed, tried = doctest.testmod(import_module(f"dpforest.{path.removesuffix('.py').replace('/', '.')}"))
    assert tried
    assert not failed


def test_a_first_line_is_read_once():
    """It has one relative clause at most, and no more than 25 words."""
    for path, text in TEXTS.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                first = (ast.get_docstring(node) or "").split("\n\n")[0]
                n_clauses = len(re.findall(r"\b(?:that|which|whose)\b", first))
                assert n_clauses <= 1, f"{path}: {first}"
                assert len(first.split()) <= 25, f"{path}: {first}"


def test_no_two_classes_have_one_name():
    homes = defaultdict(set)
    for path, text in TEXTS.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(f"{path}:{node.lineno}")
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_a_file_is_neither_several_thoughts_nor_a_part_of_one():
    lengths = {path: len(text.splitlines()) for path, text in TEXTS.items() if not path.endswith("__init__.py")}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES} == {}
    short = {path: n for path, n in lengths.items() if n < LEAST_LINES and path not in SHORT}
    assert {path: n for path, n in short.items() if not path.startswith("recipes/")} == {}


def named_in(row):
    """The files and folders that a row of a page names; ``a/{b,c}.py`` stands for two files."""
    for name in re.findall("`([^`]+)`", row):
        several = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
        yield from [f"{several[1]}{each}{several[3]}" for each in several[2].split(",")] if several else [name]


def test_a_reviewer_of_privacy_finds_every_file_that_matters_and_how_much_there_is_to_read():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    stated = dict(re.findall(r"^\| \d+ \| (.*?) \| ([\d,]+) \|", page, re.MULTILINE))
    rows = [*stated, re.search("^Outside of every promise: .*", page, re.MULTILINE)[0]]
    places = {place: row for row in rows for place in named_in(row)}
    found = Counter()
    for path, text in TEXTS.items():
        homes = [place for place in places if path == place or (place.endswith("/") and path.startswith(place))]
        assert homes or path == "records/__init__.py" or not (path.startswith(REVIEWED) or CRITICAL.search(text)), path
        if homes:
            found[places[max(homes, key=len)]] += len(text.splitlines())
    lines = {row: int(number.replace(",", "")) for row, number in stated.items()}
    assert {row: found[row] for row in lines if abs(found[row] - lines[row]) > 0.05 * lines[row]} == {}


def test_the_public_names_are_those_of_the_contract():
    assert sorted(dpforest.__all__) == [
        "Bounded", "Budget", "Categorical", "Classes", "DPForestClassifier", "DPForestRegressor", "DPSearchCV", "Date",
        "Numeric", "Schema", "get_recipe", "list_recipes", "load_model",
    ]  # fmt: skip
    assert all(hasattr(dpforest, name) for name in dpforest.__all__)


# --- tests -----------------------------------------------------------------------------------------------------------

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
