"""Findings on the screen: while one waits, and afterwards."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import TRACKSIDE, Command
from tests.cli.test_wait_for_job import WAIT, Terminal, release
from tests.jobs.conftest import is_training, make_spec
from tests.jobs.test_rule_updates import RULES, conclude
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding, read_findings
from trackside.records.layout import RulesFolder
from trackside.records.rule_status import RuleStatus
from trackside.settings import Settings

SLOW = """
import pathlib, sys, time
print("begun", flush=True)
sys.stdout.write("half a line "); sys.stdout.flush()
while not pathlib.Path("GO").exists():
    time.sleep(0.02)
print("and the rest", flush=True)
"""


def file_findings(rules: RulesFolder, step: int, *tensors: str) -> None:
    rules.root.mkdir(exist_ok=True)
    with rules.findings.open("ab") as file:
        file.writelines(
            Finding(
                rule="VanishingGradient",
                configuration="grads",
                message="The mean is 3e-09, below 1e-07.",
                advice="Use residual connections. " * 5,
                step=step,
                tensor=tensor,
            ).to_line()
            for tensor in tensors
        )


@pytest.fixture
def held(jobs: Jobs) -> RulesFolder:
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}, DebugRuleConfigurations=RULES))
    until(lambda: is_training(jobs, "job-1"))
    return jobs.settings.layout.job("job-1").rules


@pytest.fixture
def terminal(held: RulesFolder) -> Iterator[Terminal]:
    shown = Terminal(*WAIT, "job-1")
    until(lambda: shown.shows("line 2"))
    yield shown
    shown.close()


def test_a_terminal_shows_findings_as_they_come(jobs: Jobs, held: RulesFolder, terminal: Terminal):
    conclude(held, RuleStatus.IN_PROGRESS, is_over=False)
    file_findings(held, 120, "gradient/a", "gradient/b")
    head = "Finding: VanishingGradient (grads) at step 120: 2 tensors, first gradient/a"
    until(lambda: terminal.shows(f"\x1b[1;33m{head}\x1b[0m\r\n"))
    until(lambda: terminal.shows("    The mean is 3e-09, below 1e-07.\r\n    Try: Use"))
    file_findings(held, 130, "gradient/c")
    conclude(held, RuleStatus.ISSUES_FOUND)
    until(lambda: terminal.shows("grads: IssuesFound"))
    release(jobs)
    assert terminal.end() == 0
    assert terminal.shown.count("Try:") == 1
    assert "InProgress" not in terminal.shown
    assert max(map(len, terminal.shown.splitlines())) <= 110  # 100 columns and the colours


def test_findings_can_be_read_and_followed(jobs: Jobs, held: RulesFolder, command: Command):
    assert command("findings", "job-1").stdout.startswith("Nothing found so far.\n")
    file_findings(held, 5, "gradient/a")
    assert "at step 5 in gradient/a" in command("findings", "job-1").stdout
    (reported,) = json.loads(command("findings", "job-1", "--json").stdout)
    assert (reported["tensor"], reported["step"]) == ("gradient/a", 5)
    with subprocess.Popen(
        [*TRACKSIDE, "findings", "-f", "job-1", "--json"], stdout=subprocess.PIPE
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["step"] == 5
        file_findings(held, 6, "gradient/a")
        assert json.loads(following.stdout.readline())["step"] == 6
        conclude(held, RuleStatus.ISSUES_FOUND)
        release(jobs)
        assert following.stdout.read() == b""
    assert following.returncode == 0


def test_a_job_without_rules_is_reported_how_to_get_some(jobs: Jobs, command: Command):
    jobs.submit(make_spec("job-1"))
    done = command("findings", "job-1")
    assert (done.returncode, done.stdout) == (0, "")
    assert "trackside rules check job-1" in done.stderr


def test_a_real_job_is_watched_and_its_findings_are_copied(workplace: Path):
    """The job and its log are real; the findings are appended in the evaluator's place."""
    go = workplace / "go"
    (workplace / "train.py").write_text(SLOW.replace("GO", str(go)))
    copy = workplace / "findings.jsonl"
    asked = ("run", "train.py", "--name", "real", "--wait", "--findings", str(copy))
    with subprocess.Popen(
        [*TRACKSIDE, *asked, "--rule", "VanishingGradient"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        folder = Settings.load().layout.job("real")
        until(lambda: b"half a line" in log(folder.host("algo-1", 1).log))
        file_findings(folder.rules, 0, "gradient/a", "gradient/b")
        until(lambda: copy.exists() and copy.read_bytes().count(b"\n") == 2)
        go.touch()
        shown, _ = process.communicate(timeout=200)
    assert process.returncode == 0, shown
    lines = shown.splitlines()
    assert "Finding: VanishingGradient (grads) at step 0: 2 tensors, first gradient/a" in lines
    assert copy.read_bytes() == folder.rules.findings.read_bytes()
    assert "\x1b" not in shown


SICK = """
import time, torch
from torch import nn
torch.set_num_threads(1)
layers = [part for _ in range(14) for part in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(*layers, nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10**6):
    x = torch.randn(8, 16)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long()).backward()
    optimizer.step()
    time.sleep(0.02)
print("not stopped")
"""


def test_a_sick_training_is_noticed_and_stopped(workplace: Path, command: Command):
    (workplace / "train.py").write_text(SICK)
    asked = ("--stop-on", "VanishingGradient", "--rule", "LossNotDecreasing", "--wait")
    done = command("run", "train.py", "--name", "sick", *asked, "--findings", "found.jsonl")
    assert done.returncode == 5, done.stderr
    stopped = "Error: Job 'sick' is not Completed: the rule 'VanishingGradient' stopped it."
    assert done.stderr.startswith(stopped)
    assert "Finding: VanishingGradient at step 0: " in done.stdout
    assert "VanishingGradient: IssuesFound" in done.stdout
    assert "not stopped" not in done.stdout
    assert json.loads(command("show", "sick", "--json").stdout)["TrainingJobStatus"] == "Stopped"
    found = read_findings(workplace / "found.jsonl")
    assert found
    assert {finding.step for finding in found if finding.rule == "VanishingGradient"} >= {0}
    assert read_findings(Settings.load().layout.job("sick").rules.findings) == found


def log(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
