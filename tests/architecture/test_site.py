"""The documentation site builds without warnings, has the pages that it should, and needs no network."""

import ast
import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpforest
import dpforest.plots
from dpforest.recipes import list_recipes

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
NAMES = [recipe["name"] for recipe in list_recipes()]
# Elements that make a browser fetch what they name; <a> waits for a click.
FETCHED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^>]*>", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return folder


def read(site, page):
    return (site / page).read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_recipe_has_a_page_with_its_ledger(site, name):
    page = read(site, f"recipes/{name}.html")
    assert "Ledger at ε = 1" in page
    assert "Total: ε = " in page
    assert f'href="{name}.html"' in read(site, "recipes/index.html")


@pytest.mark.parametrize("name", NAMES)
def test_example_of_a_recipe_runs(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from docs_recipes import example

    exec(compile(example(name), name, "exec"), {"__name__": "documentation"})
    assert "epsilon = " in capsys.readouterr().out


def test_every_privacy_section_is_among_the_proofs(site):
    page = read(site, "proofs.html")
    for path in (ROOT / "src" / "dpforest").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and "Privacy:" in (ast.get_docstring(node) or ""):
                assert re.search(rf"<h3[^>]*>(\w+\.)?{node.name}<", page), f"{node.name} of {path}"


def test_every_public_name_is_in_the_reference(site):
    page = read(site, "api.html")
    for name in [*dpforest.__all__, *dpforest.plots.__all__]:
        assert re.search(rf'id="dpforest\.[\w.]*\b{name}"', page), name


def test_every_command_is_in_the_reference(site):
    command = [sys.executable, "-m", "dpforest.cli", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^\W+([a-z]+)  +[A-Z]", shown, re.MULTILINE)
    assert "fit" in names
    page = read(site, "commands.html")
    for name in names:
        assert f'id="dpforest-{name}' in page, name


def test_every_example_of_the_gallery_has_a_page_with_its_picture(site):
    names = {path.stem.removeprefix("plot_") for path in (ROOT / "docs" / "gallery").glob("plot_*.py")}
    assert names == {*dpforest.plots.__all__}
    for name in names:
        assert f'src="{name}.png"' in read(site, f"gallery/{name}.html")
        assert (site / "gallery" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_pages_fetch_nothing_from_elsewhere(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > len(NAMES)
    for page in pages:
        assert not FETCHED.findall(page.read_text("utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text("utf-8")), style


def test_the_site_opens_with_the_readme_and_a_picture_for_each_of_its_colours(site):
    readme, page = (ROOT / "README.md").read_text("utf-8"), read(site, "index.html")
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    assert html.escape(re.sub(r"\s+", " ", readme.split("\n\n")[1].replace("`", "")), quote=False) in said
    for theme in ("light", "dark"):
        assert f'src="bench/utility-overview-{theme}.svg#only-{theme}"' in page
        assert (site / "bench" / f"utility-overview-{theme}.svg").exists()
    assert "<picture>" not in page


def test_links_to_files_elsewhere_became_text_and_lists_behind_a_paragraph_are_lists(site):
    page = read(site, "guide/default.html")
    assert "<code>src/dpforest/recipes/planner.py</code>" in page
    assert 'planner.py"' not in page
    assert "<li>The schema is public" in read(site, "threat-model.html")
