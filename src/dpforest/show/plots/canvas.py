"""Axes to draw on, colours, and texts that are safe to draw. Public values only."""

import importlib
import importlib.util
import unicodedata
from collections.abc import Sequence
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dpforest.errors import MissingExtraError, ParameterError, shown
from dpforest.privacy.accountants import is_whole

# Okabe and Ito's colours: told apart by people with any colour vision, and of different lightness in print.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, "black")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY, PALE = "#595959", "#e6e6e6"
# Names are data: they are never typeset as TeX, whatever the settings of the session.
AS_IS = {"usetex": False}
UNKNOWN = "□"


def check_forest(model: Any) -> None:
    """Raise unless it is a fitted forest; if it only holds one, the error says where."""
    if isinstance(model, Pipeline):
        raise ParameterError("A Pipeline was given. Pass the forest in it: pipeline[-1].")
    if hasattr(model, "best_estimator_"):
        raise ParameterError(f"A {type(model).__name__} was given. Pass the forest that it found: search.best_estimator_.")
    check_is_fitted(model, "forest_")


def check_number(name: str, value: Any, least: int) -> None:
    """Raise unless an argument is a whole number of at least ``least``."""
    if not is_whole(value) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, not {shown(value)}.")


def axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or those of a new figure of a size in inches."""
    return ax if ax is not None else load("matplotlib.pyplot").subplots(figsize=(width, height), layout="constrained")[1]


def load(module: str) -> Any:
    """A module of matplotlib, imported by its name since it is an optional library."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("A plot", "plots")
    return importlib.import_module(module)


def in_percent(axis: Any) -> None:
    """Write the shares along an axis as percents, whole ones unless they are too close together."""
    low, high = axis.get_view_interval()
    axis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1, decimals=0 if high - low > 0.1 else None))


def entitle(ax: Any, along: str = "", across: str = "", title: str = "", without: Sequence[str] = ("top", "right")) -> None:
    """Name the two axes, write a small title, and take away the frame on some sides."""
    ax.set_xlabel(along, **AS_IS)
    ax.set_ylabel(across, **AS_IS)
    if title:
        ax.set_title(title, loc="left", fontsize="small", color=GREY, **AS_IS)
    ax.spines[list(without)].set_visible(False)


def tinted(colour: str, strength: float) -> tuple[float, float, float]:
    """A colour mixed with white: hardly any of it at strength 0, and no more at 1 than black text can be read on."""
    part = 0.06 + 0.5 * min(max(strength, 0.0), 1.0)
    red, green, blue = (1 - part * (1 - int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return red, green, blue


def say(ax: Any, *lines: str) -> Any:
    """The axes with a text instead of a picture."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", color=GREY, transform=ax.transAxes)
    return ax


def drawable(value: Any, most: float) -> str:
    """A name as one line of at most about ``most`` letters, without what fonts cannot draw or markup would change."""
    known, room = _letters(), most
    # Longer than any line that is drawn, even if most of it is left out. Marks and controls change other letters, and have
    # no place of their own; any other letter that fonts lack has a box.
    kept = "".join(
        letter if ord(letter) in known else UNKNOWN
        for letter in " ".join(str(value)[: 100 + 10 * int(most)].split())
        if (category := unicodedata.category(letter)[0]) != "C" and (category != "M" or ord(letter) in known)
    )
    text = kept.strip()
    for index, letter in enumerate(text):
        room -= width(letter)
        if room < 0 and (index + 1 < len(text) or room < -1):
            text = text[:index].rstrip() + "…"
            break
    return text.replace("$", r"\$") or "(blank)"


def runs_leftward(text: str) -> bool:
    """Whether letters in it are written from right to left; signs beside them would be turned round."""
    return any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)


def width(text: str) -> float:
    """Rough width of a text, in small letters."""
    return sum(
        1.6 if letter == UNKNOWN or unicodedata.east_asian_width(letter) in "WF"
        else 1.3 if letter.isupper() or letter in "%@mw—…"
        else 1.0
        for letter in text.replace(r"\$", "$")
    )  # fmt: skip


def _letters() -> set[int]:
    """The letters that the fonts of new texts can draw; any other would raise a warning."""
    manager = load("matplotlib.font_manager")
    known: set[int] = set()
    for family in manager.FontProperties().get_family():
        try:
            path = manager.findfont(manager.FontProperties(family=[family]), fallback_to_default=False)
        except ValueError:
            continue
        known.update(manager.get_font(path).get_charmap())
    return known or set(range(32, 127))
