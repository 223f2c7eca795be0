"""Every notebook of the documentation runs from top to bottom, holds no output, and says which rows are public."""

import json
from pathlib import Path

import pytest
from scripts.docs_notebooks import notebook_files, run_notebook

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
