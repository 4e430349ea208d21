"""Jobs that are watched by rules while they run: found, told, acted upon, whoever dies."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Job, Machine
from tests.wait import until
from trackside.records import evaluator_process
from trackside.records.finding import Finding, parse_findings, read_findings
from trackside.records.layout import JobKeys, curves_of
from trackside.records.rule_status import (
    Evaluation,
    RuleStatus,
    parse_evaluations,
    read_evaluations,
)
from trackside.records.status import Status

TRAIN = """
import os, sys, time
import torch
import torch.nn as nn

torch.manual_seed(0)
torch.set_num_threads(1)
TOLD = os.environ.get("SICK_AT") == "told"
SICK_AT = 10**9 if TOLD else int(os.environ.get("SICK_AT", "20"))
AFTER = int(os.environ.get("AFTER", "1000000"))
STEPS = int(os.environ.get("STEPS", "40"))
PAUSE = float(os.environ.get("PAUSE", "0.01"))
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    if TOLD and step < SICK_AT and os.path.exists(os.environ["GO"]):
        SICK_AT = step
        print("ILL", step, flush=True)
    if step >= SICK_AT + AFTER:
        break
    optimizer.zero_grad()
    out = model(torch.randn(16, 4))
    loss = nn.functional.mse_loss(out, torch.ones(16, 1))
    if step >= SICK_AT:
        loss = loss * 0.0
    loss.backward()
    optimizer.step()
    print("step", step, flush=True)
    time.sleep(PAUSE)
print("END", flush=True)
"""
"""From step SICK_AT on, or the one at which it is told to, no gradient reaches any layer."""

TOLD = {"SICK_AT": "told", "STEPS": "1000000", "PAUSE": "0.05"}
"""A training that is well until the test has seen enough of that."""

HOOK = {
    "S3OutputPath": "s3://bucket/debug",
    "HookParameters": {"save_interval": "1"},
    "CollectionConfigurations": [
        {"CollectionName": "gradients", "CollectionParameters": {"reductions": "abs_mean"}}
    ],
}
TENSORS = {f"gradient/Sequential_{n}.{kind}" for n in (0, 2) for kind in ("weight", "bias")}


def rule(name: str = "Vanishing", invokes: str = "VanishingGradient", **parameters: str) -> Any:
    return {
        "RuleConfigurationName": name,
        "RuleParameters": {"rule_to_invoke": invokes, **parameters},
    }


STOP = {"action_json": r"[{\"name\": \"stoptraining\", \"training_job_prefix\": \"job-\"}]"}


class Watched:
    """A job and what its rules have come to."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rules = job.folder.rules

    def wait(self) -> None:
        self.job.wait()
        until(self._is_done, seconds=150)

    def wait_for_a_check(self) -> None:
        """Until the first steps were saved and judged."""

        def has_looked() -> bool:
            return self.rules.statuses.exists() and self.status().last_step is not None

        until(has_looked, seconds=120)

    def _is_done(self) -> bool:
        self.job.machine.jobs.reconcile(self.job.name)
        return evaluator_process.is_done(self.rules, self.job.spec)

    def findings(self) -> list[Finding]:
        return read_findings(self.rules.findings)

    def status(self, name: str = "Vanishing") -> Evaluation:
        return next(e for e in read_evaluations(self.rules.statuses) if e.configuration == name)

    def actions(self) -> list[tuple[str, str]]:
        lines = self.rules.actions.read_bytes().splitlines()
        return [(line["action"], line["state"]) for line in map(json.loads, lines)]

    def evaluator_pid(self) -> int:
        return int(json.loads(self.rules.evaluator.read_bytes())["pid"])

    def stored(self, name: str) -> bytes:
        return self.job.stored(f"{JobKeys.of(self.job.spec).rules}/{name}")

    def log(self) -> str:
        return self.rules.log.read_text()


@pytest.fixture
def submit(machine: Machine):
    started: list[Watched] = []

    def start(*rules: Any, script: str = TRAIN, **request: Any) -> Watched:
        request = {"DebugHookConfig": HOOK, "DebugRuleConfigurations": list(rules), **request}
        watched = Watched(machine.submit(script, **request))
        started.append(watched)
        return watched

    yield start
    for watched in started:
        kill_evaluator(watched)


def kill_evaluator(watched: Watched) -> None:
    try:
        os.kill(watched.evaluator_pid(), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return


def test_a_sick_training_is_stopped_by_its_rule(submit, machine):
    watched = submit(rule(**STOP), Environment={"STEPS": "1000000", "PAUSE": "0.02"})
    job = watched.job
    described = job.describe()["DebugRuleEvaluationStatuses"]
    assert [item["RuleEvaluationStatus"] for item in described] == ["InProgress"]
    watched.wait()
    assert job.history().state.status is Status.STOPPED, job.log()[-2000:] + watched.log()
    found = watched.findings()
    assert {(each.tensor, each.step) for each in found} == {(name, 20) for name in TENSORS}
    assert {each.configuration for each in found} == {"Vanishing"}
    assert watched.actions() == [("stoptraining", "intended"), ("stoptraining", "done")]
    stop = next(t for t in job.history().transitions if t.secondary == "Stopping")
    assert stop.message.startswith("Rule 'Vanishing' asked for it. The mean absolute gradient is 0")
    [reported] = job.describe()["DebugRuleEvaluationStatuses"]
    assert reported["RuleEvaluationStatus"] == "IssuesFound"
    assert reported["StatusDetails"].startswith(
        "RuleEvaluationConditionMet: Evaluation of the rule VanishingGradient at step 20 resulted "
        "in the condition being met."
    )
    assert (
        "arn:aws:sagemaker:local:000000000000:processing-job/job-1-vanishing-"
        in (reported["RuleEvaluationJobArn"])
    )


def check_storage_and_tensorboard(watched: Watched) -> None:
    """Whatever else was wrong, of the rule that could judge there is all it found."""
    stored = list(parse_findings(watched.stored("findings.jsonl")))
    assert stored == watched.findings()
    assert len(stored) == len(TENSORS)
    evaluation = parse_evaluations(watched.stored("statuses.json"))[-1]
    assert evaluation.configuration == "Vanishing"
    assert (evaluation.status, evaluation.num_findings) == (RuleStatus.ISSUES_FOUND, 4)
    assert (evaluation.last_step, evaluation.is_over) == (39, True)
    texts = texts_in(curves_of(watched.job.spec), watched.job.machine.settings.home)
    assert [(step, text.split("\n")[0]) for step, text in texts] == [
        (20, f"**VanishingGradient** (step 20, TRAIN, `{each.tensor}`): {each.message}")
        for each in stored
    ]


def texts_in(uri: str, home: Path) -> list[tuple[int, str]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    from trackside.storage.locate import locate

    folder = locate(uri, home=home).local
    assert folder is not None
    return [
        (event.step, value.tensor.string_val[0].decode())
        for path in sorted((folder / "rules").iterdir())
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
    ]


def test_an_evaluator_that_is_killed_is_revived_and_repeats_nothing(submit, machine):
    watched = submit(rule(**STOP), Environment=TOLD)
    watched.wait_for_a_check()
    first = watched.evaluator_pid()
    os.kill(first, signal.SIGKILL)
    until(lambda: watched.rules.evaluator.exists() and watched.evaluator_pid() != first)
    assert watched.findings() == []
    machine.go.touch()
    until(watched.findings, seconds=120)
    kill_evaluator(watched)
    watched.wait()
    assert watched.job.history().state.status is Status.STOPPED
    sick_at, *_ = re.findall(r"^ILL (\d+)$", watched.job.log(), re.M)  # and at its end again
    assert {(each.tensor, each.step) for each in watched.findings()} == {
        (name, int(sick_at)) for name in TENSORS
    }
    assert len(watched.findings()) == len(TENSORS)
    assert watched.actions() == [("stoptraining", "intended"), ("stoptraining", "done")]


def test_the_evaluator_outlives_the_supervisor_and_is_kept_by_the_next(submit, machine):
    watched = submit(rule(), Environment={**TOLD, "AFTER": "20"})
    job = watched.job
    watched.wait_for_a_check()
    evaluator, supervisor = watched.evaluator_pid(), job.supervisor_pid()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: job.supervisor_pid() != supervisor)
    assert evaluator_process.is_alive(watched.rules)
    assert watched.evaluator_pid() == evaluator
    os.kill(evaluator, signal.SIGKILL)
    machine.go.touch()
    watched.wait()
    assert job.history().state.status is Status.COMPLETED
    assert len(watched.findings()) == len(TENSORS)
    assert watched.status().status is RuleStatus.ISSUES_FOUND


def test_an_evaluator_lost_after_the_job_s_end_is_started_by_who_looks(submit):
    """It reads what is stored: the job's own folder has been given back."""
    watched = submit(rule())
    until(lambda: watched.rules.evaluator.exists())
    watched.wait()
    for path in (watched.rules.statuses, watched.rules.findings, watched.rules.placed):
        path.unlink()
    assert not watched.job.host().ml.exists()
    until(
        lambda: (
            watched.job.describe()["DebugRuleEvaluationStatuses"][0]["RuleEvaluationStatus"]
            == "IssuesFound"
        )
    )
    watched.wait()
    assert len(watched.findings()) == len(TENSORS)


def test_rules_of_a_job_that_saves_nothing_say_so(submit):
    default = {"S3OutputPath": "s3://bucket/debug", "CollectionConfigurations": []}
    watched = submit(rule(), script="print('no torch here')", DebugHookConfig=default)
    watched.wait()
    assert watched.job.history().state.status is Status.COMPLETED
    status = watched.status()
    assert status.status is RuleStatus.ERROR
    assert status.details.startswith("ClientError: No debugging data was saved by the training job")


def test_a_script_of_another_framework_is_said_not_to_be_watched(submit):
    pytest.importorskip("sklearn", reason="another framework than torch is needed")
    watched = submit(rule(), script="import sklearn")
    watched.wait()
    assert watched.job.history().state.status is Status.COMPLETED
    assert watched.job.log().count("Not watched: scikit-learn.") == 1
    assert watched.job.record().capture == "not watched: scikit-learn"
    assert watched.status().status is RuleStatus.ERROR
    assert watched.status().details.startswith("ClientError: Not watched: scikit-learn.")


def test_a_rule_whose_tensors_are_not_saved_names_the_way_to_save_them(submit, machine):
    hook = {**HOOK, "CollectionConfigurations": [{"CollectionName": "losses"}]}
    watched = submit(rule(), DebugHookConfig=hook, Environment={**TOLD, "AFTER": "5"})
    until(lambda: watched.rules.statuses.exists() and watched.status().details, seconds=120)
    assert watched.status().status is RuleStatus.IN_PROGRESS
    machine.go.touch()
    watched.wait()
    status = watched.status()
    assert status.status is RuleStatus.NO_ISSUES_FOUND
    assert "No tensor of collection 'gradients' is saved." in status.details
    assert "CollectionConfig('gradients')" in status.details


def test_rules_of_a_job_that_is_stopped_have_no_verdict(submit, machine):
    watched = submit(rule(), Environment=TOLD)
    watched.wait_for_a_check()
    machine.jobs.stop(watched.job.name)
    watched.wait()
    status = watched.status()
    assert status.status is RuleStatus.STOPPED
    assert status.details.startswith("The training job was stopped before a verdict.")


def test_a_rule_with_wrong_parameters_ends_at_once_and_disturbs_no_other(submit):
    """The other's findings are in storage, in TensorBoard and in `show`."""
    wrong = rule("Wrong", threshold="tiny", treshold="1")
    unknown = rule("Unknown", "VanishingGradients")
    broken = rule("Broken", action_json="[{")
    watched = submit(wrong, unknown, broken, rule())
    watched.wait()
    assert watched.job.history().state.status is Status.COMPLETED
    assert watched.status().status is RuleStatus.ISSUES_FOUND
    for name, part in {
        "Wrong": "threshold = 'tiny': a number is needed.",
        "Unknown": "No rule is called 'VanishingGradients'. Did you mean 'VanishingGradient'?",
        "Broken": "action_json = '[{' is not JSON",
    }.items():
        assert watched.status(name).status is RuleStatus.ERROR
        assert part in watched.status(name).details
    reported = watched.job.describe()["DebugRuleEvaluationStatuses"]
    assert [item["RuleConfigurationName"] for item in reported] == [
        "Wrong",
        "Unknown",
        "Broken",
        "Vanishing",
    ]
    check_storage_and_tensorboard(watched)
    check_show(watched)


def test_a_second_attempt_is_watched_from_its_beginning(submit):
    script = TRAIN.replace(
        "for step in range(STEPS):",
        "import pathlib; first = pathlib.Path('/opt/ml/checkpoints/first')\n"
        "SICK_AT = SICK_AT if first.exists() else 10**9\n"
        "is_first = not first.exists(); first.touch()\n"
        "for step in range(STEPS):\n"
        "    if is_first and step == 25: time.sleep(2); os.kill(os.getpid(), 9)",
    )
    watched = submit(
        rule(),
        script=script,
        Environment={"SICK_AT": "10", "PAUSE": "0.02"},
        RetryStrategy={"MaximumRetryAttempts": 1},
        CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"},
    )
    watched.wait()
    history = watched.job.history()
    assert (history.state.status, history.attempt) == (Status.COMPLETED, 2), watched.log()
    assert len(watched.findings()) == len(TENSORS)
    assert watched.status().status is RuleStatus.ISSUES_FOUND
    assert watched.status().is_over


def test_several_hosts_are_watched_by_what_they_have_stored(submit):
    watched = submit(
        rule(), ResourceConfig={"InstanceCount": 2}, Environment={"PAUSE": "0.05", "STEPS": "60"}
    )
    watched.wait()
    assert watched.job.history().state.status is Status.COMPLETED
    assert {(each.tensor, each.step) for each in watched.findings()} == {
        (name, 20) for name in TENSORS
    }
    assert watched.status().is_over
    assert watched.status().last_step == 59


def test_rules_of_a_job_that_never_got_to_its_script_end_too(submit, tmp_path):
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(b"this is no archive")
    source = {"sagemaker_submit_directory": json.dumps(str(broken))}
    watched = submit(rule(), hyperparameters=source)
    watched.wait()
    assert watched.job.history().state.status is Status.FAILED
    assert watched.status().status is RuleStatus.ERROR
    assert "No debugging data was saved" in watched.status().details


def check_show(watched: Watched) -> None:
    show = [sys.executable, "-m", "trackside.cli", "show", watched.job.name]
    shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    [header] = [line for line in shown.splitlines() if line.startswith("RULE ")]
    assert header.split() == ["RULE", "STATUS", "DETAILS"]
    assert "Vanishing  IssuesFound  step 20: gradient/Sequential_0.bias: The mean" in shown
    unknown = "Unknown    Error        ClientError: No rule is called 'VanishingGradients'."
    assert unknown in shown


LOGS = """
import os, time
with open("metrics.csv", "w") as file:
    print("step,loss", file=file)
    for step in range(30):
        print(f"{step},{0.5 if step > 9 else 1 / (step + 1)}", file=file, flush=True)
    while os.environ.get("WAITS") and not os.path.exists(os.environ["GO"]): time.sleep(0.05)
"""


@pytest.mark.parametrize(
    "hook", [pytest.param({"DebugHookConfig": HOOK}, marks=pytest.mark.nightly), {}]
)
def test_a_rule_about_losses_judges_the_script_s_own_curves_where_no_hook_is(
    machine: Machine, hook: Any
):
    rules = [rule("Loss", "LossNotDecreasing"), rule()]
    watched = Watched(machine.submit(LOGS, DebugRuleConfigurations=rules, **hook))
    watched.wait()
    [found] = watched.findings()
    assert (found.configuration, found.tensor, found.step) == ("Loss", "metrics/loss", 20)
    assert watched.status("Loss").status is RuleStatus.ISSUES_FOUND
    assert watched.status("Vanishing").status is RuleStatus.ERROR  # no gradient was saved


@pytest.mark.nightly
def test_it_stops_a_job_by_the_script_s_own_curves(machine: Machine):
    rules = [rule("Loss", "LossNotDecreasing", **STOP)]
    job = machine.submit(LOGS, DebugRuleConfigurations=rules, Environment={"WAITS": "1"})
    watched = Watched(job)
    watched.wait()
    assert job.history().state.status is Status.STOPPED
    assert [found.step for found in watched.findings()] == [20]


HANGS = TRAIN.replace(
    'print("END"', 'import threading; threading.Event().wait()  # hangs\nprint("END"'
)


def test_a_training_that_hangs_is_named_by_its_line_and_stopped(submit):
    watched = submit(
        rule("Hang", "Hang", **STOP), script=HANGS, Environment={"TRACKSIDE_HANG_SECONDS": "1"}
    )
    watched.wait()
    assert watched.job.history().state.status is Status.STOPPED, watched.job.log()[-2000:]
    [found] = watched.findings()
    line = HANGS.splitlines().index("import threading; threading.Event().wait()  # hangs") + 1
    assert f"train.py:{line} and waits for a lock or an event." in found.message
    assert found.step == 39
    assert watched.actions() == [("stoptraining", "intended"), ("stoptraining", "done")]
