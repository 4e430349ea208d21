"""Standard output and error: width, colours, and lines that are redrawn in place."""

import os
import sys
from collections.abc import Sequence
from shutil import get_terminal_size

from trackside.cli.styled_text import Text
from trackside.quick_dataclass import dataclass
from trackside.settings import environment

UNCUT = 10_000
"""Columns if it is not a terminal: nothing is wrapped."""
_USUAL = 80
_WITHOUT_STYLES = ("dumb", "unknown")
"""Values of TERM."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Standard output or standard error as they are now."""

    is_stderr: bool
    is_terminal: bool
    width: int
    has_styles: bool
    """Bold and other styles."""
    has_colours: bool

    @classmethod
    def of_stdout(cls) -> "Terminal":
        return cls._of(is_stderr=False)

    @classmethod
    def of_stderr(cls) -> "Terminal":
        return cls._of(is_stderr=True)

    @classmethod
    def _of(cls, *, is_stderr: bool) -> "Terminal":
        """FORCE_COLOR, NO_COLOR, TERM and COLUMNS have their usual meaning."""
        environ = environment()
        stream = sys.stderr if is_stderr else sys.stdout
        is_terminal = bool(environ.get("FORCE_COLOR")) or stream.isatty()
        if not is_terminal:
            return cls(is_stderr, False, UNCUT, has_styles=False, has_colours=False)
        has_styles = environ.get("TERM", "").lower() not in _WITHOUT_STYLES
        has_colours = has_styles and not environ.get("NO_COLOR")
        return cls(is_stderr, True, _columns(environ.get("COLUMNS", "")), has_styles, has_colours)

    def print(self, text: Text | str) -> None:
        """Lines as they are."""
        print(self.rendered(text), file=sys.stderr if self.is_stderr else sys.stdout)

    def print_wrapped(self, text: Text | str) -> None:
        """Wrapped at words on a terminal."""
        whole = Text(text) if isinstance(text, str) else text
        for line in whole.wrapped(self.width) if self.is_terminal else (whole,):
            self.print(line)

    def rendered(self, text: Text | str) -> str:
        if isinstance(text, str):
            return text
        return text.rendered(with_colours=self.has_colours) if self.has_styles else text.plain


def _columns(columns: str) -> int:
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    for descriptor in range(3):  # standard output may go elsewhere, and the others not
        try:
            return os.get_terminal_size(descriptor).columns or _USUAL
        except OSError:
            continue
    return _USUAL


_TO_ITS_END = "\x1b[K"
_TO_THE_END = "\x1b[J"
_PLAIN_AGAIN = "\x1b[0m"
_CLEAR = "\x1b[H\x1b[2J"


class LiveLines:
    """The cursor always stays below the lines, so that nothing has to be restored at the end."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._num_lines = 0
        self._size = get_terminal_size()

    @property
    def most_lines(self) -> int:
        """As many as are visible at once."""
        return get_terminal_size().lines - 1

    def show(self, lines: Sequence[Text]) -> None:
        """Replaces the previous lines; what does not fit is left out."""
        size = get_terminal_size()
        shown = [self._rendered(line) for line in lines[: self.most_lines]]
        if size != self._size:  # the terminal has rewrapped the old lines
            start = _CLEAR
        else:
            start = f"\x1b[{self._num_lines}A\r" if self._num_lines else ""
        body = "".join(f"{line}{_TO_ITS_END}\n" for line in shown)
        sys.stdout.write(f"{start}{body}{_PLAIN_AGAIN}{_TO_THE_END}")
        sys.stdout.flush()
        self._num_lines, self._size = len(shown), size

    def _rendered(self, line: Text) -> str:
        return self._terminal.rendered(line.cropped(get_terminal_size().columns))


def is_unicode() -> bool:
    """Whether the output takes more letters than ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
