"""The wheel holds what it should and nothing else, the source distribution what tests read; what describes them agrees."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from dpforest.published.form import get_published
from dpforest.recipes import list_recipes

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# What pip says when it cannot reach the index from which the build backend comes.
OFFLINE = re.compile(
    r"NameResolutionError|NewConnectionError|Failed to establish|Network is unreachable|No matching distribution found"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    said = ended.stdout + ended.stderr
    if ended.returncode and OFFLINE.search(said):
        pytest.skip("THE WHEEL IS NOT TESTED: its build backend (hatchling) could not be fetched; there is no network.")
    assert ended.returncode == 0, said
    return folder


@pytest.fixture
def wheel(built):
    return next(built.glob("*.whl"))


@pytest.fixture
def contents(wheel):
    """What the wheel holds, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.site
def test_wheel_holds_every_source_and_data_file_and_nothing_but_the_package(contents):
    made = (".nbi", ".nbc", ".pyc")
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in made]
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files if "__pycache__" not in path.parts}
    assert wanted <= {*contents}, wanted - {*contents}
    assert "dpforest/py.typed" in contents
    assert any(name.startswith("dpforest/schema/") and name.endswith(".json") for name in contents)
    assert {name.split("/")[0] for name in contents} == {"dpforest", f"dpforest-{PROJECT['project']['version']}.dist-info"}
    assert not [name for name in contents if name.endswith(made) or "/test" in name]


@pytest.mark.site
def test_source_distribution_holds_what_tests_read(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("tests", "docs", "scripts", "changes")
    wanted = {
        path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.*") if path.is_file()
    }
    wanted |= {path.name for path in ROOT.glob("*.md")} | {"Makefile", "mkdocs.yml", "CITATION.cff", "pyproject.toml"}
    wanted = {name for name in wanted if "__pycache__" not in name}
    assert wanted <= held, wanted - held


@pytest.mark.site
def test_wheel_holds_the_licence_its_metadata_and_the_page_that_statements_cite(contents):
    printed = [get_published(recipe["name"]) for recipe in list_recipes() if recipe["published"]]
    cited = {page for one in printed for leak in one.leaks for page in re.findall(r"docs/[\w/-]+\.md", leak)}
    assert cited == {"docs/review.md"}
    assert contents["dpforest/docs/review.md"] == (ROOT / "docs" / "review.md").read_bytes()
    project, folder = PROJECT["project"], f"dpforest-{PROJECT['project']['version']}.dist-info"
    assert contents[f"{folder}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    facts = Parser().parsestr(contents[f"{folder}/METADATA"].decode())
    assert (facts["Name"], facts["Version"]) == (project["name"], project["version"])
    assert facts["Requires-Python"] == project["requires-python"]
    assert facts["License-Expression"] == "MIT"
    assert set(facts.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    assert facts.get_payload().startswith("# dpforest")


@pytest.mark.site
def test_wheel_installs_and_knows_itself(wheel, tmp_path):
    """Without dependencies: the package's own names are loaded when first used."""
    venv.create(tmp_path / "new", with_pip=True)
    python = tmp_path / "new" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True, timeout=300)
    code = "import dpforest, importlib.metadata as m; print(dpforest.__version__, m.version('dpforest'), *dpforest.__all__)"
    shown = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert shown[:2] == [PROJECT["project"]["version"]] * 2
    assert "DPForestClassifier" in shown
    assert (tmp_path / "new" / "bin" / "dpforest").exists()


def test_citation_agrees_with_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(citation["version"]) == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert (ROOT / "LICENSE").read_text("utf-8").startswith(f"{citation['license']} License")
    assert citation["cff-version"] == "1.2.0"
    assert all(citation[key] for key in ("message", "title", "authors"))


def test_the_private_path_exists_and_every_extra_is_documented():
    assert all((ROOT / folder / "__init__.py").is_file() for folder in PROJECT["tool"]["coverage"]["run"]["source"])
    page = (ROOT / "docs" / "extras.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(PROJECT["project"]["optional-dependencies"])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["from dpforest.records.counter import MemoryCounter", "import dpforest.records.columns"])
def test_a_new_module_that_imports_what_sees_rows_breaks_a_contract(tmp_path, text):
    pytest.importorskip("importlinter", reason="CONTRACTS ARE NOT TESTED: import-linter comes with the extra 'lint'.")
    shutil.copytree(ROOT / "src" / "dpforest", tmp_path / "dpforest", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    said = []
    for imported in ("from dpforest.records.base import Counter", text):
        for room in ("growing", "recipes"):
            (tmp_path / "dpforest" / room / "novelty.py").write_text(f"{imported}\n")
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        said.append((ended.returncode, ended.stdout))
    assert "rows stay in records KEPT" in said[0][1]
    assert said[0][0] == 0, said[0][1]
    assert said[1][0] == 1
    for room in ("recipes", "growing"):
        assert f"dpforest.{room}.novelty -> dpforest.records" in said[1][1].split("rows stay in records BROKEN")[1]


@pytest.mark.slow
def test_every_fragment_is_in_the_draft_of_the_changelog():
    pytest.importorskip("towncrier", reason="THE CHANGELOG IS NOT TESTED: towncrier comes with the extra 'lint'.")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"]
    draft = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kinds = {kind["directory"]: kind["name"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    fragments = [path for path in (ROOT / "changes").iterdir() if path.suffix == ".md"]
    for path in fragments:
        _, kind, _ = path.name.split(".")
        section = draft.split(f"### {kinds[kind]}\n")[1].split("### ")[0]
        assert path.read_text("utf-8").strip().splitlines()[0] in section, path
    assert "## 9.9.9" in draft
