"""Where random words come from: the operating system, or a seed for experiments."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

FIRST_WORDS, MOST_WORDS = 2048, 1 << 20


class Entropy:
    """Feeds the exact samplers with random words.

    Privacy:
        Claim: without ``random_state`` every coin of every mechanism comes from the operating
            system's cryptographic generator.
        Because: ``run`` is the only feeder of the samplers and reads ``os.urandom``. Words that an
            interrupted item has used are kept and used again for the same item, so running out
            of words never favours outcomes that need few of them.
        Assumes: the operating system's generator is sound. A seed makes all coins predictable;
            the statement then says that the guarantee does not hold.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.seeded = random_state is not None
        self._source: Callable[[int], bytes] = check_random_state(random_state).bytes if self.seeded else os.urandom
        self._words = np.empty(0, dtype=np.uint16)
        self._cursor = np.zeros(2, dtype=np.int64)

    def run(self, kernel: Callable[..., int], n_items: int, *arguments: Any) -> None:
        """Call ``kernel(words, cursor, first, *arguments)`` until all items are done.

        The kernel returns the number of items that are complete.
        """
        done = 0
        while done < n_items:
            first, begin = done, int(self._cursor[0])
            done = kernel(self._words, self._cursor, first, *arguments)
            if done < n_items:
                # What the rest will need if it goes on like this, and a little more.
                n_used = int(self._cursor[0]) - begin
                self._refill((n_items - done) * n_used * 9 // (8 * max(done - first, 1)))

    def draw_for_records(self, kernel: Callable[..., int], values: np.ndarray, *arguments: Any) -> None:
        """Fill ``values`` ``(..., n_records)`` by a kernel, each draw from coins that belong to its record alone."""
        self.run(kernel, values.size, *arguments, values.reshape(-1))

    def generator(self) -> np.random.Generator:
        """A fast generator for *public* coins, such as which features a node may use."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._source(16), "little")))

    def _refill(self, n_wanted: int) -> None:
        unused = self._words[self._cursor[0] :]
        fresh = min(MOST_WORDS, max(FIRST_WORDS, n_wanted or 2 * self._words.size))
        fresh += -fresh % 4  # whole steps of a seeded generator, whose stream then does not depend on how it is asked
        words = np.frombuffer(self._source(2 * fresh), dtype=np.uint16)
        self._words = np.concatenate([unused, words])
        self._cursor[:] = 0
