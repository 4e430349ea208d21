"""Inputs and results of the readers of loggers' files. The files are untrusted."""

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from trackside.files.json_record import MOMENT_END
from trackside.files.script_folder import ScriptFolder

MOST_NAME = 200
"""Characters of a run or a tag."""
MOST_STEP = 1 << 62
_UNFIT = re.compile(r"[^\w.=+@, -]")


@dataclass(frozen=True, slots=True)
class Logged:
    """One value of one curve."""

    run: str
    """As a relative path."""
    tag: str
    value: float
    step: int
    time: float


class Unreadable(ValueError):
    """The file is not what its name says, or too large: it is skipped until it changes."""


class Seen(Protocol):
    """A file as a scan saw it."""

    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def inode(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LoggerFile:
    """A file of a script's folder."""

    folder: ScriptFolder
    path: str
    seen: Seen

    @property
    def time(self) -> float:
        """For points without a time: when the file was last written."""
        return self.seen.mtime_ns / 1e9

    @contextmanager
    def opened(self) -> Iterator[int]:
        descriptor = self.folder.open(self.path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


State = dict[str, Any]
"""How far a file was read, as JSON: specific to each reader. Empty means from the start."""


class Reader(Protocol):
    """Returns new values since `state`, and advances it. `Unreadable` and `OSError` affect only the
    file.
    """

    def __call__(self, file: LoggerFile, state: State) -> Iterator[Logged]: ...


def position(state: State, name: str) -> int:
    """A number in the state; 0 if missing or damaged."""
    found = state.get(name)
    return found if isinstance(found, int) and 0 <= found < MOST_STEP else 0


def number(value: Any) -> float | None:
    """A value for a curve; NaN and infinities too, since they are worth seeing."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def whole(value: Any) -> int | None:
    """A step: 3, 3.0 or "3", and nothing else."""
    found = number(value)
    if found is None or not math.isfinite(found) or abs(found) >= MOST_STEP:
        return None
    return int(found) if found == int(found) else None


def moment(value: Any, default: float) -> float:
    """Seconds since the epoch."""
    found = number(value)
    return found if found is not None and 0 <= found < MOMENT_END else default


def json_value(data: bytes | str) -> Any:
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        return None


def flat(content: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested objects; `{"a": {"b": 1}}` is `a/b`."""
    if not isinstance(content, dict) or above.count("/") > 20:
        return
    for name, value in content.items():
        path = f"{above}/{name}" if above else str(name)
        if isinstance(value, dict):
            yield from flat(value, path)
        else:
            yield path, value


def as_name(text: Any) -> str:
    """A safe path segment for a run, from any name."""
    return _UNFIT.sub("_", str(text))[:MOST_NAME].strip(". ") or "run"
