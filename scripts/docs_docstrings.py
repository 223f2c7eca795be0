"""Docstrings as the reference shows them: read by mkdocstrings, which wants numpy's headings and Markdown."""

import re
from typing import Any

from griffe import Extension, Object

LABEL = re.compile(r"^ +(Claim|Because|Assumes): ", re.MULTILINE)


class Headings(Extension):
    """Doctests under the heading that the reader knows, and proofs as a list."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = re.sub(r"^Example\n-+$", "Examples\n--------", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = LABEL.sub(r"* **\1:** ", text.replace("Privacy:\n", "**Privacy:**\n\n"))
