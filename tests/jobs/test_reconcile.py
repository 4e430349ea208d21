"""A job that has not ended is brought to its end, whoever died; nothing is done without proof."""

import os
import shutil
import signal
import subprocess
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.jobs.conftest import (
    change_placed,
    identity_at,
    is_training,
    kill_supervisor,
    make_jobs,
    make_spec,
    num_starts,
    placed_host,
    run_to_end,
)
from tests.wait import until
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.jobs.reconcile import MAX_REVIVALS, GiveUp, Revive, SeenHost, Start, decide
from trackside.jobs.start_supervisor import locked
from trackside.placement.placement import Exited, Lost, Pending, Poll, Running, Unknown
from trackside.records import evaluator_process, hosts
from trackside.records.death import Cause, Death
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import Journal
from trackside.records.layout import Home, HostFolder, JobFolder
from trackside.records.placed import Placed, PlacedHost, Started
from trackside.records.status import FIRST, Secondary, State, Status
from trackside.settings import Settings
from trackside.system import boot_clock, processes

TRAINING = State(Status.IN_PROGRESS, Secondary.TRAINING)
STOPPING = State(Status.STOPPING, Secondary.STOPPING)
PLACED = PlacedHost(nonce="n")


def seen(poll: Poll | None, *, revivals: int = 0, **changes: Any) -> SeenHost:
    host = SeenHost(
        host="algo-1",
        is_lead=True,
        attempt=1,
        placed=PLACED,
        revivals=revivals,
        poll=poll,
        log="/x/supervisor.log",
    )
    return replace(host, **changes)


FOLLOWER: Any = {"host": "algo-2", "is_lead": False}
RUNS: Any = {"script_lives": True}


@pytest.mark.parametrize(
    ("state", "hosts_seen", "expected"),
    [
        (TRAINING, [seen(Running())], []),
        (TRAINING, [seen(Unknown("no answer"))], []),
        (FIRST, [seen(Pending("no machine is free"))], []),
        (TRAINING, [seen(Lost("its machine is gone"))], [Revive]),
        (TRAINING, [seen(Unknown("no answer"), revivals=99)], []),
        (TRAINING, [seen(Exited(None))], [Revive]),
        (STOPPING, [seen(Exited(None))], [Revive]),
        (FIRST, [seen(None, placed=PlacedHost(nonce="n"))], [Start]),
        (FIRST, [seen(None, placed=None)], [Start]),
        (TRAINING, [seen(Exited(0), revivals=MAX_REVIVALS - 1)], [Revive]),
        (TRAINING, [seen(Exited(0), revivals=MAX_REVIVALS)], [GiveUp]),
        (State(Status.COMPLETED, Secondary.COMPLETED), [seen(Exited(0))], []),
        (TRAINING, [seen(Running()), seen(Exited(0), **FOLLOWER)], [Revive]),
        (TRAINING, [seen(Running()), seen(Exited(0), has_ended=True, **FOLLOWER)], []),
        (TRAINING, [seen(Exited(0), has_ended=True)], [Revive]),
        (TRAINING, [seen(None), seen(Exited(0), revivals=3, **FOLLOWER)], [GiveUp]),
        (TRAINING, [seen(Exited(0), revivals=3, **RUNS, seconds_since_revival=5.0)], []),
        (TRAINING, [seen(Exited(0), revivals=99, **RUNS, seconds_since_revival=61.0)], [Revive]),
    ],
)
def test_what_is_done_follows_from_what_is_known(
    state: State, hosts_seen: list[SeenHost], expected: list[type]
):
    assert [type(action) for action in decide(state, hosts_seen)] == expected


def test_a_killed_supervisor_is_revived_and_the_job_completes(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    killed = kill_supervisor(folder)
    jobs.reconcile("job-1")
    until(lambda: identity_at(folder.host("algo-1", 1).supervisor) != killed)
    (folder.root / "release").touch()
    assert run_to_end(jobs).state.status is Status.COMPLETED
    assert num_starts(folder) == 2
    assert placed_host(folder, "algo-1").revivals == 1


def test_a_supervisor_that_lives_is_left_alone(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    for _ in range(20):  # from before it has written its own word until after
        jobs.reconcile("job-1")
    until(lambda: is_training(jobs, "job-1"))
    jobs.reconcile()
    (folder.root / "release").touch()
    run_to_end(jobs)
    assert num_starts(folder) == 1


def test_a_supervisor_that_keeps_dying_is_given_up_with_its_log_named(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"dies": "always"}))
    history = jobs.wait("job-1", timeout_seconds=120)
    assert history.state.status is Status.FAILED
    log = home.job("job-1").host("algo-1", 1).supervisor_log
    assert history.failure_reason == (
        f"InternalServerError: the supervisor of algo-1 died 4 times in a row; its log is {log}"
    )
    assert history.death == Death(cause=Cause.DEFECT, host="algo-1")
    assert num_starts(home.job("job-1")) == 4
    stored = home.buckets / "out/runs/job-1/trackside/journal.jsonl"
    assert stored.read_bytes() == home.job("job-1").journal.read_bytes()
    assert str(jobs.failure_of("job-1")) == f"Job 'job-1' failed: {history.failure_reason}"


def test_a_job_given_up_leaves_no_process_of_its_script(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    mark = (
        f"{placed_host(folder).nonce}.1.0badcafe"  # as a sandbox marks its processes, and says so
    )
    sandbox = folder.host("algo-1", 1).sandbox
    sandbox.mkdir(exist_ok=True)
    durable.write_json(sandbox / "intent.json", {"mark": mark})
    script = subprocess.Popen(["sleep", "600"], env={"TRACKSIDE_NONCE": mark})
    kill_supervisor(folder)
    change_placed(folder, revivals=MAX_REVIVALS, revived=boot_clock.now())
    jobs.reconcile("job-1")
    assert script.wait(60) == -9
    assert jobs.describe("job-1")["TrainingJobStatus"] == "Failed"


def test_revivals_of_long_ago_do_not_count(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    place = folder.host("algo-1", 1)
    until(lambda: is_training(jobs, "job-1"))
    for revived in (_minutes_ago(11), boot_clock.Moment("another boot", 5.0)):
        killed = kill_supervisor(folder)
        change_placed(folder, revivals=MAX_REVIVALS, revived=revived)
        jobs.reconcile("job-1")
        until(partial(_is_another, place, killed))
        assert placed_host(folder).revivals == 1
    (folder.root / "release").touch()
    assert run_to_end(jobs).state.status is Status.COMPLETED


def _is_another(place: HostFolder, than: processes.Identity) -> bool:
    return identity_at(place.supervisor) != than


def _minutes_ago(minutes: float) -> boot_clock.Moment:
    now = boot_clock.now()
    return replace(now, seconds=now.seconds - 60 * minutes)


def test_a_job_whose_script_runs_is_not_given_up(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    place = folder.host("algo-1", 1)
    until(lambda: is_training(jobs, "job-1"))
    killed = kill_supervisor(folder)
    place.sandbox.mkdir(exist_ok=True)
    init = subprocess.Popen(["sleep", "600"])
    identity = processes.identify(init.pid)
    assert identity is not None
    record = {"init": {"pid": identity.pid, "started": identity.started}}
    durable.write_json(place.sandbox / "process.json", {**record, "boot_id": identity.boot_id})
    try:
        change_placed(folder, revivals=9, revived=boot_clock.now())
        jobs.reconcile("job-1")  # too early to try again
        assert identity_at(place.supervisor) == killed
        assert not Journal(folder.journal).read().state.is_final
        change_placed(folder, revivals=9, revived=_minutes_ago(2))
        jobs.reconcile("job-1")
        until(lambda: identity_at(place.supervisor) != killed)
    finally:
        init.kill()
        init.wait()
    (folder.root / "release").touch()
    assert run_to_end(jobs).state.status is Status.COMPLETED


def test_a_recycled_pid_is_not_taken_for_the_supervisor(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(folder)
    place = folder.host("algo-1", 1)
    me = processes.myself()
    recycled = {"pid": me.pid, "started": me.started - 1, "boot_id": me.boot_id}
    durable.write_json(place.supervisor, {**recycled, "nonce": "old"})
    placed = Placed.read(folder)
    assert placed is not None
    handle = {"job": "job-1", "hosts": {"algo-1": recycled}}
    replace(placed, started=(Started(hosts=("algo-1",), handle=handle),)).write(folder)
    jobs.reconcile("job-1")
    until(lambda: num_starts(folder) == 2)


def test_after_a_reboot_the_job_is_taken_up_again(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(folder)
    place = folder.host("algo-1", 1)
    me = processes.myself()
    before = {"pid": me.pid, "started": me.started, "boot_id": "another boot"}
    durable.write_json(place.supervisor, {**before, "nonce": "old"})
    assert [row.secondary for row in jobs.list()] == ["Training"]  # looking at it is enough
    (folder.root / "release").touch()
    assert run_to_end(jobs).state.status is Status.COMPLETED


def test_all_hosts_of_a_job_are_looked_after(jobs: Jobs, home: Home):
    jobs.submit(make_spec(num_hosts=3, hyper={"hold": "yes"}))
    folder = home.job("job-1")
    for host in ("algo-1", "algo-2", "algo-3"):
        until(folder.host(host, 1).record.exists)
        kill_supervisor(folder, host)
    jobs.reconcile("job-1")
    until(lambda: [num_starts(folder, f"algo-{n}") for n in (1, 2, 3)] == [2, 2, 2])
    (folder.root / "release").touch()
    assert run_to_end(jobs).state.status is Status.COMPLETED


def test_a_host_whose_part_is_over_is_not_started_again(jobs: Jobs, home: Home):
    jobs.submit(make_spec(num_hosts=2, hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(folder.host("algo-2", 1).record.exists)
    kill_supervisor(folder, "algo-2")
    hosts.write(folder.host("algo-2", 1).record, HostRecord(phase=Phase.ENDED, exit_code=0))
    jobs.reconcile("job-1")
    assert placed_host(folder, "algo-2").revivals == 0


def test_a_supervisor_that_died_going_into_the_next_attempt_is_started_in_that_attempt(
    jobs: Jobs, home: Home
):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(folder)
    journal = Journal(folder.journal)
    journal.move(Secondary.RESTARTING, attempt=2)
    journal.move(Secondary.STARTING)
    jobs.reconcile("job-1")
    until(lambda: num_starts(folder, attempt=2) == 1)
    assert num_starts(folder, attempt=1) == 1


def test_while_somebody_else_is_starting_supervisors_nothing_is_done(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(folder)
    with locked(folder) as mine:
        assert mine
        jobs.reconcile("job-1")
        assert placed_host(folder).revivals == 0
    jobs.reconcile("job-1")
    assert placed_host(folder).revivals == 1


def test_racing_reconcilers_revive_once(settings: Settings, jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(folder)
    racers = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            try:
                make_jobs(settings).reconcile("job-1")
                os._exit(0)
            finally:
                os._exit(1)
        racers.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in racers] == [0] * 6
    assert placed_host(folder).revivals == 1
    until(lambda: num_starts(folder) == 2)


def test_a_damaged_record_of_one_job_does_not_keep_the_others_from_being_healed(
    jobs: Jobs, home: Home
):
    for name in ("a-broken", "b-sound"):
        jobs.submit(make_spec(name, hyper={"hold": "yes"}))
        until(home.job(name).host("algo-1", 1).record.exists)
        kill_supervisor(home.job(name))
    home.job("a-broken").placed.write_text("{")
    jobs.reconcile()
    until(lambda: num_starts(home.job("b-sound")) == 2)


def test_an_evaluator_that_takes_long_to_start_is_not_started_again(jobs: Jobs, home: Home):
    rule = {"RuleConfigurationName": "r", "RuleParameters": {"rule_to_invoke": "Overfit"}}
    jobs.submit(make_spec(hyper={"hold": "yes"}, DebugRuleConfigurations=[rule]))
    folder = home.job("job-1")
    evaluator_process.intend(folder.rules)
    with subprocess.Popen(["sleep", "600"]) as starting:  # an hour ago, by its record
        evaluator_process.note_started(folder.rules, starting.pid)
        record: Any = durable.read_json(folder.rules.placed)
        durable.write_json(folder.rules.placed, {**record, "time": record["time"] - 3600})
        (folder.root / "release").touch()
        run_to_end(jobs)
        jobs.reconcile("job-1")
        assert nonce_of_evaluator(folder) == record["nonce"]
        starting.kill()
        starting.wait()
    jobs.reconcile("job-1")
    assert nonce_of_evaluator(folder) != record["nonce"]


def nonce_of_evaluator(folder: JobFolder) -> str:
    record: Any = durable.read_json(folder.rules.placed)
    return str(record["nonce"])


@pytest.mark.parametrize("phase", ["starting", "training"])
def test_a_stop_is_carried_out_even_when_every_supervisor_is_dead(
    jobs: Jobs, home: Home, phase: str
):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    if phase == "training":
        until(lambda: is_training(jobs, "job-1"))
    else:
        until(folder.host("algo-1", 1).supervisor.exists)
    kill_supervisor(folder)
    assert jobs.stop("job-1").state.status is Status.STOPPING
    assert run_to_end(jobs).state.status is Status.STOPPED


def test_stopping_is_silent_when_repeated_and_when_the_job_has_ended(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    until(lambda: is_training(jobs, "job-1"))
    supervisor = identity_at(home.job("job-1").host("algo-1", 1).supervisor)
    processes.send_signal(supervisor, signal.SIGSTOP)  # or it might carry out the first at once
    assert [jobs.stop("job-1").state.status for _ in range(2)] == [Status.STOPPING] * 2
    processes.send_signal(supervisor, signal.SIGCONT)
    assert run_to_end(jobs).state.status is Status.STOPPED
    assert jobs.stop("job-1").state.status is Status.STOPPED
    assert len(jobs.list()) == 1
    shutil.rmtree(home.job("job-1").root)
    assert jobs.stop("job-1").state.status is Status.STOPPED
