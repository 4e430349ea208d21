"""Rules that users bring: good ones, and ones that raise, hang or eat memory."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.test_rules import HOOK, TENSORS, TRAIN, Watched, kill_evaluator, rule
from tests.wait import until
from trackside.records.rule_status import RuleStatus
from trackside.records.status import Status

CLASS = """
from smdebug.rules.rule import Rule
from smdebug.exceptions import *

class SmallGradient(Rule):
    def __init__(self, base_trial, threshold="0.5", limit=None):
        super().__init__(base_trial)
        self.threshold = float(threshold)
        assert limit is None

    def set_required_tensors(self, step):
        for name in self.base_trial.tensor_names(collection="gradients"):
            self.req_tensors.add(name=name, steps=[step])

    def invoke_at_step(self, step):
        print("looking at", step)
        for tensor in self.req_tensors.get():
            if tensor.reduction_value(step, "mean", abs=True) < self.threshold:
                return True
        return False
"""

FUNCTION = """
from trackside import Finding

def check(step, tensors, threshold):
    for name in tensors.matching("^gradient/"):
        value = abs(tensors[name]).mean()
        if value < float(threshold):
            message = f"{name} is {value}"
            return Finding(rule="mine", message=message, step=step, tensor=name, value=value)
"""

RAISES = """
def check(step, tensors):
    if step >= 5:
        return {}["no such key"]
"""

HANGS = """
import time

def check(step, tensors):
    while step >= 5:
        time.sleep(0.1)
"""

EATS = """
def check(step, tensors):
    kept = [bytearray(64 << 20) for _ in range(100)]
    return f"kept {len(kept)}"
"""

DIES = """
import os

def check(step, tensors):
    os.abort()
"""

RAW = {**HOOK, "CollectionConfigurations": [{"CollectionName": "gradients"}]}


@pytest.fixture(autouse=True)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_RULE_STEP_SECONDS", getattr(request, "param", "120"))
    monkeypatch.setenv("TRACKSIDE_RULE_MEMORY_GB", "0.5")


@pytest.fixture
def submit(machine: Machine):
    started: list[Watched] = []

    def start(*rules: Any, **request: Any) -> Watched:
        request = {"DebugHookConfig": RAW, "DebugRuleConfigurations": list(rules), **request}
        watched = Watched(machine.submit(TRAIN, **request))
        started.append(watched)
        return watched

    yield start
    for watched in started:
        kill_evaluator(watched)


@pytest.fixture
def custom(tmp_path: Path):
    """A rule of its own source, in a file or in a bucket."""

    def make(name: str, source: str, invokes: str = "check", **parameters: str) -> Any:
        path = tmp_path / "rules of mine" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return rule(name, invokes, source_s3_uri=str(path), **parameters)

    return make


def test_a_class_written_for_smdebug_works_unchanged(submit, custom, machine):
    bucket = machine.settings.layout.buckets / "bucket" / "code"
    bucket.mkdir(parents=True)
    (bucket / "small.py").write_text(CLASS)
    stored = rule("Stored", "SmallGradient", source_s3_uri="s3://bucket/code/small.py")
    stored["RuleParameters"] |= {"threshold": "1e-9", "start_step": "5", "end_step": "38"}
    watched = submit(stored, rule())
    watched.wait()
    assert watched.job.history().state.status is Status.COMPLETED
    status = watched.status("Stored")
    assert status.status is RuleStatus.ISSUES_FOUND, status
    assert (status.num_findings, status.last_step) == (1, 37)
    [found] = [each for each in watched.findings() if each.configuration == "Stored"]
    assert (found.rule, found.step, found.mode) == ("SmallGradient", 20, "TRAIN")
    assert "at step 20 resulted in the condition being met" in status.details
    log = (watched.rules.custom(0, "Stored") / "log").read_text()
    assert "looking at 5\n" in log
    assert "looking at 4\n" not in log


def test_a_function_is_a_rule_too(submit, custom):
    watched = submit(custom("Function", FUNCTION, threshold="1e-9"))
    watched.wait()
    [found] = watched.findings()  # it holds from there on: one finding
    assert found.step == 20
    assert found.tensor in TENSORS
    assert found.message.endswith(" is 0.0")
    assert found.value == 0.0


@pytest.mark.parametrize("limits", ["15"], indirect=True)
def test_rules_that_raise_hang_or_eat_memory_end_alone(submit, custom):
    watched = submit(
        custom("Raises", RAISES),
        custom("Hangs", HANGS),
        custom("Eats", EATS),
        custom("Dies", DIES),
        custom("Unfinished", "def check(step tensors): pass"),
        custom("Elsewhere", "def chek(step, tensors): pass"),
        custom("Wants", "def check(step, tensors, more): pass"),
        rule(),
        Environment={"PAUSE": "0.05"},
    )
    watched.wait()
    assert watched.job.history().state.status is Status.COMPLETED
    assert watched.status().status is RuleStatus.ISSUES_FOUND
    assert watched.status().last_step == 39
    for name, parts in {
        "Raises": ["KeyError: 'no such key'", 'Raises.py", line 4, in check'],
        "Hangs": ["longer than 15 s at step 5", "TRACKSIDE_RULE_STEP_SECONDS"],
        "Eats": ["more than 0.5 GB of memory", "MemoryError", "TRACKSIDE_RULE_MEMORY_GB"],
        "Dies": ["ended by SIGABRT"],
        "Unfinished": ["SyntaxError"],
        "Elsewhere": ["no rule 'check'. Did you mean 'chek'?"],
        "Wants": ["check requires 'more', which the job does not give"],
    }.items():
        status = watched.status(name)
        assert status.status is RuleStatus.ERROR, status
        for part in parts:
            assert part in status.details, status.details
    trace = (watched.rules.custom(0, "Raises") / "log").read_text()
    confined, _, rest = trace.partition("\n")
    assert confined.startswith("trackside: this rule runs ")
    assert rest.startswith("Traceback (most recent call last):")


def test_a_custom_rule_goes_with_its_evaluator(submit, custom):
    """And the next one starts it again; nothing is found twice."""
    watched = submit(
        custom("Function", FUNCTION, threshold="1e-9"),
        Environment={"PAUSE": "0.05", "STEPS": "80"},
    )
    until(watched.findings, seconds=120)
    kill_evaluator(watched)
    watched.wait()
    assert [each.step for each in watched.findings()] == [20]
