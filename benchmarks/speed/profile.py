"""Seconds that a fit spends in parts of the library, by methods that are wrapped for as long as they are watched."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from dpforest.growing import choosing
from dpforest.growing.grower import Growth
from dpforest.parts.proposals import Menu
from dpforest.privacy.gate import Gate
from dpforest.records.counter import MemoryCounter
from dpforest.records.vault import Vault

# What a fit spends its time on, and the functions that do it, by their class or module. None calls another.
WATCHED: dict[str, tuple[tuple[Any, str], ...]] = {
    "reading the target": ((Vault, "seal"),),
    "encoding": ((Vault, "encode"),),
    "dealing": ((MemoryCounter, "deal"),),
    "counting": ((MemoryCounter, "count_codes"), (MemoryCounter, "count_nodes")),
    "scoring": ((choosing, "score"),),
    "selection": ((Gate, "select"),),
    "noise": ((Gate, "add_noise"),),
    "residuals": ((MemoryCounter, "weigh_residuals"), (MemoryCounter, "sum_residuals"), (MemoryCounter, "add_scores")),
    "offers and splits": ((Menu, "propose"), (Growth, "split")),
}


@contextmanager
def watched(parts: dict[str, tuple[tuple[Any, str], ...]] = WATCHED) -> Iterator[dict[str, float]]:
    """Seconds by part, filled while the block runs; afterwards the methods are as they were."""
    seconds = dict.fromkeys(parts, 0.0)
    # As they are written in the class: a class method stays one.
    methods = [(part, owner, name, vars(owner)[name]) for part, named in parts.items() for owner, name in named]
    try:
        for part, owner, name, method in methods:
            is_bound = isinstance(method, classmethod)
            timed = _timed(method.__func__ if is_bound else method, part, seconds)
            setattr(owner, name, classmethod(timed) if is_bound else timed)
        yield seconds
    finally:
        for _, owner, name, method in methods:
            setattr(owner, name, method)


def _timed(method: Any, part: str, seconds: dict[str, float]) -> Any:
    @wraps(method)
    def timed(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*arguments, **named)
        finally:
            seconds[part] += time.perf_counter() - start

    return timed
