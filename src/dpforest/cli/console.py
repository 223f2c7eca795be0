"""What commands print with: results on standard output, progress and refusals on standard error."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from dpforest.common.text import one_line, to_json
from dpforest.common.work import WORDS, Step, heard

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def say(text: str, console: Console = output) -> None:
    """Print words and names as they are: nothing in them is markup, and nothing moves the cursor."""
    console.print("\n".join(map(one_line, text.split("\n"))), markup=False, soft_wrap=True)


def refuse(text: object, head: str = "Refused.") -> None:
    """Print a refusal as one clear line on standard error."""
    errors.print(f"[bold]{head}[/bold]", end=" ")
    say(one_line(text), errors)


def warn(text: object) -> None:
    """Print a warning as one clear line on standard error."""
    refuse(text, "Warning.")


def print_json(content: Any) -> None:
    """Print what a program reads: ASCII alone, so that a terminal shows it as it is."""
    say(to_json(content, indent=2))


def show_table(title: str, heads: Iterable[str | Column], rows: Iterable[Iterable[str]]) -> None:
    """Print a table of names and words, none of which is markup; rows may be shorter than the heads."""
    table = Table(*heads, title=Text(one_line(title)), title_justify="left")
    for cells in rows:
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    output.print(table)


@contextmanager
def steps(title: str) -> Iterator[Callable[[str], None]]:
    """A function that shows a step on standard error, with the time so far, and a bar where the end is known."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), _Bar(), _Elapsed(), _TimeLeft()
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task, shown, counts = progress.add_task(title, total=None), title, (0, "")

        def show(step: str) -> None:
            nonlocal shown, counts
            shown, before = f"{title}: {step}", counts
            progress.update(task, description=shown)
            counts = (step.total, step.unit) if isinstance(step, Step) else (0, "")
            if counts != before:
                # Another kind of work begins: its speed is not that of the one before.
                progress.reset(task, total=counts[0] or None)
            if isinstance(step, Step):
                progress.update(task, completed=step.done)

        def compiling(begins: bool) -> None:
            progress.update(task, description=f"{shown} ({WORDS})" if begins else shown, refresh=True)

        # Without numba nothing is compiled, and to load it takes a while.
        with heard(compiling) if "numba" in sys.modules else nullcontext():
            yield show


class _Bar(BarColumn):
    """A bar that is drawn only where the end is known."""

    def render(self, task: Task) -> Any:
        return super().render(task) if task.total else ""


class _Elapsed(ProgressColumn):
    """The time since the first step."""

    def __init__(self) -> None:
        super().__init__()
        self._begin = time.monotonic()

    def render(self, task: Task) -> str:
        return str(timedelta(seconds=round(time.monotonic() - self._begin)))


class _TimeLeft(TimeRemainingColumn):
    def render(self, task: Task) -> Any:
        return Text.assemble("left: ", super().render(task)) if task.total and task.time_remaining is not None else ""
