"""How a job was submitted, as it is recorded."""

import sys

import pytest

from trackside.records.spec import JobSpec
from trackside.sdk import launch
from trackside.sdk.launch import launch_of, with_launch


def test_it_is_the_command_of_this_process_unless_another_was_typed(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "submit.py", "--lr", "0.1"])
    assert launch_of(None, "").command == ("python", "submit.py", "--lr", "0.1")
    typed = ["trackside", "run", "train.py"]
    assert launch_of(typed, "").command == ("trackside", "run", "train.py")


def test_a_prompt_has_no_command(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert launch_of(None, "/code").command == ()


@pytest.mark.parametrize(
    ("typed", "recorded"),
    [
        (["-p", "api_key=abcdef"], ("-p", "api_key=***")),
        (["--environment", "HF_TOKEN=abcdef"], ("--environment", "HF_TOKEN=***")),
        (["--", "--token", "abcdef"], ("--", "--token", "***")),
        (["--notify", "slack:https://hooks.example/T0/abc"], ("--notify", "***")),
        (["--notify=mail:a@b.c,slack:https://x/y"], ("--notify=***",)),
        (["--output", "https://me:pw@host/x"], ("--output", "https://***@host/x")),
        (["no text \udcff"], ("no text \\udcff",)),
    ],
)
def test_secrets_are_masked_and_every_byte_is_text(typed, recorded):
    assert launch_of(typed, "").command == recorded


def test_long_commands_are_cut():
    command = launch_of(["x" * 10_000] * 5000, "").command
    assert len(command) == 15
    assert {len(word) for word in command} == {4096}
    assert launch_of(["x"] * 5000, "").command == ("x",) * 1000


def test_it_is_part_of_the_request(monkeypatch):
    monkeypatch.setattr(launch, "FOLDER_MOST", 10)
    spec = JobSpec.from_request(
        {
            "TrainingJobName": "job",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        }
    )
    noted = with_launch(spec, ["trackside", "run", "train.py"], "src")
    assert JobSpec.from_request(noted.to_request()) == noted
    assert noted.to_request()["Trackside"]["Launch"] == {
        "Command": ["trackside", "run", "train.py"],
        "Folder": "src",
    }
    assert launch_of([], "/a/long/folder").folder is None
