"""Progress of long work. Steps tell no number of rows or bytes, so they may be logged; when they come is another matter."""

from collections.abc import Callable
from threading import get_ident

PARTS = 20


class Step(str):
    """The name of a step as text, with ``done`` of ``total`` of it done."""

    done: int
    total: int
    unit: str  # what is counted; a bar begins anew where it changes

    def __new__(cls, name: str, done: int, total: int, unit: str = "") -> "Step":
        step = super().__new__(cls, name)
        step.done, step.total, step.unit = done, total, unit
        return step


def in_parts(name: str, total: float, progress: Callable[[str], None]) -> Callable[[float], None]:
    """A function that is told how much of a private ``total`` is done, and shows each twentieth of it once.

    Other threads may call it, too; steps are shown by the thread that made it, and by no other.

    Privacy:
        Claim: the steps that are shown until all is done are the same, one by one, for every total.
        Because: each part is shown once and in order, also those that are passed in one stride, and of nothing all is done.
        Assumes: it ends with a call by that thread that says that all is done; the moments of steps are not covered.
    """
    n_shown, caller = 0, get_ident()

    def show(n_done: float) -> None:
        nonlocal n_shown
        if get_ident() != caller:
            return
        reached = PARTS if n_done >= total else int(PARTS * n_done / total)
        while n_shown < reached:
            n_shown += 1
            progress(Step(f"{name}: {100 * n_shown // PARTS} %", n_shown, PARTS, name))

    return show
