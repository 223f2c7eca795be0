"""Threads that each do a part of the records."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise

# Below this many cells a second thread costs more than it saves.
THREAD_CELLS = 200_000


class Workers:
    """Runs work on parts of the records at the same time; kernels let go of Python's lock, so threads are enough."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # The caller's thread does the first part. Threads end with the pool, and that with its owner.
        return ThreadPoolExecutor(self.n_jobs - 1)

    def parts(self, n_records: int, n_passes: int = 1) -> list[tuple[int, int]]:
        """Where the part of each thread starts and stops; one part if there is little to do."""
        n_parts = self.n_jobs if n_records * n_passes > THREAD_CELLS else 1
        return list(pairwise(part * n_records // n_parts for part in range(n_parts + 1)))

    def run(self, work: Callable[[int, int, int], None], parts: list[tuple[int, int]]) -> None:
        """``work(part, start, stop)`` for each part; results must not depend on how records are parted."""
        others = [self._pool.submit(work, part, *parts[part]) for part in range(1, len(parts))]
        try:
            work(0, *parts[0])
        finally:
            for other in others:
                other.result()
