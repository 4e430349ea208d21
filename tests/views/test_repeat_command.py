"""The command that runs a job again, from descriptions of jobs that other clients made too."""

from typing import Any

import pytest

from trackside.views.job_setup.repeat_command import repeated


def described(**changes: Any) -> dict[str, Any]:
    options = changes.pop("options", {})
    return {
        "HyperParameters": {
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"s3://b/j/source/sourcedir.tar.gz"',
        },
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceCount": 1, "InstanceType": "local"},
        "OutputDataConfig": {"S3OutputPath": "s3://b"},
        "Trackside": {"options": options, "max_runtime_seconds": None},
        **changes,
    }


def command(**changes: Any) -> str:
    return repeated(described(**changes), {}, "s3://b").command


SOURCE = "--source-dir s3://b/j/source/sourcedir.tar.gz"


def test_the_shortest_names_only_what_runs():
    assert command() == f"trackside run train.py {SOURCE}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"Module": "pkg.train", "Arguments": ["-x"]}, f"-m pkg.train {SOURCE} -- -x"),
        ({"Command": ["torchrun", "a b.py"]}, f"{SOURCE} -- torchrun 'a b.py'"),
        ({"InPlace": "/srv/code"}, "train.py --in-place --source-dir /srv/code"),
        ({"GraceSeconds": 120, "Python": "/usr/bin/python3"}, None),
    ],
)
def test_modules_commands_and_folders_run_again_as_such(options: dict[str, Any], words: str | None):
    expected = words or f"train.py {SOURCE} --python /usr/bin/python3"
    assert command(options=options) == f"trackside run {expected}"


def test_rules_of_a_server_s_clients_are_named_with_their_parameters():
    stop = '[{\\"name\\": \\"stoptraining\\"}]'
    rules = [
        {"RuleParameters": {"rule_to_invoke": "Overfit", "patience": "5", "ratio": "0.1"}},
        {"RuleParameters": {"rule_to_invoke": "DeadRelu", "action_json": stop}},
        {"RuleParameters": {"rule_to_invoke": "Mine", "source_s3_uri": "s3://b/mine.py"}},
    ]
    words = "--rule Overfit:patience=5,ratio=0.1 --stop-on DeadRelu --rule s3://b/mine.py:Mine"
    assert command(DebugRuleConfigurations=rules) == f"trackside run train.py {SOURCE} {words}"


def test_what_no_option_says_is_named():
    found = repeated(
        described(
            AlgorithmSpecification={"TrainingImage": "team/x:1", "TrainingInputMode": "File"},
            InputDataConfig=[
                {
                    "ChannelName": "train",
                    "CompressionType": "Gzip",
                    "DataSource": {"S3DataSource": {"S3Uri": "s3://b/data"}},
                }
            ],
            ProfilerConfig={"S3OutputPath": "s3://b", "DisableProfiler": False},
            Environment={"HF_TOKEN": "hush"},
        ),
        {},
        "s3://b",
    )
    assert found.left_out == (
        "the image team/x:1",
        "how its channels are read",
        "its ProfilerConfig",
        "secrets, shown as ***",
    )
    assert "--channel train=s3://b/data" in found.command
    assert "hush" not in found.command


def test_a_program_inside_an_image_has_no_command():
    assert repeated(described(HyperParameters={"lr": "1"}), {}, "s3://b").words == ()
