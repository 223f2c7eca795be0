"""Tasks for the workers of a cluster: sent as bytes, and none ever raises. Passes rows on and shows nothing of them.

A scheduler imports whatever the tasks that pass through it are made of, and workers wait meanwhile. So a task is bytes until
a worker calls it, and this module imports little.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from dpforest.errors import DPForestError


@dataclass(frozen=True)
class Failure:
    """The result of a task that failed, instead of counts; its message has public facts only."""

    message: str


def reporting(task: Callable[..., Any]) -> Callable[..., Any]:
    """The task, changed to give a ``Failure`` instead of raising, and to pass on a ``Failure`` among its arguments.

    A cluster writes the arguments of a task that raised to its logs, and these are rows.
    """

    @wraps(task)
    def run(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Failure):
                return argument
        try:
            return task(*arguments)
        except DPForestError as error:
            return Failure(str(error))
        except Exception as error:  # its message may quote rows
            return Failure(f"A worker could not read or count a partition of the table ({type(error).__name__}).")

    return run


class Packed:
    """A task with its first arguments, pickled, so that a scheduler can pass it on without imports."""

    def __init__(self, task: Callable[..., Any], *first: Any) -> None:
        self.__name__ = task.__name__  # for dashboards, and for a scheduler that learns how long a kind of task takes
        self._bytes = pickle.dumps(partial(task, *first))

    def __call__(self, *arguments: Any) -> Any:
        return _run(self._bytes, *arguments)


@reporting
def _run(packed: bytes, *arguments: Any) -> Any:
    return pickle.loads(packed)(*arguments)
