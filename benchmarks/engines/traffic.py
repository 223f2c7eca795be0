"""Bytes that reach this process: what its connections have received, and results of an engine that lives in it."""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

SOCKETS = Path("/proc/self/fd")
# Where Linux keeps the number of received bytes in ``struct tcp_info``.
RECEIVED_AT, INFO_SIZE = 128, 256


class Traffic:
    """Counts what was received since it was made. A connection that was closed between two looks counts as last seen."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._results = 0
        self._before = self._received()

    def add_result(self, n_bytes: int) -> None:
        """A result that no connection carried."""
        self._results += n_bytes

    def so_far(self) -> int:
        return self._received() + self._results - self._before

    def _received(self) -> int:
        for name, n_bytes in _connections():
            self._seen[name] = n_bytes
        return sum(self._seen.values())


def _connections() -> list[tuple[str, int]]:
    """The TCP connections of this process and the bytes that each has received; none where the system does not say."""
    found = []
    for path in SOCKETS.iterdir() if SOCKETS.exists() else ():
        with suppress(OSError):
            name = os.readlink(path)
            if name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(path.name))) as own:
                    info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_SIZE)
                if len(info) >= RECEIVED_AT + 8:
                    found.append((name, struct.unpack_from("=Q", info, RECEIVED_AT)[0]))
    return found
