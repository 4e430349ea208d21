"""What a host's record says of its limits, whether or not the kernel keeps them."""

import json
import os
from pathlib import Path

import pytest

from trackside.records.layout import HostFolder
from trackside.records.spec import JobSpec, Options
from trackside.supervisor.sandbox import Exited
from trackside.supervisor.script_start import ScriptLimits, contract_variables
from trackside.system import control_group

NONCE = f"test{os.getpid()}.1"


def limits(tmp_path: Path, cores: int | None = None, memory_gb: int | None = None) -> ScriptLimits:
    return ScriptLimits(Options(cores=cores, memory_gb=memory_gb), HostFolder(tmp_path), NONCE)


def test_a_job_that_requests_nothing_gets_nothing(tmp_path: Path):
    asked = limits(tmp_path)
    assert asked.begin() == asked.exceeded(Exited(-9)) == ""
    assert asked.folders == ()
    asked.end()
    assert not HostFolder(tmp_path).control_group.exists()


def test_without_control_groups_it_is_reported_that_nothing_is_enforced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(control_group, "_hierarchies", lambda proc: iter(()))
    asked = limits(tmp_path, cores=2, memory_gb=4)
    reported = asked.begin()
    assert reported == (
        "2 cores and 4 GB of memory: counted, not enforced, as no control group can be made here."
    )
    assert asked.folders == ()
    assert asked.exceeded(Exited(-9)) == ""


def test_the_next_supervisor_finds_the_group_and_leaves_it_alone(tmp_path: Path):
    first = limits(tmp_path, cores=1)
    if "not enforced" in first.begin():
        pytest.skip("this user may make no control group here")
    try:
        made = [os.stat(folder).st_ino for folder in first.folders]
        second = limits(tmp_path, cores=1)
        assert second.begin() == "Limited to 1 core."
        assert [os.stat(folder).st_ino for folder in second.folders] == made
        assert json.loads(HostFolder(tmp_path).control_group.read_text())["memory"] is None
    finally:
        first.end()
    assert not any(map(os.path.exists, first.folders))


@pytest.mark.parametrize(
    ("parameters", "seconds"),
    [
        ({"rule_to_invoke": "Checkup"}, "1.0"),
        ({"rule_to_invoke": "Checkup", "action_json": '{"name": "stoptraining"}'}, "0.25"),
        ({"rule_to_invoke": "StalledTrainingRule", "stop_training_on_fire": "True"}, "0.25"),
        ({"rule_to_invoke": "Mine", "source_s3_uri": "s3://bucket/mine.py"}, "0.25"),
    ],
)
def test_saved_steps_come_sooner_if_something_waits_for_what_rules_find(parameters, seconds):
    request = {
        "TrainingJobName": "j",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket"},
        "HyperParameters": {"sagemaker_program": "train.py"},
        "DebugRuleConfigurations": [
            {"RuleConfigurationName": "rule", "RuleParameters": parameters}
        ],
    }
    variables = contract_variables(JobSpec.from_request(request), {})
    assert variables["TRACKSIDE_CAPTURE_AGE"] == seconds
