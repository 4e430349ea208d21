"""The threads in which a host's folders, curves and log are uploaded while its script runs: how
often each is checked, and what is done when the store does not respond. What is uploaded is decided
by the parts (`sync_part.py`)."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from trackside.errors import TracksideError
from trackside.records.hosts import SyncState
from trackside.supervisor.folder_sync import NotUploaded
from trackside.supervisor.sync_part import SyncPart
from trackside.system.worker import Pause, Worker

logger = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
SCAN_SHARE = 0.02
"""Share of a core that passes may take if each is long: a watched training of hours leaves ten
thousand segments, and a scan of all of them every second would cost it a tenth of a core.
"""
LONGEST_PAUSE_SECONDS = 10.0
STILL_PAUSE_SECONDS = 30.0
IDLE_PASSES = 3
IDLE_PAUSE_SECONDS = 3.0
"""Between passes after so many that found nothing new, …"""
STILL_PASSES = 10
"""… and after so many the longest of all: `wake` cuts either short."""
WEDGED_SECONDS = 180.0
"""A store call without any progress for so long, past the deadline, is abandoned. Stores retry for
two minutes, and then raise what is wrong."""
RETRY_SECONDS = (0.5, 15.0)
"""Between tries of the last pass: the first pause and the longest."""
_POLL_SECONDS = 0.1


class _Unsent(Exception):
    """Something is left, and a retry may upload it."""


@dataclass(slots=True)
class _Group:
    """Parts that share a thread."""

    parts: list[SyncPart]
    num_idle: int = 0
    """Passes in a row that found nothing new."""
    num_hopeless: int = 0
    """Final passes in a row that left only files that no retry can upload."""


class Syncer:
    """Owns one worker per group: curves do not wait behind a large checkpoint, nor training for
    either."""

    def __init__(self, *groups: Sequence[SyncPart]) -> None:
        self._groups = [_Group(list(parts)) for parts in groups]
        self._hopeless: set[str] = set()
        self._workers = [
            self._worker(f"trackside-sync-{number}", group)
            for number, group in enumerate(self._groups)
        ]

    def _worker(self, name: str, group: _Group) -> Worker:
        pause = pause_after(0.0)
        return Worker(
            name,
            lambda: self._pass_while_running(group),
            interval=pause,
            delay=pause,
            at_end=lambda: self._pass_at_end(group),
            retry_seconds=RETRY_SECONDS,
            problem="uploads are not finished, and are retried",
        )

    @property
    def parts(self) -> list[SyncPart]:
        return [part for group in self._groups for part in group.parts]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def add(self, part: SyncPart) -> None:
        """Also while it runs: the first group's thread uploads it from its next pass on."""
        self._groups[0].parts.append(part)

    def wake(self) -> None:
        """The script is active: passes that pause because nothing was new are due now."""
        for worker in self._workers:
            worker.wake()

    def states(self) -> dict[str, SyncState]:
        """As of now, also while a thread hangs in a store that does not respond."""
        now = time.monotonic()
        for part in self.parts:
            part.state.lag_seconds = round(now - part.synced_at, 1)
        return {part.name: part.state for part in self.parts if not part.is_unused}

    def finish(
        self,
        deadline: float,
        on_error: Callable[[str], None],
        poll: Callable[[], None] = lambda: None,
        *,
        was_killed: bool = False,
    ) -> str:
        """Upload everything that is left, retrying until the deadline (monotonic). The error, or
        ''.

        `on_error` is called with each new error, `poll` repeatedly until the end. An upload that is
        running at the deadline is not cut short unless it makes no progress. `was_killed`: the
        script had no chance to finish what it was writing.
        """
        for part in self.parts:
            part.keeps_older = was_killed
        for worker in self._workers:
            worker.request_stop(retry_for=deadline - time.monotonic())
        reported = ""
        while alive := [worker for worker in self._workers if worker.is_alive]:
            poll()
            with suppress(_Unsent):
                alive[0].join(_POLL_SECONDS)
            error = self._error()
            if error and error != reported:
                reported = error
                on_error(error)
            silent = time.monotonic() - max(deadline, *(part.alive_at for part in self.parts))
            if silent > WEDGED_SECONDS:
                return error or f"The store has not responded for {silent:.0f} s."
        return self._error()

    def send_all(self) -> str:
        """Upload everything in this thread, once. The first error, or ''."""
        self._pass(self.parts, last=True)
        return self._error()

    def _pass_while_running(self, group: _Group) -> Pause:
        started, before = time.thread_time(), _amounts(group.parts)
        ours_before = _amounts(group.parts, of_hook=True)
        self._pass(group.parts, last=False)
        after, ours = _amounts(group.parts), _amounts(group.parts, of_hook=True)
        group.num_idle = group.num_idle + 1 if after == before else 0
        # Something may wait for an unreachable store.
        if ours != ours_before or any(waiting for _, waiting in [*after, *ours]):
            group.num_idle = min(group.num_idle, IDLE_PASSES)
        cpu_seconds = time.thread_time() - started
        return Pause(pause_after(cpu_seconds, group.num_idle), least=pause_after(cpu_seconds))

    def _pass_at_end(self, group: _Group) -> None:
        self._pass(group.parts, last=True)
        failed = {part.name for part in group.parts if part.state.error}
        # Twice: a pass may remove what was in the way of the next.
        group.num_hopeless = group.num_hopeless + 1 if failed <= self._hopeless else 0
        if failed and group.num_hopeless < 2:
            raise _Unsent(self._error())

    def _pass(self, parts: Sequence[SyncPart], *, last: bool) -> None:
        for part in parts:
            self._try(part, last)

    def _try(self, part: SyncPart, last: bool) -> None:
        state = part.state
        self._hopeless.discard(part.name)
        try:
            part.tick(last=last)
            state.error = ""
        except (KeyboardInterrupt, SystemExit):
            raise
        # If the thread died here the sync would stop unnoticed. A panic in the store's native code
        # is not an `Exception`.
        except BaseException as error:
            known = isinstance(error, TracksideError | OSError | NotUploaded)
            if not state.error:
                logger.warning("sync to %s waits: %s", state.to, error, exc_info=not known)
            state.error = str(error) or repr(error)
            if isinstance(error, NotUploaded) and error.is_hopeless:
                self._hopeless.add(part.name)
        finally:
            part.alive_at = time.monotonic()

    def _error(self) -> str:
        return next((part.state.error for part in self.parts if part.state.error), "")


def pause_after(cpu_seconds: float, num_idle: int = 0) -> float:
    """Seconds until the next pass, by the cost of the last one and how many found nothing new."""
    least = SCAN_SECONDS if num_idle < IDLE_PASSES else IDLE_PAUSE_SECONDS
    if num_idle >= STILL_PASSES:
        return STILL_PAUSE_SECONDS
    return min(max(least, cpu_seconds / SCAN_SHARE), LONGEST_PAUSE_SECONDS)


def _amounts(parts: Sequence[SyncPart], *, of_hook: bool = False) -> list[tuple[int, int]]:
    """Uploaded and pending amounts, of the script's files or of our hook's: unchanged when nothing
    is new. The machine's figures, which never end, do not count.
    """
    watched = (part for part in parts if part.is_of_hook is of_hook and not part.is_generated)
    return [(part.state.uploaded_bytes, part.state.pending_bytes) for part in watched]
