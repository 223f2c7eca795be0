"""The bibliography as a page, and text that cites it."""

import re

from docs_text import prose


def read_bibliography(text: str) -> dict[str, str]:
    """Each entry by its key, as a reader wants it."""
    found = {}
    for key, body in re.findall(r"^@\w+\{(\w+), (.*)\}$", text, re.MULTILINE):
        value = dict(re.findall(r"(\w+) = \{((?:[^{}]|\{[^{}]*\})*)\}", body))
        value = {name: prose(item.replace("{", "").replace("}", "")) for name, item in value.items()}
        where = value.get("journal") or value.get("booktitle") or value.get("school", "")
        authors = value["author"].replace(" and ", ", ")
        found[key] = f"{authors}: *{value['title']}*. {where}, {value['year']}."
    return found


def reference_page(entries: dict[str, str]) -> str:
    """Entries that can be linked to by their keys."""
    lines = [f"**{key}**: {entries[key]}\n{{: #{key} }}" for key in sorted(entries)]
    return "\n\n".join(("# References", "Works that the proofs and recipes cite.", *lines))


def cite(text: str, entries: dict[str, str], root: str = "") -> str:
    """Prose in which cited keys lead to their entries; ``root`` leads from the page to the site's root."""

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}]({root}references.md#{match[1]})" if match[1] in entries else match[0]

    return re.sub(r"\\\[(\w+)(.*?)\\\]", link, prose(text))
