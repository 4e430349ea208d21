"""A look at this process: whether anything has happened since the last one."""

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from trackside.capture.hangs import kernel, stacks
from trackside.capture.hangs.stacks import ChildStacks, Frame

BUSY_SHARE = 0.03
"""Of one core's time, used by the process and its children together. Threads that only wait for
work use less, those of libraries that look after something now and then included."""
BUSY_BYTES = 1024.0
"""A second, likewise; the main thread's own bytes count from the first."""
OPEN_WAITS = frozenset(
    ("sleep", "network", "child process", "disk", "poll", "pipe", "opening a pipe", "")
) | {"terminal", "signal", "file lock"}
"""Something outside the job may end these. Locks, queues and collectives only the job itself."""
_MOST_CHILDREN = 64
_IDLE_WORKER = "torch/utils/data/_utils/worker.py"


@dataclass(frozen=True, slots=True)
class Look:
    at: float
    frames: list[Frame]
    waits: str
    use: kernel.Use
    moved: int
    """Bytes by the main thread."""
    switches: int
    loop: Any = field(repr=False)

    def sign_since(self, before: "Look") -> str:
        """What has happened in between that could be progress; "" if nothing."""
        seconds = max(self.at - before.at, 1e-3)
        share = (self.use.cpu_seconds - before.use.cpu_seconds) / seconds
        rate = (self.use.moved_bytes - before.use.moved_bytes) / seconds
        if self.frames != before.frames:
            return "it is at another line"
        if self.moved != before.moved:
            return "it reads or writes"
        if self.waits == "network" and self.switches != before.switches:
            return "something arrives"
        if rate > BUSY_BYTES:
            return f"{rate:.0f} bytes a second are read and written"
        return f"{share:.0%} of a core is used" if share > BUSY_SHARE else ""

    def spins_since(self, before: "Look") -> bool:
        """Python code ran, and changed none of its variables."""
        return self.loop is not None and self.loop == before.loop and self.moved == before.moved


def look() -> Look:
    pid, main = os.getpid(), threading.main_thread().native_id or os.getpid()
    frame = stacks.main_frame()
    frames = stacks.frames_of(frame)
    return Look(
        time.monotonic(),
        frames,
        stacks.wait_of(frames, pid, main),
        kernel.use_of(kernel.tree(pid), stacks.our_threads()),
        kernel.moved_by(pid, main),
        kernel.switches(pid, main),
        stacks.loop_mark(frame),
    )


@dataclass(frozen=True, slots=True)
class Others:
    """Who else might end the wait: threads of this process, and its children."""

    threads: list[dict[str, Any]]
    workers: list[dict[str, Any]]

    def is_open(self, waits: str) -> bool:
        """Whether something outside the job may end the main thread's wait."""
        if waits in OPEN_WAITS:
            return True
        if waits in ("collective", "backward"):
            return False  # whoever does not come has a look of its own
        if any(thread["waits"] in OPEN_WAITS for thread in self.threads):
            return True
        workers = [each for each in self.workers if not _is_idle(each)]
        return any(each["waits"] in OPEN_WAITS for each in workers)


def look_at_others(stacks_of: ChildStacks) -> Others:
    children = kernel.children(os.getpid())[:_MOST_CHILDREN]
    lasting = stacks_of.lasting(children)
    asked = [(pid, stacks_of.of(pid) if pid in lasting else []) for pid in children]
    return Others(
        stacks.other_threads(), [stacks.worker_report(pid, frames) for pid, frames in asked]
    )


def _is_idle(worker: dict[str, Any]) -> bool:
    """A worker of a data loader that waits for the next index."""
    frames = worker["frames"]
    own = [frame for frame in frames if not stacks.is_of_library(frame[0])]
    loop = [at for at, frame in enumerate(frames) if _IDLE_WORKER in frame[0]]
    inner = frames[loop[-1] + 1 :] if loop else []
    is_queue = any("/multiprocessing/" in frame[0] for frame in inner)
    return bool(loop) and is_queue and not any(frame in own for frame in inner)
