"""Sends finished capture files from a folder of this machine to an object store."""

import logging
import math
import os
import time
from pathlib import Path
from threading import Event, Thread

from trackside.errors import TracksideError
from trackside.storage.locate import Location
from trackside.storage.partial_file import is_temporary

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_LOOK_SECONDS = 0.02


class Uploader:
    """Owns one thread. The folder is the queue: what is in it is not yet in the store.

    So a store that is away costs disk and no memory, and what one process leaves behind the next
    one with the same folder sends. Files go in the order of their names, each once; then they are
    removed here.
    """

    def __init__(self, folder: Path, target: Location) -> None:
        self.failure: Exception | None = None
        self.num_failures = 0
        self._folder = folder
        self._target = target
        self._given_up_at = math.inf
        self._wake = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="trackside-capture-upload", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """There are new files. Returns at once."""
        self._wake.set()

    def flush(self, timeout: float) -> None:
        """Wait until nothing is left to send, for so long at most."""
        deadline = time.monotonic() + timeout
        self._wake.set()
        while self._waiting() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting())

    def close(self, timeout: float) -> None:
        """Upload what is there, retrying for at most so long; `num_waiting` is what is left."""
        self._given_up_at = time.monotonic() + timeout
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._wake.clear()
            closing = self._closing.is_set()
            if self._send_all():
                pause = _FIRST_PAUSE_SECONDS
                if closing:
                    return
                self._wake.wait()
            else:
                if time.monotonic() >= self._given_up_at:
                    return
                if closing:
                    time.sleep(_FIRST_PAUSE_SECONDS)
                else:
                    self._closing.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _send_all(self) -> bool:
        for path in self._waiting():
            try:
                self._target.store.put(self._target.child(self._name(path)).key, path)
                path.unlink(missing_ok=True)
            except (OSError, TracksideError) as error:
                if path.exists():  # else another process of the same worker has just sent it
                    self._report(error)
                    return False
        return True

    def _waiting(self) -> list[Path]:
        found = [
            Path(folder, name)
            for folder, _, names in os.walk(self._folder)
            for name in names
            if not is_temporary(name)
        ]
        return sorted(found, key=self._name)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()

    def _report(self, error: Exception) -> None:
        self.num_failures += 1
        if self.failure is None:
            self.failure = error
            logger.warning(
                "Captured tensors wait in %s and are tried again: %s", self._folder, error
            )
