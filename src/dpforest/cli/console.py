"""What commands print with: results on standard output, progress and refusals on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


@contextmanager
def steps(title: str) -> Iterator[Callable[[str], None]]:
    """A line that shows the step that work has come to, and how long it took."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda step: progress.update(task, description=f"{title}: {step}")
