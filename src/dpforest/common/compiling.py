"""What is said while kernels are compiled: after an installation the first fit waits for that, not for its rows."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WORDS = "compiling once for this machine, about 6 s"
_heard: list[None] = []


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
    """A context in which one line on standard error says that numba compiles, if somebody looks."""
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
