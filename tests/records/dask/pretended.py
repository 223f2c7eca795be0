"""A cluster that is this process, and what workers of another hold."""

import time
from types import SimpleNamespace

import dask


class Pretended:
    """A client of a cluster with so many threads, whose workers are this process."""

    def __init__(self, n_threads=3):
        self.n_threads = n_threads

    def nthreads(self):
        return {"here": self.n_threads}

    def compute(self, tasks):
        return computed(tasks) if isinstance(tasks, list) else SimpleNamespace(result=lambda: computed([tasks])[0])


def computed(tasks):
    return list(dask.compute(*tasks, scheduler="synchronous"))


def held_keys(client):
    return sum(client.run(lambda dask_worker: len(dask_worker.data) + len(dask_worker.state.actors)).values())


def assert_holds_at_most(client, most):
    """Workers hold no more than so many results and actors, after a while."""
    deadline = time.monotonic() + 20
    while held_keys(client) > most and time.monotonic() < deadline:
        time.sleep(0.1)
    assert held_keys(client) <= most
