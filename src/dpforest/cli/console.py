"""What commands print with: results on standard output, progress and refusals on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn

from dpforest.progress import Step

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


@contextmanager
def steps(title: str) -> Iterator[Callable[[str], None]]:
    """A line that shows the step that work has come to and how long it took; with a bar while rows are read."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), _Bar(), _RowsPerSecond(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task, rows = progress.add_task(title, total=None), progress.add_task(title, total=None, visible=False)

        def show(step: str) -> None:
            name, counts = f"{title}: {step}", isinstance(step, Step)
            if isinstance(step, Step):
                progress.update(rows, completed=step.done, total=step.total)
            progress.update(rows if counts else task, description=name)
            progress.update(rows, visible=counts)
            progress.update(task, visible=not counts)

        yield show


class _Bar(BarColumn):
    """Nothing while the end is not in sight."""

    def render(self, task: Task) -> Any:
        return super().render(task) if task.total else ""


class _RowsPerSecond(ProgressColumn):
    def render(self, task: Task) -> str:
        return f"{task.speed:,.0f} rows/s" if task.total and task.speed else ""
