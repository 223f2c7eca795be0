"""Partitions of a worker behind one door, which is asked without a task. Passes counts on and shows nothing of rows.

A scheduler takes milliseconds of work for each task, and a fit asks hundreds of questions. An actor is asked by one message
and costs the scheduler next to nothing. It has nothing that could be lost: partitions are data of the cluster, and what was
done to them is in the log (see ``replayed``). A scheduler imports this module, so it imports little.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dpforest.records.dask.tasks import Failure, Packed

# The answer if a worker was lost on the way. The question is then asked again, of those that have the partitions by then.
LOST = Failure("A worker was lost.")
# A holder: the address of its worker, the key of the actor, and the holders whose answers it adds to its own.
Branch = tuple[str, str, list[Any]]


class Holder:
    """All partitions of a table that one worker has; an actor."""

    def __init__(self, n_threads: int, *partitions: Any) -> None:
        n_parts = min(n_threads, len(partitions))
        self._parts = [partitions[start::n_parts] for start in range(n_parts)]
        self._pool = ThreadPoolExecutor(n_parts)

    async def sum(self, task: Packed, add: Packed, below: list[Branch]) -> Any:
        """The sum of what ``task`` gives for the partitions here and of the answers of holders ``below``, or a ``Failure``.

        It never raises, as no task does. While it waits, the worker does other things.
        """
        loop = asyncio.get_running_loop()
        own = [loop.run_in_executor(self._pool, task, *part) for part in self._parts]
        try:
            found = await asyncio.gather(*own, *(_ask(branch, task, add) for branch in below))
        except Exception:
            return LOST
        return await loop.run_in_executor(self._pool, add, *found)


async def _ask(branch: Branch, task: Packed, add: Packed) -> Any:
    """The answer of another holder; raises if its worker is lost."""
    from distributed import get_worker
    from distributed.protocol import to_serialize

    address, key, below = branch
    arguments = [to_serialize(each) for each in (task, add, below)]
    reply = await get_worker().rpc(address).actor_execute(actor=key, function="sum", args=arguments)
    return reply["result"]


def tree(holders: list[tuple[str, str]], n_below: int) -> Branch:
    """The first of some holders, by address and key, with the others below it: no more than ``n_below`` of each."""
    branches: list[Branch] = [(address, key, []) for address, key in holders]
    for index in range(1, len(branches)):
        branches[(index - 1) // n_below][2].append(branches[index])
    return branches[0]
