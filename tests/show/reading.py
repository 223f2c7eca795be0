"""Reads what a report says: the words of its page, and its twin of plain values."""

import json
import re
import warnings
from html.parser import HTMLParser

from dpforest.errors import LeakWarning
from dpforest.show.report import write_report


class Words(HTMLParser):
    """The text of a page, and the names of its elements."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.elements, self.attributes, self._inside = [], [], [], []
        self.feed(page)
        self.text = re.sub(r"\s+", " ", "".join(self.parts))

    def handle_starttag(self, name, attributes):
        self.elements.append(name)
        self.attributes += attributes
        if name in ("script", "style"):
            self._inside.append(name)

    def handle_endtag(self, name):
        if self._inside and self._inside[-1] == name:
            self._inside.pop()

    def handle_data(self, text):
        if not self._inside:
            self.parts.append(text)

    def __contains__(self, text):
        return text in self.text

    def between(self, begin, end):
        """The text of a section, without its title."""
        return self.text.split(begin)[1].split(end)[0]


def lacks(words, *texts):
    """Those of some texts that are not there; an empty list if all are."""
    return [text for text in texts if text not in words]


def is_inert(words, page, n_scripts=2):
    """Whether a page with hostile texts has no more elements than it should, and no mark that turns or ends a line."""
    handlers = [name for name, _ in words.attributes if name.startswith("on")]
    marks = [mark for mark in ("\u202e", "\u2028", "\0") if mark.encode() in page]
    return (words.elements.count("script"), "img" in words.elements, handlers, marks) == (n_scripts, False, [], [])


def read(text):
    """The values of a text as any reader of JSON has them."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    assert text.isascii()
    return json.loads(text, parse_constant=refuse)


def written(model, folder, audit=None, **more):
    """The page's words, its bytes and the twin of a report."""
    write_report(model, folder / "report.html", audit, **more)
    page = (folder / "report.html").read_bytes()
    return Words(page.decode()), page, read((folder / "report.json").read_text())


def silently(make, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)
        return make(*arguments, **named)


def entry(recipe="auto", variant="private", **changed):
    """An audit as its file holds it."""
    bound = {"epsilon": 0.7, "claimed": 1.0, "delta": 0.0, "exceeds": False, "words": "in words"}
    bound |= {"confidence": 0.999, "n_tested": 2000}
    replay = {"n_pairs": 200, "n_refused": 0, "findings": [], "closest": 0.98, "seconds": 1.0}
    content = {"recipe": recipe, "variant": variant, "epsilon": 1.0, "delta": 0.0, "replay": replay, "lower_bound": bound}
    return content | {"verdict": "nothing found"} | changed
