"""Copies the script's output, for `trackside logs`.

Includes Python's own `print`, logging and tracebacks; not what native code and other processes
write to the same terminal. The script's output itself is never delayed or changed.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trackside.files.permissions import open_file


class Console:
    def __init__(self, log: Path) -> None:
        """`OSError` when the log cannot be made."""
        self._descriptor = open_file(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._streams: list[tuple[Any, Callable[[str], Any]]] = []

    def start(self) -> None:
        streams = dict.fromkeys((sys.stdout, sys.stderr))
        for stream in (each for each in streams if each is not None):
            copying = self._copying(stream)
            # A custom stream may not allow the attribute: then it is not copied.
            with suppress(AttributeError, TypeError):
                stream.write = copying  # type: ignore[method-assign]
                self._streams.append((stream, copying))

    def stop(self) -> None:
        """A second call does nothing."""
        for stream, copying in self._streams:
            if vars(stream).get("write") is copying:  # otherwise another wrapper was set over ours
                del stream.write
        self._streams = []
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _copying(self, stream: Any) -> Callable[[str], Any]:
        write = stream.write

        def copying(text: str) -> Any:
            written = write(text)
            self._copy(text)
            return written

        return copying

    def _copy(self, text: Any) -> None:
        if self._descriptor < 0 or not isinstance(text, str):
            return
        with suppress(OSError):  # a full disk; the script's own output was written
            os.write(self._descriptor, text.encode(errors="backslashreplace"))
