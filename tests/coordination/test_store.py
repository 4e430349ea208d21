"""Hosts that share only a store: stops, silence, fences, restarts and outages, over a real S3."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.training_request import training_request

from tests.conftest import S3Server, environment_for
from tests.fault_proxy import Fault, FaultProxy
from tests.wait import until
from trackside.coordination.coordination import FLIGHT_RECORDER, Request, Why
from trackside.coordination.documents import LOST, STOP
from trackside.coordination.epoch import take
from trackside.coordination.store import StoreCoordination
from trackside.errors import ObjectNotFound, StoreUnreachable
from trackside.records.group import GroupRecord
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import Journal, fold_lines
from trackside.records.layout import Home, JobKeys
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, Status
from trackside.settings import Settings
from trackside.storage.locate import entries_below, locate, locate_object

HOSTS = ("algo-1", "algo-2")


class Group:
    """The machines of a job: each has a home of its own."""

    def __init__(self, root: Path, bucket: str) -> None:
        self.root = root
        resources = {"InstanceType": "local", "InstanceCount": len(HOSTS), "VolumeSizeInGB": 1}
        output = {"S3OutputPath": f"s3://{bucket}/jobs"}
        request = training_request("job", OutputDataConfig=output, ResourceConfig=resources)
        self.spec = JobSpec.from_request(request)
        self.keys = JobKeys.of(self.spec)
        self.place = locate(self.keys.coordination, home=root)
        self._started: list[StoreCoordination] = []

    def host(
        self,
        host: str,
        *,
        machine: str = "",
        epoch: int = 1,
        lease: float = 600.0,
        wait: float = 60.0,
    ) -> StoreCoordination:
        home = Home(self.root / (machine or f"machine of {host}"))
        folder = home.job("job")
        group = GroupRecord(addresses={}, interface="eth0", shares_files=False)
        if not folder.root.exists():
            folder.root.mkdir(parents=True)
            Journal(folder.journal).open()
            group.write(folder)
        folder.host(host, 1).root.mkdir(parents=True, exist_ok=True)
        settings = Settings(
            home=home.root, heartbeat_seconds=0.5, lease_seconds=lease, upload_deadline_seconds=wait
        )
        made = StoreCoordination(folder, self.spec, host, 1, settings, group)
        self._started.append(made)
        made.start()
        return made

    def ask(self, identifier: str, what: str, host: str = "", **details: str) -> None:
        place = self.place.child(f"requests/{identifier}.json")
        request = {"id": identifier, "what": what, "host": host, "details": details}
        place.store.put(place.key, json.dumps(request).encode())

    def names(self) -> set[str]:
        return {name for name, _ in entries_below(self.place)}

    def stored(self, uri: str) -> bytes:
        """Nothing before there is any."""
        place = locate_object(uri, home=self.root)
        try:
            return place.store.get(place.key)
        except ObjectNotFound:
            return b""

    def stored_status(self) -> Secondary | None:
        lines = self.stored(self.keys.journal).split(b"\n")[:-1]
        return fold_lines(lines).state.secondary if lines else None

    def close(self) -> None:
        for each in self._started:
            each.close()


@pytest.fixture
def group(
    tmp_path: Path, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Group]:
    yield from group_at(s3_server.url, tmp_path, bucket, monkeypatch)


@pytest.fixture
def faulty_group(
    tmp_path: Path, faulty: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Group]:
    yield from group_at(faulty.url, tmp_path, bucket, monkeypatch)


def group_at(url: str, root: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    for name, value in environment_for(url).items():
        monkeypatch.setenv(name, value)
    made = Group(root, bucket)
    yield made
    made.close()


def status(host: StoreCoordination) -> Status:
    return host.journal.read().state.status


def is_lost(host: StoreCoordination, other: str) -> Callable[[], bool]:
    return lambda: not host.liveness(other).supervisor


def test_a_request_to_stop_reaches_every_host_and_is_removed(group: Group):
    lead, other = map(group.host, HOSTS)
    lead.journal.move(Secondary.DOWNLOADING)
    group.ask("one", STOP, message="somebody asked")
    until(lambda: status(other) is Status.STOPPING)
    assert status(lead) is Status.STOPPING
    assert lead.journal.read().message == "somebody asked"
    until(lambda: "requests/one.json" not in group.names())


def test_a_request_in_the_store_reaches_its_host_once(group: Group):
    lead, other = map(group.host, HOSTS)
    group.ask("one", FLIGHT_RECORDER, "algo-2")
    assert until(other.requests) == [Request("one", FLIGHT_RECORDER, "algo-2")]
    until(lambda: "requests/one.json" not in group.names())
    group.ask("one", FLIGHT_RECORDER, "algo-2")
    group.ask("two", FLIGHT_RECORDER, "algo-1")
    assert [each.id for each in until(lead.requests)] == ["two"]
    until(lambda: not [name for name in group.names() if name.startswith("requests/")])
    assert other.requests() == []


def test_a_host_other_than_the_lead_may_ask_too(group: Group):
    lead, other = map(group.host, HOSTS)
    other.request(Request("one", FLIGHT_RECORDER, "algo-1"))
    assert [each.id for each in until(lead.requests)] == ["one"]


def test_readers_elsewhere_see_where_a_running_job_stands(group: Group):
    lead = group.host("algo-1")
    lead.journal.move(Secondary.DOWNLOADING)
    until(lambda: group.stored_status() is Secondary.DOWNLOADING)
    lead.announce(HostRecord(phase=Phase.READY))
    own = f"{group.keys.coordination}/1/hosts/algo-1.json"
    until(lambda: b'"phase":"ready"' in group.stored(own))


def test_a_newer_group_ends_the_part_of_every_host(group: Group):
    lead, other = map(group.host, HOSTS)
    until(lambda: "1/lead.json" in group.names())
    fence = group.place.child("epoch.json")
    assert [take(fence, "first").epoch, take(fence, "second").epoch] == [1, 2]
    assert "epoch 2" in until(lead.is_over)
    assert "epoch 2" in until(other.is_over)
    lead.journal.move(Secondary.DOWNLOADING)  # which nobody else sees any more
    lead.close()
    assert other.journal.read().state.secondary is Secondary.STARTING


def test_a_host_that_is_silent_for_a_lease_is_lost(group: Group):
    lead = group.host("algo-1", lease=1.5)
    other = group.host("algo-2")
    until(lambda: "1/hosts/algo-2.json" in group.names())
    assert lead.liveness("algo-2").supervisor
    other.close()
    until(is_lost(lead, "algo-2"))


def test_a_host_gives_up_when_its_lead_is_silent_for_a_lease(group: Group):
    other = group.host("algo-2", lease=1.5)
    lead = group.host("algo-1")
    until(lambda: "1/lead.json" in group.names())
    lead.close()
    assert "algo-1 has not been heard" in until(other.is_over)


def test_a_host_that_its_placement_has_lost_is_waited_for_a_few_beats_only(group: Group):
    lead, other = map(group.host, HOSTS)
    other.announce(HostRecord(phase=Phase.RUNNING))
    until(lambda: lead.records()["algo-2"].phase is Phase.RUNNING)
    group.ask("alive", LOST, "algo-2", why="the node is gone")
    until(lambda: "requests/alive.json" not in group.names())
    until(lambda: lead.liveness("algo-2").silent_seconds == 0)
    assert lead.liveness("algo-2").supervisor, "it was heard after that"
    other.close()
    group.ask("gone", LOST, "algo-2", why="the node is gone")
    until(is_lost(lead, "algo-2"))


def test_a_store_that_is_away_makes_nobody_lost(faulty_group: Group, faulty: FaultProxy):
    lead, other = (faulty_group.host(host, lease=2.0) for host in HOSTS)
    other.announce(HostRecord(phase=Phase.RUNNING))
    until(lambda: lead.records()["algo-2"].phase is Phase.RUNNING)
    faulty.inject(Fault(times=1_000_000, status=503))
    num_refused = faulty.count("")
    until(lambda: faulty.count("") > num_refused + 30)
    lead.journal.move(Secondary.DOWNLOADING)
    other.announce(HostRecord(phase=Phase.ENDED))
    assert lead.liveness("algo-2").supervisor
    assert (lead.is_over(), other.is_over()) == ("", "")
    faulty.clear()
    until(lambda: lead.records()["algo-2"].phase is Phase.ENDED)
    until(lambda: other.journal.read().state.secondary is Secondary.DOWNLOADING)
    assert (lead.is_over(), other.is_over()) == ("", "")


def test_a_lead_on_another_disk_takes_over_what_the_first_has_said(group: Group):
    lead, other = map(group.host, HOSTS)
    lead.journal.move(Secondary.DOWNLOADING)
    lead.order_end(Why.MAX_RUNTIME, "algo-1")
    until(other.ordered_end)
    lead.close()
    second = group.host("algo-1", machine="another machine")
    assert second.journal.read().state.secondary is Secondary.DOWNLOADING
    order = second.ordered_end()
    assert order is not None
    assert order.why is Why.MAX_RUNTIME
    second.journal.move(Secondary.TRAINING)
    until(lambda: other.journal.read().state.secondary is Secondary.TRAINING)


def test_the_last_words_of_a_lead_that_leaves_are_in_the_journal_of_the_store(group: Group):
    """Who places the next group reads there why it left, and how long it ran."""
    lead, _ = map(group.host, HOSTS)
    lead.journal.move(Secondary.DOWNLOADING)
    until(lambda: group.stored_status() is Secondary.DOWNLOADING)
    lead.journal.note("retry", attempt=1, cause="preempted", reason="taken back", seconds=1.5)
    lead.journal.move(Secondary.INTERRUPTED)
    lead.close()
    assert group.stored_status() is Secondary.INTERRUPTED
    assert group.stored(group.keys.journal) == lead.folder.journal.read_bytes()


def test_of_two_supervisors_of_a_host_the_later_one_stays(group: Group):
    lead, other = map(group.host, HOSTS)
    until(lambda: "1/hosts/algo-2.json" in group.names())
    twin = group.host("algo-2", machine="a copy of algo-2")
    assert "has taken over" in until(other.is_over)
    second = group.host("algo-1", machine="a copy of algo-1")
    assert "has taken over" in until(lead.is_over)
    assert (twin.is_over(), second.is_over()) == ("", "")


def test_nothing_but_the_fence_stays_when_the_job_has_ended(group: Group):
    take(group.place.child("epoch.json"), "first")
    lead, other = map(group.host, HOSTS)
    other.announce(HostRecord(phase=Phase.ENDED))
    until(lambda: lead.records()["algo-2"].phase is Phase.ENDED)
    lead.journal.move(Secondary.FAILED, reason="AlgorithmError: 1")
    lead.close()
    until(lambda: other.journal.read().state.is_final)
    other.close()
    assert group.names() == {"epoch.json"}
    assert group.stored_status() is Secondary.FAILED
    late = group.host("algo-2", machine="one that starts too late")
    until(lambda: late.journal.read().state.is_final)
    late.close()
    assert group.names() == {"epoch.json"}


def test_a_lead_without_files_does_not_start_before_it_has_read_the_store(
    faulty_group: Group, faulty: FaultProxy
):
    faulty.inject(Fault(times=1_000_000, status=503))
    with pytest.raises(StoreUnreachable, match="how far its job is"):
        faulty_group.host("algo-1", wait=0.0)
    faulty.clear()
    lead = faulty_group.host("algo-1")
    until(lambda: "1/lead.json" in faulty_group.names())
    assert replace(lead.liveness("algo-2"), silent_seconds=0.0).supervisor
