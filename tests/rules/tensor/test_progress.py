from tests.rules.recording import Recording
from tests.wait import until
from trackside.capture.trial import create_trial
from trackside.capture.writing.writer import WriterLimits
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.progress import StalledTrainingRule


def test_a_stall_is_reported_once_until_something_is_saved(tmp_path):
    now = [100.0]
    recording = Recording(tmp_path, limits=WriterLimits(age_seconds=0.005))
    recording.step(7, {"a": [1.0]})
    evidence = Evidence(create_trial(str(tmp_path)), clock=lambda: now[0])
    rule = StalledTrainingRule(threshold=60)
    until(evidence.advance)
    assert [*rule.check(evidence)] == []
    now[0] += 60
    assert [*rule.check(evidence)] == []
    now[0] += 1
    (found,) = rule.check(evidence)
    assert (found.step, found.value, found.threshold) == (7, 61, 60)
    now[0] += 60
    assert [*rule.check(evidence)] == []
    recording.step(8, {"a": [1.0]})
    until(evidence.advance)
    assert [*rule.check(evidence)] == []
    now[0] += 61
    assert [each.step for each in rule.check(evidence)] == [8]


def test_a_job_that_has_ended_is_not_stalled(tmp_path):
    now = [0.0]
    recording = Recording(tmp_path)
    recording.step(0, {"a": [1.0]})
    evidence = Evidence(recording.end(), clock=lambda: now[0])
    evidence.advance()
    now[0] = 1e6
    assert [*StalledTrainingRule().check(evidence)] == []
