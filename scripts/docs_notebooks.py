"""Pages of notebooks: the cells of each are run in order, and what they print and draw stands below them.

The notebooks hold no output of their own, so that nothing in them can be out of date.
"""

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """A cell that was run: its kind ("markdown" or "code"), its text, what it printed, and its figures as PNG."""

    kind: str
    text: str
    printed: str = ""
    figures: tuple[bytes, ...] = ()


def notebook_files(folder: Path) -> dict[str, str | bytes]:
    """The address and content of each page and picture; a cell that fails stops the build."""
    files: dict[str, str | bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        pieces, n_figures = [], 0
        for cell in run_notebook(path):
            pieces.append(f"```python\n{cell.text}\n```" if cell.kind == "code" else cell.text)
            if cell.printed:
                pieces.append(f"```text\n{cell.printed.rstrip()}\n```")
            for picture in cell.figures:
                n_figures += 1
                name = f"{path.stem}-{n_figures}.png"
                files[f"notebooks/{name}"] = picture
                pieces.append(f"![Figure {n_figures}]({name})")
        pieces.insert(1, f"[Download this page as a notebook]({path.name}).")
        files[f"notebooks/{path.stem}.md"] = "\n\n".join(pieces)
    return files


def run_notebook(path: Path) -> list[Cell]:
    """The cells of a notebook after all were run in one namespace, as Jupyter would run them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names: dict[str, object] = {"__name__": path.stem}
    done = []
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"], 1):
        text = "".join(cell["source"])
        if cell["cell_type"] != "code":
            done.append(Cell("markdown", text))
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"{path.name}, cell {number}", "exec"), names)
        figures = tuple(_png(pyplot.figure(index)) for index in pyplot.get_fignums())
        pyplot.close("all")
        done.append(Cell("code", text, printed.getvalue(), figures))
    return done


def _png(figure: object) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=144, metadata={"Software": None})  # type: ignore[attr-defined]
    return picture.getvalue()
