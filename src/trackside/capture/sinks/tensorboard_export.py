"""Shows saved values in TensorBoard: losses and scalars as curves, raw tensors as histograms."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from threading import Thread

import numpy as np
from torch import Tensor

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.failures import Failures
from trackside.capture.writing.segments import StepRecord
from trackside.curves import wire
from trackside.curves.event_file import EventFile
from trackside.curves.histograms import Histogram

_WAITING = 64
"""Queued steps. Further ones are dropped and counted: training does not wait."""
_CLOSE_SECONDS = 30.0

Job = Callable[[], None]


class TensorBoardExport:
    """Owns one thread and one event file per mode, in a folder named after the mode."""

    def __init__(self, folder: Path, failures: Failures) -> None:
        self._folder = folder
        self._failures = failures
        self._files: dict[str, EventFile] = {}
        self.num_left_out = 0
        self._waiting: Queue[Job | None] = Queue(maxsize=_WAITING)
        self._thread = Thread(target=self._run, name="trackside-tensorboard", daemon=True)
        self._thread.start()

    def add(self, step: OpenStep, records: list[StepRecord]) -> None:
        tensors = [
            (name, tensor, step.treatments[name])
            for record in records
            for name, tensor in record.tensors.items()
        ]

        def write() -> None:
            file = self._file(step.mode)
            for name, tensor, treatment in tensors:
                if treatment.is_scalar and tensor.numel() == 1:
                    file.add((clean_tag(name), float(tensor), step.step, step.time))
                elif treatment.histograms:
                    tag = f"{treatment.histograms[0]}/{name}"
                    add_histogram(file, tag, tensor, step.step, step.time)
            file.flush()

        self._enqueue(write)

    def add_scalars(self, record: StepRecord) -> None:
        def write() -> None:
            file = self._file(record.mode)
            for name, value in record.scalars.items():
                file.add((clean_tag(name), value, record.step, record.time))
            file.flush()

        self._enqueue(write)

    def add_scalar(self, name: str, value: float, step: int, at: float, mode: str) -> None:
        def write() -> None:
            file = self._file(mode)
            file.add((clean_tag(name), value, step, at))
            file.flush()

        self._enqueue(write)

    def close(self) -> None:
        """Write the queue, for so many seconds at most."""
        with suppress(Full):
            self._waiting.put(None, timeout=_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            problem = TimeoutError(
                f"Event files were still being written after {_CLOSE_SECONDS} s."
            )
            self._failures.report("tensorboard", problem)
            return
        for file in self._files.values():
            try:
                file.close()
            except OSError as error:
                self._failures.report("tensorboard", error)
        if self.num_left_out:
            problem = TimeoutError(f"{self.num_left_out} steps are missing in TensorBoard.")
            self._failures.report("tensorboard", problem)

    def _enqueue(self, job: Job) -> None:
        try:
            self._waiting.put_nowait(job)
        except Full:
            self.num_left_out += 1

    def _run(self) -> None:
        for job in iter(self._waiting.get, None):
            try:
                job()
            except Exception as error:  # noqa: BLE001 the thread's loop: the next step may do
                self._failures.report("tensorboard", error)

    def _file(self, mode: str) -> EventFile:
        if mode not in self._files:
            self._files[mode] = EventFile(self._folder / mode)
        return self._files[mode]


def add_histogram(file: EventFile, tag: str, tensor: Tensor, step: int, at: float) -> None:
    """Of the finite values, if any: a histogram has no bucket for others."""
    if tensor.is_complex():
        return
    values = tensor.double().reshape(-1).numpy()
    values = values[np.isfinite(values)]
    if values.size:
        value = Histogram(clean_tag(tag), values, "tensorflow", None).encode()
        file.add((None, lambda: wire.summary(value), step, at))


def clean_tag(name: str) -> str:
    return re.sub(r"[^-/\w.]", "_", name).lstrip("/")
