"""The evaluator on a job's folder, without the job: what it does is in its files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.rules.conftest import MakeJob
from tests.rules.profiling import Profiling
from tests.rules.recording import Recording, add_rule
from tests.wait import until
from trackside.capture.writing.writer import WriterLimits
from trackside.records import evaluator_process, hosts
from trackside.records.finding import Finding, read_findings
from trackside.records.hosts import HostRecord, Phase
from trackside.records.job_updates import Update, note_stopped_rule, note_update
from trackside.records.layout import RulesFolder
from trackside.records.rule_status import (
    Evaluation,
    RuleStatus,
    read_evaluations,
    write_evaluations,
)
from trackside.records.spec import RuleConfiguration
from trackside.records.status import Secondary
from trackside.rules.action.action_taker import ActionTaker
from trackside.rules.builtin import TensorRule
from trackside.rules.evaluation import evaluator as evaluator_module
from trackside.rules.evaluation.evaluator import Evaluator
from trackside.rules.evaluation.publisher import Publisher
from trackside.rules.saved.evidence import Evidence
from trackside.rules.watched_job import WatchedJob
from trackside.system.process_table import WAKE_SIGNAL
from trackside.system.wake_ups import WakeUps

VANISHING = {
    "RuleConfigurationName": "Vanishing",
    "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
}


def recording(job: WatchedJob, *steps: float) -> Recording:
    """A trial in the job's folder, with one gradient of this size at each step."""
    folder = job.trial_folder()
    assert folder is not None
    made = Recording(folder, limits=WriterLimits(age_seconds=0.01))
    for number, size in enumerate(steps):
        made.step(number, {"gradient/a": [size]})
    return made


def end(job: WatchedJob) -> None:
    """The script is over, as its supervisor would say it."""
    hosts.write(job.folder.host("algo-1", job.attempt).record, HostRecord(phase=Phase.ENDED))
    job.journal.move(Secondary.UPLOADING)


RETRIES = {"MaximumRetryAttempts": 2}


def lose_attempt(job: WatchedJob) -> None:
    """The script was killed, and what it left is uploaded; the next attempt is not begun."""
    lost = HostRecord(phase=Phase.ENDED, lost="the script was ended by SIGKILL from outside")
    hosts.write(job.folder.host("algo-1", job.attempt).record, lost)
    job.journal.move(Secondary.UPLOADING)


def begin_next_attempt(job: WatchedJob) -> None:
    job.journal.move(Secondary.RESTARTING)
    job.journal.move(Secondary.STARTING, attempt=job.attempt + 1)
    job.journal.move(Secondary.DOWNLOADING)
    job.journal.move(Secondary.TRAINING)
    job.refresh()
    folder = job.trial_folder()
    assert folder is not None
    folder.mkdir(parents=True)


def complete(job: WatchedJob) -> None:
    end(job)
    job.journal.move(Secondary.COMPLETED)


def evaluate(job: WatchedJob) -> list[Evaluation]:
    evaluator = Evaluator(job, ActionTaker(job))
    evaluator.run()
    evaluator.close()
    return read_evaluations(job.folder.rules.statuses)


@dataclass
class Broken(TensorRule):
    """Does not work."""

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        raise ZeroDivisionError("as ever")


def test_a_defect_in_a_rule_is_that_rule_s_error(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
):
    add_rule(monkeypatch, Broken)
    broken = {"RuleConfigurationName": "B", "RuleParameters": {"rule_to_invoke": "Broken"}}
    job = make_job(DebugRuleConfigurations=[broken, VANISHING])
    recording(job, 1.0, 1e-9).end()
    end(job)
    wrong, right = evaluate(job)
    assert wrong.status is RuleStatus.ERROR
    assert wrong.details.startswith("InternalServerError: ZeroDivisionError: as ever\n")
    assert 'raise ZeroDivisionError("as ever")' in wrong.details
    assert right.status is RuleStatus.ISSUES_FOUND


@pytest.mark.parametrize(
    ("last", "has_news", "due", "pause"),
    [
        (1.0, True, 0.2, 0.2),
        (0.2, False, 0.2, 0.4),
        (0.8, False, 0.0, 1.0),
        (0.2, True, 0.7, 0.7),
        (0.2, True, 9.0, 1.0),
    ],
)
def test_looks_come_the_less_often_while_nothing_is_new(
    last: float, has_news: bool, due: float, pause: float
):
    assert evaluator_module.pause_after(last, has_news=has_news, due_seconds=due) == pause


def test_a_pause_ends_with_the_job(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluator_module, "PAUSE_SECONDS", 600.0)
    monkeypatch.setattr(evaluator_module, "LONGEST_PAUSE_SECONDS", 600.0)
    job = make_job(DebugRuleConfigurations=[VANISHING])
    made = recording(job, 1.0, 1.0)
    evaluator_process.write_myself(job.folder.rules, "nonce")

    def is_read() -> bool:
        evaluator_process.wake(job.folder.rules)
        return [each.last_step for each in read_evaluations(job.folder.rules.statuses)] == [1]

    def end_once_read() -> None:
        until(is_read)
        made.end()
        end(job)
        evaluator_process.wake(job.folder.rules)

    with woken() as wake, ThreadPoolExecutor() as pool:
        ended = pool.submit(end_once_read)
        evaluator = Evaluator(job, ActionTaker(job), wake=wake)
        evaluator.run()
        evaluator.close()
        ended.result()
    [reported] = read_evaluations(job.folder.rules.statuses)
    assert reported.status is RuleStatus.NO_ISSUES_FOUND


@contextmanager
def woken() -> Iterator[WakeUps]:
    """The signal of this process while the block is open."""
    before = signal.getsignal(WAKE_SIGNAL)
    wake = WakeUps()
    yield wake
    os.close(signal.set_wakeup_fd(-1))
    os.close(wake.descriptor)
    signal.signal(WAKE_SIGNAL, before)


def test_a_profile_that_no_rule_reads_is_not_read(make_job: MakeJob):
    profiler = {"S3OutputPath": "s3://bucket/profile"}
    job = make_job(DebugRuleConfigurations=[VANISHING], ProfilerConfig=profiler)
    recording(job, 1.0, 1.0).end()
    end(job)
    [reported] = evaluate(job)
    assert (reported.status, reported.last_step) == (RuleStatus.NO_ISSUES_FOUND, 1)


def test_a_trial_without_a_single_tensor_is_no_data(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    recording(job).end()
    end(job)
    [reported] = evaluate(job)
    assert reported.status is RuleStatus.ERROR
    assert reported.details.startswith("ClientError: No debugging data was saved")


def test_an_ended_rule_is_not_evaluated_again(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    recording(job, 1e-9).end()
    end(job)
    reported = [
        replace(each, status=RuleStatus.ERROR, details="it hung", is_over=True)
        for each in evaluator_process.first_evaluations(job.spec, 1.0)
    ]
    write_evaluations(job.folder.rules.statuses, reported)
    assert evaluate(job) == reported
    assert read_findings(job.folder.rules.findings) == []


def test_rules_of_both_kinds_may_have_one_name(make_job: MakeJob):
    tensors = {"rule_to_invoke": "VanishingGradient", "action_json": '[{"name": "stoptraining"}]'}
    figures = {"rule_to_invoke": "MaxInitializationTime", "threshold": "0"}
    job = make_job(
        DebugRuleConfigurations=[{"RuleConfigurationName": "Same", "RuleParameters": tensors}],
        ProfilerRuleConfigurations=[{"RuleConfigurationName": "Same", "RuleParameters": figures}],
        ProfilerConfig={"S3OutputPath": "s3://bucket/profile"},
    )
    recording(job, 1.0, 1.0).end()
    place = job.profile()
    assert place is not None
    assert place.local is not None
    Profiling(place.local).samples({"cpu": [[10.0]] * 240})
    end(job)
    healthy, slow = evaluate(job)
    assert (healthy.status, healthy.num_findings) == (RuleStatus.NO_ISSUES_FOUND, 0)
    assert (slow.status, slow.num_findings) == (RuleStatus.ISSUES_FOUND, 1)
    assert not job.was_stopped
    assert not job.folder.rules.actions.exists()


def test_a_rule_may_leave_files(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch):
    @dataclass
    class Report(TensorRule):
        """Finds nothing."""

        def check(self, evidence: Evidence) -> Iterator[Finding]:
            return iter(())

        def files(self, evidence: Evidence) -> dict[str, bytes]:
            return {"pages/report.html": str(evidence.trial.steps()).encode()}

    add_rule(monkeypatch, Report)
    rule = {"RuleConfigurationName": "My / report", "RuleParameters": {"rule_to_invoke": "Report"}}
    job = make_job(DebugRuleConfigurations=[rule])
    recording(job, 1.0, 1.0).end()
    end(job)
    evaluate(job)
    path = job.folder.rules.output("My / report") / "pages/report.html"
    assert path.read_text() == "[0, 1]"
    publisher = Publisher(job)
    publisher.start()
    publisher.close(600)
    stored = job.settings.layout.buckets / "bucket/out/job-1/rule-output/My-report"
    assert (stored / "pages/report.html").read_text() == "[0, 1]"


def test_rules_of_one_name_do_not_share_a_folder(make_job: MakeJob):
    def asked(*names: str) -> list[dict[str, str]]:
        return [{"RuleConfigurationName": name} for name in names]

    job = make_job(
        DebugRuleConfigurations=asked("Report", "My / report", "My report"),
        ProfilerRuleConfigurations=asked("Report", "Other"),
    )
    assert job.output_names == {
        (False, "Report"): "Report",
        (False, "My / report"): "My-report",
        (False, "My report"): "My-report.2",
        (True, "Report"): "Report.profiler",
        (True, "Other"): "Other",
    }


class running:
    """The process itself, as a supervisor starts it."""

    def __init__(self, job: WatchedJob) -> None:
        nonce = evaluator_process.intend(job.folder.rules)
        assert nonce is not None
        self._command = evaluator_process.command(job.folder, nonce)
        self._environment = {**os.environ, "TRACKSIDE_HOME": str(job.settings.home)}
        self._log = job.folder.rules.log

    def __enter__(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stderr=log)
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def has_looked(rules: RulesFolder, step: int) -> bool:
    return any(each.last_step == step for each in read_evaluations(rules.statuses))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_with_nothing_to_read_it_hardly_uses_the_machine(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    made = recording(job, 1.0, 1.0, 1.0)
    with running(job) as process:
        until(lambda: has_looked(job.folder.rules, 2))
        # When it comes to rest, a slow machine may keep it a while from that.
        until(lambda: cpu_seconds_in_five(process.pid) <= 0.05)
        assert process.poll() is None
    made.end()


def cpu_seconds_in_five(pid: int) -> float:
    before = cpu_seconds(pid)
    time.sleep(5)
    return cpu_seconds(pid) - before


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_it_starts_without_what_only_some_jobs_need():
    code = """
import sys
before = {*sys.modules}
import trackside.rules.__main__, trackside.rules.evaluation.evaluator
import trackside.rules.evaluation.publisher, trackside.rules.checkup.checkup
seldom = {"torch", "pandas", "obstore", "smtplib", "ssl", "importlib.metadata", "subprocess"}
seldom |= {"trackside.rules.custom.custom_rule", "trackside.rules.saved.loss_curves"}
print(*seldom & {*sys.modules} - before)
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert loaded.stdout.split() == []


def test_of_two_evaluators_the_later_one_leaves(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    rules = job.folder.rules
    with running(job) as first:
        until(lambda: evaluator_process.is_alive(rules))
        with running(job) as second:
            assert second.wait() == 0
        assert first.poll() is None
        assert evaluator_process.is_alive(rules)
        assert "already has an evaluator" in rules.log.read_text()
        recording(job, 1.0, 1e-9).end()
        end(job)
        assert first.wait() == 0
    assert evaluator_process.is_done(rules, job.spec)
    assert len(read_findings(rules.findings)) == 1


def test_one_that_keeps_dying_is_given_up_with_a_reason(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    rules = job.folder.rules
    nonces = [evaluator_process.intend(rules) for _ in range(evaluator_process.MAX_STARTS)]
    assert len(set(nonces)) == evaluator_process.MAX_STARTS
    assert evaluator_process.intend(rules) is None
    evaluator_process.give_up(rules, job.spec)
    [case] = read_evaluations(rules.statuses)
    assert case.status is RuleStatus.ERROR
    assert case.details.startswith("InternalServerError: the evaluator died 6 times; its log is ")
    assert evaluator_process.is_done(rules, job.spec)


HANGING = """
import dataclasses, sys, time
from dataclasses import dataclass
from trackside.rules import __main__ as evaluator, catalog
from trackside.rules.builtin import TensorRule

@dataclass
class Hanging(TensorRule):
    def check(self, evidence):
        time.sleep(1000)

known = catalog.find_entry("AllZero")
catalog.entries()["Hanging"] = dataclasses.replace(known, name="Hanging", module="__main__")
evaluator.HANG_SECONDS = 3.0
sys.exit(evaluator.main(sys.argv[1:]))
"""


def evaluate_once(job: WatchedJob, code: str) -> int:
    """The exit code of an evaluator that is started so."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(job.folder.root), "a-nonce"],
        env={**os.environ, "TRACKSIDE_HOME": str(job.settings.home)},
        stderr=subprocess.DEVNULL,
    )
    return done.returncode


def test_a_rule_that_hangs_the_evaluator_is_found_out_and_ends_alone(make_job: MakeJob):
    hanging = {"RuleConfigurationName": "H", "RuleParameters": {"rule_to_invoke": "Hanging"}}
    job = make_job(DebugRuleConfigurations=[hanging, VANISHING])
    recording(job, 1.0, 1e-9).end()
    end(job)
    num_deaths = 0
    # Not always by exit code 1: reading the stack of a thread that runs may itself bring the
    # process down.
    while evaluate_once(job, HANGING) != 0:
        num_deaths += 1
    assert num_deaths >= 2  # more on a machine that itself stands still for so long
    wrong, right = read_evaluations(job.folder.rules.statuses)
    assert wrong.status is RuleStatus.ERROR
    assert wrong.details.startswith("InternalServerError: evaluators die of it")
    assert right.status is RuleStatus.ISSUES_FOUND


def test_it_runs_with_less_right_to_the_machine_than_training(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    with running(job) as process:
        until(lambda: job.folder.rules.statuses.exists())
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(ours + 10, 19)


CPU = {
    "RuleConfigurationName": "Cpu",
    "RuleParameters": {"rule_to_invoke": "CPUBottleneck"},
}


def reported_for(job: WatchedJob) -> dict[str, RuleStatus]:
    return {each.configuration: each.status for each in read_evaluations(job.folder.rules.statuses)}


def test_a_rule_that_is_stopped_ends_and_the_others_go_on(make_job: MakeJob):
    other = {**VANISHING, "RuleConfigurationName": "Other"}
    job = make_job(DebugRuleConfigurations=[VANISHING, other])
    with running(job) as process:
        made = recording(job, 1.0, 1.0)
        until(lambda: has_looked(job.folder.rules, 1))
        note_stopped_rule(job.journal, (False, "Other"))
        until(lambda: reported_for(job).get("Other") is RuleStatus.STOPPED)
        made.step(2, {"gradient/a": [1e-9]})
        made.end()
        end(job)
        assert process.wait() == 0
    stopped = {"Vanishing": RuleStatus.ISSUES_FOUND, "Other": RuleStatus.STOPPED}
    assert reported_for(job) == stopped


def test_a_stopped_rule_s_finding_stands(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    with running(job) as process:
        made = recording(job, 1e-9, 1e-9)
        until(lambda: reported_for(job).get("Vanishing") is RuleStatus.ISSUES_FOUND)
        note_stopped_rule(job.journal, (False, "Vanishing"))
        assert process.wait() == 0
        made.end()
    assert reported_for(job) == {"Vanishing": RuleStatus.ISSUES_FOUND}
    assert evaluator_process.is_done(job.folder.rules, job.spec)


def test_a_rule_that_comes_later_reads_from_the_beginning(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING])
    with running(job) as process:
        made = recording(job, 1.0, 1.0)
        until(lambda: has_looked(job.folder.rules, 1))
        late = RuleConfiguration(name="Cpu", parameters={"rule_to_invoke": "CPUBottleneck"})
        where = {"S3OutputPath": "s3://bucket/profile"}
        note_update(job.journal, Update(profiler=where, rules=[late]))
        folder = job.folder.host("algo-1", 1).inside("/opt/ml/output/profiler")
        Profiling(folder).samples({"cpu": [[10.0]] * 20})
        until(lambda: "Cpu" in reported_for(job))
        made.end()
        end(job)
        assert process.wait() == 0
    assert reported_for(job)["Vanishing"] is RuleStatus.NO_ISSUES_FOUND
    assert reported_for(job)["Cpu"] is RuleStatus.NO_ISSUES_FOUND


def test_a_profiler_that_is_switched_off_ends_its_rules(make_job: MakeJob):
    job = make_job(ProfilerConfig={}, ProfilerRuleConfigurations=[CPU])
    with running(job) as process:
        until(lambda: evaluator_process.is_alive(job.folder.rules))
        note_update(job.journal, Update(profiler={"DisableProfiler": True}))
        assert process.wait() == 0
    assert reported_for(job) == {"Cpu": RuleStatus.STOPPED}


def test_an_attempt_that_is_lost_is_not_the_end_of_its_job(make_job: MakeJob):
    """The evaluator looks while the lead has not decided yet whether to start again."""
    job = make_job(DebugRuleConfigurations=[VANISHING], RetryStrategy=RETRIES)
    recording(job, 1.0, 1.0).close(end_marker=False)
    lose_attempt(job)
    with running(job) as process:
        until(lambda: has_looked(job.folder.rules, 1))
        begin_next_attempt(job)
        recording(job, 1e-9).close(end_marker=False)
        complete(job)
        assert process.wait() == 0
    [found] = read_findings(job.folder.rules.findings)
    assert found.step == 0
    assert reported_for(job) == {"Vanishing": RuleStatus.ISSUES_FOUND}


def test_attempts_that_went_by_while_the_evaluator_stood_still_are_judged(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING], RetryStrategy=RETRIES)
    recording(job, 1.0, 1.0).close(end_marker=False)
    with running(job) as process:
        until(lambda: has_looked(job.folder.rules, 1))
        process.send_signal(signal.SIGSTOP)
        lose_attempt(job)
        begin_next_attempt(job)
        recording(job, 1.0, 1e-9).close(end_marker=False)
        lose_attempt(job)
        begin_next_attempt(job)
        recording(job, 1e-9, 1.0, 1.0).close(end_marker=False)
        complete(job)
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 0
    assert [each.step for each in read_findings(job.folder.rules.findings)] == [1, 0]
    [reported] = read_evaluations(job.folder.rules.statuses)
    assert (reported.status, reported.last_step) == (RuleStatus.ISSUES_FOUND, 2)


def test_an_evaluator_that_starts_after_the_job_s_end_judges_every_attempt(make_job: MakeJob):
    job = make_job(DebugRuleConfigurations=[VANISHING], RetryStrategy=RETRIES)
    recording(job, 1.0, 1e-9).close(end_marker=False)
    lose_attempt(job)
    begin_next_attempt(job)
    recording(job, 1e-9, 1.0, 1.0).close(end_marker=False)
    complete(job)
    [reported] = evaluate(job)
    assert [each.step for each in read_findings(job.folder.rules.findings)] == [1, 0]
    assert (reported.status, reported.last_step) == (RuleStatus.ISSUES_FOUND, 2)
