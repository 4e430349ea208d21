"""A terminal's whole screen for one program: the alternate screen, keys as they are pressed, and
only changed lines written. Everything is restored at the end, however it comes.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from trackside.cli.styled_text import Text
from trackside.cli.terminal import Terminal

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_CLEAR = "\x1b[2J"
_TO_ITS_END = "\x1b[K"
_MOST_KEYS = 64


class FullScreen:
    """Use `opened`. Not thread-safe."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shown: list[str] = []
        self._size = (0, 0)
        self._modes: list[Any] | None = None
        """Of the terminal, to be restored."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        size = os.get_terminal_size(sys.stdout.fileno())
        return size.columns or 80, size.lines or 24

    def show(self, lines: Sequence[Text]) -> None:
        size = self.size
        rendered = [self._terminal.rendered(line.cropped(size[0])) for line in lines[: size[1]]]
        written = ""
        if size != self._size:
            self._size, self._shown, written = size, [], _CLEAR
        for number in range(max(len(rendered), len(self._shown))):
            new = rendered[number] if number < len(rendered) else ""
            if number >= len(self._shown) or self._shown[number] != new:
                written += f"\x1b[{number + 1};1H{new}{_TO_ITS_END}"
        self._shown = rendered
        if written:
            sys.stdout.write(written)
            sys.stdout.flush()

    def key(self, timeout_seconds: float) -> str:
        """The key pressed next, escape sequences whole; "" if none is, or none can be."""
        if not sys.stdin.isatty():
            select.select([], [], [], timeout_seconds)
            return ""
        descriptor = sys.stdin.fileno()
        if not select.select([descriptor], [], [], timeout_seconds)[0]:
            return ""
        return os.read(descriptor, _MOST_KEYS).decode(errors="replace")

    def enter(self) -> None:
        """Keys come without echo and without waiting for the end of a line; Ctrl-C interrupts."""
        if sys.stdin.isatty():
            self._modes = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno())
        sys.stdout.write(_ENTER)
        sys.stdout.flush()
        self._size = (0, 0)

    def leave(self) -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        if self._modes is not None:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._modes)
            self._modes = None


@contextmanager
def opened(terminal: Terminal) -> Iterator[FullScreen]:
    """Leaves the screen as it was, also when the process is suspended or asked to end."""
    screen = FullScreen(terminal)
    with ExitStack() as restored:
        restored.callback(screen.leave)
        screen.enter()
        for number in (signal.SIGTERM, signal.SIGHUP):
            restored.enter_context(_handled(number, _end))
        restored.enter_context(_handled(signal.SIGTSTP, _suspend(screen)))
        yield screen


def _end(number: int, at: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _suspend(screen: FullScreen) -> Callable[[int, FrameType | None], None]:
    def suspend(number: int, at: FrameType | None) -> None:
        screen.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        screen.enter()  # continued: a shell has changed the terminal's modes meanwhile

    return suspend


@contextmanager
def _handled(number: int, handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
