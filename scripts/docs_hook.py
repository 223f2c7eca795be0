"""What mkdocs calls while it builds the site: pages that are made from the code, and links that lead out of docs/.

Made here and never committed: the catalogue, the proofs, the command line, the gallery, the notebooks, and the pages that
live at the root of the repository.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from docs_commands import command_page
from docs_gallery import gallery_files
from docs_notebooks import notebook_files
from docs_proofs import proof_page
from docs_recipes import recipe_pages
from docs_references import read_bibliography, reference_page
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Pages at the root of the repository, and where they are in the site, which opens with the README.
AT_ROOT = {
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}  # fmt: skip
# What else a link may lead to.
PAGES = {**AT_ROOT, "docs/adr": "adr/index.md"}
RELEASES = "<!-- towncrier release notes start -->"
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")
# A picture for light and for dark pages, as GitHub wants it.
PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)"[^>]*>\s*</picture>')
ITEM = re.compile(r"([*+-]|\d+\.) ")
FIRST_ITEM = re.compile(r"([*+-]|1\.) ")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made."""
    docs = Path(config.docs_dir)
    entries = read_bibliography((docs / "references.bib").read_text("utf-8"))
    made: dict[str, str | bytes] = {page: (ROOT / path).read_text("utf-8") for path, page in AT_ROOT.items()}
    made["changelog.md"] = str(made["changelog.md"]).replace(RELEASES, unreleased())
    made["commands.md"] = command_page()
    made["proofs.md"] = proof_page(ROOT / "src" / "dpforest", entries)
    made["references.md"] = reference_page(entries)
    made["adr/index.md"] = decisions(docs / "adr")
    made |= recipe_pages(entries) | gallery_files(docs / "gallery") | notebook_files(docs / "notebooks")
    for address, content in made.items():
        files.append(File.generated(config, address, content=content))
    config.nav = [show_folder(section, list(made), files) for section in config.nav]
    return files


def show_folder(section: dict[str, Any], made: list[str], files: Files) -> dict[str, Any]:
    """A section that is FOLDER/index.md, with the other pages of its folder, in the order in which they were made."""
    [(title, content)] = section.items()
    if not isinstance(content, str) or not content.endswith("/index.md"):
        return section
    folder = content.removesuffix("index.md")
    pages = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri.startswith(folder))
    pages.sort(key=lambda page: (page != content, made.index(page) if page in made else len(made)))
    return {title: pages}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The page as python-markdown and the site want it."""
    docs = Path(config.docs_dir)
    address = page.file.src_uri
    folder = ROOT if address in AT_ROOT.values() else (docs / address).parent

    def turn(link: re.Match[str]) -> str:
        return turn_link(link, folder, docs, address)

    return outside_code(markdown, lambda text: separate_lists(LINK.sub(turn, PICTURE.sub(both_pictures, text))))


def both_pictures(picture: re.Match[str]) -> str:
    """A picture for each of the theme's colours, which shows one of them."""
    dark, words, light = picture.groups()
    return f"![{words}]({light}#only-light)\n![{words}]({dark}#only-dark)"


def turn_link(link: re.Match[str], folder: Path, docs: Path, address: str) -> str:
    """A link to a file of the repository leads to its page; one without a page becomes text with the file's name."""
    picture, label, target = link.groups()
    path, _, anchor = target.partition("#")
    if ":" in target or not path:
        return link[0]
    place = Path(os.path.normpath(folder / path))
    name = os.path.relpath(place, ROOT)
    if name in PAGES:
        place = docs / PAGES[name]
    elif not place.is_relative_to(docs):
        if not place.exists():
            return link[0]  # mkdocs warns of it
        return f"`{name}`" if label.strip("`") in (name, place.name) else f"{label} (`{name}`)"
    target = os.path.relpath(place, (docs / address).parent) + (f"#{anchor}" if anchor else "")
    return f"{picture}[{label}]({target})"


def outside_code(markdown: str, change: Any) -> str:
    """The text with everything but fenced blocks changed."""
    pieces = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(piece if place % 2 else change(piece) for place, piece in enumerate(pieces))


def separate_lists(text: str) -> str:
    """An empty line before each list: others see a list without one, python-markdown does not."""
    lines: list[str] = []
    in_list = False
    for line in text.split("\n"):
        if FIRST_ITEM.match(line) and not in_list and lines and lines[-1].strip():
            lines.append("")
        in_list = bool(ITEM.match(line)) or (in_list and line.startswith(" "))
        lines.append(line)
    return "\n".join(lines)


def decisions(folder: Path) -> str:
    """An index of the decision records."""
    entries = []
    for path in sorted(folder.glob("*.md")):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        entries.append(f"* [{title}]({path.name})")
    intro = (
        "Why things are as they are: what was at stake, what was chosen, what was rejected, what it costs. One page each."
    )
    return "\n".join(("# Decisions", "", intro, "", *entries))


def unreleased() -> str:
    """The fragments of the next release, by kind."""
    kinds = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]["type"]
    lines: list[str] = []
    for kind in kinds:
        fragments = sorted((ROOT / "changes").glob(f"*.{kind['directory']}.md"))
        if fragments:
            lines += [f"### {kind['name']}", "", *(f"* {path.read_text('utf-8').strip()}" for path in fragments), ""]
    return "\n".join(["## Next release", "", *lines] if lines else [])
