"""`trackside show`: what a job was asked for, and the command that asks for it again."""

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.jobs.conftest import make_spec
from trackside.jobs.jobs import Jobs
from trackside.records import hosts
from trackside.records.hosts import HostRecord, Phase
from trackside.records.spec import JobSpec
from trackside.settings import Settings


def lines_of(command: Command, name: str) -> list[str]:
    done = command("show", name)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def finished(jobs: Jobs, spec: JobSpec) -> None:
    jobs.submit(spec)
    jobs.wait(spec.name)


def test_show_tells_what_was_asked_for(command: Command, jobs: Jobs):
    spec = make_spec(
        "job-1",
        hyper={"lr": "0.1", "batch_size": "32", "api_token": "hush"},
        Tags=[{"Key": "team", "Value": "vision"}],
        Trackside={"Arguments": ["--amp", "a b", "--hub-token", "hush"]},
    )
    finished(jobs, spec)
    jobs.change_tags("job-1", put={"stage": "final"}, remove=["team"])
    lines = lines_of(command, "job-1")
    assert "script           train.py" in lines
    assert "arguments        --amp 'a b' --hub-token '***'" in lines
    start = lines.index("hyperparameters  lr          0.1")
    assert lines[start + 1 : start + 3] == [
        "                 batch_size  32",
        "                 api_token   ***",
    ]
    assert "tags             stage  final" in lines
    assert not any("hush" in line for line in lines)


def test_show_tells_the_commit_of_the_source(command: Command, workplace: Path):
    folder = workplace / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    url = "https://ada:hush@example.com/code.git"
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["remote", "add", "origin", url],
        ["add", "."],
        [*who, "commit", "-qm", "First"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, check=True)
    commit = head.stdout.decode().strip()
    assert command("run", "code/train.py", "--name", "job-1").returncode == 0
    (shown,) = [line for line in lines_of(command, "job-1") if line.startswith("git commit")]
    # Whether anything was changed is not known if the machine stands still while git looks.
    assert shown.startswith(f"git commit       {commit} on main")
    assert shown.endswith(" of https://example.com/code.git")
    described = json.loads(command("show", "job-1", "--json").stdout)
    assert described["Trackside"]["options"]["Git"]["Commit"] == commit


@pytest.mark.parametrize(
    ("changed", "reported"),
    [(True, ", with changes"), (False, ""), (None, ", unknown whether with changes")],
)
def test_whether_the_source_was_changed_since_is_reported(
    command: Command, jobs: Jobs, changed: bool | None, reported: str
):
    git: dict[str, Any] = {"Commit": "a1" * 20, "Branch": "main"}
    if changed is not None:
        git["Changed"] = changed
    finished(jobs, make_spec("job-1", Trackside={"Git": git}))
    assert f"git commit       {'a1' * 20} on main{reported}" in lines_of(command, "job-1")


def test_the_command_that_is_reported_makes_the_same_job_again(command: Command, workplace: Path):
    (workplace / "src").mkdir()
    (workplace / "src" / "train.py").write_text("print('hello')\n")
    (workplace / "rule.py").write_text("class MyRule:\n    pass\n")
    (workplace / "data").mkdir()
    (workplace / "data" / "a.csv").write_text("1,2\n")
    done = command(
        *("run", "train.py", "--source-dir", "src", "--name", "first", "--output", "out"),
        *("--channel", "training=./data", "-p", "epochs=3", "-p", 'text=it\'s "a"'),
        *("--environment", "OMP_NUM_THREADS=1", "--tag", "team=vision"),
        *("--checkpoint-uri", "s3://ckpt/x", "--tensorboard", "s3://curves/x"),
        *("--metric", "loss=loss=([0-9.]+)", "--max-run", "60", "--max-retries", "2"),
        *("--grace", "7", "--distribution", "torchrun", "--processes-per-host", "2"),
        *("--instances", "2", "--instance-type", "ml.x", "--input-mode", "FastFile"),
        *("--rule", "VanishingGradient:threshold=0.1", "--stop-on", "rule.py:MyRule"),
        *("--capture", "weights", "--every", "5"),
        *("--", "--amp", "$HOME 'x'", "--", ""),
    )
    assert done.returncode == 0, done.stderr
    shown = command("show", "first").stdout.splitlines()
    (again,) = [line.strip() for line in shown if line.startswith("  trackside run ")]
    assert again == shown[-1].strip()
    words = shlex.split(again)
    repeated = command(*words[1:2], "--name", "second", *words[2:])
    assert repeated.returncode == 0, repeated.stderr
    first, second = (spec_of(name) for name in ("first", "second"))
    assert comparable(second) == comparable(first)


def spec_of(name: str) -> JobSpec:
    return JobSpec.from_stored(Settings.load().layout.job(name).spec.read_bytes())


def comparable(spec: JobSpec) -> JobSpec:
    """Without its own name, which its rules have too."""
    parameters = {**spec.hyperparameters, "sagemaker_job_name": ""}
    source = parameters["sagemaker_submit_directory"].replace("file://", "")
    parameters["sagemaker_submit_directory"] = source
    rules = tuple(
        replace(rule, parameters={k: v.replace(spec.name, "") for k, v in rule.parameters.items()})
        for rule in spec.debug_rules
    )
    options = replace(spec.options, launch=None)  # it was typed otherwise
    return replace(spec, name="job", hyperparameters=parameters, debug_rules=rules, options=options)


def test_a_job_that_no_command_can_start_is_shown_without_one(command: Command, jobs: Jobs):
    image = {"TrainingImage": "team/trainer:1", "TrainingInputMode": "File"}
    spec = make_spec("job-1", AlgorithmSpecification=image)
    finished(jobs, replace(spec, hyperparameters={"lr": "0.1"}))
    assert "To run it again" not in command("show", "job-1").stdout


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_nothing_is_cut_whatever_the_width(
    jobs: Jobs, terminal: Callable[..., Terminal], columns: int
):
    words = [f"word{number}" for number in range(100)]
    spec = make_spec(
        "job-1",
        hyper={"prompt": " ".join(words), "failure": " ".join(words)},
        Tags=[{"Key": "note", "Value": " ".join(words[:20])}],
    )
    finished(jobs, spec)
    place = jobs.settings.layout.job("job-1").host("algo-1", 1)
    seen = HostRecord(phase=Phase.ENDED, exit_code=1, failure=" ".join(words))
    hosts.write(place.record, seen)
    with terminal("show", "job-1", columns=columns, rows=50) as screen:
        shown = screen.until_over()
    assert screen.exit_code == 0
    assert "…" not in shown
    reason, _, rest = shown.partition("hyperparameters")
    asked, _, rest = rest.partition("tags")
    host = rest.partition("HOST")[2].partition("output")[0]
    assert words_in(reason) == words
    assert words_in(asked) == [*words, *words]
    assert words_in(host) == words
    assert shown.startswith("job-1  Failed")


def words_in(text: str) -> list[str]:
    return [word for word in text.split() if word.startswith("word")]
