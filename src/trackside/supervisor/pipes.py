"""Pipe mode: a named pipe per epoch, fed by one thread while the script reads.

`streams.py` provides the data; this module owns the pipes and never blocks a shutdown. The script
may replace a pipe by anything: only a pipe is opened for writing.
"""

import errno
import fcntl
import os
import re
import select
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

from trackside.errors import InputError
from trackside.files.script_folder import ScriptFolder

POLL_SECONDS = 0.02
"""How often a pipe is checked for a reader; the system has no event for that."""
PIPE_BYTES = 1 << 20
WRITE_BYTES = 256 << 10


class Feeder:
    """Offers `<channel>_0`, then `_1` and so on, each as soon as the one before was read or closed.

    A reader may close early; that ends its epoch. A failure does not end the stream, so that half
    an epoch never looks like a complete one: the pipe stays open, and `check` raises the error.
    """

    def __init__(
        self,
        folder: Path | ScriptFolder,
        channel: str,
        stream: Callable[[int], Iterable[bytes]],
    ) -> None:
        self._place = ScriptFolder.of(folder)
        self._folder = -1
        """Its descriptor, from `start` to `close`: the script may rename the folder."""
        self._channel = channel
        self._stream = stream
        self._stopping = Event()
        self._wake_reader, self._wake = os.pipe()
        self.failure: Exception | None = None
        """What ended the feeding; set by the thread."""
        self._thread = Thread(target=self._run, name=f"trackside-pipe-{channel}", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """The first pipe exists when this returns."""
        with self._place.opened() as folder:
            self._folder = os.dup(folder)
        # A supervisor that follows a dead one finds its pipe, which the script may have left.
        last = max(self._epochs(), default=0)
        self._offered = [last, last + 1] if self._epochs() else [0]
        for epoch in self._offered:
            self._make(epoch)
        self._thread.start()

    def check(self) -> None:
        """Raise the feeding thread's error, if there is one."""
        if self.failure is not None:
            raise self.failure

    def close(self, *, timeout: float = 10.0) -> None:
        """Stop feeding and remove the pipes. May be called again."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        os.write(self._wake, b"x")
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self._thread.is_alive():
            raise InputError(
                f"Channel {self._channel!r} still reads its source {timeout} s after it was asked "
                "to stop. The store does not respond; its own time limit will end it."
            )
        os.close(self._wake)
        os.close(self._wake_reader)
        if self._folder >= 0:
            for epoch in self._epochs():
                self._remove(epoch)
            os.close(self._folder)
            self._folder = -1

    def _run(self) -> None:
        try:
            while (found := self._await_reader()) is not None:
                epoch, pipe = found
                with _closing(pipe):
                    self._feed(epoch, pipe)
                    self._move_on(epoch)
        except Exception as failure:  # noqa: BLE001 raised again by check()
            self.failure = failure

    def _await_reader(self) -> tuple[int, int] | None:
        """The opened epoch and its pipe; None when it is time to stop."""
        while not self._stopping.wait(POLL_SECONDS):
            for epoch in self._offered:
                pipe = self._open(epoch)
                if pipe is not None:
                    return epoch, pipe
        return None

    def _open(self, epoch: int) -> int | None:
        """None while there is no reader."""
        name = self._name(epoch)
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            pipe = os.open(name, flags, dir_fd=self._folder)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return pipe
        os.close(pipe)
        raise InputError(
            f"Channel {self._channel!r}: the script has put something else in the place of the "
            f"pipe {name!r}. Let it read the pipe, and leave it where it is."
        )

    def _feed(self, epoch: int, pipe: int) -> None:
        _enlarge(pipe)
        stream = iter(self._stream(epoch))
        try:
            for data in stream:
                if not self._write(pipe, data):
                    return
        except Exception as failure:  # noqa: BLE001 raised again by check()
            self.failure = failure
            self._stopping.wait()  # with the pipe still open
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()

    def _write(self, pipe: int, data: bytes) -> bool:
        """Whether everything was written; false when the reader has closed or we are to stop."""
        view = memoryview(data)
        poll = select.poll()
        poll.register(pipe, select.POLLOUT)
        poll.register(self._wake_reader, select.POLLIN)
        while view:
            try:
                view = view[os.write(pipe, view[:WRITE_BYTES]) :]
            except BlockingIOError:
                poll.poll()
            except BrokenPipeError:
                return False
            if self._stopping.is_set():
                return False
        return True

    def _move_on(self, epoch: int) -> None:
        """Create the next pipe before this one ends: it must exist at the reader's end of file."""
        if self._stopping.is_set():
            return
        self._make(epoch + 1)
        for old in self._offered:
            if old <= epoch:
                self._remove(old)
        self._offered = [epoch + 1]

    def _epochs(self) -> list[int]:
        pattern = re.compile(re.escape(self._channel) + r"_(\d+)")
        found = (pattern.fullmatch(name) for name in os.listdir(self._folder))
        return [int(match[1]) for match in found if match and self._is_fifo(match[0])]

    def _is_fifo(self, name: str) -> bool:
        try:
            status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return stat.S_ISFIFO(status.st_mode)

    def _make(self, epoch: int) -> None:
        name = self._name(epoch)
        with suppress(FileExistsError):
            os.mkfifo(name, 0o666, dir_fd=self._folder)
            owner = os.fstat(self._folder).st_uid
            if owner != os.geteuid():  # the script is another user's
                os.chown(name, owner, -1, dir_fd=self._folder, follow_symlinks=False)

    def _remove(self, epoch: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._name(epoch), dir_fd=self._folder)

    def _name(self, epoch: int) -> str:
        return f"{self._channel}_{epoch}"


@contextmanager
def _closing(pipe: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(pipe)


def _enlarge(pipe: int) -> None:
    """A larger pipe lets the reader run ahead; Linux only, and only up to the user's limit."""
    with suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
