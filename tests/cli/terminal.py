"""A command in a terminal of its own, of a known size; Ctrl-C reaches it as from a keyboard."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from types import TracebackType

from tests.wait import until

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    def __init__(
        self, command: list[str], environ: dict[str, str], columns: int, rows: int
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.set_blocking(self._ours, False)
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.raw = ""

    @property
    def shown(self) -> str:
        """All that was ever written, without what steers the terminal."""
        return _ESCAPES.sub("", self.raw)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def press(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until_shown(self, text: str) -> None:
        until(lambda: text in self._read())

    def until_over(self) -> str:
        until(self._is_over)
        return self._read()

    def _is_over(self) -> bool:
        self._read()  # or it would wait for room on the terminal
        return self._process.poll() is not None

    def _read(self) -> str:
        try:
            while data := os.read(self._ours, 65536):
                self.raw += data.decode(errors="replace").replace("\r\n", "\n")
        except (BlockingIOError, OSError):  # nothing more now; or nobody is left to write
            pass
        return self.shown

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
