"""`trackside.SummaryWriter`: torch's signatures, without torch, and without delaying training.

`event_file.py` encodes; here are the public methods, and the thread that flushes.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self, SupportsFloat

from trackside.curves import wire
from trackside.curves.event_file import EventFile

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.2
"""The most that a killed process loses."""
MOST_WAITING = 500_000
"""Entries in memory; a caller faster than the disk for that long helps to write."""


class SummaryWriter:
    """Writes event files for TensorBoard. Owns one thread; `close()` flushes and ends it.

    A script that ends without `close()` loses nothing: the thread outlives it by one flush.
    `max_queue` is accepted for compatibility with torch and has no effect: the caller never waits
    for a queue.
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.log_dir = str(log_dir) if log_dir else _default_folder(comment)
        self._suffix = filename_suffix
        self._file = EventFile(Path(self.log_dir), filename_suffix)
        self._below: dict[str, EventFile] = {}
        self._thread: _FlushThread | None = None
        self._seconds = min(max(flush_secs, 0.01), FLUSH_SECONDS)
        if purge_step is not None:
            self._add(wire.file_version, purge_step, None)
            self._add(wire.session_start, purge_step, None)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        if type(scalar_value) is not float:
            scalar_value = _number(scalar_value)
        if global_step is not None and type(global_step) is not int:
            global_step = int(global_step)
        if walltime is None:
            walltime = time.time()
        if new_style:
            value = wire.scalar_tensor(tag, scalar_value, is_double=double_precision)
            self._add(lambda: wire.summary(value), global_step, walltime)
            return
        if self._thread is None or self._file.num_waiting > MOST_WAITING:
            self._start()
        self._file.add((tag, scalar_value, global_step, walltime))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Each scalar in its own run, so that TensorBoard draws them in one chart."""
        walltime = time.time() if walltime is None else walltime
        step = None if global_step is None else int(global_step)
        for tag, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{tag}"
            self._start()
            self._file_below(folder).add((main_tag, _number(value), step, walltime))

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Shown as Markdown."""
        value = wire.text_value(f"{tag}/text_summary", text_string)
        self._add(lambda: wire.summary(value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """The values are copied now and counted later, in the writer's thread."""
        # numpy is loaded when first needed: most writers write scalars only.
        from trackside.curves.histograms import Histogram

        histogram = Histogram(tag, values, bins, max_bins)
        self._add(lambda: wire.summary(histogram.encode()), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, bool | str | float | int | None],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Iterable[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """A separate run with these hyperparameters and the resulting metrics."""
        hparams = {name: _hparam(value) for name, value in hparam_dict.items() if value is not None}
        experiment = wire.hparams_experiment(hparams, metric_dict, hparam_domain_discrete or {})
        self._start()
        file = self._file_below(run_name or str(time.time()))
        step = None if global_step is None else int(global_step)
        now = time.time()
        for tag, content in (
            ("experiment", experiment),
            ("session_start_info", wire.hparams_start(hparams)),
            ("session_end_info", wire.hparams_end()),
        ):
            value = wire.hparams_value(tag, content)
            file.add((None, lambda value=value: wire.summary(value), step, now))  # type: ignore[misc]
        for tag, metric in metric_dict.items():
            file.add((tag, _number(metric), step, now))

    def get_logdir(self) -> str:
        return self.log_dir

    def flush(self) -> None:
        """Everything added before is in the files when this returns."""
        for file in self._files():
            file.flush()

    def close(self) -> None:
        """Flush and end the thread. Adding to a closed writer opens it again, as with torch's."""
        if self._thread is not None:
            self._thread.end()
            self._thread = None
        for file in self._files():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("add_"):
            raise AttributeError(f"'SummaryWriter' object has no attribute {name!r}")
        raise AttributeError(
            f"trackside.SummaryWriter has no {name}: it writes scalars, text, histograms and "
            f"hyperparameters. Use torch.utils.tensorboard.SummaryWriter for {name}; both may "
            "write to one folder."
        )

    def _add(self, what: Callable[[], bytes], step: Any, walltime: float | None) -> None:
        self._start()
        step = None if step is None else int(step)
        self._file.add((None, what, step, time.time() if walltime is None else walltime))

    def _start(self) -> None:
        if self._thread is None:
            self._thread = _FlushThread(self._files, self._seconds)
            self._thread.start()
        if self._file.num_waiting > MOST_WAITING:
            self._file.flush()

    def _file_below(self, folder: str) -> EventFile:
        if folder not in self._below:
            self._below[folder] = EventFile(Path(self.log_dir, folder), self._suffix)
        return self._below[folder]

    def _files(self) -> list[EventFile]:
        return [self._file, *self._below.values()]


class _FlushThread(threading.Thread):
    """Not a daemon: the interpreter waits for it at its end, and it ends with the main thread."""

    def __init__(self, files: Callable[[], list[EventFile]], seconds: float) -> None:
        super().__init__(name="trackside-events", daemon=False)
        self._files = files
        self._seconds = seconds
        self._ended = threading.Event()

    def run(self) -> None:
        is_troubled = False
        while not self._ended.wait(self._seconds):
            is_last = not threading.main_thread().is_alive()
            try:
                for file in self._files():
                    file.flush()
                is_troubled = False
            except Exception as error:  # noqa: BLE001 - logged once; what is pending is retried
                if not is_troubled:
                    logger.warning("events wait to be written: %s", error)
                is_troubled = True
            if is_last:
                return

    def end(self) -> None:
        self._ended.set()
        self.join()


def _number(value: Any) -> float:
    """Converted now: a tensor may be changed by the next step."""
    if isinstance(value, SupportsFloat):
        return float(value)
    if getattr(value, "size", None) == 1:
        return float(value.item())
    raise TypeError(
        f"{value!r} is not a scalar. Pass a number, or an array or tensor of one element."
    )


def _hparam(value: Any) -> bool | str | float:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, SupportsFloat):
        return float(value)
    raise ValueError(
        f"{value!r} is not a hyperparameter. Pass a bool, a string or a number, or use str()."
    )


def _default_folder(comment: str) -> str:
    now = datetime.now().strftime("%b%d_%H-%M-%S")
    return f"runs/{now}_{socket.gethostname()}{comment}"
