"""How a process of a group ended, as far as it cannot say so itself: the step that it was at, in a
file that stays when it is killed; its stack, where a fault of memory or an abort ends it; and, by
the process that started it, its exit code or signal.
"""

import faulthandler
import json
import logging
import mmap
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import popen_fork
from pathlib import Path
from typing import IO, Any

from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.trial_layout import exit_file, fatal_file, hang_file

logger = logging.getLogger(__name__)

STEP = struct.Struct("<q")
_patch = FunctionPatch()


def step_mirror(path: Path) -> Callable[[int], None]:
    """Takes the number of each step; the file has the last one, whatever becomes of the process."""
    with path.open("wb+") as file:
        file.truncate(STEP.size)
        memory = mmap.mmap(file.fileno(), STEP.size)
    return partial(STEP.pack_into, memory, 0)


class FatalStacks:
    """The stack at a fault of memory or an abort, unless the script has asked for it itself."""

    def __init__(self, folder: Path, process: str) -> None:
        self._path = folder / fatal_file(process)
        self._file: IO[str] | None = None
        if not faulthandler.is_enabled():
            self._file = self._path.open("w")
            faulthandler.enable(self._file, all_threads=False)

    def close(self) -> None:
        """The process ends by itself."""
        if self._file is not None and not self._path.stat().st_size:
            self._path.unlink(missing_ok=True)


def note_ends_of_children(folder: Path) -> None:
    """Of those that train: they have files in the trial's folder. Launchers wait for their ranks
    by `subprocess` or by `multiprocessing`."""
    if _patch.is_used:
        return

    def after(pid: int, code: int | None) -> None:
        try:
            _note(folder, pid, code)
        except OSError as error:
            logger.debug("How process %d ended was not written: %s", pid, error)

    def after_program(_: None, program: Any, *__: Any, **___: Any) -> None:
        after(program.pid, program.returncode)

    def after_process(code: int | None, process: Any, *_: Any, **__: Any) -> None:
        after(process.pid, code)

    _patch.wrap(subprocess.Popen, "_handle_exitstatus", after=after_program)
    _patch.wrap(popen_fork.Popen, "poll", after=after_process)


def leave_children() -> None:
    _patch.undo()


def _note(folder: Path, pid: int, code: int | None) -> None:
    if not code:
        return
    process = f"{socket.gethostname()}-{pid}"
    path = folder / exit_file(process)
    if (folder / hang_file(process)).is_file() and not path.exists():
        path.write_text(json.dumps({"code": code, "time": time.time()}))
