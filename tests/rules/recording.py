"""Trials for the tests of rules, written by the real writer as a hook would."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trackside.capture.collection import CollectionManager
from trackside.capture.segments import StepRecord
from trackside.capture.trial import Trial, create_trial
from trackside.capture.writer import SegmentWriter, WriterLimits
from trackside.finding import Finding
from trackside.rules.builtin import TensorRule
from trackside.rules.evidence import Evidence


class Recording:
    """`steps` are added in the order given; `end` closes the trial."""

    def __init__(
        self,
        folder: Path,
        *,
        collections: Mapping[str, str] | None = None,
        limits: WriterLimits | None = None,
    ) -> None:
        self.folder = folder
        manager = CollectionManager()
        for name, pattern in (collections or {}).items():
            manager.get(name).include([pattern])
        self._writer = SegmentWriter(
            str(folder), "worker_0", home=folder, limits=limits or WriterLimits()
        )
        self._writer.put_collections(manager.to_json_dict())
        self._mode_steps: dict[str, int] = {}

    def step(self, number: int, tensors: Mapping[str, Any], mode: str = "TRAIN") -> None:
        mode_step = self._mode_steps.get(mode, 0)
        self._mode_steps[mode] = mode_step + 1
        arrays = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
        self._writer.add(StepRecord(number, mode, mode_step, 0.0, tensors=arrays))

    def end(self) -> Trial:
        self._writer.close(end_marker=True)
        return create_trial(str(self.folder))


def judge(rule: TensorRule, trial: Trial) -> list[Finding]:
    """All that the rule finds in a finished trial."""
    evidence = Evidence(trial)
    found: list[Finding] = []
    while not evidence.is_all:
        evidence.advance()
        found += rule.look(evidence)
    return found
