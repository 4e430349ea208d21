"""Arguments go where the table says; what is old, unknown or without effect is said aloud."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from trackside.errors import InvalidSpec
from trackside.sdk import arguments
from trackside.sdk.arguments import RENAMED, Arguments


def read(**options: Any) -> dict[str, Any]:
    return arguments.read(options, callee="PyTorch")


def requested(**options: Any) -> dict[str, Any]:
    return arguments.to_request(read(**options))


def test_every_argument_has_one_place():
    paths = [
        annotation.__metadata__[0].path
        for annotation in Arguments.__annotations__.values()
        if annotation.__metadata__[0].path
    ]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(
    ("options", "member"),
    [
        ({"instance_count": 2}, {"ResourceConfig": {"InstanceCount": 2}}),
        ({"arguments": ["--amp", ""]}, {"Trackside": {"Arguments": ["--amp", ""]}}),
        ({"arguments": "--amp"}, {"Trackside": {"Arguments": "--amp"}}),  # and is refused
        ({"max_run": 60}, {"StoppingCondition": {"MaxRuntimeInSeconds": 60}}),
        ({"use_spot_instances": True}, {"EnableManagedSpotTraining": True}),
        ({"max_retry_attempts": 3}, {"RetryStrategy": {"MaximumRetryAttempts": 3}}),
        ({"environment": {"A": "b"}}, {"Environment": {"A": "b"}}),
        ({"tags": {"team": "vision"}}, {"Tags": [{"Key": "team", "Value": "vision"}]}),
        ({"tags": [{"Key": "a", "Value": "b"}]}, {"Tags": [{"Key": "a", "Value": "b"}]}),
        ({"disable_output_compression": True}, {"OutputDataConfig": {"CompressionType": "NONE"}}),
        ({"role": "arn:x"}, {"RoleArn": "arn:x"}),
        ({"input_mode": "Pipe"}, {"AlgorithmSpecification": {"TrainingInputMode": "Pipe"}}),
        ({"grace_seconds": 5}, {"Trackside": {"GraceSeconds": 5}}),
        ({"notify": ["mail:a@b.c"]}, {"Trackside": {"Notify": ["mail:a@b.c"]}}),
        ({"cores": 2, "memory_gb": 8}, {"Trackside": {"Cores": 2, "MemoryGB": 8}}),
    ],
)
def test_an_argument_reaches_its_member(options: dict[str, Any], member: dict[str, Any]):
    assert requested(**options) == member


def test_relative_locations_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    request = requested(output_path="out", checkpoint_s3_uri=Path("ckpt"))
    assert request["OutputDataConfig"]["S3OutputPath"] == str(tmp_path / "out")
    assert request["CheckpointConfig"]["S3Uri"] == str(tmp_path / "ckpt")
    assert requested(output_path="s3://b/x/")["OutputDataConfig"]["S3OutputPath"] == "s3://b/x/"


def test_none_is_the_same_as_not_given():
    assert read(entry_point="train.py", role=None, max_run=None) == {"entry_point": "train.py"}


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_name_works_and_names_the_new_one(old: str):
    with pytest.warns(FutureWarning, match=f"{old} is an old name; write {RENAMED[old]}=7"):
        assert read(**{old: 7}) == {RENAMED[old]: 7}


def test_old_and_new_name_together_are_refused():
    with (
        pytest.warns(FutureWarning),
        pytest.raises(TypeError, match="both 'train_max_run' and 'max_run'"),
    ):
        read(train_max_run=1, max_run=2)


def test_an_unknown_argument_names_the_closest_ones():
    with pytest.raises(TypeError, match="PyTorch.. has no argument 'instance_counts'") as caught:
        read(instance_counts=1)
    assert "instance_count" in str(caught.value)
    with pytest.raises(TypeError, match=r"docs/sdk\.md lists all arguments"):
        read(zzzzzz=1)


@pytest.mark.parametrize("name", ["role", "framework_version", "py_version", "sagemaker_session"])
def test_names_that_cost_nothing_are_ignored_in_silence(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(**{name: "x"})


@pytest.mark.parametrize(
    "name", ["enable_network_isolation", "output_kms_key", "volume_kms_key", "subnets"]
)
def test_protection_that_is_not_given_is_said_aloud(name: str):
    with pytest.warns(UserWarning, match=f"{name}='x' has no effect"):
        read(**{name: "x"})


def test_protection_that_is_switched_off_is_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(enable_network_isolation=False)


def test_a_warning_shows_the_line_of_the_user():
    with pytest.warns(UserWarning, match="subnets") as caught:
        read(subnets=["subnet-1"])
    assert caught[0].filename == __file__


def test_violations_carry_the_names_of_the_arguments():
    from trackside.records.spec import JobSpec

    given = read(instance_count=0, environment={"A": 5})
    request = {
        "TrainingJobName": "x",
        "OutputDataConfig": {"S3OutputPath": "s3://b/o"},
        "HyperParameters": {"sagemaker_program": "train.py"},
        **arguments.to_request(given),
    }
    with pytest.raises(InvalidSpec) as caught:
        JobSpec.from_request(request)
    fields = [each.field for each in arguments.in_arguments(caught.value, given).violations]
    assert sorted(fields) == ["environment.A", "instance_count"]


def test_every_argument_is_in_the_documentation():
    import trackside

    text = (Path(trackside.__file__).parents[2] / "docs" / "sdk.md").read_text()
    known = [*Arguments.__annotations__, *RENAMED]
    assert [name for name in known if f"`{name}`" not in text] == []
