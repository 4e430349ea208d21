"""Trials for the tests of rules, written by the real writer as a hook would."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.wait import until
from trackside.capture.selection.collection import CollectionManager
from trackside.capture.trial import Trial, create_trial
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter, WriterLimits
from trackside.records.finding import Finding
from trackside.rules import catalog
from trackside.rules.builtin import TensorRule
from trackside.rules.saved.evidence import Evidence


class Recording:
    """`steps` are added in the order given; `end` closes the trial."""

    def __init__(
        self,
        folder: Path,
        *,
        collections: Mapping[str, str] | None = None,
        limits: WriterLimits | None = None,
        worker: str = "worker_0",
        num_workers: int = 1,
    ) -> None:
        self.folder = folder
        manager = CollectionManager()
        for name, pattern in (collections or {}).items():
            manager.get(name).include([pattern])
        self._writer = SegmentWriter(
            str(folder), worker, home=folder, limits=limits or WriterLimits()
        )
        manager.num_workers = num_workers
        self.put_collections(manager)
        self._mode_steps: dict[str, int] = {}

    def put_collections(self, manager: CollectionManager) -> None:
        self._writer.put_collections(manager.to_json_dict())

    def step(self, number: int, tensors: Mapping[str, Any], mode: str = "TRAIN") -> None:
        mode_step = self._mode_steps.get(mode, 0)
        self._mode_steps[mode] = mode_step + 1
        arrays = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
        self._writer.add(StepRecord(number, mode, mode_step, 0.0, tensors=arrays))

    def figures(self, number: int, columns: tuple[str, ...], rows: Mapping[str, Any]) -> None:
        """A step of which only reductions are saved: tensor to one figure for each column."""
        matrix = np.array([*rows.values()], np.float64)
        self._writer.add(
            StepRecord(
                number,
                "TRAIN",
                number,
                0.0,
                reduced=tuple(rows),
                reductions=columns,
                matrix=matrix,
            )
        )

    def end(self) -> Trial:
        self.close()
        return create_trial(str(self.folder))

    def close(self, *, end_marker: bool = True) -> None:
        self._writer.close(end_marker=end_marker)


def judge(rule: TensorRule, trial: Trial) -> list[Finding]:
    """All that the rule finds in a finished trial."""
    evidence = Evidence(trial)
    found: list[Finding] = []
    while not evidence.is_all:
        evidence.advance()
        found += rule.check(evidence)
    return found


def judge_as_it_grows(
    rule: TensorRule, folder: Path, steps: Sequence[Mapping[str, Any]], **options: Any
) -> list[Finding]:
    """The same, looking after each step, as at a job that runs."""
    recording = Recording(folder, limits=WriterLimits(age_seconds=0.005), **options)
    found: list[Finding] = []
    evidence: Evidence | None = None
    for number, tensors in enumerate(steps):
        recording.step(number, tensors)
        if evidence is None:
            evidence = Evidence(create_trial(str(folder)))
        until(evidence.advance)
        found += rule.check(evidence)
    recording.close()
    assert evidence is not None
    until(evidence.advance)
    return [*found, *rule.check(evidence)]


def steps_of(found: list[Finding]) -> list[int | None]:
    return [each.step for each in found]


def add_rule(monkeypatch: pytest.MonkeyPatch, rule: type[TensorRule]) -> None:
    """Have the catalog find it, until the test is over."""
    monkeypatch.setattr(sys.modules[__name__], rule.name(), rule, raising=False)
    known = catalog.find_entry("AllZero")
    entry = dataclasses.replace(known, name=rule.name(), module=__name__)
    monkeypatch.setitem(cast(dict[str, catalog.Entry], catalog.entries()), rule.name(), entry)
