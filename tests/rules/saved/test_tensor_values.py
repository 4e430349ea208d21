from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording
from tests.wait import until
from trackside.capture.trial import create_trial
from trackside.capture.writing.writer import WriterLimits
from trackside.rules.saved import tensor_values
from trackside.rules.saved.evidence import Evidence


def looked(evidence: Evidence, **options: Any) -> list[Any]:
    return [
        (each.steps, each.num_old, each.values.reshape(len(each.steps), -1)[:, 0].tolist())
        for each in evidence.stretches("w", **options)
    ]


def test_many_steps_come_as_one_array(tmp_path):
    recording = Recording(tmp_path)
    for step in range(5):
        recording.step(step * 10, {"w": np.full((2, 3), step)})
    evidence = Evidence(recording.end())
    evidence.advance()
    (stretch,) = evidence.stretches("w", before=2)
    assert stretch.steps == (0, 10, 20, 30, 40)
    assert stretch.values.shape == (5, 2, 3)
    assert stretch.num_old == 0


def test_a_later_check_includes_the_earlier_steps(tmp_path):
    recording = Recording(tmp_path, limits=WriterLimits(age_seconds=0.01))
    for step in range(3):
        recording.step(step, {"w": [step]})
    evidence = Evidence(create_trial(str(tmp_path)))
    until(lambda: evidence.advance() and evidence.steps[-1] == 2)
    recording.step(3, {"w": [3.0]})
    recording.step(4, {"w": [4.0]})
    recording.close()
    until(lambda: evidence.advance() and evidence.is_all)
    ((steps, num_old, values),) = looked(evidence, before=2)
    assert steps[num_old:] == evidence.steps
    assert (steps[-4:], num_old, values[-4:]) == ((1, 2, 3, 4), 2, [1, 2, 3, 4])


def test_another_shape_starts_another_stretch(tmp_path):
    recording = Recording(tmp_path)
    for step, size in enumerate([4, 4, 3, 4]):
        recording.step(step, {"w": np.full(size, step)})
    evidence = Evidence(recording.end())
    evidence.advance()
    for before in (1, 2, 3):
        found = looked(evidence, before=before)
        assert found == [((0, 1), 0, [0, 1]), ((2,), 0, [2]), ((3,), 0, [3])]


def test_large_tensors_come_in_several_stretches_that_overlap(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_values, "_STRETCH_BYTES", 64)
    recording = Recording(tmp_path)
    for step in range(5):
        recording.step(step, {"w": np.full(4, step)})
    evidence = Evidence(recording.end())
    evidence.advance()
    assert looked(evidence, before=1) == [
        ((0, 1), 0, [0, 1]),
        ((1, 2, 3), 1, [1, 2, 3]),
        ((3, 4), 1, [3, 4]),
    ]


@pytest.mark.parametrize(("in_training", "steps"), [(True, (0, 2)), (False, (0, 1, 2))])
def test_evaluation_is_left_out_on_request(tmp_path, in_training, steps):
    recording = Recording(tmp_path)
    recording.step(0, {"w": [0.0]})
    recording.step(1, {"w": [1.0], "only in eval": [1.0]}, mode="EVAL")
    recording.step(2, {"w": [2.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    assert [each.steps for each in evidence.stretches("w", in_training=in_training)] == [steps]
    (stretch,) = evidence.stretches("only in eval", in_training=True)
    assert stretch.steps == (1,)
