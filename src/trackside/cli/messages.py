"""Messages on standard error, beside a command's output: errors and our own warnings."""

import logging
import sys
import time

from trackside.cli.failures import wrapped
from trackside.cli.terminal import Terminal
from trackside.texts.terminal_text import visible

_AGAIN_SECONDS = 60.0
"""If the condition still holds after this long, it is printed again."""


def print_message(text: str) -> None:
    is_terminal = sys.stderr.isatty()
    print(wrapped(text, Terminal.of_stderr().width) if is_terminal else text, file=sys.stderr)


def print_warnings() -> None:
    """From now on, unless logging is configured, as by `--debug` and servers."""
    logging.lastResort = _Warnings()


class _Warnings(logging.Handler):
    """Several parts of one command may log the same warning: it is printed once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text, now = self.format(record), time.monotonic()
        if now - self._printed.get(text, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
            return
        self._printed[text] = now
        print_message(f"Warning: {visible(text)}")
