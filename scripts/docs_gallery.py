"""Pages of the gallery: each example is run, its figure is saved."""

import ast
import io
import runpy
from pathlib import Path

from docs_text import prose


def gallery_files(folder: Path) -> dict[str, str | bytes]:
    """The address and content of each page and picture; an example that fails stops the build."""
    files: dict[str, str | bytes] = {}
    entries = []
    for path in sorted(folder.glob("plot_*.py")):
        name = path.stem.removeprefix("plot_")
        source = path.read_text("utf-8")
        title, text = split_docstring(ast.get_docstring(ast.parse(source)) or name)
        files[f"gallery/{name}.png"] = draw(path)
        files[f"gallery/{name}.md"] = "\n\n".join(
            (
                "---\nhide: [toc]\n---",
                f"# {title}",
                *text,
                f"![{title}]({name}.png)",
                f"```python\n{without_docstring(source)}\n```",
            )
        )
        entries.append(f"[![{title}]({name}.png)<br>{title}]({name}.md)")
    pictures = "\n\n".join(entries) or "No examples yet."
    intro = "Plots of `dpforest.plots`. Each takes an axes of matplotlib and returns it. Drawn when the site is built."
    files["gallery/index.md"] = (
        f'---\nhide: [toc]\n---\n\n# Gallery\n\n{intro}\n\n<div class="pictures" markdown>\n\n{pictures}\n\n</div>\n'
    )
    return files


def split_docstring(docstring: str) -> tuple[str, list[str]]:
    """Title, and paragraphs of Markdown."""
    title, *paragraphs = docstring.split("\n\n")
    return prose(title).rstrip("."), paragraphs


def without_docstring(source: str) -> str:
    statements = ast.parse(source).body
    has_docstring = ast.get_docstring(ast.parse(source)) is not None
    return "\n".join(source.splitlines()[(statements[0].end_lineno or 0) if has_docstring else 0 :]).strip()


def draw(path: Path) -> bytes:
    """The example's ``figure`` as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    figure = runpy.run_path(str(path))["figure"]
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=144, bbox_inches="tight", metadata={"Software": None})
    matplotlib.pyplot.close("all")
    return picture.getvalue()
