"""Stacks of this process's threads and of its children, and what a stack waits for."""

import dis
import faulthandler
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

from trackside.capture.hangs import kernel

Frame = tuple[str, int, str]
"""File, line, function."""

_MOST_FRAMES = 40
_OURS = "trackside-"
"""Begins the names of our own threads."""
_FAR_SIGNAL = 9
"""Behind SIGRTMIN: no program or library that we know uses it."""
_DUMP_SECONDS = 0.3
_FORK_SECONDS = 0.5
"""Longer than a child needs to become another program."""
_LINE = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_LOOP_OPS = ("JUMP_BACKWARD", "RESUME", "POP_JUMP", "JUMP_ABSOLUTE")
"""Where the interpreter hands over to another thread, outside of calls into C."""

_BY_FILE = (
    ("collective", "torch/distributed/distributed_c10d.py"),
    ("data loader", "torch/utils/data/dataloader.py"),
    ("child process", "/subprocess.py"),
    ("child process", "/multiprocessing/popen_"),
    ("network", "/socket.py"),
    ("network", "/ssl.py"),
    ("network", "/http/client.py"),
    ("queue", "/queue.py"),
    ("queue", "/multiprocessing/queues.py"),
    ("lock", "/threading.py"),
    ("lock", "/multiprocessing/synchronize.py"),
    ("backward", "torch/autograd/graph.py"),
)
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/trackside/capture/")
_INNERMOST = 12
"""Frames of libraries between a wait and the script."""


def frames_of(frame: FrameType | None) -> list[Frame]:
    """Outermost first."""
    found: list[Frame] = []
    while frame is not None and len(found) < 10 * _MOST_FRAMES:
        found.append((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return found[:_MOST_FRAMES][::-1]


def main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def our_threads() -> frozenset[int]:
    found = (each for each in threading.enumerate() if each.name.startswith(_OURS))
    return frozenset(each.native_id for each in found if each.native_id is not None)


def other_threads() -> list[dict[str, Any]]:
    """Those of Python but for the main one and ours, with their stacks."""
    frames, main = sys._current_frames(), threading.main_thread()
    return [
        {
            "name": each.name,
            "waits": wait_of(stack, os.getpid(), each.native_id or 0),
            "frames": stack,
        }
        for each in threading.enumerate()
        if each is not main and not each.name.startswith(_OURS) and each.ident in frames
        for stack in [frames_of(frames[each.ident])]
    ]


def wait_of(frames: Sequence[Frame], pid: int, thread: int) -> str:
    """By the Python code that waits, the outermost that we know, else by the kernel."""
    seen = set[str]()
    for file, _, _ in reversed(frames[-_INNERMOST:]):
        if not is_of_library(file):
            break
        seen.update(name for name, part in _BY_FILE if part in file)
    return next((name for name, _ in _BY_FILE if name in seen), "") or kernel.wait_of(pid, thread)


def is_of_library(file: str) -> bool:
    """Not the user's own code."""
    return file.startswith("<") or any(part in file for part in _LIBRARIES)


def loop_mark(frame: FrameType | None) -> tuple[Any, ...] | None:
    """What stays equal while Python code runs round in circles, in which nothing that it has in a
    variable changes. None if it is in a call into C, which may be computing."""
    if frame is None:
        return None
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if not operation.startswith(_LOOP_OPS):
        return None
    while frame is not None and is_of_library(frame.f_code.co_filename):
        frame = frame.f_back
    marks: list[Any] = []
    while frame is not None and len(marks) < _MOST_FRAMES:
        marks.append((frame.f_code, _variables(frame)))
        frame = frame.f_back
    return tuple(marks)


def _variables(frame: FrameType) -> int:
    plain = (int, float, str, bytes, bool)
    values = frame.f_locals if frame.f_code.co_name != "<module>" else {}
    return hash(
        tuple(
            (name, value if isinstance(value, plain) else id(value))
            for name, value in values.items()
        )
    )


class ChildStacks:
    """Asks children that were forked from this process for their stacks, by a signal that the
    interpreter answers without running Python code. Other processes are not asked: a program that a
    child becomes would be ended by the signal."""

    def __init__(self) -> None:
        self._signal = signal.SIGRTMIN + _FAR_SIGNAL
        self._file = -1
        if signal.getsignal(self._signal) is signal.SIG_DFL:
            self._file = os.memfd_create("trackside-stacks", os.MFD_CLOEXEC)
            faulthandler.register(self._signal, self._file, all_threads=False)

    def lasting(self, pids: Iterable[int]) -> set[int]:
        """Those that may be asked. A child that is about to become another program looks like a
        fork for some milliseconds, and is left out."""
        asked = [pid for pid in pids if self._is_asked(pid)]
        if asked:
            time.sleep(_FORK_SECONDS)
        return {pid for pid in asked if self._is_asked(pid)}

    def of(self, pid: int) -> list[Frame]:
        """Of the main thread of a lasting child; none if it does not answer."""
        if not self._is_asked(pid):
            return []
        begin = os.fstat(self._file).st_size
        try:
            os.kill(pid, self._signal)
        except OSError:
            return []
        ends = time.monotonic() + _DUMP_SECONDS
        while time.monotonic() < ends:
            text = os.pread(self._file, 1 << 16, begin).decode(errors="replace")
            if text.endswith("\n"):
                time.sleep(0.02)
                break
            time.sleep(0.02)
        text = os.pread(self._file, 1 << 16, begin).decode(errors="replace")
        return parsed_dump(text.splitlines())

    def _is_asked(self, pid: int) -> bool:
        """Only one that answers into our own file: another program is never disturbed."""
        if self._file < 0 or not kernel.catches(pid, self._signal):
            return False
        try:
            theirs = os.stat(f"/proc/{pid}/fd/{self._file}")
        except OSError:
            return False
        return os.path.samestat(theirs, os.fstat(self._file))


def parsed_dump(lines: Iterable[str]) -> list[Frame]:
    """Of the thread that faulthandler shows last, which is the main one: outermost first."""
    found: list[Frame] = []
    for line in lines:
        if line.startswith(("Thread", "Current thread", "Stack", "Timeout")):
            found = []
        elif matched := _LINE.fullmatch(line):
            found.append((matched[1], int(matched[2]), matched[3]))
    return found[:_MOST_FRAMES][::-1]


def worker_report(pid: int, frames: list[Frame]) -> dict[str, Any]:
    return {
        "pid": pid,
        "name": kernel.name_of(pid),
        "waits": wait_of(frames, pid, pid),
        "frames": frames,
    }
