"""Passes finished steps on to the writer, TensorBoard, the metrics file, or the flight recorder."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.failures import Failures
from trackside.capture.sinks.flight_recorder import FlightRecorder
from trackside.capture.sinks.metrics_file import MetricsFile
from trackside.capture.sinks.tensorboard_export import TensorBoardExport
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.storage.locate import Location

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 10.0


class Sink:
    """`writer` is None in a dry run and in processes that must not write."""

    def __init__(
        self,
        location: Location,
        failures: Failures,
        *,
        writer: SegmentWriter | None,
        tensorboard_folder: Path | None = None,
        metrics: MetricsFile | None = None,
    ) -> None:
        self._failures = failures
        self._folder = location.local
        self._writer = writer
        self._send = None if writer is None or location.local else writer.put_file
        failures.send = self._send
        self._metrics = metrics
        self._recorder: FlightRecorder | None = None
        self._tensorboard = (
            TensorBoardExport(tensorboard_folder, failures)
            if tensorboard_folder is not None and writer is not None
            else None
        )

    def keep_last(self, num_steps: int, finish_step: Callable[[], None]) -> None:
        """From here on steps stay in memory until something goes wrong."""
        self._recorder = FlightRecorder(
            num_steps, self.write, finish_step, self._folder, self._send
        )

    @property
    def keeps_steps(self) -> bool:
        return self._recorder is not None

    def flush(self) -> None:
        """Wait until readers can see what was handed on."""
        if self._writer is not None:
            self._writer.flush(_FLUSH_SECONDS)

    def put_collections(self, collections: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.put_collections(collections)

    def put_anatomy(self, anatomy: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.put_anatomy(anatomy)

    def deliver(self, step: OpenStep) -> None:
        records = step.records()
        if self._metrics is not None:
            self._metrics.add_losses(step)
        if self._tensorboard is not None:
            self._tensorboard.add(step, records)
        if self._recorder is not None:
            self._recorder.add(step, records)
            return
        for record in records:
            self.write(record)

    def write(self, record: StepRecord) -> None:
        if self._writer is None:
            logger.info("Step %d: %d tensors (dry run)", record.step, len(record.tensors))
            return
        self._writer.add(record)
        if self._writer.failure is not None:
            failure, self._writer.failure = self._writer.failure, None
            self._failures.report("writing", failure)

    def show_scalars(self, record: StepRecord) -> None:
        """In TensorBoard; nothing is written to the trial."""
        if self._tensorboard is not None:
            self._tensorboard.add_scalars(record)

    def add_scalar(self, name: str, record: StepRecord, at: float) -> None:
        """Shown at once; the record itself is written with its step."""
        if self._tensorboard is not None:
            value = record.scalars[name]
            self._tensorboard.add_scalar(name, value, record.step, at, record.mode)

    def dump(self, reason: str) -> None:
        if self._recorder is not None:
            self._recorder.dump(reason)

    def close(self, *, end_marker: bool) -> None:
        if self._recorder is not None:
            self._recorder.close()
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._writer is not None:
            report = self._writer.close(end_marker=end_marker)
            if report.failure is not None:
                self._failures.report("writing", report.failure)
