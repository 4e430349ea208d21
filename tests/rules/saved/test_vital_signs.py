"""The course of a run is the same whether it was followed or read at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rules.recording import Recording
from tests.wait import until
from trackside.capture.trial import create_trial
from trackside.capture.writing.writer import WriterLimits
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.vital_signs import Series, VitalSigns

COLLECTIONS = {"losses": "loss", "weights": "weight$", "vitals": "^vitals/"}


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    limits = WriterLimits(age_seconds=0.01)
    return Recording(tmp_path / "trial", collections=COLLECTIONS, limits=limits)


@pytest.fixture
def evidence(recording: Recording) -> Evidence:
    recording.step(0, {"loss": [4.0], "vitals/batch_size": [32.0]})
    evidence = Evidence(create_trial(str(recording.folder)))
    seen(evidence, 0)
    return evidence


def seen(evidence: Evidence, step: int) -> VitalSigns:
    """When that step has been taken in."""
    until(lambda: evidence.advance() and evidence.steps[-1] == step)
    return evidence.vitals


def pairs(series: Series) -> list[tuple[int, float]]:
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def write_anatomy(recording: Recording, **facts: Any) -> None:
    path = recording.folder / "anatomy" / "worker_0.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(facts))


def test_values_read_at_each_check_include_new_steps(evidence: Evidence, recording: Recording):
    assert pairs(evidence.vitals.loss) == [(0, 4.0)]
    recording.step(1, {"loss": [3.0], "vitals/batch_size": [32.0]})
    assert pairs(seen(evidence, 1).loss) == [(0, 4.0), (1, 3.0)]
    recording.step(2, {"loss": [5.0]}, mode="EVAL")
    vitals = seen(evidence, 2)
    assert pairs(vitals.loss) == [(0, 4.0), (1, 3.0)]
    assert pairs(vitals.evaluation_loss) == [(2, 5.0)]
    assert pairs(vitals.vital("batch_size")) == [(0, 32.0), (1, 32.0)]
    assert pairs(vitals.vital("batch_size", training=False)) == []


def test_names_that_come_later_are_found(evidence: Evidence, recording: Recording):
    assert evidence.vitals.series_by_name("activation/", "/std") == {}
    assert evidence.vitals.tensors("l2", gradients=False) == []
    recording.step(1, {"vitals/activation/a/std": [0.5], "a.weight": [3.0, 4.0]})
    vitals = seen(evidence, 1)
    assert {
        name: pairs(each) for name, each in vitals.series_by_name("activation/", "/std").items()
    } == {"a": [(1, 0.5)]}
    assert vitals.tensors("l2", gradients=False) == ["a.weight"]
    assert pairs(vitals.figure("a.weight", "l2")) == [(1, 5.0)]


def test_a_figure_that_a_tensor_gets_later_is_found(evidence: Evidence, recording: Recording):
    recording.figures(1, ("l2",), {"a.weight": [5.0], "b.weight": [6.0]})
    vitals = seen(evidence, 1)
    assert vitals.tensors("max", gradients=False) == []
    recording.figures(2, ("l2", "max"), {"a.weight": [7.0, 8.0], "b.weight": [9.0, 10.0]})
    vitals = seen(evidence, 2)
    assert vitals.tensors("max", gradients=False) == ["a.weight", "b.weight"]
    assert pairs(vitals.figure("b.weight", "max")) == [(2, 10.0)]
    assert pairs(vitals.figure("a.weight", "l2")) == [(1, 5.0), (2, 7.0)]


def test_vitals_end_at_a_loss_that_is_not_a_number(evidence: Evidence, recording: Recording):
    recording.step(1, {"loss": [3.0], "vitals/activation/a/std": [0.5]})
    assert pairs(seen(evidence, 1).series_by_name("activation/", "/std")["a"]) == [(1, 0.5)]
    recording.step(2, {"loss": [float("nan")], "vitals/activation/a/std": [9.0]})
    vitals = seen(evidence, 2)
    assert vitals.ends_at == 2
    assert pairs(vitals.series_by_name("activation/", "/std")["a"]) == [(1, 0.5)]


def test_training_in_evaluation_mode_is_training_as_soon_as_that_is_known(
    evidence: Evidence, recording: Recording
):
    recording.step(1, {"loss": [3.0], "vitals/batch_size": [16.0]}, mode="EVAL")
    vitals = seen(evidence, 1)
    assert pairs(vitals.loss) == [(0, 4.0)]
    assert pairs(vitals.vital("batch_size")) == [(0, 32.0)]
    write_anatomy(recording, backwards=[{"training": False, "count": 2}])
    recording.step(2, {"loss": [2.0]}, mode="EVAL")
    vitals = seen(evidence, 2)
    assert pairs(vitals.loss) == [(0, 4.0), (1, 3.0), (2, 2.0)]
    assert pairs(vitals.vital("batch_size")) == [(0, 32.0), (1, 16.0)]
    assert pairs(vitals.evaluation_loss) == []
    write_anatomy(recording, backwards=[{"training": True, "count": 3}])
    recording.step(3, {"loss": [1.0]})
    assert pairs(seen(evidence, 3).loss) == [(0, 4.0), (3, 1.0)]


def test_an_anatomy_that_cannot_be_read_now_leaves_the_last(
    evidence: Evidence, recording: Recording
):
    write_anatomy(recording, world_size=3)
    recording.step(1, {"loss": [3.0]})
    assert seen(evidence, 1).anatomy.world_size == 3
    (recording.folder / "anatomy" / "worker_0.json").write_text("{")
    recording.step(2, {"loss": [2.0]})
    assert seen(evidence, 2).anatomy.world_size == 3
    write_anatomy(recording, world_size=4)
    recording.step(3, {"loss": [1.0]})
    assert seen(evidence, 3).anatomy.world_size == 4
