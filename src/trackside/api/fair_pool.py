"""Thread pools that one caller cannot occupy: waiting callers are served in turn, however many
calls each makes.

Services decide what runs in them, and in which of the two `ThreadPools`.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from trackside.api.call import too_busy

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The label of the key whose request is being handled; set once the signature is verified."""

T = TypeVar("T")


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

    async def run(self, function: Callable[[], T]) -> T:
        """ThrottlingException when too many calls of the same caller are queued."""
        caller = CALLER.get()
        await self._turn(caller)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, function)
        finally:
            self._end(caller)

    async def _turn(self, caller: str) -> None:
        if self._num_free and caller not in self._waiting and self._may_run(caller):
            self._take(caller)
            return
        line = self._waiting.setdefault(caller, deque())
        if self._most_waiting is not None and len(line) >= self._most_waiting:
            raise too_busy(f"{len(line)} of your calls of this kind are queued already.")
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


class ThreadPools:
    """Where the calls of all JSON services run: slow calls do not delay quick ones. Python runs one
    thread at a time, so more threads would not be faster."""

    def __init__(self) -> None:
        self.quick = FairPool("quick", threads=16, per_caller=12)
        self.heavy = FairPool("heavy", threads=2, per_caller=1, waiting_per_caller=32)
