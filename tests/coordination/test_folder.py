"""Which hosts count as alive where the job's folder is shared."""

import os

import pytest

from tests.supervisor.running import attempt, dead_process, supervise_by
from tests.wait import until
from trackside.coordination.coordination import FLIGHT_RECORDER, Liveness, Request
from trackside.records.group import GroupRecord
from trackside.supervisor.attempt import Attempt
from trackside.system import processes
from trackside.system.processes import Identity

ELSEWHERE = Identity(1, 1, "the boot of another machine")


def of_several_machines(home) -> Attempt:
    """A group of hosts on several machines that share the folder."""
    folder = attempt(home, num_hosts=2).context.folder
    GroupRecord(addresses={"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"}, interface="eth0").write(
        folder
    )
    return attempt(home, num_hosts=2)


def test_on_one_machine_a_process_of_another_boot_is_dead(tmp_path):
    """The machine was restarted."""
    mine = attempt(tmp_path, num_hosts=2)
    supervise_by(mine.context.folder, "algo-2", ELSEWHERE)
    assert not mine.coordination.liveness("algo-2").supervisor
    supervise_by(mine.context.folder, "algo-2", dead_process())
    assert not mine.coordination.liveness("algo-2").supervisor
    supervise_by(mine.context.folder, "algo-2", processes.myself())
    assert mine.coordination.liveness("algo-2") == Liveness(True)


def test_a_process_of_another_machine_is_not_dead(tmp_path):
    mine = of_several_machines(tmp_path)
    supervise_by(mine.context.folder, "algo-2", ELSEWHERE)
    for _ in range(3):
        assert mine.coordination.liveness("algo-2").supervisor
        assert mine.peers.check() == []
    assert mine.coordination.liveness("algo-2").script is None
    assert not mine.context.folder.host("algo-2", 1).supervisor_log.exists()  # nor started here


def test_a_host_of_another_machine_that_stays_silent_is_lost(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKSIDE_LEASE", "0")
    mine = of_several_machines(tmp_path)
    supervise_by(mine.context.folder, "algo-2", ELSEWHERE)
    record = mine.context.folder.host("algo-2", 1).supervisor
    assert mine.peers.check() == []
    assert until(mine.peers.check) == ["algo-2"]
    os.utime(record, (1, 1))  # its clock is its own affair: that the time changes counts
    assert mine.peers.check() == []
    assert until(mine.peers.check) == ["algo-2"]


def test_a_host_shows_other_machines_that_it_lives(tmp_path):
    mine = of_several_machines(tmp_path)
    supervise_by(mine.context.folder, "algo-1", processes.myself())
    record = mine.context.folder.host("algo-1", 1).supervisor
    os.utime(record, (1, 1))
    mine.coordination.start()
    try:
        until(lambda: record.stat().st_mtime > 1)
    finally:
        mine.coordination.close()


@pytest.mark.parametrize("damage", [b"", b"[1]", b'{"id": 1}'])
def test_a_damaged_request_is_left_out(tmp_path, damage):
    coordination = attempt(tmp_path).coordination
    coordination.request(Request("a", FLIGHT_RECORDER, "algo-1"))
    (coordination.folder.requests("algo-1") / "b.json").write_bytes(damage)
    assert [each.id for each in coordination.requests()] == ["a"]
    assert coordination.requests() == []
