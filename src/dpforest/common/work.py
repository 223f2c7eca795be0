"""Work that takes time: threads for parts of it, and what is said while it lasts.

Threads see numbers of records, or of nodes of a level. Steps tell no number of rows or bytes, so they may be logged; their
moments may tell.
"""

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from threading import get_ident
from typing import Any

# Below this many cells a second thread costs more than it saves.
THREAD_CELLS = 200_000
# Columns for each thread from which threads take columns and not records: each would need cells for all columns otherwise.
COLUMNS_FOR_THREADS = 32
PARTS = 20
# After an installation the first fit waits for kernels to be compiled, not for its rows.
WORDS = "compiling once for this machine, about 6 s"
_heard: list[None] = []


class Workers:
    """Threads that work on parts of the records at the same time; kernels release Python's lock, so threads are enough."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # The caller's thread does the first part. The threads end when the pool is freed, with these workers.
        return ThreadPoolExecutor(self.n_jobs - 1)

    def parts(self, n_records: int, n_passes: int = 1) -> list[tuple[int, int]]:
        """The first record (or node) and the end of each thread's part; a single part if there is little to do."""
        n_parts = min(self.n_jobs, max(n_records, 1)) if n_records * n_passes > THREAD_CELLS else 1
        return list(pairwise(part * n_records // n_parts for part in range(n_parts + 1)))

    def run(self, work: Callable[[int, int, int], None], parts: list[tuple[int, int]]) -> None:
        """Call ``work(part, start, stop)`` for each part; results must not depend on how records are divided."""
        others = [self._pool.submit(work, part, *parts[part]) for part in range(1, len(parts))]
        try:
            work(0, *parts[0])
        finally:
            for other in others:
                other.result()

    def share(self, work: Callable[[int, int], None], n_items: int) -> None:
        """Call ``work(thread, item)`` for each item; a thread takes the next one when it is free.

        Thread 0 is the caller's. Results must not depend on who takes what. If a call raises, no thread begins another item.
        """
        items = iter(range(n_items))

        def take(thread: int, *_: int) -> None:
            try:
                for item in items:
                    work(thread, item)
            except BaseException:
                deque(items, maxlen=0)
                raise

        self.run(take, [(0, 0)] * max(1, min(self.n_jobs, n_items)))


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


@contextmanager
def heard(show: Callable[[bool], None]) -> Iterator[None]:
    """A context in which ``show`` is told True where numba begins to compile and False where it ends.

    Types of tables and the schema decide what is compiled, and both are public; beyond 10**8 rows so does whether counts fit
    32 bits, so the line is for whoever may see the rows, as the moments of progress are. Meanwhile no garbage is looked for:
    numba makes so many objects that this would take an eighth of the time.
    """
    from numba.core import event

    class Told(event.Listener):
        n_open = 0  # one function may be compiled for another
        collects = False

        def on_start(self, event: Any) -> None:
            self.n_open += 1
            if self.n_open == 1:
                self.collects = gc.isenabled()
                gc.disable()
                show(True)

        def on_end(self, event: Any) -> None:
            self.n_open -= 1
            if not self.n_open:
                if self.collects:
                    gc.enable()
                show(False)

    _heard.append(None)
    try:
        with event.install_listener("numba:compile", Told()):
            yield
    finally:
        _heard.pop()


@contextmanager
def said() -> Iterator[None]:
    """A context with one line on standard error when numba compiles, if somebody looks."""
    if _heard:
        yield
        return
    is_silent = not (sys.stderr.isatty() or "ipykernel" in sys.modules)

    def say(begins: bool) -> None:
        nonlocal is_silent
        if not is_silent:
            is_silent = True
            print(f"dpforest: {WORDS}", file=sys.stderr, flush=True)

    with heard(say):
        yield
