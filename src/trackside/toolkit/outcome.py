"""Files about a run: `success` or `failure` and the script's exit code at its end; its packages.

Nothing here raises: the exit status is what counts, and a full disk must not change it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from trackside.files.installed_packages import installed_packages
from trackside.files.permissions import PRIVATE, open_file
from trackside.toolkit import log

SUCCESS, FAILURE = "success", "failure"
PACKAGES = "packages.json"


def clear(output: str) -> None:
    """Remove markers of an earlier run in the same folder."""
    for name in (SUCCESS, FAILURE):
        try:
            os.unlink(os.path.join(output, name))
        except FileNotFoundError:
            pass
        except OSError as refused:
            log.warning(f"An old {name} marker stays in {output!r}: {refused}")


def mark_success(output: str) -> None:
    _write(os.path.join(output, SUCCESS), "")


def mark_failure(output: str, text: str) -> None:
    """Unless the script wrote its own reason."""
    path = os.path.join(output, FAILURE)
    try:
        has_own = os.path.getsize(path) > 0
    except OSError:
        has_own = False
    if not has_own:
        _write(path, text)


def record_exit(path: str | None, code: int | None) -> None:
    """Record for the platform how the script ended; `null` when it was never started."""
    if path is None:
        return
    is_signal = code is not None and code < 0
    record = {
        "exit_code": None if is_signal else code,
        "signal": -code if is_signal and code is not None else None,
    }
    _write(path, json.dumps(record) + "\n", umask=PRIVATE)


class Packages:
    """Records, next to the exit record, which packages the script can import."""

    def __init__(self, path: str | None, folders: Sequence[str]) -> None:
        self._path = path
        self._folders = folders
        self._seen: list[int] | None = None
        """When each folder last changed, as of the last record."""

    def record(self) -> None:
        """Unless no folder has changed since the last time: a script may install some."""
        seen = [*map(_changed_at, self._folders)]
        if self._path is None or seen == self._seen:
            return
        self._seen = seen
        record = {"python": sys.version.split()[0], "packages": installed_packages(self._folders)}
        path = os.path.join(os.path.dirname(self._path), PACKAGES)
        _write(path, json.dumps(record), umask=PRIVATE)


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0


def _write(path: str, text: str, *, umask: int | None = None) -> None:
    partial = f"{path}.partial"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        descriptor = open_file(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, umask)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.replace(partial, path)
    except OSError as refused:
        with suppress(OSError):
            os.unlink(partial)
        log.error(f"{path!r} cannot be written: {refused}")
