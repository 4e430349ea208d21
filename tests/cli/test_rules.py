"""`trackside rules`, and rules tried on trials that a real writer wrote."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec
from tests.rules.recording import Recording
from trackside.cli.rules import ISSUES_FOUND
from trackside.jobs.jobs import Jobs
from trackside.layout import JobKeys
from trackside.rules import catalog
from trackside.storage.locate import locate

HOOK = {"S3OutputPath": "s3://debug/x"}


@pytest.fixture
def sick(tmp_path: Path) -> Path:
    return record(tmp_path / "sick", 1e-9)


def record(folder: Path, size: float, name: str = "gradient/{}") -> Path:
    recording = Recording(folder)
    for step in range(3):
        recording.step(step, {name.format(layer): [size] for layer in ("a", "b", "c")})
    recording.end()
    return folder


def test_every_rule_is_listed_with_what_it_watches_and_its_parameters(command: Command):
    shown = command("rules").stdout
    assert "VanishingGradient  gradients\n" in shown
    assert "threshold=1e-07" in shown
    told = json.loads(command("rules", "--json").stdout)
    assert [rule["name"] for rule in told] == [*catalog.TENSOR_RULES, *catalog.PROFILER_RULES]
    assert all(rule["summary"] and rule["watches"] for rule in told)


def test_one_rule_is_shown_in_full_under_any_spelling_of_its_name(command: Command):
    shown = command("rules", "vanishing_gradient").stdout
    assert shown.startswith("VanishingGradient\n")
    assert "threshold=1e-07  number" in shown
    assert "Fires when" in shown
    assert "trackside run train.py --rule VanishingGradient:threshold=1e-07" in shown
    told = json.loads(command("rules", "VanishingGradient", "--json").stdout)
    assert told["parameters"][0]["default"] == "1e-07"


def test_an_unknown_rule_is_wrong_input(command: Command):
    done = command("rules", "VanishingGradiant")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'VanishingGradient'?" in done.stderr


def test_a_check_tells_what_it_finds_by_its_exit_code_too(command: Command, sick: Path):
    done = command("rules", "check", str(sick), "--rule", "VanishingGradient")
    assert done.returncode == ISSUES_FOUND, done.stderr
    assert done.stdout.startswith(
        "Finding: VanishingGradient at step 0: 3 tensors, first gradient/a\n"
        "    The mean absolute gradient is 1e-09, below 1e-07.\n"
        "    Try: "
    )


def test_parameters_count(command: Command, sick: Path):
    done = command("rules", "check", str(sick), "--rule", "VanishingGradient:threshold=1e-10")
    assert (done.returncode, done.stdout) == (0, "VanishingGradient: found nothing.\n")


def test_a_check_says_what_is_missing(command: Command, tmp_path: Path):
    folder = record(tmp_path / "other", 1.0, "weight/{}")
    done = command("rules", "check", str(folder), "--rule", "VanishingGradient")
    assert done.returncode == 0
    assert "VanishingGradient: could not judge." in done.stdout
    assert "CollectionConfig('gradients'" in done.stdout


def test_a_check_as_json(command: Command, sick: Path):
    done = command("rules", "check", str(sick), "--rule", "VanishingGradient", "--json")
    assert done.returncode == ISSUES_FOUND
    (verdict,) = json.loads(done.stdout)
    assert [finding["tensor"] for finding in verdict["findings"]] == [
        f"gradient/{layer}" for layer in "abc"
    ]


def test_a_job_is_checked_by_what_it_saved(command: Command, jobs: Jobs):
    spec = make_spec("job-1", DebugHookConfig=HOOK)
    jobs.submit(spec)
    jobs.wait("job-1")
    done = command("rules", "check", "job-1", "--rule", "VanishingGradient")
    assert done.returncode == 2
    assert "has saved no tensors yet" in done.stderr
    where = JobKeys.of(spec).under("s3://debug/x", "debug-output")
    folder = locate(where, home=jobs.settings.home).local
    assert folder is not None
    record(folder, 1e-9)
    done = command("rules", "check", "job-1", "--rule", "all")
    assert done.returncode == ISSUES_FOUND, done.stderr
    assert "3 tensors" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rule", "VanishingGradient:treshold=1,threshold=x"], "Did you mean 'threshold'?"),
        (["--rule", "NoSuch"], "No rule is called 'NoSuch'"),
        (["--rule", "mine.py:Mine"], "a rule of your own"),
        ([], "--rule"),
    ],
)
def test_what_cannot_be_checked_is_said(
    command: Command, sick: Path, arguments: list[str], said: str
):
    done = command("rules", "check", str(sick), *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_job_that_captures_nothing_says_how_to(command: Command, jobs: Jobs):
    jobs.submit(make_spec("job-1"))
    for arguments in (("rules", "check", "job-1", "--rule", "all"), ("tensors", "job-1")):
        done = command(*arguments)
        assert done.returncode == 2
        assert "captures nothing" in done.stderr
