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
        _append(self._path, json.dumps(line) + "\n")

    def add_losses(self, step: OpenStep) -> None:
        """A loss of several elements counts by its mean."""
        if self._path is None:
            return
        for name, tensor in step.tensors.items():
            if step.treatments[name].is_scalar:
                value = tensor.item() if tensor.numel() == 1 else tensor.double().mean().item()
                self.add(name, step.mode, value, step.time, step.mode_step)


def _append(path: Path, line: str) -> None:
    """By one call of the system each: a training may save a loss at each of its steps."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        file = os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, flags, 0o666)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
