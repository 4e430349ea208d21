"""Rules of users, asked about one step after the other."""

from pathlib import Path

from tests.rules.recording import Recording
from trackside.capture.trial import create_trial
from trackside.records.finding import Finding
from trackside.rules.custom.rule_loop import CustomJudge
from trackside.rules.onsets import HEALTHY_CHECKS


def findings(check, folder: Path, num_steps: int) -> list[Finding]:
    recording = Recording(folder)
    for step in range(num_steps):
        recording.step(step, {"loss": step})
    recording.end()
    judge = CustomJudge(check, "check", {}, create_trial(str(folder)), create_trial)
    found = [judge.finding(step) for step in range(num_steps)]
    return [each for each in found if each is not None]


def test_one_that_states_yes_and_no_in_turn_has_one_finding(tmp_path: Path):
    [found] = findings(lambda step, tensors: step % 2 == 1, tmp_path, 300)
    assert found.step == 1


def test_what_was_healthy_for_long_is_reported_again(tmp_path: Path):
    def check(step, tensors):
        return step == 3 or step == 3 + HEALTHY_CHECKS + 1

    assert [each.step for each in findings(check, tmp_path, 60)] == [3, 24]


def test_each_tensor_has_a_finding_of_its_own_though_they_flap(tmp_path: Path):
    def check(step, tensors):
        return Finding(rule="mine", message=f"at {step}", step=step, tensor=f"layer{step % 3}")

    found = findings(check, tmp_path, 300)
    assert [(each.step, each.tensor) for each in found] == [
        (0, "layer0"),
        (1, "layer1"),
        (2, "layer2"),
    ]


def test_no_rule_is_called_for_steps_with_vitals_only(tmp_path: Path):
    recording = Recording(tmp_path)
    for step in range(6):
        recording.step(step, {"loss" if step % 3 == 0 else "vitals/gradient_norm": 1.0})
    recording.end()
    trial = create_trial(str(tmp_path))
    judge = CustomJudge(lambda step, tensors: False, "check", {}, trial, create_trial)

    assert [step for step in range(6) if judge.wants(step)] == [0, 3]
