"""Who keeps the evaluator alive never lets the job pay for it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.supervisor.making import job
from tests.wait import until
from trackside.files import durable
from trackside.records import evaluator_process
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder
from trackside.records.rule_status import RuleStatus, read_evaluations
from trackside.records.spec import RuleConfiguration
from trackside.settings import Settings
from trackside.supervisor.context import Context
from trackside.supervisor.evaluator_watchdog import READ_SECONDS, EvaluatorWatchdog
from trackside.system import processes

RULE = RuleConfiguration(name="V", parameters={"rule_to_invoke": "VanishingGradient"})


@pytest.fixture
def context(tmp_path: Path) -> Context:
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    folder = settings.layout.job("job")
    folder.root.mkdir(parents=True)
    spec = replace(job(), debug_rules=(RULE,))
    durable.write_json(folder.spec, spec.to_request())
    Journal(folder.journal).open()
    return Context(folder, spec, "algo-1", "nonce", settings, dict(os.environ))


@pytest.fixture
def watch(context: Context) -> Iterator[Callable[[], EvaluatorWatchdog]]:
    """Makes one, as each supervisor does; none leaves a process."""
    made: list[EvaluatorWatchdog] = []

    def make() -> EvaluatorWatchdog:
        made.append(EvaluatorWatchdog(context, is_lead=True))
        return made[-1]

    yield make
    rules = context.folder.rules
    kill(context.folder)
    until(lambda: not evaluator_process.is_alive(rules))
    evaluator_process.give_up(rules, context.spec)
    for each in made:
        each.tick()  # sees that its child has ended, and that no other is wanted


def kill(folder: JobFolder) -> None:
    record = durable.read_json(folder.rules.evaluator)
    if record is not None:
        processes.send_signal(processes.Identity.from_record(record), signal.SIGKILL)


def pid(context: Context) -> int:
    record = durable.read_json(context.folder.rules.evaluator)
    return 0 if record is None else int(record["pid"])


def test_an_evaluator_that_dies_is_started_again(context: Context, watch):
    keeper = watch()
    keeper.tick()
    first = until(lambda: pid(context))
    assert os.getsid(first) == first != os.getsid(0)
    keeper.tick()
    assert pid(context) == first
    kill(context.folder)

    def is_revived() -> bool:
        keeper.tick()
        return pid(context) != first

    until(is_revived)


def test_an_evaluator_that_is_frozen_is_replaced(
    context: Context, watch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(evaluator_process, "FROZEN_CHECKS", 6)
    keeper = watch()
    keeper.tick()
    first = until(lambda: pid(context))
    os.kill(first, signal.SIGSTOP)

    def is_replaced() -> bool:
        keeper.tick()
        return pid(context) not in (0, first)

    until(is_replaced)
    assert processes.identify(first) is None


def test_one_that_beats_is_not_frozen_however_long_it_takes(
    context: Context, monkeypatch: pytest.MonkeyPatch
):
    rules, pulse, now = context.folder.rules, evaluator_process.Pulse(), 1000.0
    rules.root.mkdir()
    evaluator_process.write_myself(rules, "nonce")
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def looks(num: int, *, beats: bool) -> bool:
        nonlocal now
        found = False
        for number in range(num):
            now += 60.0  # a machine that hardly moves
            if beats:
                os.utime(rules.evaluator, ns=(number, number))
            found = pulse.is_frozen(rules)
        return found

    assert not looks(100, beats=True)
    assert not looks(evaluator_process.FROZEN_CHECKS - 1, beats=False)
    assert looks(1, beats=False)
    os.utime(rules.evaluator)
    assert not looks(1, beats=False)


def test_a_supervisor_that_takes_over_leaves_a_living_one_alone(
    context: Context, watch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(evaluator_process, "STARTING_SECONDS", 3600.0)
    watch().tick()
    watch().tick()  # at once: the first has not said who it is
    first = until(lambda: pid(context))
    monkeypatch.setattr(evaluator_process, "STARTING_SECONDS", 0.0)
    watch().tick()
    record = durable.read_json(context.folder.rules.placed)
    assert record is not None
    assert record["starts"] == 1
    assert pid(context) == first


def test_hosts_that_do_not_lead_and_jobs_without_rules_start_nothing(context: Context):
    EvaluatorWatchdog(context, is_lead=False).tick()
    without = replace(context, spec=replace(context.spec, debug_rules=()))
    EvaluatorWatchdog(without, is_lead=True).tick()
    EvaluatorWatchdog(without, is_lead=True).see_out()
    assert not context.folder.rules.root.exists()


def test_a_full_disk_does_not_fail_the_job(context: Context):
    context.folder.rules.root.touch()  # where the folder should be
    watch = EvaluatorWatchdog(context, is_lead=True)
    watch.tick()
    began = time.monotonic()
    watch.see_out()
    assert time.monotonic() - began < READ_SECONDS


def test_one_that_cannot_live_ends_its_rules_with_a_reason(context: Context):
    for _ in range(evaluator_process.MAX_STARTS):
        assert evaluator_process.intend(context.folder.rules)
    later = durable.read_json(context.folder.rules.placed)
    assert later is not None
    later["time"] -= evaluator_process.STARTING_SECONDS
    durable.write_json(context.folder.rules.placed, later)
    EvaluatorWatchdog(context, is_lead=True).see_out()
    [reported] = read_evaluations(context.folder.rules.statuses)
    assert reported.status is RuleStatus.ERROR
    assert "the evaluator died 6 times" in reported.details
