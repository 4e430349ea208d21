"""A thread pool that one caller cannot occupy: waiting callers are served in turn, however many
calls each makes."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class TooManyWaiting(Exception):
    """So many calls of one caller are queued already."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"{count} calls of this caller are queued already")


class FairPool:
    """Belongs to one event loop."""

    def __init__(
        self, name: str, *, threads: int, per_caller: int, waiting_per_caller: int | None = None
    ) -> None:
        """At most `waiting_per_caller` calls are queued; None is any number."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"trackside-{name}")
        self._num_free = threads
        self._per_caller = per_caller
        self._most_waiting = waiting_per_caller
        self._num_running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By caller, in the order of their turns."""

    @property
    def num_waiting(self) -> int:
        """Queued calls."""
        return sum(len(line) for line in list(self._waiting.values()))

    async def run_for(self, caller: str, function: Callable[[], T]) -> T:
        """`TooManyWaiting` when too many calls of this caller are queued."""
        await self._turn(caller)
        loop = asyncio.get_running_loop()
        try:
            work = self._executor.submit(function)
        except BaseException:
            self._end(caller)
            raise

        def ended(_: "Future[T]") -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._end, caller)

        # A caller that gives up does not end its thread, which counts until it ends by itself.
        work.add_done_callback(ended)
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        """What runs is not waited for; nothing else is started."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, caller: str) -> None:
        if self._num_free and caller not in self._waiting and self._may_run(caller):
            self._take(caller)
            return
        line = self._waiting.setdefault(caller, deque())
        if self._most_waiting is not None and len(line) >= self._most_waiting:
            raise TooManyWaiting(len(line))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._give_up(caller, turn)
            raise

    def _give_up(self, caller: str, turn: "asyncio.Future[None]") -> None:
        if turn.cancelled():
            line = self._waiting[caller]
            line.remove(turn)
            if not line:
                del self._waiting[caller]
        else:  # its turn had just come
            self._end(caller)

    def _end(self, caller: str) -> None:
        self._num_free += 1
        self._num_running[caller] -= 1
        if not self._num_running[caller]:
            del self._num_running[caller]
        self._call_next()

    def _call_next(self) -> None:
        for caller in list(self._waiting):
            if not self._num_free:
                return
            if self._may_run(caller):
                line = self._waiting.pop(caller)
                self._take(caller)
                line.popleft().set_result(None)
                if line:
                    self._waiting[caller] = line  # after all others

    def _may_run(self, caller: str) -> bool:
        return self._num_running[caller] < self._per_caller

    def _take(self, caller: str) -> None:
        self._num_free -= 1
        self._num_running[caller] += 1
