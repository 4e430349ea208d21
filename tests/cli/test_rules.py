"""`trackside rules`, and rules tried on trials that a real writer wrote."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec
from tests.rules.profiling import Profiling
from tests.rules.recording import Recording
from trackside.cli.rules import ISSUES_FOUND
from trackside.jobs.jobs import Jobs
from trackside.records.layout import JobKeys
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
    assert "  VanishingGradient  gradients\n" in shown
    assert "threshold=1e-07" in shown
    assert [line for line in shown.splitlines() if line in catalog.groups()] == [*catalog.groups()]
    reported = json.loads(command("rules", "--json").stdout)
    assert [rule["name"] for rule in reported] == [*catalog.entries()]
    assert all(rule["summary"] and rule["watches"] for rule in reported)


def test_what_profiler_rules_share_is_listed_once(command: Command):
    shown = command("rules").stdout
    assert shown.count("scan_interval_us") == 1
    assert "CPUBottleneck_" not in shown
    assert "the parameters of all others as <Rule>_<parameter>" in shown
    assert "CPUBottleneck_" not in command("rules", "ProfilerReport").stdout.partition("run")[0]


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("AllZero", "AllZero:collection_names=gradients,threshold=100"),
        ("LossNotDecreasing", "LossNotDecreasing:increase_threshold_percent=5"),
        ("CPUBottleneck", "CPUBottleneck:threshold=50"),
        ("OverallSystemUsage", "OverallSystemUsage"),
    ],
)
def test_an_example_has_what_matters(command: Command, name: str, example: str):
    assert command("rules", name).stdout.endswith(f"  trackside run train.py --rule {example}\n")


def test_one_rule_is_shown_in_full_under_any_spelling_of_its_name(command: Command):
    shown = command("rules", "vanishing_gradient").stdout
    assert shown.startswith("VanishingGradient\n")
    assert "threshold=1e-07  number" in shown
    assert "Fires when" in shown
    assert "trackside run train.py --rule VanishingGradient:threshold=1e-07" in shown
    reported = json.loads(command("rules", "VanishingGradient", "--json").stdout)
    assert reported["parameters"][0]["default"] == "1e-07"


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
    done = command("rules", "check", "job-1", "--rule", "VanishingGradient", "--rule", "all")
    assert done.returncode == ISSUES_FOUND, done.stderr
    assert "3 tensors" in done.stdout


MINE = """
from smdebug.rules import Rule

class Small(Rule):
    def __init__(self, base_trial, limit="1"):
        super().__init__(base_trial)
        self.limit = float(limit)

    def invoke_at_step(self, step):
        return self.base_trial.tensor("gradient/a").reduction_value(step, "max") < self.limit

def check(step, tensors):
    raise KeyError("as ever")
"""


def test_rules_of_one_s_own_are_tried_too(command: Command, sick: Path, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    done = command("rules", "check", str(sick), "--rule", f"{file}:Small:limit=1e-3")
    assert done.returncode == ISSUES_FOUND, done.stderr
    assert done.stdout.startswith("Finding: Small at step 0\n")
    done = command("rules", "check", str(sick), "--rule", f"{file}:Small:limit=1e-12")
    assert (done.returncode, done.stdout) == (0, "Small: found nothing.\n")
    both = ("--rule", f"{file}:check", "--rule", "VanishingGradient")
    done = command("rules", "check", str(sick), *both)
    assert done.returncode == 1
    assert "check: raised an error.\nKeyError: 'as ever'\n" in done.stdout
    assert "Finding: VanishingGradient at step 0" in done.stdout


def test_the_machine_s_figures_are_judged_as_far_as_they_go(
    command: Command, jobs: Jobs, tmp_path: Path
):
    """Of an ended job to their end, though its last minute is no whole window."""
    place = tmp_path / "profile"
    Profiling(place).samples({"cpu": [[10.0]] * 60})
    slow = ("--rule", "MaxInitializationTime:threshold=0")
    done = command("rules", "check", str(place), *slow)
    assert (done.returncode, done.stdout) == (0, "MaxInitializationTime: found nothing.\n")
    spec = make_spec("job-1", ProfilerConfig={"S3OutputPath": "s3://figures/x"})
    jobs.submit(spec)
    jobs.wait("job-1")
    where = JobKeys.of(spec).under("s3://figures/x", "profiler-output")
    folder = locate(where, home=jobs.settings.home).local
    assert folder is not None
    shutil.copytree(place, folder)
    done = command("rules", "check", "job-1", *slow)
    assert done.returncode == ISSUES_FOUND, done.stdout + done.stderr
    assert "no step has been seen" in done.stdout
    jobs.submit(make_spec("job-2"))
    done = command("rules", "check", "job-2", *slow)
    assert done.returncode == 2
    assert "has no profile" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rule", "VanishingGradient:treshold=1,threshold=x"], "Did you mean 'threshold'?"),
        (["--rule", "NoSuch"], "Error: No rule is called 'NoSuch'. `trackside rules` lists"),
        (["--rule", "A", "--rule", "B"], "2 problems with the rules:\n  No rule is called 'A'"),
        (["--rule", "mine.py:Mine"], "There is no file 'mine.py'"),
        ([], "--rule"),
    ],
)
def test_what_cannot_be_checked_is_said(
    command: Command, sick: Path, arguments: list[str], said: str
):
    done = command("rules", "check", str(sick), *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_two_words_are_not_one_rule(command: Command):
    slip = command("rules", "chek", "job-1")
    assert slip.returncode == 2
    assert "Did you mean `trackside rules check job-1`?" in slip.stderr
    assert "One rule at a time" in command("rules", "DeadRelu", "Overfit").stderr


def test_a_job_that_captures_nothing_says_how_to(command: Command, jobs: Jobs):
    jobs.submit(make_spec("job-1"))
    for arguments in (("rules", "check", "job-1", "--rule", "all"), ("tensors", "job-1")):
        done = command(*arguments)
        assert done.returncode == 2
        assert "captures nothing" in done.stderr
