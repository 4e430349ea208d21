"""Where output goes: how wide that is, and whether it shows colours."""

import os
import sys

from trackside.cli.styled_text import Text
from trackside.quick_dataclass import dataclass
from trackside.settings import environment

UNCUT = 10_000
"""Columns of a terminal that is none: nothing is broken for it."""
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
    """Bold and the like."""
    has_colours: bool

    @classmethod
    def of_stdout(cls) -> "Terminal":
        return cls._of(is_stderr=False)

    @classmethod
    def of_stderr(cls) -> "Terminal":
        return cls._of(is_stderr=True)

    @classmethod
    def _of(cls, *, is_stderr: bool) -> "Terminal":
        """FORCE_COLOR, NO_COLOR, TERM and COLUMNS mean what they do to other programs."""
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
        """Broken at words, where it is a terminal."""
        whole = Text(text) if isinstance(text, str) else text
        for line in whole.wrapped(self.width) if self.is_terminal else (whole,):
            self.print(line)

    def rendered(self, text: Text | str) -> str:
        if isinstance(text, str):
            return text
        return text.rendered(with_colours=self.has_colours) if self.has_styles else text.plain


def _columns(told: str) -> int:
    if told.isdigit() and int(told) > 0:
        return int(told)
    for descriptor in range(3):  # standard output may go elsewhere, and the others not
        try:
            return os.get_terminal_size(descriptor).columns or _USUAL
        except OSError:
            continue
    return _USUAL
