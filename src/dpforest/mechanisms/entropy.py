"""Sources of random words: the operating system, a secret key, or a seed for experiments. Sees no data."""

import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

FIRST_WORDS, MOST_WORDS = 2048, 1 << 20


class Entropy:
    """The source of random words for the exact samplers: the operating system, or a generator with a seed.

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
        self._source: Callable[[int], bytes] = os.urandom
        if self.seeded:
            from sklearn.utils import check_random_state  # which takes seconds, and no worker of a cluster needs it

            self._source = check_random_state(random_state).bytes
        self._words = np.empty(0, dtype=np.uint16)
        self._cursor = np.zeros(2, dtype=np.int64)

    def run(self, kernel: Callable[..., int], n_items: int, *arguments: Any) -> None:
        """Draw ``n_items`` items: call ``kernel(words, cursor, first, *arguments)`` until all of them are done.

        The kernel begins with item ``first``, writes to arrays among its arguments, and returns how many items are complete
        before the words run out.
        """
        done = 0
        while done < n_items:
            first, begin = done, int(self._cursor[0])
            done = kernel(self._words, self._cursor, first, *arguments)
            if done < n_items:
                # As many words as the other items will need if they use as many as those before, and an eighth more.
                n_used = int(self._cursor[0]) - begin
                self._refill((n_items - done) * n_used * 9 // (8 * max(done - first, 1)))

    def draw_for_records(self, kernel: Callable[..., int], values: np.ndarray, *arguments: Any) -> None:
        """Fill ``values`` ``(..., n_records)`` by a kernel; the coins of a draw belong to its record alone."""
        self.run(kernel, values.size, *arguments, values.reshape(-1))

    def sample_records(
        self, draw: "Callable[[int, Fraction, Entropy], np.ndarray]", n_records: int, share: Fraction
    ) -> np.ndarray:
        """The indices of the records that ``draw`` keeps, each with probability ``share``, by coins of its own."""
        return draw(n_records, share, self)

    def generator(self) -> np.random.Generator:
        """A fast generator of numpy for *public* coins, such as which features a node may use."""
        return cast(np.random.Generator, _Generator(self._source(16)))

    def _refill(self, n_wanted: int) -> None:
        unused = self._words[self._cursor[0] :]
        fresh = min(MOST_WORDS, max(FIRST_WORDS, n_wanted or 2 * self._words.size))
        fresh += -fresh % 4  # whole steps of a seeded generator, whose stream then does not depend on how it is asked
        words = np.frombuffer(self._source(2 * fresh), dtype=np.uint16)
        self._words = np.concatenate([unused, words])
        self._cursor[:] = 0


class _Generator:
    """A generator of numpy that is made when it is first asked for something: many trees have nothing to draw."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @cached_property
    def _made(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._seed, "little")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


class KeyedEntropy(Entropy):
    """A source of random words that follow from a secret key and a number: whoever has both draws the same coins again.

    Privacy:
        Claim: nobody without the key can tell these words from those of the operating system.
        Because: they are the output of SHAKE-256 on the key, the number and a counter, none of which repeats together; a
            key is 256 bits that are drawn once and used for one purpose. The operating system makes its words in the
            same way.
        Assumes: SHAKE-256 is a pseudorandom function; the key is drawn uniformly and seen only where rows may be seen.
    """

    N_KEY_BYTES = 32

    def __init__(self, key: bytes, number: int) -> None:
        if len(key) != self.N_KEY_BYTES:
            raise ValueError("A key has 256 bits.")
        super().__init__()
        self._prefix = key + number.to_bytes(8, "little")
        self._n_asked = 0
        self._source = self._next_bytes

    def _next_bytes(self, n_bytes: int) -> bytes:
        self._n_asked += 1
        return hashlib.shake_256(self._prefix + self._n_asked.to_bytes(8, "little")).digest(n_bytes)
