"""A command in a terminal of its own, of a known size; Ctrl-C reaches it as from a keyboard."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from types import TracebackType

import psutil

from tests.wait import until

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ORDER = re.compile(r"\x1b\[(?P<values>[0-9;?]*)(?P<final>[A-Za-z])|(?P<text>[^\x1b]+)")


def visible_lines(raw: str) -> list[str]:
    """Of a full screen: each order is followed, colours are left out."""
    lines: dict[int, str] = {}
    row = 1
    for order in _ORDER.finditer(raw):
        match order["final"], order["values"]:
            case ("h" | "l", "?1049") | ("J", "2"):
                lines, row = {}, 1
            case "H", values:
                row = int(values.partition(";")[0] or 1)
                lines[row] = ""
            case None, _:
                for number, part in enumerate(order["text"].split("\n")):
                    row += bool(number)
                    lines[row] = lines.get(row, "") + part
    return [lines.get(number, "") for number in range(1, max(lines, default=0) + 1)]


class Terminal:
    def __init__(
        self, command: list[str], environ: dict[str, str], columns: int, rows: int
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
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

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    @property
    def echoes(self) -> bool:
        """Whether keys appear as they are pressed, as in a shell."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    @property
    def is_stopped(self) -> bool:
        """Suspended, as by Ctrl-Z."""
        return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def screen(self) -> list[str]:
        """The lines that are visible now, if only whole lines are written at places."""
        self._read()
        return visible_lines(self.raw)

    def until_visible(self, text: str) -> list[str]:
        until(lambda: any(text in line for line in self.screen()))
        return self.screen()

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
