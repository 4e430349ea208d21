from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, steps_of
from tests.wait import until
from trackside.capture.trial import Trial, create_trial
from trackside.capture.writing.writer import WriterLimits
from trackside.rules.parameters import InvalidParameters, build
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.comparisons import SimilarAcrossRuns, difference_of


def recorded(folder: Path, values: Any, name: str = "w") -> Trial:
    recording = Recording(folder)
    for step, value in enumerate(values):
        recording.step(step, {name: value, "same": [1.0]})
    return recording.end()


def test_a_tensor_that_differs_is_found_where_the_runs_part(tmp_path):
    trial = recorded(tmp_path / "a", [[1, 2], [3, 4], [5, 6], [7, 8]])
    recorded(tmp_path / "b", [[1, 2], [3, 4.5], [5, 6.5], [7, 8]])
    rule = build(SimilarAcrossRuns, {"other_trial_0": str(tmp_path / "b")})
    (found,) = judge(rule, trial)
    assert (found.tensor, found.step, found.value) == ("w", 1, 0.5)


def test_two_other_trials_are_two_findings(tmp_path):
    trial = recorded(tmp_path / "a", [[1.0]])
    others = [str(tmp_path / name) for name in ("b", "c")]
    for folder in others:
        recorded(Path(folder), [[2.0]])
    found = judge(SimilarAcrossRuns(other_trials=tuple(others)), trial)
    assert [each.subject for each in found] == others
    assert len({each.identity for each in found}) == 2


@pytest.mark.parametrize(("other", "fires"), [(1.000009, False), (1.00002, True)])
def test_equality_is_numpy_s(tmp_path, other, fires):
    trial = recorded(tmp_path / "a", [[1.0]])
    recorded(tmp_path / "b", [[other]])
    assert bool(judge(SimilarAcrossRuns(other_trials=(str(tmp_path / "b"),)), trial)) is fires


def test_another_shape_is_a_difference(tmp_path):
    trial = recorded(tmp_path / "a", [[1.0]])
    recorded(tmp_path / "b", [[1.0, 1.0]])
    assert len(judge(SimilarAcrossRuns(other_trials=(str(tmp_path / "b"),)), trial)) == 1


def test_texts_are_equal_or_not():
    texts = np.array(["0-1", "0-2"])
    assert difference_of(texts, texts.copy()) is None
    assert difference_of(texts, np.array(["0-1", "0-3"])) == float("inf")


def test_steps_that_the_other_has_not_reached_are_compared_when_it_has(tmp_path):
    trial = recorded(tmp_path / "a", [[1.0], [1.0]])
    rule = SimilarAcrossRuns(other_trials=(str(tmp_path / "b"),))
    evidence = Evidence(trial)
    evidence.advance()
    assert [*rule.check(evidence)] == []
    assert "Nothing is saved in" in rule.missing(evidence)
    other = Recording(tmp_path / "b", limits=WriterLimits(age_seconds=0.005))
    other.step(0, {"w": [1.0]})
    until(lambda: bool(create_trial(str(tmp_path / "b")).steps()))
    evidence.advance()
    assert [*rule.check(evidence)] == []
    other.step(1, {"w": [2.0]})
    other.close()
    evidence.advance()
    assert steps_of([*rule.check(evidence)]) == [1]


def test_another_trial_is_required():
    with pytest.raises(InvalidParameters, match="needs other_trials"):
        build(SimilarAcrossRuns, {})
