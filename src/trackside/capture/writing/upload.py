"""Uploads finished capture files from a local folder to an object store."""

import os
import time
from contextlib import suppress
from pathlib import Path

from trackside.errors import TracksideError
from trackside.storage.locate import Location
from trackside.storage.partial_file import is_temporary
from trackside.system.worker import Worker

_LOOK_SECONDS = 0.02


class Uploader:
    """Owns one thread. The folder is the queue: its files are not yet in the store.

    So an unreachable store costs disk space but no memory, and the next process with the same
    folder uploads what one process left. Files are uploaded in the order of their names, each once;
    then they are removed here.
    """

    def __init__(self, folder: Path, target: Location) -> None:
        self.failure: Exception | None = None
        self.num_failures = 0
        self._folder = folder
        self._target = target
        self._worker = Worker(
            "trackside-capture-upload",
            self._send_all,
            interval=None,
            at_end=self._send_all,
            problem=f"Captured tensors wait in {folder} and are tried again",
        )
        self._worker.start()

    def notify(self) -> None:
        """There are new files. Returns at once."""
        self._worker.wake()

    def flush(self, timeout: float) -> None:
        """Wait until nothing is left to upload, for so long at most."""
        deadline = time.monotonic() + timeout
        self._worker.wake()
        while self._waiting() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting())

    def close(self, timeout: float) -> None:
        """Upload the rest, trying for so long at most; `num_waiting` is what is left then."""
        with suppress(OSError, TracksideError):  # `failure` has it
            self._worker.close(timeout, retry_for=timeout)

    def _send_all(self) -> None:
        for path in self._waiting():
            try:
                self._target.store.put(self._target.child(self._name(path)).key, path)
                path.unlink(missing_ok=True)
            except (OSError, TracksideError) as error:
                if path.exists():  # otherwise another process has just uploaded it
                    self.num_failures += 1
                    self.failure = self.failure or error
                    raise

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
