"""Turns in a pool of threads, however much each caller requests; and at a real server."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.config import Config

from tests.api.conftest import Server, running
from tests.api.written_jobs import write_job
from tests.wait import until
from trackside.api.app import App
from trackside.api.budget import Budget
from trackside.api.call import ServiceError
from trackside.api.fair_pool import CALLER, FairPool, ThreadPools
from trackside.api.keys import AccessKeys, Rights
from trackside.api.log_streams import TRAINING
from trackside.api.logs import logs
from trackside.jobs.jobs import Jobs


class Work:
    """Calls that run until they are released, and the order in which they started."""

    def __init__(self, pool: FairPool) -> None:
        self._pool = pool
        self._go = threading.Semaphore(0)
        self._started = threading.Condition()
        self.order: list[str] = []

    async def call(self, caller: str, name: str) -> str:
        CALLER.set(caller)

        def run() -> str:
            with self._started:
                self.order.append(name)
                self._started.notify_all()
            assert self._go.acquire(timeout=60)
            return name

        return await self._pool.run(run)

    def start(self, caller: str, *names: str) -> "list[asyncio.Task[str]]":
        return [asyncio.create_task(self.call(caller, name)) for name in names]

    def let_go(self, count: int) -> None:
        self._go.release(count)

    async def begun(self, count: int) -> list[str]:
        """As soon as so many have."""

        def wait() -> bool:
            with self._started:
                return self._started.wait_for(lambda: len(self.order) >= count, 60)

        assert await asyncio.to_thread(wait)
        return list(self.order)


def played(course: Coroutine[Any, Any, None]) -> None:
    asyncio.run(course)


def test_a_second_caller_is_served_while_the_first_has_many_calls_queued():
    async def course() -> None:
        work = Work(FairPool("test", threads=2, per_caller=1))
        queued = work.start("a", *(f"a{n}" for n in range(16)))
        await work.begun(1)
        [other] = work.start("b", "b0")
        assert await work.begun(2) == ["a0", "b0"]
        work.let_go(17)
        assert await other == "b0"
        assert await asyncio.gather(*queued) == [f"a{n}" for n in range(16)]

    played(course())


def test_turns_go_round():
    async def course() -> None:
        work = Work(FairPool("test", threads=1, per_caller=1))
        calls = work.start("a", "a0", "a1", "a2", "a3")
        await work.begun(1)
        calls += work.start("b", "b0", "b1") + work.start("c", "c0")
        await asyncio.sleep(0)
        work.let_go(7)
        await asyncio.gather(*calls)
        assert work.order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]

    played(course())


def test_too_many_queued_calls_are_throttled():
    async def course() -> None:
        work = Work(FairPool("test", threads=2, per_caller=1, waiting_per_caller=3))
        calls = work.start("a", "a0", "a1", "a2", "a3")
        await work.begun(1)
        with pytest.raises(ServiceError) as caught:
            await work.call("a", "a4")
        assert (caught.value.code, caught.value.status) == ("ThrottlingException", 503)
        assert caught.value.headers["retry-after"] == "2"
        [other] = work.start("b", "b0")
        work.let_go(5)
        assert await other == "b0"
        await asyncio.gather(*calls)

    played(course())


def test_a_cancelled_call_frees_its_turn():
    async def course() -> None:
        work = Work(FairPool("test", threads=1, per_caller=1))
        first, gone, last = work.start("a", "a0", "a1", "a2")
        await work.begun(1)
        gone.cancel()
        work.let_go(2)
        assert [await first, await last] == ["a0", "a2"]
        assert gone.cancelled()

    played(course())


def test_a_failed_call_frees_its_thread():
    async def course() -> None:
        pool = FairPool("test", threads=1, per_caller=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await pool.run(lambda: 1 // 0)
        assert await pool.run(lambda: 1) == 1

    played(course())


def test_searches_of_one_key_do_not_hold_up_those_of_another(jobs: Jobs):
    started = 1_790_000_000.0
    lines = [(started + n / 100, b"loss of epoch %d\n" % n) for n in range(10_000)]
    write_job(jobs, "job-1", [lines], span=(started, started + 200))
    jobs.refresh()
    pools, keys = ThreadPools(), AccessKeys(jobs.settings.layout.server.root)
    service = logs(jobs, pools, lambda: Budget(10**6, seconds=3600))
    with running(App({"logs": service}, keys), keys) as server:
        key, secret = keys.create("another", Rights.READ)
        other = Server(server.url, keys, key.id, secret).client("logs")
        client = server.client("logs", config=Config(max_pool_connections=16))

        def search(client: Any) -> int:
            given = {"logGroupName": TRAINING, "filterPattern": "loss -epoch"}
            return len(client.filter_log_events(**given)["events"])

        with ThreadPoolExecutor(16) as pool:
            queued = [pool.submit(search, client) for _ in range(16)]
            until(lambda: pools.heavy.num_waiting >= 12)
            assert search(other) == 0
            num_left = sum(not each.done() for each in queued)
            assert [each.result() for each in queued] == [0] * 16
    assert num_left >= 8
