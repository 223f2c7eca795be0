"""Small pieces of HTML for notebooks: a panel with tables, nothing from elsewhere. Public values only.

Names can hold any character, so every text is escaped here, and hidden characters are made visible. Colours are those of the
notebook around, so that a panel is read on light and on dark ground.
"""

from collections.abc import Iterable, Sequence
from html import escape

from dpforest.common.text import shortened, visible

LONGEST, MOST_ROWS = 80, 40
STYLE = (
    ".dpforest-panel{border:1px solid rgba(128,128,128,.5);padding:.6em 1em;max-width:60em;text-align:left;"
    "overflow-wrap:break-word}"
    ".dpforest-panel .dpforest-scroll{overflow-x:auto}"
    ".dpforest-panel table{border-collapse:collapse;margin:.4em 0}"
    ".dpforest-panel th,.dpforest-panel td{text-align:left!important;vertical-align:top;padding:.15em 1.2em .15em 0;"
    "overflow-wrap:normal;background:none;border-bottom:1px solid rgba(128,128,128,.3);font-weight:normal}"
    ".dpforest-panel thead th{opacity:.75}.dpforest-panel p{margin:.3em 0}"
)
# White on red, on light and on dark ground.
ALARM = (
    ".dpforest-panel .dpforest-alarm{display:block;margin:0 0 .4em;padding:.5em .8em;background:#b3261e;color:#fff;"
    "font-size:1.3em;font-weight:bold}"
)


def written(value: object, most: int = LONGEST) -> str:
    """A value as escaped HTML: isolated from the direction of the text around it, and cut if it is long."""
    return f"<bdi>{escape(shortened(value, most, visible))}</bdi>"


def panel(title: str, *parts: str, is_alarm: bool = False) -> str:
    """A panel with a title, which is the loudest of all if it is an alarm; the parts are HTML, such as ``table`` gives."""
    style, loud = (STYLE + ALARM, ' class="dpforest-alarm"') if is_alarm else (STYLE, "")
    head = f"<style>{style}</style><strong{loud}>{escape(title)}</strong>"
    return f'<div class="dpforest-panel">{head}{"".join(parts)}</div>'


def paragraph(text: str, most: int = 2000) -> str:
    """A paragraph of text."""
    return f"<p>{written(text, most)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts, without a head if that is empty; of many rows the first ones, and how many more there are."""
    rows = list(rows)
    body = "".join(
        f'<tr><th scope="row">{written(first)}</th>{"".join(f"<td>{written(value)}</td>" for value in rest)}</tr>'
        for first, *rest in rows[:MOST_ROWS]
    )
    left = f"<p>and {len(rows) - MOST_ROWS:,} more</p>" if len(rows) > MOST_ROWS else ""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if names else ""
    return f'<div class="dpforest-scroll"><table>{top}<tbody>{body}</tbody></table></div>{left}'
