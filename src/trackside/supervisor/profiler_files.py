"""The profiler's system files: JSON lines, a file per minute, under their final names when whole.

`system/incremental/<YYYYMMDDHH>/<epoch of the minute>.<host>.json` is what profiler rules look for.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trackside.files.script_folder import ScriptFolder
from trackside.records import timeline_file

MINUTE_SECONDS = 60


class MinuteFiles:
    """Lines are on disk at once, beside the folder, so that a crash loses none of them."""

    def __init__(self, folder: Path | ScriptFolder, parts: Path, host: str) -> None:
        """`parts` holds the minute being written; it must be on the disk that `folder` is on."""
        self._profiler = ScriptFolder.of(folder)
        self._parts = parts
        self._host = host
        self._minute = -1

    def write(self, records: Iterable[Mapping[str, Any]], time: float) -> None:
        minute = int(time) // MINUTE_SECONDS * MINUTE_SECONDS
        name = f"{minute}.{self._host}.json"
        if minute != self._minute:
            self._parts.mkdir(parents=True, exist_ok=True)
            # An earlier supervisor's minutes are over too; but its last one may be this one.
            self._finish_parts(but=name)
            self._minute = minute
        with (self._parts / name).open("ab") as file:
            file.write("".join(f"{json.dumps(record)}\n" for record in records).encode())

    def close(self) -> None:
        """When the script is over: also what its processes left half written is finished."""
        self._finish_parts(but="")
        timeline_file.finish_left_behind(self._profiler)

    def _finish_parts(self, *, but: str) -> None:
        if not self._parts.is_dir():
            return
        for part in self._parts.iterdir():
            if part.name != but:
                hour = datetime.fromtimestamp(int(part.name.partition(".")[0]), UTC)
                self._profiler.take(part, f"system/incremental/{hour:%Y%m%d%H}/{part.name}")
