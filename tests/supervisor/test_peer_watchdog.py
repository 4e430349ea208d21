"""The lead starts another host's supervisor again; a host is lost only when that is of no use."""

import sys
from math import inf

import pytest

from tests.supervisor.running import attempt, dead_process, record, supervise_by
from tests.wait import until
from trackside.files import durable
from trackside.records.host_processes import supervisor_lives
from trackside.records.hosts import Phase
from trackside.supervisor import peer_watchdog
from trackside.supervisor.peer_watchdog import Action, Seen, decide
from trackside.system import processes


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Seen(supervisor_lives=True), Action.LEAVE),
        (Seen(supervisor_lives=True, starts=9), Action.LEAVE),
        (Seen(script_lives=True, gone_seconds=30), Action.LEAVE),
        (Seen(script_lives=True, gone_seconds=inf), Action.START),
        (Seen(script_lives=True, gone_seconds=inf, starts=9), Action.LEAVE),
        (Seen(), Action.START),
        (Seen(starts=1, since_start_seconds=1.0), Action.LEAVE),
        (Seen(starts=1, since_start_seconds=2.5), Action.START),
        (Seen(starts=3, since_start_seconds=1.0), Action.LEAVE),
        (Seen(starts=3, since_start_seconds=6.0), Action.LOST),
    ],
)
def test_what_is_done_follows_from_what_is_seen(seen: Seen, expected: Action):
    assert decide(seen) is expected


def test_a_supervisor_that_died_is_started_again_with_its_own_gpus(tmp_path):
    mine = attempt(tmp_path, num_hosts=2)
    place = mine.context.folder.host("algo-2", 1)
    supervise_by(mine.context.folder, "algo-2", dead_process())
    durable.write_json(place.placed, {"nonce": "of-algo-2-alone", "gpus": ["3", "5"]})
    assert mine.peers.check() == []
    until(lambda: supervisor_lives(place))
    written = durable.read_json(place.supervisor) or {}
    identity = processes.Identity.from_record(written)
    assert written["nonce"] == "of-algo-2-alone"
    with open(f"/proc/{identity.pid}/environ", "rb") as environ:
        assert b"CUDA_VISIBLE_DEVICES=3,5" in environ.read().split(b"\0")
    assert mine.peers.check() == []
    processes.send_signal(identity, 9)
    child = mine.peers._memories["algo-2"].process
    assert child is not None
    child.wait()


def test_a_host_whose_supervisor_keeps_dying_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_watchdog, "PAUSES_SECONDS", (0.0, 0.1))
    mine = attempt(tmp_path, num_hosts=3)
    supervise_by(mine.context.folder, "algo-2", dead_process())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    supervise_by(mine.context.folder, "algo-3", processes.myself())
    assert mine.peers.check() == []
    assert until(mine.peers.check) == ["algo-2"]


def test_a_host_that_has_ended_is_left_alone(tmp_path):
    mine = attempt(tmp_path, num_hosts=2)
    supervise_by(mine.context.folder, "algo-2", dead_process())
    record(mine.context.folder, "algo-2", Phase.ENDED)
    assert mine.peers.check() == []
    assert not mine.context.folder.host("algo-2", 1).supervisor_log.exists()
