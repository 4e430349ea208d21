"""Thread pools that one caller cannot occupy, for the calls of a server's services.

Services decide what runs in them, and in which of the two `ThreadPools`.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from trackside.api.call import too_busy
from trackside.system import fair_pool
from trackside.system.fair_pool import TooManyWaiting

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The label of the key whose request is being handled; set once the signature is verified."""

T = TypeVar("T")


class FairPool(fair_pool.FairPool):
    async def run(self, function: Callable[[], T]) -> T:
        """ThrottlingException when too many calls of the same caller are queued."""
        try:
            return await self.run_for(CALLER.get(), function)
        except TooManyWaiting as error:
            text = f"{error.count} of your calls of this kind are queued already."
            raise too_busy(text) from None


class ThreadPools:
    """Where the calls of all JSON services run: slow calls do not delay quick ones. Python runs one
    thread at a time, so more threads would not be faster."""

    def __init__(self) -> None:
        self.quick = FairPool("quick", threads=16, per_caller=12)
        self.heavy = FairPool("heavy", threads=2, per_caller=1, waiting_per_caller=32)
