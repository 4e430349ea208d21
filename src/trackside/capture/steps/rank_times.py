"""How long the training steps of each process of a group take, and how long they wait for the
others: in a small file per process, also of those that save no tensors.

The file is bounded: when its rows are used up, neighbours are joined, so that each covers twice as
many steps. `reading/rank_times.py` reads it.
"""

import json
import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trackside.errors import TracksideError

logger = logging.getLogger(__name__)

MOST_ROWS = 2048
_FIRST_SECONDS, _MOST_SECONDS = 2.0, 60.0
"""Between two writes; each is twice as long as the one before."""
_ASKED_FIRST, _ASKED_EVERY = 12, 100
"""After which steps DDP is asked for what it has measured: its first ten, and then one in a
hundred."""
_REFUSALS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)

Row = tuple[int, int, int, float, float, float, int]
"""First and last step, number of steps, their seconds and those of the longest; seconds of waiting,
and in how many steps that was measured."""


class RankTimes:
    """`put` takes the text of the file, in a thread of this class's own; `more` gives what else it
    holds."""

    def __init__(
        self,
        worker: str,
        num_workers: int,
        put: Callable[[str], None],
        more: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._more = more
        self._facts = {"worker": worker, "num_workers": num_workers, "host": socket.gethostname()}
        self._put = put
        self._rows: list[Row] = []
        self._width = 1
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._trains = False
        self._began = 0.0
        self._step = self._first = self._last = 0
        self._before = -1
        """The training step before the running one."""
        self._count = self._num_asked = 0
        self._seconds = self._longest = 0.0
        self._ddp: weakref.ref[DistributedDataParallel] | None = None
        self._asks = True
        self._measured = -1
        self._lead = 0
        """By how many steps we are ahead of DDP's count."""
        self._waits: list[float] = []

    def begin(self, root: nn.Module, step: int, trains: bool) -> None:
        """A step begins; the time since the last one counts if both train."""
        now = time.perf_counter()
        if self._trains:
            if trains:
                self._add(now - self._began)
            self._before = self._step
        self._trains, self._began, self._step = trains, now, step
        if self._ddp is None and isinstance(root, DistributedDataParallel):
            self._ddp = weakref.ref(root)

    def close(self) -> None:
        if self._count:
            self._end_row()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._rows:
            self._write()

    def text(self) -> str:
        with self._lock:
            rows = list(self._rows)
        return json.dumps({**self._facts, "rows": rows, **self._more()}, separators=(",", ":"))

    def _add(self, seconds: float) -> None:
        if not self._count:
            self._first = self._step
        self._last = self._step
        self._count += 1
        self._seconds += seconds
        if seconds > self._longest:
            self._longest = seconds
        self._num_asked += 1
        if self._num_asked <= _ASKED_FIRST or self._num_asked % _ASKED_EVERY == self._lead:
            self._ask()
        if self._count >= self._width:
            self._end_row()

    def _ask(self) -> None:
        """The time that DDP's communication took beyond the computation that ran beside it. DDP has
        it when the next step has begun: of the step before the one that ends now."""
        model = None if self._ddp is None else self._ddp()
        if model is None or not self._asks:
            return
        try:
            seen = model._get_ddp_logging_data()
            iteration = int(seen.get("iteration", -1))
            if iteration != self._measured and iteration > 0 and "backward_comm_time" in seen:
                self._measured = iteration
                self._lead = (self._num_asked - iteration) % _ASKED_EVERY
                overlap = seen.get("backward_compute_comm_overlap_time", 0)
                self._add_wait(max(0, seen["backward_comm_time"] - overlap) / 1e9)
        except _REFUSALS as error:  # it is private, and other versions may have another one
            logger.debug("DDP does not say how long it waits: %s", error)
            self._asks = False

    def _add_wait(self, seconds: float) -> None:
        if self._first <= self._before < self._step:
            self._waits.append(seconds)
            return
        with self._lock:
            last = self._rows[-1] if self._rows else None
            if last is not None and last[1] == self._before:
                self._rows[-1] = (*last[:5], round(last[5] + seconds, 6), last[6] + 1)

    def _end_row(self) -> None:
        row: Row = (
            *(self._first, self._last, self._count),
            *(round(self._seconds, 6), round(self._longest, 6)),
            *(round(sum(self._waits), 6), len(self._waits)),
        )
        with self._lock:
            self._rows.append(row)
            if len(self._rows) >= MOST_ROWS:
                self._rows = joined(self._rows)
                self._width *= 2
        self._count, self._seconds, self._longest, self._waits = 0, 0.0, 0.0, []
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="trackside-rank-times", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        seconds = _FIRST_SECONDS
        while not self._stop.wait(seconds):
            self._write()
            seconds = min(2 * seconds, _MOST_SECONDS)

    def _write(self) -> None:
        try:
            self._put(self.text())
        except (OSError, TracksideError) as error:  # the next write may succeed
            logger.debug("step times were not written: %s", error)


def joined(rows: list[Row]) -> list[Row]:
    """Each two neighbours as one."""
    pairs = zip(rows[::2], rows[1::2], strict=False)
    halves = [
        (a[0], b[1], a[2] + b[2], a[3] + b[3], max(a[4], b[4]), a[5] + b[5], a[6] + b[6])
        for a, b in pairs
    ]
    return halves + rows[len(halves) * 2 :]
