"""How many threads a crew makes of what it may."""

import threading
import time

from trackside.storage.thread_pool import ThreadPool


def test_threads_that_only_wait_become_as_many_as_allowed() -> None:
    barrier = threading.Barrier(16)

    def task() -> None:
        barrier.wait(100)  # none gets through before sixteen have come

    with ThreadPool((task for _ in range(32)), 16) as pool:
        pool.wait(None)
    assert pool.is_gone


def test_no_more_threads_are_made_than_allowed() -> None:
    seen: set[str] = set()
    barrier = threading.Barrier(2)

    def task() -> None:
        seen.add(threading.current_thread().name)
        time.sleep(0.2)  # long enough to look idle
        barrier.wait(100)

    with ThreadPool((task for _ in range(12)), 2) as pool:
        pool.wait(None)
    assert seen == {"trackside-transfer-0", "trackside-transfer-1"}
