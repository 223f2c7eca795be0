"""Tasks for the workers of a cluster: sent as bytes, and none ever raises. Passes rows on and shows nothing of them.

A scheduler imports whatever the tasks that pass through it are made of, and workers wait meanwhile. So a task is bytes until
a worker calls it, and this module imports little.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpforest.errors import DPForestError

Types = dict[str, str]  # the type of each column that was read, by name


@dataclass(frozen=True, repr=False)
class Answer:
    """The result of a task about a partition."""

    number: int  # of the partition
    n_rows: int
    types: Types
    found: Any


@dataclass(frozen=True)
class Failure:
    """The result of a task that failed; its message has public facts only."""

    message: str


class Packed:
    """A task with its first arguments, pickled. It gives a ``Failure`` instead of raising.

    A cluster writes the arguments of a task that raised to its logs, and these are rows.
    """

    def __init__(self, task: Callable[..., Any], *first: Any) -> None:
        self.__name__ = task.__name__  # for dashboards, and for a scheduler that learns how long a kind of task takes
        self._bytes = pickle.dumps(partial(task, *first))

    def __call__(self, *arguments: Any) -> Any:
        try:
            return pickle.loads(self._bytes)(*arguments)
        except DPForestError as error:
            return Failure(str(error))
        except Exception as error:  # its message may quote rows
            return Failure(f"A worker could not read or count a partition of the table ({type(error).__name__}).")
