"""A Dask cluster in processes of its own, so that the trainer's memory is the trainer's alone.

Says where its scheduler listens, and lives until its input ends.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    """A client of a new cluster of workers with one thread each."""
    program = [sys.executable, "-P", "-m", __name__, str(n_workers)]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            # Loaded by name: it is an optional library.
            with import_module("distributed").Client(address) as client:
                client.wait_for_workers(n_workers)
                yield client
        finally:
            process.stdin.close()


def serve(n_workers: int) -> None:
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with import_module("distributed").LocalCluster(n_workers, **settings) as own:
        print(own.scheduler_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
