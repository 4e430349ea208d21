"""mlflow's store of files: `mlruns/EXPERIMENT/RUN/metrics/NAME`, lines of time, value and step."""

import os
import re
from collections.abc import Iterator

from trackside.curves.loggers.logged_values import (
    Logged,
    LoggerFile,
    State,
    as_name,
    moment,
    number,
    position,
    whole,
)

_PATH = re.compile(r"(?P<run>(?:.*/)?\d{1,20}/(?P<id>[0-9a-f]{32}))/metrics/(?P<name>.+)")
_RUN_NAME = re.compile(rb"(?m)^run_name: *['\"]?([^'\"\r\n]+)")
MOST_READ_BYTES = 1 << 20
_MOST_META_BYTES = 64 << 10


def read(file: LoggerFile, state: State) -> Iterator[Logged]:
    parts = _PATH.fullmatch(file.path)
    assert parts is not None
    if not isinstance(state.get("run"), str):
        state["run"] = as_name(f"{_run_name(file, parts['run'])}-{parts['id'][:8]}")
    with file.opened() as descriptor:
        data = os.pread(descriptor, MOST_READ_BYTES, position(state, "offset"))
    end = data.rfind(b"\n") + 1
    for line in data[:end].splitlines():
        words = line.decode(errors="replace").split()
        value = number(words[1]) if len(words) > 1 else None
        if value is not None:
            milliseconds = number(words[0])
            time = moment(None if milliseconds is None else milliseconds / 1000, file.time)
            step = whole(words[2]) if len(words) > 2 else 0
            yield Logged(f"mlflow/{state['run']}", parts["name"], value, step or 0, time)
    state["offset"] = position(state, "offset") + end


def _run_name(file: LoggerFile, folder: str) -> str:
    try:
        found = _RUN_NAME.search(file.folder.read(f"{folder}/meta.yaml", _MOST_META_BYTES))
    except OSError:
        found = None
    return found[1].decode(errors="replace") if found else "run"
