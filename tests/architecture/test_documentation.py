"""Every Python block, every command and every notebook of the documentation runs.

Blocks of a page run in its order, in a temporary folder that they share. A ``python`` block has names of its own, but for
pages on which it sees what came before. In a ``console`` block each line ``$ dpforest ...`` (or ``$ python ...``) runs
and has to end with 0, or with what a comment at its end says: ``$ dpforest fit ... # exit code 1``. Other lines are output,
which is not compared. Commands in other blocks are not run, but have to be commands with options that exist.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer.main
from scripts.docs_notebooks import notebook_files, run_notebook
from typer.testing import CliRunner

from benchmarks.commands import commands as of_benchmarks
from dpforest.cli.main import commands
from dpforest.errors import DPForestError, UnitWarning

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
IN_ONE_NAMESPACE = {"docs/guide/tutorial.md", "docs/guide/recipes.md"}
STATE_THE_UNIT = {"README.md", *(f"docs/guide/{name}.md" for name in ("schema", "people", "tutorial", "report"))}
# Pages of the site that have no file: scripts/docs_hook.py makes them, and a strict build checks links to them.
MADE_AT_BUILD = re.compile(
    r"docs/(recipes/|gallery/|commands.md|proofs.md|references.md|adr/index.md|contributing.md|changelog.md|security.md)"
)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^(?:    |\$ )?(?:\w+=\S+ )?((?:dpforest|python -m benchmarks) .*)$")


def blocks(page):
    """Language, text, and the number of lines before it."""
    text = page.read_text("utf-8")
    return [(match[1], match[2], text[: match.start(2)].count("\n")) for match in BLOCK.finditer(text)]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "documentation"}
    if name_of(page) in STATE_THE_UNIT:
        warnings.simplefilter("error", UnitWarning)  # until the test ends
    for language, text, n_lines_before in blocks(page):
        if language == "console":
            run_commands(text, tmp_path)
            continue
        if name_of(page) not in IN_ONE_NAMESPACE:
            names = {"__name__": "documentation"}
        # Lines of a traceback are those of the page.
        exec(compile("\n" * n_lines_before + text, page, "exec"), names)


def run_commands(text, folder):
    lines = [line.removeprefix("$ ") for line in joined(text) if line.startswith("$ ")]
    assert lines, f"A console block without a command: {text}"
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program in RUN, f"Only dpforest and python are run in a console block; use sh for {line!r}."
        code = re.search(r"# exit code (\d+)$", line)
        ended, said = RUN[program](words, folder)
        assert ended == (int(code[1]) if code else 0), f"{line}\n{said}"


def run_dpforest(words, folder):
    """In this process, which has loaded the library already; that of a page is in its folder."""
    ended = CliRunner().invoke(commands, words, env={"NO_COLOR": "1"})
    return int(isinstance(ended.exception, DPForestError)) or ended.exit_code, f"{ended.output}\n{ended.exception!r}"


def run_python(words, folder):
    command = [sys.executable, *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    return ended.returncode, f"{ended.stdout}\n{ended.stderr}"


RUN = {"dpforest": run_dpforest, "python": run_python}


def joined(text):
    """The lines of a block, with those that end in a backslash made one with what follows."""
    return text.replace("\\\n", " ").splitlines()


def shown_commands():
    """Commands in blocks that are not run, and in help texts."""
    for page in PAGES:
        fenced = re.sub(r"^```(?:python|console)\n.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        in_fence = False
        for line in joined(fenced):
            in_fence ^= line.startswith("```")
            match = SHOWN.match(line)
            if match and (in_fence or line.startswith("    ")):
                yield pytest.param(match[1], id=f"{name_of(page)}: {match[1]}")
    for source in (*sorted((ROOT / "src" / "dpforest" / "cli").glob("*.py")), ROOT / "benchmarks" / "commands.py"):
        for example in re.findall(
            r"Example: \[bold\](?:\w+=\S+ )?((?:dpforest|python -m benchmarks) .*?)\[/bold\]", source.read_text("utf-8")
        ):
            yield pytest.param(example, id=f"{source.name}: {example}")


@pytest.mark.slow
@pytest.mark.parametrize("line", [*shown_commands()])
def test_shown_command_exists_with_its_options(line):
    _, *words = shlex.split(re.split(r" [|>] ", line.removeprefix("python -m "))[0], comments=True)
    command = typer.main.get_command(of_benchmarks if line.startswith("python") else commands)
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands and hasattr(command, "default"):
            words = [command.default, *words]  # which may be left out: dpforest recipes NAME
        assert words[0] in command.commands, f"{words[0]!r} is not a command"
        command, words = command.commands[words[0]], words[1:]
    if "--help" not in words and not hasattr(command, "commands"):
        command.make_context(line, words)  # parses, and runs nothing; what is wrong raises


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        text = page.read_text("utf-8")
        targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
        for target in targets + re.findall(r'<(?:img|source) [^>]*(?:src|srcset)="([^"]+)"', text):
            place = Path(os.path.normpath(page.parent / target))
            is_made = place.is_relative_to(ROOT) and MADE_AT_BUILD.match(name_of(place))
            assert place.exists() or (is_made and page.is_relative_to(ROOT / "docs")), f"{page}: {target}"


# --- notebooks -------------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)


@NOTEBOOKS
def test_a_notebook_has_no_output_and_says_what_is_public(path):
    content = json.loads(path.read_text("utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    assert {cell["cell_type"] for cell in content["cells"]} == {"markdown", "code"}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    text = " ".join("".join(cell["source"]) for cell in content["cells"])
    assert "public" in text
    assert "another release" in text


@pytest.mark.slow
@NOTEBOOKS
def test_the_cells_of_a_notebook_run_in_their_order(path):
    pytest.importorskip("statsmodels")
    cells = run_notebook(path)
    assert len(cells) == len(json.loads(path.read_text("utf-8"))["cells"])
    assert any(cell.printed for cell in cells)
    assert all(picture.startswith(b"\x89PNG") for cell in cells for picture in cell.figures)
    assert sum(len(cell.figures) for cell in cells) >= 3


def test_a_cell_that_fails_stops_the_build(tmp_path):
    cells = [{"cell_type": "markdown", "source": ["# Title"]}, {"cell_type": "code", "source": ["1 / 0"]}]
    (tmp_path / "broken.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    with pytest.raises(ZeroDivisionError):
        notebook_files(tmp_path)


def test_a_page_has_what_a_cell_prints_and_draws_below_it(tmp_path):
    drawing = ["import matplotlib.pyplot as plt\n", "print('seven')\n", "plt.plot([1, 2]);"]
    cells = [{"cell_type": "markdown", "source": ["# Title"]}, {"cell_type": "code", "source": drawing}]
    (tmp_path / "small.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    files = notebook_files(tmp_path)
    assert set(files) == {"notebooks/small.md", "notebooks/small-1.png"}
    page = files["notebooks/small.md"]
    assert page.startswith("# Title\n\n[Download this page as a notebook](small.ipynb).\n\n```python\nimport")
    assert page.endswith("```text\nseven\n```\n\n![Figure 1](small-1.png)")
