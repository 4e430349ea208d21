"""Files written at the end of a run: `success` or `failure`, the script's exit code, its packages.

Nothing here raises: the exit status is what counts, and a full disk must not change it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

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


def record_packages(path: str | None, folders: Sequence[str]) -> None:
    """Record, next to that file, which packages the script could import: by their metadata folders'
    names, those of later folders first.
    """
    if path is None:
        return
    found: dict[str, str] = {}
    for folder in reversed(folders):
        with suppress(OSError):
            for entry in os.listdir(folder):
                name, ending = os.path.splitext(entry)
                if ending == ".dist-info" and "-" in name:
                    package, _, version = name.rpartition("-")
                    found.setdefault(package.replace("_", "-").lower(), version)
    record = {"python": sys.version.split()[0], "packages": dict(sorted(found.items()))}
    _write(os.path.join(os.path.dirname(path), PACKAGES), json.dumps(record), umask=PRIVATE)


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
