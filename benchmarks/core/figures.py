"""Measured numbers and how they are said: means over splits, times, sizes, ratios."""

from dataclasses import dataclass
from statistics import mean, stdev

MIB, GIB = 2.0**20, 2.0**30


@dataclass(frozen=True)
class Figure:
    """A mean over splits of the rows, with the standard deviation and the number of splits."""

    mean: float
    spread: float | None
    n: int

    @classmethod
    def of(cls, values: list[float]) -> "Figure":
        return cls(mean(values), stdev(values) if len(values) > 1 else None, len(values))


def shown_figure(figure: Figure | None, digits: int = 3, factor: float = 1) -> str:
    """A figure times ``factor``, with its standard deviation, as text."""
    if figure is None:
        return "-"
    spread = "" if figure.spread is None else f" ± {factor * figure.spread:.{digits}f}"
    return f"{factor * figure.mean:.{digits}f}{spread}"


def figure_text(value: float, unit: str) -> str:
    """A value with three digits and its unit, as text."""
    three = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return three + unit_text(unit)


def unit_text(unit: str) -> str:
    """A unit, if any, as it stands after a number: behind a blank, but for the x of "2x as fast"."""
    return unit if unit in ("", "x") else f" {unit}"


def time_text(seconds: float) -> str:
    """A time with three digits, in seconds, milliseconds or microseconds."""
    factor, unit = (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return figure_text(seconds * factor, unit)


def size_text(n_bytes: float) -> str:
    """A size with three digits, in bytes or a power of 1000 of them."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB" if n_bytes < 1000 else f"{n_bytes:.0f} TB"
