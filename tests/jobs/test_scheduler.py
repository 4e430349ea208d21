"""Jobs that wait are begun in their turn, once, by one server; stand-ins are real processes."""

import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import (
    identity_at,
    is_training,
    kill_supervisor,
    make_jobs,
    make_spec,
    num_starts,
    run_to_end,
)
from tests.wait import until
from trackside.errors import CurvesTaken, InvalidKey, InvalidSpec, JobExists
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.jobs.owner_limit import Limit
from trackside.jobs.queue import no_limit
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.status import Secondary, Status
from trackside.settings import Settings
from trackside.system.run_as import Choice


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, capacity="cores=2,memory_gb=16,gpus=0")


def enqueue(jobs: Jobs, name: str = "job-1", *, who: str = "team", **changes: Any) -> None:
    jobs.enqueue(make_spec(name, **changes), key="TSKEY", who=who)


def state(jobs: Jobs, name: str = "job-1") -> str:
    return jobs.record(name).history.state.secondary


def release(home: Home, name: str) -> None:
    (home.job(name).root / "release").touch()


HOLD: dict[str, Any] = {"hyper": {"hold": "1"}}


def test_a_job_waits_until_somebody_schedules_and_then_runs(jobs: Jobs, home: Home):
    enqueue(jobs)
    history = jobs.record("job-1").history
    assert history.state.is_queued
    assert history.message == "Waiting for 1 core"
    assert [each.secondary for each in history.transitions] == ["Starting", "Pending"]
    jobs.reconcile()  # as any command on this machine does
    assert state(jobs) == "Pending"
    assert not home.job("job-1").hosts.exists()
    with jobs.scheduler(no_limit):
        assert run_to_end(jobs).state.status is Status.COMPLETED
    assert num_starts(home.job("job-1")) == 1
    stored = durable.read_json(home.buckets / "out/runs/job-1/trackside/job.json")
    assert stored == durable.read_json(home.job("job-1").spec)


def test_who_submitted_is_on_record(jobs: Jobs):
    enqueue(jobs)
    [note] = jobs.describe("job-1")["Trackside"]["notes"]
    assert (note["what"], note["key"], note["who"]) == ("submitted", "TSKEY", "team")


def _is_training(jobs: Jobs, name: str) -> bool:
    return state(jobs, name) == "Training"


def test_who_runs_the_script_is_settled_when_it_begins_and_stays_so(settings: Settings, home: Home):
    run_as = replace(settings, run_as="team=alice,ci=65531,jobs")
    jobs = make_jobs(run_as)
    for label in ("team", "ci", "others"):
        enqueue(jobs, label, who=label, **HOLD)
        assert jobs.record(label).history.run_as == Choice("")
    later = make_jobs(replace(settings, run_as="jobs", capacity="cores=9"))
    with make_jobs(replace(run_as, capacity="cores=9")).scheduler(no_limit):
        for label in ("team", "ci", "others"):
            until(partial(_is_training, jobs, label))
    expected = {
        "team": Choice("alice", is_shared=False),
        "ci": Choice("65531", is_shared=False),
        "others": Choice("jobs"),
    }
    for label, choice in expected.items():
        assert later.record(label).history.run_as == choice
        kill_supervisor(home.job(label))
        later.reconcile(label)
        release(home, label)
        assert run_to_end(later, label).state.status is Status.COMPLETED
        assert later.record(label).history.run_as == choice


def test_a_job_of_this_machine_s_own_has_the_user_of_all(settings: Settings, home: Home):
    jobs = make_jobs(replace(settings, run_as="team=alice,jobs"))
    jobs.submit(make_spec("job-1"))
    assert jobs.record("job-1").history.run_as == Choice("jobs")
    assert run_to_end(jobs).state.status is Status.COMPLETED
    plain = make_jobs(settings)
    plain.submit(make_spec("job-2"))
    assert plain.record("job-2").history.run_as == Choice("")
    assert run_to_end(plain, "job-2").state.status is Status.COMPLETED


def test_no_more_run_than_there_is_room_for(jobs: Jobs, home: Home):
    for number in range(4):
        enqueue(jobs, f"job-{number}", **HOLD)
    with jobs.scheduler(no_limit):
        until(lambda: state(jobs, "job-1") == "Training")
        view = jobs.queue()
        assert [entry.name for entry in view.running] == ["job-0", "job-1"]
        assert [waiter.why for waiter in view.waiting] == [
            "Waiting for 1 core: 0 of 2 free",
            "Waiting for its turn, behind 'job-2'",
        ]
        assert view.is_served
        release(home, "job-1")
        until(lambda: state(jobs, "job-2") == "Training")
        assert state(jobs, "job-3") == "Pending"
        for number in (0, 2, 3):
            release(home, f"job-{number}")
        for number in range(4):
            assert run_to_end(jobs, f"job-{number}").state.status is Status.COMPLETED


def test_a_job_of_trackside_run_never_waits_but_holds_what_others_wait_for(jobs: Jobs, home: Home):
    jobs.submit(make_spec("embedded", num_hosts=2, hyper={"hold": "1"}))
    enqueue(jobs)
    with jobs.scheduler(no_limit):
        until(lambda: jobs.queue().is_served)
        assert jobs.queue().waiting[0].why == "Waiting for 1 core: 0 of 2 free"
        release(home, "embedded")
        assert run_to_end(jobs).state.status is Status.COMPLETED
    run_to_end(jobs, "embedded")


def test_a_limit_holds_one_back_and_lets_others_pass(jobs: Jobs, home: Home):
    for name, who in (("a-1", "a"), ("a-2", "a"), ("b-1", "b")):
        enqueue(jobs, name, who=who, **HOLD)

    def limits(who: str) -> Limit:
        return Limit(jobs=1 if who == "a" else None)

    with jobs.scheduler(limits):
        until(lambda: state(jobs, "b-1") == "Training")
        assert state(jobs, "a-2") == "Pending"
        assert "the limit is 1" in jobs.queue(limits).waiting[0].why
        release(home, "a-1")
        until(lambda: state(jobs, "a-2") == "Training")
        for name in ("a-2", "b-1"):
            release(home, name)
            run_to_end(jobs, name)
    run_to_end(jobs, "a-1")


def test_a_job_that_waits_is_stopped_at_once_and_never_starts(jobs: Jobs, home: Home):
    enqueue(jobs)
    history = jobs.stop("job-1")
    assert history.state.secondary is Secondary.STOPPED
    assert jobs.describe("job-1")["TrainingJobStatus"] == "Stopped"
    journal = home.buckets / "out/runs/job-1/trackside/journal.jsonl"
    assert journal.read_bytes() == home.job("job-1").journal.read_bytes()
    with jobs.scheduler(no_limit):
        enqueue(jobs, "after")
        run_to_end(jobs, "after")
    assert not home.job("job-1").hosts.exists()
    assert jobs.stop("job-1").state == history.state
    jobs.delete("job-1")
    enqueue(jobs)


def test_a_job_that_waits_and_is_asked_to_stop_like_any_other_ends_too(jobs: Jobs, home: Home):
    enqueue(jobs)
    Journal(home.job("job-1").journal).move(Secondary.STOPPING)
    assert jobs.wait("job-1", timeout_seconds=60).state.secondary is Secondary.STOPPED


def test_the_rules_of_a_job_that_never_started_end_with_it(jobs: Jobs, home: Home):
    rule = {
        "RuleConfigurationName": "watch",
        "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
    }
    enqueue(jobs, DebugRuleConfigurations=[rule])
    jobs.stop("job-1")
    [reported] = jobs.describe("job-1")["DebugRuleEvaluationStatuses"]
    assert (reported["RuleEvaluationStatus"], reported["StatusDetails"]) == (
        "Stopped",
        "The job never started.",
    )
    assert not home.job("job-1").rules.placed.exists()


def test_a_large_job_that_is_stopped_holds_nobody_up(jobs: Jobs, home: Home):
    enqueue(jobs, "holder", **HOLD)
    with jobs.scheduler(no_limit):
        until(lambda: state(jobs, "holder") == "Training")
        enqueue(jobs, "large", Trackside={"Cores": 2})
        enqueue(jobs, "small")
        until(lambda: jobs.queue().waiting[1].why.endswith("behind 'large'"))
        make_jobs(jobs.settings).stop("large")  # by another process than the server
        assert run_to_end(jobs, "small").state.status is Status.COMPLETED
        release(home, "holder")
        run_to_end(jobs, "holder")


def test_a_tag_put_on_a_waiting_job_changes_its_turn(jobs: Jobs, home: Home):
    for name in ("holder", "first", "second"):
        enqueue(jobs, name, Trackside={"Cores": 2}, **HOLD)
    jobs.change_tags("second", put={"trackside:priority": "5"})
    jobs.change_tags("holder", put={"trackside:priority": "9"})
    with jobs.scheduler(no_limit):
        until(lambda: state(jobs, "holder") == "Training")
        release(home, "holder")
        until(lambda: state(jobs, "second") == "Training")
        assert state(jobs, "first") == "Pending"
        for name in ("second", "first"):
            release(home, name)
            run_to_end(jobs, name)
    run_to_end(jobs, "holder")


def test_a_job_that_waits_too_long_ends_without_having_started(jobs: Jobs, home: Home):
    enqueue(jobs, "holder", Trackside={"Cores": 2}, **HOLD)
    stopping = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}
    enqueue(jobs, "hurried", StoppingCondition=stopping)
    with jobs.scheduler(no_limit):
        history = jobs.wait("hurried", timeout_seconds=60)
        assert history.state.secondary is Secondary.MAX_WAIT_EXCEEDED
        assert history.state.status is Status.STOPPED
        assert history.message == "Not started within 1 seconds"
        assert history.modified - history.created >= 1
        release(home, "holder")
        run_to_end(jobs, "holder")
    assert not home.job("hurried").hosts.exists()


def test_a_wall_clock_that_jumps_ends_no_job_that_waits(
    jobs: Jobs, home: Home, monkeypatch: pytest.MonkeyPatch
):
    """Before a server looks at it for the first time, such as while there is none."""
    enqueue(jobs, "holder", Trackside={"Cores": 2}, **HOLD)
    stopping = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 7200}
    enqueue(jobs, "patient", StoppingCondition=stopping)
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    with jobs.scheduler(no_limit):
        until(lambda: is_training(jobs, "holder"))
        release(home, "holder")
        run_to_end(jobs, "holder")
        assert run_to_end(jobs, "patient").state.status is Status.COMPLETED


def test_of_two_servers_one_schedules_and_the_other_takes_over(jobs: Jobs, home: Home):
    other = make_jobs(jobs.settings)
    with other.scheduler(no_limit):
        with jobs.scheduler(no_limit):
            for number in range(6):
                enqueue(jobs if number % 2 else other, f"job-{number}")
            for number in range(6):
                run_to_end(jobs, f"job-{number}")
        assert [num_starts(home.job(f"job-{number}")) for number in range(6)] == [1] * 6
        enqueue(jobs, "late")  # whose own scheduler is closed
        run_to_end(jobs, "late")
    until(lambda: not jobs.queue().is_served)


def test_what_the_machine_can_never_give_is_refused(jobs: Jobs, home: Home):
    with pytest.raises(InvalidSpec, match="Trackside.Cores = 3: is more than the server's machine"):
        enqueue(jobs, Trackside={"Cores": 3})
    assert not home.job("job-1").root.exists()


def test_an_instance_type_larger_than_the_machine_has_it_alone(jobs: Jobs, home: Home):
    enqueue(jobs, ResourceConfig={"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1})
    assert jobs.queue().waiting[0].entry.needs == jobs.capacity
    with jobs.scheduler(no_limit):
        assert run_to_end(jobs).state.status is Status.COMPLETED


def test_the_refusals_of_a_submit_are_those_of_a_queue(jobs: Jobs, home: Home, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(InvalidKey, match=f"The output location '{file}' cannot be used"):
        enqueue(jobs, OutputDataConfig={"S3OutputPath": str(file)})
    assert os.listdir(home.jobs) == []
    enqueue(jobs, "one", TensorBoardOutputConfig={"S3OutputPath": "s3://out/curves"})
    with pytest.raises(JobExists):
        enqueue(jobs, "one")
    inside = {"S3OutputPath": "s3://out/curves/one/tensorboard-output"}
    with pytest.raises(CurvesTaken):
        enqueue(jobs, "two", TensorBoardOutputConfig=inside)
    assert os.listdir(home.jobs) == ["one"]


def test_a_store_that_is_away_delays_its_own_job_only(jobs: Jobs, home: Home, tmp_path):
    away = tmp_path / "away"
    enqueue(jobs, "away", OutputDataConfig={"S3OutputPath": str(away / "out")})
    away.write_text("not a folder now")
    enqueue(jobs, "here")
    with jobs.scheduler(no_limit):
        assert run_to_end(jobs, "here").state.status is Status.COMPLETED
        assert state(jobs, "away") == "Pending"
        away.unlink()
        assert run_to_end(jobs, "away").state.status is Status.COMPLETED


def test_jobs_that_run_at_a_time_have_gpus_of_their_own(settings: Settings, home: Home):
    def visible(name: str, host: str = "algo-1") -> bytes:
        pid = identity_at(home.job(name).host(host, 1).supervisor).pid
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        [found] = [each for each in variables if each.startswith(b"CUDA_VISIBLE_DEVICES=")]
        return found.partition(b"=")[2]

    jobs = make_jobs(replace(settings, capacity="cores=8,gpus=3"))
    for name, gpus, hosts in (("two-hosts", 1, 2), ("one", 1, 1), ("none", 0, 1), ("late", 1, 1)):
        enqueue(jobs, name, num_hosts=hosts, Trackside={"GPUs": gpus}, **HOLD)
    with jobs.scheduler(no_limit):
        for name in ("two-hosts", "one", "none"):
            until(partial(is_training, jobs, name))
        until(lambda: home.job("two-hosts").host("algo-2", 1).supervisor.exists())
        assert [visible("two-hosts"), visible("two-hosts", "algo-2")] == [b"0", b"1"]
        assert [visible("one"), visible("none")] == [b"2", b""]
    with make_jobs(jobs.settings).scheduler(no_limit):  # as after a restart
        assert state(jobs, "late") == "Pending"
        kill_supervisor(home.job("one"))
        jobs.reconcile("one")
        until(lambda: num_starts(home.job("one")) == 2)
        assert visible("one") == b"2"
        release(home, "two-hosts")
        until(lambda: is_training(jobs, "late"))
        assert visible("late") == b"0"
        for name in ("one", "none", "late"):
            release(home, name)
            run_to_end(jobs, name)


def test_a_process_that_the_system_does_not_start_fails_its_job(settings: Settings, home: Home):
    jobs = Jobs(settings, {"TORN": "a\0b"}, supervisor_command=["true"])
    enqueue(jobs)
    with jobs.scheduler(no_limit):
        history = jobs.wait("job-1", timeout_seconds=60)
    assert history.state.status is Status.FAILED
    assert "The supervisor of algo-1 did not start" in (history.failure_reason or "")


def test_a_thousand_jobs_that_wait_are_not_read_again_and_again(jobs: Jobs, home: Home):
    enqueue(jobs, "holder", Trackside={"Cores": 2}, **HOLD)
    with jobs.scheduler(no_limit):
        until(lambda: state(jobs, "holder") == "Training")
        enqueue(jobs, "job-0", Trackside={"Cores": 2})
        make_copies(home, 1000)
        assert len(jobs.queue().waiting) == 1000
        until(lambda: files_of_a_scan(jobs, home) < 500)
    release(home, "holder")
    run_to_end(jobs, "holder")


def make_copies(home: Home, count: int) -> None:
    template = home.job("job-0")
    for number in range(1, count):
        folder = home.job(f"job-{number}")
        folder.root.mkdir()
        for path in (template.spec, template.journal):
            text = path.read_text().replace('"job-0"', f'"job-{number}"')
            (folder.root / path.name).write_text(text)


def files_of_a_scan(jobs: Jobs, home: Home) -> int:
    """Files of jobs that this process opens while a server would look once at its jobs."""
    root, opened = str(home.jobs), list[str]()

    def note(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and counts and str(given[0]).startswith(root):
            opened.append(given[0])

    counts = True
    sys.addaudithook(note)
    jobs.reconcile()
    jobs.refresh()
    time.sleep(2.0)  # the scheduler looks by itself
    counts = False  # an audit hook stays until its process ends
    return len(opened)
