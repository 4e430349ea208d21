"""What rules find reaches whoever follows the job: live, after its end, and from storage."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.wait import until
from trackside.files import durable
from trackside.jobs import rule_updates
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import read_folder
from trackside.jobs.rule_updates import RuleUpdates
from trackside.jobs.start_supervisor import locked
from trackside.records import evaluator_process
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.records.layout import JobKeys, RulesFolder
from trackside.records.rule_status import Evaluation, RuleStatus, write_evaluations
from trackside.storage.locate import locate_object
from trackside.system import processes

RULES: list[dict[str, Any]] = [
    {
        "RuleConfigurationName": "grads",
        "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
    }
]


def found(step: int) -> Finding:
    return Finding(rule="VanishingGradient", message="small", step=step)


def file_findings(rules: RulesFolder, *steps: int) -> None:
    """As an evaluator does."""
    rules.root.mkdir(exist_ok=True)
    with rules.findings.open("ab") as file:
        file.writelines(found(step).to_line() for step in steps)


def conclude(rules: RulesFolder, status: RuleStatus, *, is_over: bool = True) -> None:
    rules.root.mkdir(exist_ok=True)
    evaluation = Evaluation(configuration="grads", rule="X", status=status, is_over=is_over)
    write_evaluations(rules.statuses, [evaluation])


@pytest.fixture
def held(jobs: Jobs) -> RulesFolder:
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}, DebugRuleConfigurations=RULES))
    until(lambda: is_training(jobs, "job-1"))
    return jobs.settings.layout.job("job-1").rules


def release(jobs: Jobs) -> None:
    (jobs.settings.layout.job("job-1").root / "release").touch()


def steps(item: Any) -> list[int | None]:
    assert isinstance(item, tuple)
    return [finding.step for finding in item]


def news(items: Iterator[Any]) -> Iterator[Any]:
    return (item for item in items if isinstance(item, tuple | Evaluation))


def test_findings_and_statuses_come_while_the_job_runs(jobs: Jobs, held: RulesFolder):
    items = news(jobs.follow_all("job-1"))
    conclude(held, RuleStatus.IN_PROGRESS, is_over=False)
    first = next(items)
    assert isinstance(first, Evaluation)
    assert first.status is RuleStatus.IN_PROGRESS
    file_findings(held, 10, 20)
    assert steps(next(items)) == [10, 20]
    file_findings(held, 30)
    conclude(held, RuleStatus.ISSUES_FOUND)
    assert steps(next(items)) == [30]
    assert next(items).status is RuleStatus.ISSUES_FOUND
    release(jobs)
    assert [*items] == []


def test_half_a_line_waits_for_its_other_half(jobs: Jobs, held: RulesFolder):
    line = found(7).to_line()
    held.root.mkdir(exist_ok=True)
    held.findings.write_bytes(line[:20])
    assert jobs.findings("job-1") == []
    items = news(jobs.follow_all("job-1"))
    held.findings.write_bytes(found(5).to_line() + line[:20])
    assert steps(next(items)) == [5]
    with held.findings.open("ab") as file:
        file.write(line[20:])
    assert steps(next(items)) == [7]


def test_findings_of_one_look_come_together(
    jobs: Jobs, held: RulesFolder, monkeypatch: pytest.MonkeyPatch
):
    """They are filed one by one, and a reader may look at any moment."""
    monkeypatch.setattr(rule_updates, "_HOLD_SECONDS", 600.0)
    news_of = RuleUpdates(read_folder(jobs.settings.layout.job("job-1")), jobs.settings.layout)
    file_findings(held, 1)
    assert [*news_of.new(at_rest=True)] == []
    file_findings(held, 2, 3)
    assert [*news_of.new(at_rest=True)] == []
    (found,) = news_of.new(at_rest=True)
    assert steps(found) == [1, 2, 3]
    assert [*news_of.new(at_rest=True)] == []


def test_rules_that_still_read_are_waited_for(jobs: Jobs, held: RulesFolder):
    conclude(held, RuleStatus.IN_PROGRESS, is_over=False)
    durable.write_json(held.evaluator, asdict(processes.myself()))  # this process evaluates
    release(jobs)
    items = jobs.follow_all("job-1")
    for item in items:
        if isinstance(item, History) and item.state.is_final:
            break
    file_findings(held, 99)
    conclude(held, RuleStatus.ISSUES_FOUND)
    rest = news(items)
    findings, evaluation = next(rest), next(rest)
    news_of = RuleUpdates(read_folder(jobs.settings.layout.job("job-1")), jobs.settings.layout)
    assert not news_of.is_over()  # it has judged, and still tells of it where it lasts
    held.evaluator.unlink()
    assert news_of.is_over()
    assert [*rest] == []
    assert steps(findings) == [99]
    assert evaluation.status is RuleStatus.ISSUES_FOUND


def test_nobody_waits_for_ever(jobs: Jobs, held: RulesFolder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rule_updates, "_START_SECONDS", 0.1)
    conclude(held, RuleStatus.IN_PROGRESS, is_over=False)
    release(jobs)
    with locked(jobs.settings.layout.job("job-1")):  # so that nobody starts an evaluator
        assert len([*news(jobs.follow_all("job-1"))]) == 1


def test_an_evaluator_that_takes_long_to_start_is_waited_for(
    jobs: Jobs, held: RulesFolder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rule_updates, "_START_SECONDS", 0.0)
    news_of = RuleUpdates(read_folder(jobs.settings.layout.job("job-1")), jobs.settings.layout)
    conclude(held, RuleStatus.IN_PROGRESS, is_over=False)
    evaluator_process.intend(held)
    with subprocess.Popen(["sleep", "600"]) as starting:
        evaluator_process.note_started(held, starting.pid)
        assert not news_of.is_over()
        starting.kill()
        starting.wait()
        until(news_of.is_over)


def test_a_job_without_rules_is_asked_for_nothing(jobs: Jobs):
    jobs.submit(make_spec("job-1"))
    assert [*news(jobs.follow_all("job-1"))] == []
    assert jobs.findings("job-1") == []


def test_findings_are_read_from_storage_when_the_folder_is_gone(
    jobs: Jobs, held: RulesFolder, tmp_path: Path
):
    conclude(held, RuleStatus.ISSUES_FOUND)
    release(jobs)
    run_to_end(jobs)
    keys = JobKeys("s3://out/runs", "job-1")
    for name, data in (
        ("findings.jsonl", found(3).to_line() + found(4).to_line()),
        ("statuses.json", held.statuses.read_bytes()),
    ):
        place = locate_object(f"{keys.rules}/{name}", home=jobs.settings.home)
        place.store.put(place.key, data)
    jobs.reindex()
    shutil.rmtree(jobs.settings.layout.job("job-1").root)
    assert [finding.step for finding in jobs.findings("job-1")] == [3, 4]
    findings, evaluation = news(jobs.follow_all("job-1"))
    assert steps(findings) == [3, 4]
    assert evaluation.status is RuleStatus.ISSUES_FOUND
