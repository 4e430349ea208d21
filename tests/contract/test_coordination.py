"""One contract for every way in which the hosts of a job coordinate.

A home makes the view of one host; the views of one home are of one job. What a host says reaches
the others by itself: `until` waits for it.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.training_request import training_request

from tests.api.s3.conftest import REGION, S3Endpoint, serving
from tests.conftest import S3Server
from tests.wait import until
from trackside.api.s3.service import S3
from trackside.coordination.choose import coordination_of
from trackside.coordination.coordination import (
    FLIGHT_RECORDER,
    Coordination,
    EndOrder,
    Meeting,
    Request,
    Why,
)
from trackside.coordination.folder import FolderCoordination
from trackside.coordination.store import StoreCoordination
from trackside.records.group import GroupRecord
from trackside.records.hosts import HostRecord, Phase, SyncState
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import Settings

HOSTS = ("algo-1", "algo-2", "algo-3")

View = Callable[..., Coordination]


class FolderHome:
    """All hosts are on this machine."""

    def __init__(self, root: Path, request: pytest.FixtureRequest) -> None:
        self.folder = Home(root).job("job")
        self.folder.root.mkdir(parents=True)
        Journal(self.folder.journal).open()
        for host in HOSTS:
            self.folder.host(host, 1).root.mkdir(parents=True)

    def view(self, host: str, attempt: int = 1) -> Coordination:
        return FolderCoordination(self.folder, HOSTS, host, attempt)


class StoreHome:
    """Each host has a home of its own; they share only an S3 server: ours here, moto's below."""

    def __init__(self, root: Path, request: pytest.FixtureRequest) -> None:
        self.root = root
        environment, bucket = self.server(request)
        monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        self.spec = JobSpec.from_request(
            training_request(
                "job",
                OutputDataConfig={"S3OutputPath": f"s3://{bucket}/jobs"},
                ResourceConfig={
                    "InstanceType": "local", "InstanceCount": len(HOSTS), "VolumeSizeInGB": 1
                },
            )
        )  # fmt: skip
        assert self.spec.hosts == HOSTS

    def server(self, request: pytest.FixtureRequest) -> tuple[dict[str, str], str]:
        server: S3Endpoint = request.getfixturevalue("own_server")
        bucket = f"bucket-{uuid.uuid4().hex[:12]}"
        region = {"LocationConstraint": REGION}
        server.client().create_bucket(Bucket=bucket, CreateBucketConfiguration=region)
        return server.environment, bucket

    def view(self, host: str, attempt: int = 1) -> Coordination:
        home = Home(self.root / f"machine of {host}")
        folder = home.job("job")
        if not folder.root.exists():
            folder.root.mkdir(parents=True)
            Journal(folder.journal).open()
            GroupRecord(
                addresses=dict.fromkeys(HOSTS, "10.0.0.1"), interface="eth0", shares_files=False
            ).write(folder)
        folder.host(host, attempt).root.mkdir(parents=True, exist_ok=True)
        settings = Settings(home=home.root, heartbeat_seconds=0.5)
        found = coordination_of(folder, self.spec, host, attempt, settings)
        assert isinstance(found, StoreCoordination)
        return found


class MotoHome(StoreHome):
    def server(self, request: pytest.FixtureRequest) -> tuple[dict[str, str], str]:
        server: S3Server = request.getfixturevalue("s3_server")
        return server.environment, server.make_bucket()


@pytest.fixture(scope="session")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Endpoint]:
    home = tmp_path_factory.mktemp("server")
    with serving(S3(home / "buckets"), home) as endpoint:
        yield endpoint


HOMES: dict[str, type[FolderHome] | type[StoreHome]] = {
    "folder": FolderHome,
    "store": StoreHome,
    "moto": MotoHome,
}


@pytest.fixture(params=HOMES)
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[View]:
    """Makes a started view of a host."""
    home = HOMES[request.param](tmp_path, request)
    made: list[Coordination] = []

    def make(host: str, attempt: int = 1) -> Coordination:
        found = home.view(host, attempt)
        found.start()
        made.append(found)
        return found

    yield make
    for each in made:
        each.close()


def order_of(coordination: Coordination) -> tuple[Why, str]:
    order: EndOrder | None = until(coordination.ordered_end)
    assert order is not None
    return order.why, order.host


def test_the_first_host_leads(view: View):
    assert [view(host).is_lead for host in HOSTS] == [True, False, False]


def test_a_host_that_announced_nothing_is_preparing(view: View):
    found = view("algo-1").records()
    assert tuple(found) == HOSTS
    assert {record.phase for record in found.values()} == {Phase.PREPARING}


def test_what_a_host_announces_reaches_the_lead(view: View):
    lead, other = view("algo-1"), view("algo-2")
    said = HostRecord(
        phase=Phase.RUNNING, syncs={"/opt/ml/checkpoints": SyncState(to="s3://a", num_files=2)}
    )
    other.announce(said)
    until(lambda: lead.records()["algo-2"] == said)
    other.announce(replace(said, phase=Phase.ENDED, exit_code=3))
    until(lambda: lead.records()["algo-2"].phase is Phase.ENDED)
    assert lead.records()["algo-2"].exit_code == 3
    assert lead.records()["algo-3"] == HostRecord()


def test_a_host_finds_its_own_record_again(view: View):
    view("algo-2").announce(HostRecord(phase=Phase.READY))
    assert view("algo-2").records()["algo-2"].phase is Phase.READY


def test_an_attempt_knows_nothing_of_the_one_before(view: View):
    lead = view("algo-1")
    lead.announce(HostRecord(phase=Phase.ENDED))
    lead.order_end(Why.HOST_LOST, "algo-3")
    lead.write_meeting(Meeting(7777, "boot", 1.0))
    lead.folder.host("algo-1", 2).root.mkdir()
    lead.close()
    second = view("algo-1", 2)
    assert second.records()["algo-1"] == HostRecord()
    assert second.ordered_end() is None
    assert second.meeting() is None


def test_the_first_order_to_end_counts(view: View):
    lead, other = view("algo-1"), view("algo-2")
    assert lead.ordered_end() is None
    lead.order_end(Why.HOST_FAILED, "algo-2")
    lead.order_end(Why.MAX_RUNTIME, "algo-1")
    assert order_of(lead) == order_of(other) == (Why.HOST_FAILED, "algo-2")
    assert order_of(view("algo-1")) == (Why.HOST_FAILED, "algo-2")


def test_any_host_may_order_the_end(view: View):
    lead, other, third = (view(host) for host in HOSTS)
    other.order_end(Why.HOST_FAILED, "algo-2")
    assert order_of(lead) == order_of(third) == (Why.HOST_FAILED, "algo-2")


def test_all_hosts_learn_what_the_lead_wrote_for_them(view: View):
    lead, other = view("algo-1"), view("algo-3")
    assert other.meeting() is None
    met = Meeting(4321, "boot", 12.5)
    lead.write_meeting(met)
    lead.make_durable()
    until(lambda: other.meeting() == met)
    lead.write_meeting(replace(met, ran=60.0))
    until(lambda: other.meeting() == replace(met, ran=60.0))
    assert view("algo-1").meeting() == replace(met, ran=60.0)


def test_what_the_lead_writes_in_the_journal_reaches_all(view: View):
    lead, other = view("algo-1"), view("algo-2")
    lead.journal.move(Secondary.DOWNLOADING)
    until(lambda: other.journal.read().state.secondary is Secondary.DOWNLOADING)


def test_a_host_that_has_not_said_anything_yet_is_waited_for(view: View):
    found = view("algo-1").liveness("algo-2")
    assert found.supervisor
    assert found.silent_seconds < 60


def test_a_request_is_taken_once_by_the_host_it_is_for(view: View):
    lead, other, third = (view(host) for host in HOSTS)
    asked = Request("one", FLIGHT_RECORDER, "algo-2", {"why": "a finding"})
    lead.request(asked)
    lead.request(asked)
    assert until(other.requests) == [asked]
    assert other.requests() == third.requests() == lead.requests() == []


def test_requests_are_taken_in_their_order(view: View):
    lead = view("algo-1")
    asked = [Request(str(number), FLIGHT_RECORDER, "algo-1") for number in (3, 1, 2)]
    for each in asked:
        lead.request(each)
    taken: list[Request] = []

    def are_all_taken() -> bool:
        taken.extend(lead.requests())
        return len(taken) == len(asked)

    until(are_all_taken)
    assert taken == asked


def test_a_host_s_part_is_not_over_by_itself(view: View):
    assert [view(host).is_over() for host in HOSTS] == ["", "", ""]
