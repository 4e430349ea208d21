"""A thread that notices when this process makes no step and shows no other sign of life, and then
writes where each of its threads is: in a small file per process, which `reading/hang_files.py`
reads. While steps go on it compares two numbers now and then.

A process that holds the interpreter's lock keeps this thread from running. Then faulthandler, which
needs no lock, writes the stacks to a second file.
"""

import atexit
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Any

from trackside.capture.environment import CaptureEnvironment
from trackside.capture.hangs import collectives, stacks
from trackside.capture.hangs.ends import FatalStacks, leave_children, step_mirror
from trackside.capture.hangs.last_words import LastWords
from trackside.capture.hangs.look import Look, Others, look, look_at_others
from trackside.capture.hangs.progress import OPEN_FACTOR, Progress
from trackside.capture.trial_layout import hang_file, hang_stacks_file, step_file
from trackside.errors import TracksideError

logger = logging.getLogger(__name__)

_LOOKS = 10
"""Within a limit: between two of them lies a second at the least limit."""
_TURN_SECONDS = 1.0
"""At the most, so that it is soon known that the first step was made."""
_STILL_SHARE = 0.5
"""Of a limit: for so long nothing at all must have happened, besides no step."""
_LAST_WORDS_SECONDS = 1.0
_MOST_MESSAGE, _MOST_FRAMES = 500, 40

Put = Callable[[str, str], None]
"""Takes name and text of a file of the trial."""


class HangWatch:
    """`put` writes the file; `folder` is the trial's, where it is on this machine."""

    def __init__(self, environment: CaptureEnvironment, put: Put, folder: Path | None) -> None:
        self.progress = Progress()
        self.pid = os.getpid()
        self._least = environment.hang_seconds
        self._rank = environment.rank
        self._put = put
        self._name = f"{socket.gethostname()}-{self.pid}"
        self._stop = threading.Event()
        self._before: Look | None = None
        self._still_since = self._loop_since = self._longest_still = 0.0
        self._sign = ""
        self._seen_others: tuple[float, Others] | None = None
        self._children: stacks.ChildStacks | None = None
        path = None if folder is None else folder / hang_stacks_file(self._name)
        self._last_words = None if path is None else LastWords(path)
        self._folder = folder
        self._group: tuple[int | None, int] = (self._rank, 1)
        self._fatal: FatalStacks | None = None
        self._written = ""
        self._thread = threading.Thread(target=self._run, name="trackside-hangs", daemon=True)

    def start(self) -> None:
        self._children = stacks.ChildStacks()
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Other processes of a group may wait for this one: it says that it has ended."""
        if self._stop.is_set() or os.getpid() != self.pid:
            return
        self._stop.set()
        self._thread.join(_LAST_WORDS_SECONDS)
        if self._last_words is not None:
            self._last_words.close()
        group = collectives.rank_and_size()
        if self._written or (group is not None and group[1] > 1):
            self._write({"state": "ended", **_error()})
        if self._fatal is not None:
            self._fatal.close()

    def _run(self) -> None:
        while not self._stop.wait(min(max(0.1, self._limit / _LOOKS), _TURN_SECONDS)):
            try:
                self._turn()
            except Exception:
                logger.debug("Hangs are not watched any more.", exc_info=True)
                return

    @property
    def _limit(self) -> float:
        return self.progress.limit(self._least)

    def _turn(self) -> None:
        quiet, limit = self.progress.quiet, self._limit
        if self.progress.count and not self._written:
            self._goes_on()
        if self._last_words is not None and self.progress.count:
            self._last_words.put_off(max(OPEN_FACTOR * self._least, limit))
        if quiet < limit * _STILL_SHARE:
            if self._before is not None:
                self._goes_on()
            return
        if self._before is not None and time.monotonic() - self._before.at < limit / _LOOKS:
            return
        now = look()
        self._compare(now)
        self._before = now
        if quiet >= limit:
            self._report(now, quiet, limit)

    def _compare(self, now: Look) -> None:
        before = self._before
        sign = "it has just gone quiet" if before is None else now.sign_since(before)
        if sign:
            self._still_since, self._sign = now.at, sign
        self._longest_still = max(self._longest_still, now.at - self._still_since)
        if before is None or not now.spins_since(before):
            self._loop_since = now.at

    def _goes_on(self) -> None:
        """A stillness has ended by itself: from now on this job may be still for longer."""
        self.progress.shown = max(self.progress.shown, self._longest_still)
        self._longest_still = 0.0
        self._before = None
        if self._written != "runs":
            self._write({"state": "runs"})
            self._written = "runs"
        if self.progress.mirror is None and self._group[1] > 1 and self._folder is not None:
            self.progress.mirror = step_mirror(self._folder / step_file(self._name))
            self._fatal = FatalStacks(self._folder, self._name)

    def _report(self, now: Look, quiet: float, limit: float) -> None:
        others = self._others()
        still, spins = now.at - self._still_since, now.at - self._loop_since
        open_limit = max(OPEN_FACTOR * self._least, limit)
        own_limit = open_limit if others.is_open(now.waits) else limit
        state = "busy"
        if still >= own_limit * _STILL_SHARE and quiet >= own_limit:
            state = "still"
        elif spins >= open_limit * _STILL_SHARE and quiet >= open_limit:
            state, own_limit = "spins", open_limit
        self._written = "quiet"
        facts = {"state": state, "quiet": quiet, "still": still, "limit": own_limit}
        self._write({**facts, "sign": self._sign, **_seen(now, others)})

    def _others(self) -> Others:
        """Once for each stillness. Those that are asked write their answer, which is no sign of
        life: what happens is counted from then on."""
        assert self._children is not None
        if self._seen_others is None or self._seen_others[0] != self._still_since:
            self._seen_others = (self._still_since, look_at_others(self._children))
            self._before = look()
        return self._seen_others[1]

    def _write(self, facts: dict[str, Any]) -> None:
        rank, size = self._group = collectives.rank_and_size() or self._group
        place = {"host": socket.gethostname(), "pid": self.pid, "parent": os.getppid()}
        steps = {"step": self.progress.step, "steps": self.progress.count}
        ranks = {"rank": rank, "num_workers": size}
        text = json.dumps({**place, **ranks, **steps, "time": time.time(), **facts})
        try:
            self._put(hang_file(self._name), text)
        except (OSError, TracksideError) as error:
            logger.debug("Where this process stands was not written: %s", error)


def _error() -> dict[str, Any]:
    """The exception that ends this process; the interpreter notes one before it exits."""
    error = getattr(sys, "last_value", None)
    if not isinstance(error, Exception) or _is_interactive():
        return {}
    frames = [(f.filename, f.lineno or 0, f.name) for f in extract_tb(error.__traceback__)]
    said = f"{type(error).__name__}: {error}"[:_MOST_MESSAGE]
    return {"error": said, "frames": frames[-_MOST_FRAMES:]}


def _seen(now: Look, others: Others) -> dict[str, Any]:
    return {
        "waits": now.waits,
        "frames": now.frames,
        "threads": others.threads[:32],
        "workers": others.workers,
        "collectives": collectives.last_collectives(),
    }


_current: HangWatch | None = None


def start_watch(environment: CaptureEnvironment, put: Put, folder: Path | None) -> Progress | None:
    """This process's only watch, started if it is not running; None where there is none."""
    global _current
    if sys.platform != "linux" or environment.hang_seconds <= 0 or _is_interactive():
        return None
    if _current is None or _current.pid != os.getpid():
        _current = HangWatch(environment, put, folder)
        _current.start()
    return _current.progress


def stop_watch() -> None:
    """For a process that goes on after its training, as tests do."""
    global _current
    if _current is not None:
        _current.close()
        _current = None
        leave_children()


def _is_interactive() -> bool:
    """Somebody reads between two cells."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules
