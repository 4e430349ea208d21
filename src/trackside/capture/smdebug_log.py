"""Sends Trackside's log messages in a script where smdebug's variables say, if one is set.

Without them nothing changes: the script's own logging decides, as with any library.
"""

import logging
import os
import socket
import sys
from collections import Counter

from trackside.capture.environment import LogEnvironment

LOGGER = logging.getLogger("trackside")
MOST_REPEATS = 3
"""How often the same message is written."""
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "off": logging.CRITICAL + 1,
}
_MOST_KNOWN = 10_000
"""Messages remembered; beyond that, counting restarts."""


def follow_variables() -> None:
    """Once in a process, and not if Trackside's logger already has handlers."""
    wanted = LogEnvironment.load()
    if wanted is None or LOGGER.handlers:
        return
    context = (wanted.context or f"{socket.gethostname()}:{os.getpid()}").replace("%", "%%")
    head = f"%(asctime)s.%(msecs)03d {context} %(levelname)s %(filename)s:%(lineno)d"
    for handler in _handlers(wanted):
        handler.setFormatter(logging.Formatter(f"[{head}] %(message)s", "%Y-%m-%d %H:%M:%S"))
        handler.addFilter(_Repeats())
        LOGGER.addHandler(handler)
    LOGGER.propagate = False
    LOGGER.setLevel(_LEVELS.get(wanted.level, logging.INFO))
    if wanted.level not in _LEVELS:
        known = ", ".join(_LEVELS)
        LOGGER.warning("SMDEBUG_LOG_LEVEL=%r is taken for 'info'. Known: %s.", wanted.level, known)


def _handlers(wanted: LogEnvironment) -> list[logging.Handler]:
    out = logging.StreamHandler(sys.stdout)
    handlers: list[logging.Handler] = [out]
    if not wanted.all_to_stdout:
        out.addFilter(lambda record: record.levelno < logging.WARNING)
        errors = logging.StreamHandler(sys.stderr)
        errors.setLevel(logging.WARNING)
        handlers.append(errors)
    if wanted.path is not None:
        try:
            handlers.append(logging.FileHandler(wanted.path, encoding="utf-8"))
        except OSError as error:  # no reason to end a training
            LOGGER.warning("SMDEBUG_LOG_PATH=%r gets nothing: %s", str(wanted.path), error)
    return handlers


class _Repeats(logging.Filter):
    """Lets the same message through a limited number of times."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if len(self._seen) >= _MOST_KNOWN:
            self._seen.clear()
        # Not `getMessage()`: its exceptions for wrong arguments would reach the script.
        message = f"{record.msg} {record.args}"
        self._seen[message] += 1
        return self._seen[message] <= MOST_REPEATS
