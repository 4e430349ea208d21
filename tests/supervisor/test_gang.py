"""Hosts that start together and end together, whichever of them fails or vanishes."""

import sys
import threading
import time
from dataclasses import replace

import pytest

from tests.supervisor.running import attempt, dead_process, record, supervise_by
from tests.wait import until
from trackside.coordination.coordination import Meeting, Why
from trackside.records.death import Cause, Death
from trackside.records.hosts import HostRecord, Phase
from trackside.records.status import Secondary
from trackside.supervisor import gang as gang_module
from trackside.supervisor import lead, peer_watchdog
from trackside.supervisor.attempt import Attempt
from trackside.supervisor.gang import DEFAULT_PORT
from trackside.system import processes


def meeting_of(mine: Attempt) -> Meeting:
    meeting = mine.coordination.meeting()
    assert meeting is not None
    return meeting


def met_earlier(mine: Attempt, seconds: float) -> None:
    meeting = meeting_of(mine)
    mine.coordination.write_meeting(replace(meeting, clock=meeting.clock - seconds))


def test_a_host_that_wrote_nothing_is_preparing(tmp_path):
    mine = attempt(tmp_path, num_hosts=3)
    found = mine.coordination.records()
    assert {record.phase for record in found.values()} == {Phase.PREPARING}
    assert not mine.gang.all_are(Phase.READY)


def test_what_the_hosts_agreed_on_stays(tmp_path):
    first, second = (attempt(tmp_path, num_hosts=2, host=f"algo-{n}").gang for n in (1, 2))
    assert second.master_port == gang_module.DEFAULT_PORT
    first.meet()
    port = first.master_port
    first.meet()
    assert second.master_port == port


def test_the_time_a_job_ran_is_not_the_wall_clock_s(tmp_path, monkeypatch):
    gang = attempt(tmp_path).gang
    assert gang.running_seconds() == 0.0
    gang.meet()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= gang.running_seconds() < 30


def test_the_time_before_a_reboot_is_as_it_was_last_stamped(tmp_path, monkeypatch):
    mine = attempt(tmp_path)
    mine.gang.meet()
    port = mine.gang.master_port
    met_earlier(mine, 1000)
    monkeypatch.setattr(gang_module, "STAMP_SECONDS", 0.0)
    mine.gang.stamp()
    stamped = meeting_of(mine)
    mine.coordination.write_meeting(replace(stamped, boot_id="another"))
    again = attempt(tmp_path).gang
    assert 1000 <= again.running_seconds() < 1030
    assert again.master_port == port


def test_on_another_boot_the_time_a_job_ran_continues(tmp_path, monkeypatch):
    """Else a lead that is revived on another machine would never reach the limit."""
    mine = attempt(tmp_path, StoppingCondition={"MaxRuntimeInSeconds": 1001})
    mine.gang.meet()
    stopped = replace(meeting_of(mine), boot_id="another", clock=5.0, ran=1000.0)
    mine.coordination.write_meeting(stopped)
    again = attempt(tmp_path)
    record(again.context.folder, "algo-1", Phase.RUNNING)
    again.check_gang()
    assert meeting_of(again).ran >= 1000  # for a lead after this one
    assert meeting_of(again).boot_id != "another"
    assert meeting_of(again).master_port == stopped.master_port
    until(lambda: again.gang.running_seconds() > 1001)
    again._led_at = 0.0
    again.check_gang()
    order = again.coordination.ordered_end()
    assert order is not None
    assert order.why is Why.MAX_RUNTIME


def test_earlier_attempts_count_by_the_monotonic_clock(tmp_path, monkeypatch):
    mine = attempt(tmp_path)
    mine.gang.meet()
    mine.context.journal.move(Secondary.DOWNLOADING)
    mine.context.journal.move(Secondary.TRAINING)
    later = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: later)  # somebody sets the clock by a day
    ran = mine.gang.running_seconds()
    death = Death(cause=Cause.SIGNAL, host="algo-1")
    lead.start_again(mine.context.journal, 1, "the script was ended from outside", ran, death)
    second = Attempt(mine.context, 2)
    second.gang.meet()
    assert 0 <= second._runtime_seconds() < 60


# The lead


def test_two_lost_hosts_do_not_keep_the_lead_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_watchdog, "PAUSES_SECONDS", (0.0, 0.1))
    mine = attempt(tmp_path, num_hosts=3)
    mine.coordination.announce(HostRecord(phase=Phase.ENDED, exit_code=0))
    for host in ("algo-2", "algo-3"):
        supervise_by(mine.context.folder, host, dead_process())
    monkeypatch.setattr(sys, "executable", "/bin/false")  # a supervisor that dies at once
    lead._wait_for_all(mine)
    order = mine.coordination.ordered_end()
    assert order is not None
    assert order.why is Why.HOST_LOST


def test_time_spent_on_uploads_does_not_count_as_running(tmp_path):
    mine = attempt(tmp_path, num_hosts=2, StoppingCondition={"MaxRuntimeInSeconds": 1})
    mine.gang.meet()
    met_earlier(mine, 1000)
    supervise_by(mine.context.folder, "algo-2", processes.myself())
    for host in ("algo-1", "algo-2"):
        record(mine.context.folder, host, Phase.UPLOADING, exit_code=0)
    mine.check_gang()
    assert mine.coordination.ordered_end() is None
    record(mine.context.folder, "algo-2", Phase.RUNNING)
    mine._led_at = 0.0
    mine.check_gang()
    order = mine.coordination.ordered_end()
    assert order is not None
    assert order.why is Why.MAX_RUNTIME


def test_without_a_limit_a_job_runs_as_long_as_it_does(tmp_path):
    mine = attempt(tmp_path)
    mine.gang.meet()
    met_earlier(mine, 365 * 86400)
    record(mine.context.folder, "algo-1", Phase.RUNNING)
    mine.check_gang()
    assert mine.coordination.ordered_end() is None


def test_the_time_limit_goes_on_when_the_lead_s_own_script_is_over(tmp_path):
    limit = {"MaxRuntimeInSeconds": 1}
    mine = attempt(tmp_path, num_hosts=2, StoppingCondition=limit)
    mine.coordination.announce(HostRecord(phase=Phase.ENDED, exit_code=0))
    supervise_by(mine.context.folder, "algo-2", processes.myself())
    record(mine.context.folder, "algo-2", Phase.RUNNING)
    mine.gang.meet()
    waiting = threading.Thread(target=lead._wait_for_all, args=(mine,), daemon=True)
    waiting.start()
    order = until(mine.coordination.ordered_end)
    assert order is not None
    assert order.why is Why.MAX_RUNTIME
    record(mine.context.folder, "algo-2", Phase.ENDED, exit_code=-15)
    waiting.join()


def test_a_lead_that_downloads_sees_another_host_fail(tmp_path):
    """`is_set` is what a download asks now and then."""
    mine = attempt(tmp_path, num_hosts=3)
    other = attempt(tmp_path, num_hosts=3, host="algo-3")
    assert not mine.is_set()
    record(mine.context.folder, "algo-2", Phase.ENDED, failure="ClientError: no", ended_at=1.0)
    until(mine.is_set)
    order = mine.coordination.ordered_end()
    assert order is not None
    assert (order.why, order.host) == (Why.HOST_FAILED, "algo-2")
    assert other.is_set()


def test_a_host_stopped_while_it_downloads_has_not_failed(tmp_path, bucket, s3_server, monkeypatch):
    """Else the lost host would be forgotten over it, and the job not be tried again."""
    for number in range(30):
        s3_server.client().put_object(Bucket=bucket, Key=f"c/{number}.pt", Body=b"x" * 1000)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    mine = attempt(
        tmp_path, num_hosts=3, host="algo-2", CheckpointConfig={"S3Uri": f"s3://{bucket}/c"}
    )
    mine.coordination.order_end(Why.HOST_LOST, "algo-3")
    found = mine.run()
    assert found.phase is Phase.ENDED
    assert not found.went_wrong


def test_a_stop_ends_a_host_that_waits_for_the_others(tmp_path):
    mine = attempt(tmp_path, num_hosts=2)
    ran: list[HostRecord] = []
    running = threading.Thread(target=lambda: ran.append(mine.run()), daemon=True)
    running.start()
    until(lambda: mine.coordination.records()["algo-1"].phase is Phase.READY)
    mine.context.journal.move(Secondary.STOPPING)
    running.join()
    assert ran[0].phase is Phase.ENDED
    assert not ran[0].went_wrong


@pytest.mark.parametrize("damage", [b"", b"[1]", b'{"why": "nothing"}', b'{"master_port": "x"}'])
def test_damaged_files_of_a_gang_cost_themselves(tmp_path, damage):
    mine = attempt(tmp_path, num_hosts=2)
    mine.gang.meet()
    mine.coordination.order_end(Why.HOST_FAILED, "algo-2")
    for path in mine.context.folder.gang.iterdir():
        path.write_bytes(damage)
    again = attempt(tmp_path, num_hosts=2)
    assert again.coordination.ordered_end() is None
    assert again.gang.running_seconds() == 0.0
    assert again.gang.master_port == DEFAULT_PORT
    again.gang.stamp()
    again.gang.meet()
    again.coordination.order_end(Why.HOST_FAILED, "algo-2")
    assert again.coordination.ordered_end() is not None
    assert again.gang.master_port != DEFAULT_PORT
