"""Threads that share work: every item once, and none is begun after one has failed."""

import threading

import pytest

from dpforest.common.work import Workers


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n_items", [0, 1, 3, 200])
def test_every_item_is_done_once_whoever_takes_it(n_jobs, n_items):
    done = []
    Workers(n_jobs).share(lambda thread, item: done.append((item, thread)), n_items)
    assert sorted(item for item, _ in done) == list(range(n_items))
    assert {thread for _, thread in done} <= set(range(n_jobs))


def test_the_caller_is_thread_0_and_threads_work_at_the_same_time():
    names, met = {}, threading.Barrier(3, timeout=30)

    def work(thread, item):
        names[thread] = threading.current_thread()
        met.wait()

    Workers(3).share(work, 3)
    assert names[0] is threading.current_thread()
    assert len({*names.values()}) == 3


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_no_item_is_begun_after_one_has_failed(n_jobs):
    begun, failed = [], threading.Event()

    def work(thread, item):
        begun.append(item)
        if item == 2:
            failed.set()
            raise ValueError("item 2")
        if item > 2:
            failed.wait(30)

    with pytest.raises(ValueError, match="item 2"):
        Workers(n_jobs).share(work, 1000)
    assert len(begun) < 1000
