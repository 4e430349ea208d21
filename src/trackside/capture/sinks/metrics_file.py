"""Appends job metrics to the platform's file: one JSON line per value."""

import json
import os
from pathlib import Path

from trackside.capture.copying.open_step import OpenStep


class MetricsFile:
    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / f"{os.getpid()}.json"

    def add(self, name: str, mode: str, value: float, time: float, mode_step: int) -> None:
        if self._path is None:
            return
        line = {
            "MetricName": f"{name}_{mode}",
            "Value": value,
            "Timestamp": int(time * 1000),
            "IterationNumber": mode_step,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def add_losses(self, step: OpenStep) -> None:
        """A loss of several elements counts by its mean."""
        if self._path is None:
            return
        for name, tensor in step.tensors.items():
            if step.treatments[name].is_scalar:
                value = float(tensor.double().mean())
                self.add(name, step.mode, value, step.time, step.mode_step)
