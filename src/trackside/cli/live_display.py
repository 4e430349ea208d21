"""Lines on a terminal that are drawn again in the same place."""

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

from trackside.cli.styled_text import Text
from trackside.cli.terminal import Terminal

_TO_ITS_END = "\x1b[K"
_TO_THE_END = "\x1b[J"
_PLAIN_AGAIN = "\x1b[0m"
_CLEAR = "\x1b[H\x1b[2J"


class LiveLines:
    """The cursor is left below them at any time, so that nothing has to be put back at the end."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._num_lines = 0
        self._size = get_terminal_size()

    @property
    def most_lines(self) -> int:
        """Of which all are still in view."""
        return get_terminal_size().lines - 1

    def show(self, lines: Sequence[Text]) -> None:
        """In the place of those before; what has no room is left out."""
        size = get_terminal_size()
        shown = [self._rendered(line) for line in lines[: self.most_lines]]
        if size != self._size:  # the terminal has broken the old lines anew
            start = _CLEAR
        else:
            start = f"\x1b[{self._num_lines}A\r" if self._num_lines else ""
        body = "".join(f"{line}{_TO_ITS_END}\n" for line in shown)
        sys.stdout.write(f"{start}{body}{_PLAIN_AGAIN}{_TO_THE_END}")
        sys.stdout.flush()
        self._num_lines, self._size = len(shown), size

    def _rendered(self, line: Text) -> str:
        return self._terminal.rendered(line.cropped(get_terminal_size().columns))
