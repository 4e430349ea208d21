"""Keeps the last steps in memory and writes them out when something goes wrong.

That is: when a NaN or an infinity first appears, when the script ends by an exception, or on
request, by `hook.dump()` or by a file named `dump-requested` in the trial's folder.
"""

import json
import logging
import math
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.trial_layout import RECORDER_REPORT, RECORDER_REQUEST
from trackside.capture.writing.segments import StepRecord
from trackside.files.durable import write_json
from trackside.files.permissions import BY_UMASK

logger = logging.getLogger(__name__)


class FlightRecorder:
    """Owned by the hook; runs in the training thread."""

    def __init__(
        self,
        num_steps: int,
        write: Callable[[StepRecord], None],
        finish_step: Callable[[], None],
        folder: Path | None,
        send: Callable[[str, str], None] | None = None,
    ) -> None:
        """The report goes to `folder`; without one, name and text of it go to `send`."""
        self._steps: deque[list[StepRecord]] = deque(maxlen=num_steps)
        self._write = write
        self._finish_step = finish_step
        self._folder = folder
        self._send = send
        self._dumps: list[dict[str, Any]] = []
        self._is_finite = True
        self._previous_excepthook = sys.excepthook
        sys.excepthook = self._on_exception

    def add(self, step: OpenStep, records: list[StepRecord]) -> None:
        self._steps.append(records)
        if self._is_finite:
            name = first_not_finite(records)
            if name is not None:
                self._is_finite = False
                logger.error(
                    "%s is not finite at step %d (%s %d): the first such value of this run.",
                    name,
                    step.step,
                    step.mode,
                    step.mode_step,
                )
                self.dump("not finite", tensor=name, step=step.step, mode=step.mode)
        if self._folder is not None and (self._folder / RECORDER_REQUEST).exists():
            (self._folder / RECORDER_REQUEST).unlink(missing_ok=True)
            self.dump("asked for")

    def dump(self, reason: str, **facts: Any) -> None:
        """Pass all steps held to the writer; they are held no longer."""
        steps = [records[0].step for records in self._steps]
        while self._steps:
            for record in self._steps.popleft():
                self._write(record)
        self._dumps.append({"reason": reason, **facts, "steps": steps})
        logger.info("Wrote the last %d steps: %s.", len(steps), reason)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_json(self._folder / RECORDER_REPORT, self._dumps, mode=BY_UMASK)
        elif self._send is not None:
            self._send(RECORDER_REPORT, json.dumps(self._dumps))

    def close(self) -> None:
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._previous_excepthook
        self._steps.clear()

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        try:
            self._finish_step()
            self.dump("exception", error=f"{kind.__name__}: {error}")
        except Exception:
            logger.warning("The last steps could not be written.", exc_info=True)
        finally:
            self._previous_excepthook(kind, error, trace)


def first_not_finite(records: list[StepRecord]) -> str | None:
    """The first tensor, in the order they were taken, that holds a NaN or an infinity."""
    bad: set[str] = set()
    names: dict[str, None] = {}
    checked: dict[int, bool] = {}  # one tensor may have several names
    for record in records:
        for name, tensor in record.tensors.items():
            names[name] = None
            if id(tensor) not in checked:
                checked[id(tensor)] = _is_finite(tensor)
            if not checked[id(tensor)]:
                bad.add(name)
        if record.matrix is not None:
            names.update(dict.fromkeys(record.reduced))
            finite = np.isfinite(record.matrix[:, _checked_columns(record.reductions)]).all(axis=1)
            bad.update(name for name, ok in zip(record.reduced, finite, strict=True) if not ok)
        for name, value in record.scalars.items():
            names[name] = None
            if not math.isfinite(value):
                bad.add(name)
    return next((name for name in names if name in bad), None)


def _checked_columns(columns: tuple[str, ...]) -> list[int]:
    """The spread of a single element is undefined: its NaN means nothing."""
    chosen = [i for i, name in enumerate(columns) if not name.endswith(("std", "variance"))]
    return chosen or [*range(len(columns))]


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.dtype.is_floating_point:
        return True
    if tensor.element_size() == 1:
        tensor = tensor.float()
    # One pass: a bound is NaN or infinite exactly when an element is.
    return all(math.isfinite(bound.item()) for bound in torch.aminmax(tensor))
