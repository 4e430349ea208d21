"""The profiler's framework files: a Chrome trace of training steps, under its final name when
complete.

Written line by line in the script's process (`capture/steps/step_events.py`); the supervisor
completes files of a script that died (`finish_left_behind`).
"""

import json
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trackside.files import damaged_files
from trackside.files.json_record import MOMENT_END, parsed_object
from trackside.files.script_folder import ScriptFolder

FOLDER = Path("framework") / "pevents"
ENDING = "_pythontimeline.json"
PART = ".tmp"
"""Suffix of a file that is being written; such files are not uploaded."""
MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")
"""Each is a phase, which the format calls a process; its number is its position, from one."""

Step = tuple[str, int, int, int]
"""Mode, step, start (microseconds since the epoch), duration (microseconds)."""


class TimelineFile:
    """One file being written. Data survives the process once `write` returns."""

    def __init__(self, folder: Path, node: str, start_us: int) -> None:
        """`folder` is the profiler's; `node` is the process of these steps: `<rank>-<host>`."""
        self._start_us = self._end_us = start_us
        parts = folder / FOLDER
        parts.mkdir(parents=True, exist_ok=True)
        self._path = parts / f"{start_us}_{node}{ENDING}{PART}"
        self._file = self._path.open("w", encoding="utf-8")
        self.size_bytes = self._file.write("[\n" + ",\n".join(_opening(start_us)))

    def write(self, steps: Iterable[Step]) -> None:
        for mode, number, began_us, duration_us in steps:
            self._end_us = max(self._end_us, began_us + duration_us)
            self.size_bytes += self._file.write(
                f',\n{{"name": "Step:ModeKeys.{mode}", "ph": "X", "pid": {_PHASES.get(mode, 0)}, '
                f'"tid": 0, "ts": {began_us - self._start_us}, "dur": {duration_us}, '
                f'"args": {{"step_num": {number}}}}}'
            )
        self._file.flush()

    def finish(self) -> Path:
        """Close the array, and rename the file: the name starts with the end of its last step."""
        self._file.write("\n]\n")
        self._file.close()
        target = self._path.parent / _final_name(self._path.name, self._end_us)
        target.parent.mkdir(exist_ok=True)
        return self._path.rename(target)


def finish_left_behind(folder: ScriptFolder) -> None:
    """Complete the files of processes that are gone, without a partial last line."""
    parts = folder / str(FOLDER)
    for name in _parts_in(parts):
        with open(parts.open(name), encoding="utf-8", errors="replace") as file:
            text = file.read()
        lines = [line.rstrip(",") for line in text.split("\n") if line.rstrip(",").endswith("}}")]
        try:
            end_us = _end_us([parsed_object(line) for line in lines])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if lines:
                damaged_files.say_once(parts.path / name, f"{error}; it is left out")
        else:
            target = _final_name(name, end_us)
            with parts.opened(target.rpartition("/")[0], make=True):
                parts.write(target, ("[\n" + ",\n".join(lines) + "\n]\n").encode())
        parts.unlink(name)


def _parts_in(folder: ScriptFolder) -> list[str]:
    try:
        with folder.entries() as entries:
            return [each.name for each in entries if each.name.endswith(ENDING + PART)]
    except (FileNotFoundError, NotADirectoryError):
        return []


_PHASES = {mode: number for number, mode in enumerate(MODES, 1)}


def _opening(start_us: int) -> list[str]:
    """The first record has the reference time of the others; the others name the phases."""
    records = [_metadata("process_name", 0, "start_time_since_epoch_in_micros", start_us)]
    for mode, number in _PHASES.items():
        records.append(_metadata("process_name", number, "name", f"Step:ModeKeys.{mode}"))
        records.append(_metadata("process_sort_index", number, "sort_index", number))
    return [json.dumps(record) for record in records]


def _metadata(name: str, phase: int, key: str, value: int | str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": phase, "args": {key: value}}


def _end_us(records: list[dict[str, Any]]) -> int:
    start: int = records[0]["args"]["start_time_since_epoch_in_micros"]
    last: int = max(record.get("ts", 0) + record.get("dur", 0) for record in records)
    end = start + last
    if not 0 <= end < MOMENT_END * 1e6:
        raise ValueError("its end is not a valid time")
    return end


def _final_name(part: str, end_us: int) -> str:
    """The node stays in the name; the time in front becomes the end's, its hour the folder."""
    node = part.removesuffix(ENDING + PART).partition("_")[2]
    # An older Python in a container has no datetime.UTC.
    moment = datetime.fromtimestamp(end_us / 1e6, timezone.utc)  # noqa: UP017
    return f"{moment:%Y%m%d%H}/{end_us}_{node}{ENDING}"
