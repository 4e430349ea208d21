"""Watches calls that are right only at one place of a step: clipping between backward and step,
dropout in training."""

from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor

from trackside.capture.failures import Failures, guarded
from trackside.capture.model.script_calls import CLIPPING, DROPOUTS, listen, stop_listening
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.step import RunningStep

_NUM_BEFORE_MODE = 2
"""Arguments of a dropout before `training`: the input and the share."""


class Misplaced:
    def __init__(self, failures: Failures, facts: AnatomyFacts, running: RunningStep) -> None:
        self.failures = failures
        self._facts = facts
        self._running = running

    def install(self) -> None:
        listen(DROPOUTS, self._on_dropout)
        listen((CLIPPING,), self._on_clipping)

    def remove(self) -> None:
        stop_listening()

    def _on_dropout(self, args: Any, kwargs: Any, frame: FrameType, result: Any) -> None:
        if self._running.is_evaluated:
            self._check_dropout(args, kwargs, frame)

    @guarded
    def _check_dropout(self, args: Any, kwargs: Any, frame: FrameType) -> None:
        """One that is told its mode is active on purpose; those of torch's modules are told."""
        is_told = len(args) > _NUM_BEFORE_MODE or "training" in kwargs
        share = args[1] if len(args) > 1 else kwargs.get("p", 1.0)
        if is_told or not share or str(frame.f_globals.get("__name__", "")).startswith("torch."):
            return
        self._facts.see_dropped(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")

    @guarded
    def _on_clipping(self, args: Any, kwargs: Any, frame: FrameType, result: Any) -> None:
        if self._running.facts is None:
            return
        self._facts.see_clipping(is_used=not self._running.has_fresh_gradients)
        step = self._running.current
        if step is not None and step.schedule is not None and isinstance(result, Tensor):
            step.take().pack.add_named(["gradient_norm_unclipped"], [result.reshape(()).clone()])
