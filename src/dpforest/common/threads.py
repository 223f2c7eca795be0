"""Threads that each work on a part of the records, or of the nodes of a level. Sees numbers of them only."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise

# Below this many cells a second thread costs more than it saves.
THREAD_CELLS = 200_000
# Columns for each thread from which threads take columns and not records: each would need cells for all columns otherwise.
COLUMNS_FOR_THREADS = 32


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
