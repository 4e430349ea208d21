"""A few threads that wait for disks, so that the event loop never does.

However many bodies are in transfer, they hold little more memory than a few would.
"""

import asyncio
import resource
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import ParamSpec, TypeVar

from trackside.api.fair_pool import FairPool
from trackside.api.s3.bucket import NewObject, ObjectInfo
from trackside.api.s3.verified_body import Arrived, VerifiedBody

SMALL_BYTES = 128 << 10
"""Up to this size, waking a thread costs more than hashing or reading in place."""
_QUICK_SECONDS = 0.0003
"""The approximate cost of waking a thread and competing with it for the interpreter."""
_SLOW_SECONDS = 0.001
_TRY_AGAIN_SECONDS = 600.0
_BLOCK_BYTES, _LEAST_BLOCK_BYTES = 1 << 20, 64 << 10
_BLOCKS_BYTES = 64 << 20
"""Of one block of each body; two are held at most."""
_THREADS = 16
"""More than cores: most of them wait for a disk to sync."""

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    def __init__(self) -> None:
        self._pool = FairPool("s3", threads=_THREADS, per_caller=_THREADS - 4)
        self._listing = FairPool("s3-list", threads=3, per_caller=2, waiting_per_caller=256)
        self._num_bodies = 0
        self._wait_seconds = 0.0
        """For the disk, on average, of late."""
        self._is_slow_until = 0.0

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._pool.run(lambda: function(*arguments, **named))

    async def scan(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """For slow work, separate from fast work."""
        return await self._listing.run(lambda: function(*arguments, **named))

    async def publish(
        self, new: NewObject, allowed: Callable[[ObjectInfo | None], None] | None
    ) -> ObjectInfo:
        """A small object: in place, as long as its disk is faster than waking a thread.

        A conditional write may have to wait for others, and never runs in place.
        """
        if allowed is not None or time.monotonic() < self._is_slow_until:
            return await self.run(new.publish, allowed)
        started, waits = time.monotonic(), _num_waits()
        try:
            return new.publish()
        finally:
            # While other programs had the processor it was not waiting for the disk.
            has_waited = waits is None or _num_waits() != waits
            self._note_wait(time.monotonic() - started if has_waited else 0.0)

    def _note_wait(self, seconds: float) -> None:
        shortened = min(seconds, _SLOW_SECONDS)  # one long wait does not predict the next
        self._wait_seconds += (shortened - self._wait_seconds) / 8
        if self._wait_seconds > _QUICK_SECONDS:
            self._wait_seconds = 0.0
            self._is_slow_until = time.monotonic() + _TRY_AGAIN_SECONDS

    async def take_in(self, chunks: AsyncIterator[bytes] | None, intake: VerifiedBody) -> Arrived:
        """The next block is received while a thread hashes and writes the previous one."""
        assert chunks is not None
        if intake.size is not None and intake.size <= SMALL_BYTES:
            async for chunk in chunks:
                intake.feed((chunk,))
            return intake.finish()
        busy: asyncio.Future[None] | None = None
        self._num_bodies += 1
        try:
            async for block in self._blocks(chunks):
                if busy is not None:
                    await busy
                busy = asyncio.ensure_future(self.run(intake.feed, block))
        finally:
            self._num_bodies -= 1
            if busy is not None:  # the file it writes to must not be closed before
                await asyncio.wait([busy])
                busy.exception()
        if busy is not None:
            busy.result()
        return await self.run(intake.finish)

    async def send_out(
        self, read: Callable[[int, int], bytes], start: int, end: int, done: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        """The next block is read while the previous one is being sent."""
        self._num_bodies += 1
        try:
            block = await self.run(read, min(self._block_bytes, end - start), start)
            while block:
                start += len(block)
                size = min(self._block_bytes, end - start)
                coming = asyncio.ensure_future(self.run(read, size, start)) if size else None
                try:
                    yield block
                finally:
                    block = await coming if coming is not None else b""
        finally:
            self._num_bodies -= 1
            done()

    @property
    def _block_bytes(self) -> int:
        share = _BLOCKS_BYTES // max(1, self._num_bodies)
        return min(_BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, share))

    async def _blocks(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
        waiting: list[bytes] = []
        size = 0
        async for chunk in chunks:
            waiting.append(chunk)
            size += len(chunk)
            if size >= self._block_bytes:
                yield waiting
                waiting, size = [], 0
        if waiting:
            yield waiting


def _num_waits() -> int | None:
    """How often this thread has waited for anything but the CPU; None where that is unknown."""
    if sys.platform != "linux":
        return None
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
