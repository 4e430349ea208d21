"""`trackside.watch`: the check-up of a training that watches itself."""

import json
import os
import signal

from tests.inside.conftest import Scripts
from tests.wait import until
from trackside.inside.watch_model import default_rules
from trackside.records.status import Status

MODEL = """
import torch
import trackside.inside.attached_run
from torch import nn

trackside.inside.attached_run.END_SECONDS = 120  # the machine may stand still meanwhile

def train(model, steps):
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        inputs = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trackside.log({"loss": loss})

def wrong():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
"""
FOUND = "1 finding: LossInputAlreadySoftmax (Checkup) at step 0 in cross_entropy_input_0"


def test_the_check_up_is_reported_at_the_end_though_the_training_was_short(scripts: Scripts):
    ran = scripts.run(
        MODEL
        + """
model = wrong()
trackside.init(name="a")
trackside.watch(model)
trackside.watch(model)
train(model, 2)
"""
    )
    assert ran.returncode == 0, ran.stderr
    assert f"; {FOUND}. `trackside findings a`" in ran.stderr
    record = scripts.ended("a")
    assert [rule.name for rule in record.spec.debug_rules] == ["Checkup", "StalledTrainingRule"]
    found = scripts.jobs.findings("a")
    assert [each.rule for each in found] == ["LossInputAlreadySoftmax"]
    described = scripts.jobs.describe("a")
    statuses = {
        each["RuleConfigurationName"]: each["RuleEvaluationStatus"]
        for each in described["DebugRuleEvaluationStatuses"]
    }
    assert statuses == {"Checkup": "IssuesFound", "StalledTrainingRule": "NoIssuesFound"}


def test_a_model_may_be_watched_by_one_run_after_another(scripts: Scripts):
    """With rules of one's own: the second run is stopped by one, as Ctrl-C would."""
    ran = scripts.run(
        MODEL
        + """
model = wrong()
with trackside.init(name="a", rules=["Checkup"]) as run:
    run.watch(model)
    train(model, 2)
stop = trackside.Rule.sagemaker("Checkup", actions=trackside.StopTraining())
with trackside.init(name="b", rules=[stop]) as run:
    run.watch(model)
    while True:
        train(model, 20)
"""
    )
    assert "a Completed" in ran.stderr
    assert "b Stopped" in ran.stderr
    assert ran.stderr.count(FOUND) == 2
    assert scripts.ended("b").history.stopping_rule == "Checkup"


def test_what_cannot_be_watched_is_named(scripts: Scripts):
    ran = scripts.run(
        """
trackside.init(name="a")
def attempt(*given):
    try:
        trackside.watch(*given)
    except TypeError as error:
        print(error)

attempt("model")
import torch
attempt("model")
attempt()
"""
    )
    assert ran.stdout.splitlines() == [
        "watch('model') is not a torch.nn.Module: torch is not even imported.",
        "watch('model') is not a torch.nn.Module; only those are watched.",
        "watch() names no model. Give it: trackside.watch(model).",
    ]
    record = scripts.ended("a")
    assert record.history.state.status is Status.COMPLETED
    assert record.spec.debug_rules == ()


def test_nothing_stalls_where_a_person_reads_between_two_cells():
    names = [rule.invokes for rule in default_rules(is_interactive=False)]
    assert names == ["Checkup", "StalledTrainingRule"]
    assert [rule.invokes for rule in default_rules(is_interactive=True)] == ["Checkup"]


def test_rules_that_came_while_the_supervisor_stood_still_are_not_lost(scripts: Scripts):
    script = scripts.start(
        MODEL
        + """
model = wrong()
trackside.init(name="a")
wait_for_go()
trackside.watch(model)
train(model, 2)
"""
    )
    scripts.until_training("a")
    host = scripts.host("a")
    until((host.sandbox / "adopted").exists)
    supervisor = json.loads(host.supervisor.read_text())["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    scripts.go.touch()
    until(host.caller_end.exists, seconds=120)
    os.kill(supervisor, signal.SIGCONT)
    _, said = script.communicate(timeout=120)
    assert FOUND in said
