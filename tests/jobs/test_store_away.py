"""Logs and curves of a job on other machines while its store is away: who asks is told within
seconds; who follows goes on when the store is back, and misses nothing."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import environment_for
from tests.contract.toy_placement import ToyPlacement
from tests.fault_proxy import Fault, FaultProxy
from tests.jobs.conftest import make_spec
from trackside.cli import metrics
from trackside.curves.event_file import EventFile
from trackside.curves.event_reader import Follower
from trackside.errors import StoreUnreachable
from trackside.files.permissions import make_folder
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import LogLine
from trackside.jobs.records import spec_bytes
from trackside.placement import choose
from trackside.records.group import GroupRecord
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobKeys, curves_of
from trackside.records.log_lines import chunk_name, encode
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, Status
from trackside.sdk.job import TrainingJob
from trackside.storage import unreachable_stores
from trackside.storage.connect import QUICK
from trackside.storage.locate import locate, locate_object
from trackside.supervisor.event_sync import EventSync
from trackside.views.job.report_material import gather

AWAY = Fault(times=100_000, status=503)
LONG_ENOUGH = QUICK.max_retries + 2
"""Requests that fail, for one reader to give up."""


@dataclass
class Cluster:
    """A job of two hosts that runs elsewhere: what its lead has stored, by the proxy; and how far
    this home knows it."""

    spec: JobSpec
    home: Home
    proxy: FaultProxy
    journal: Journal

    @property
    def keys(self) -> JobKeys:
        return JobKeys.of(self.spec)

    def put(self, uri: str, content: bytes) -> None:
        place = locate_object(uri, home=self.home.root)
        place.store.put(place.key, content)

    def log(self, host: str, offset: int, text: bytes, time: float) -> None:
        name = f"{self.keys.logs}/{host}/{chunk_name(1, offset)}"
        self.put(name, encode(text, offset, [], time))

    def move(self, secondary: Secondary) -> None:
        self.journal.move(secondary)
        self.put(self.keys.journal, self.journal.path.read_bytes())


@pytest.fixture
def cluster(
    home: Home, faulty: FaultProxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    monkeypatch.setitem(choose.PLACEMENTS, "toy", f"{ToyPlacement.__module__}:ToyPlacement")
    monkeypatch.setattr(ToyPlacement, "cluster", tmp_path / "cluster", raising=False)
    monkeypatch.delenv("TRACKSIDE_S3")
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(unreachable_stores, "AWAY_SECONDS", 0.2)
    output = {"S3OutputPath": f"s3://{bucket}/out"}
    spec = make_spec(num_hosts=2, Trackside={"Placement": "toy"}, OutputDataConfig=output)
    folder = home.job(spec.name)
    make_folder(folder.root)
    folder.spec.write_bytes(spec_bytes(spec))
    Journal(folder.journal).open()
    GroupRecord(addresses={}, interface="", host="algo-2", shares_files=False).write(folder)
    made = Cluster(spec, home, faulty, Journal(folder.journal))
    made.put(made.keys.spec, folder.spec.read_bytes())
    for secondary in (Secondary.DOWNLOADING, Secondary.TRAINING):
        made.move(secondary)
    return made


def test_a_log_whose_store_is_away_is_refused_after_a_few_requests(jobs: Jobs, cluster: Cluster):
    cluster.log("algo-1", 0, b"one\n", 1.0)
    cluster.proxy.inject(AWAY)
    before = len(cluster.proxy.requests)
    with pytest.raises(StoreUnreachable, match="cannot be reached: it answers 503"):
        list(jobs.logs(cluster.spec.name))
    assert len(cluster.proxy.requests) - before <= 2 * (QUICK.max_retries + 1)


def test_who_follows_a_log_misses_nothing_while_its_store_is_away(
    jobs: Jobs, cluster: Cluster, caplog: pytest.LogCaptureFixture
):
    cluster.log("algo-1", 0, b"1 of one\n2 of one\n", 1.0)
    cluster.log("algo-2", 0, b"1 of two\n", 2.0)
    seen: list[str] = []
    for line in jobs.logs(cluster.spec.name, follow=True):
        assert isinstance(line, LogLine)
        seen.append(line.data.decode().strip())
        if len(seen) == 3:
            # The chunks of one host can be read, those of the other cannot, as their lines meet.
            cluster.log("algo-1", 18, b"3 of one\n4 of one\n", 3.0)
            cluster.log("algo-2", 9, b"2 of two\n", 4.0)
            cluster.log("algo-2", 18, b"3 of two\n", 5.0)
            cluster.move(Secondary.UPLOADING)
            cluster.move(Secondary.COMPLETED)
            pattern = rf"GET .*algo-2/{chunk_name(1, 18)}"
            cluster.proxy.inject(Fault(pattern, times=LONG_ENOUGH, status=503))
    assert sorted(seen) == [f"{n} of {host}" for n in (1, 2, 3, 4) for host in ("one", "two")][:-1]
    told = [each.getMessage() for each in caplog.records]
    assert len([each for each in told if "goes on when its store is back" in each]) == 1
    assert jobs.describe(cluster.spec.name)["TrainingJobStatus"] == Status.COMPLETED


def test_who_follows_curves_goes_on_when_their_store_is_back(
    jobs: Jobs,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(metrics, "FOLLOW_SECONDS", 0.05)
    curves = locate(curves_of(cluster.spec, cluster.keys), home=cluster.home.root)
    written = EventFile(tmp_path / "events")
    sync = EventSync("tensorboard", tmp_path / "events", curves, "algo-1")

    def write(step: int) -> None:
        written.add(("loss", 1.0 / step, step, 1.7e9 + step))
        written.flush()
        sync.tick()

    write(1)
    job = TrainingJob(cluster.spec.name, jobs)
    follower = Follower(curves.uri, home=cluster.home.root)
    readings = metrics._readings(job, follower, follow=True)
    _, first = next(readings)
    assert first.num_points == 1
    write(2)
    cluster.move(Secondary.UPLOADING)
    cluster.move(Secondary.COMPLETED)
    cluster.proxy.inject(Fault(curves.key, times=LONG_ENOUGH, status=503))
    _, last = [*readings][-1]
    assert last.num_points == 2
    assert caplog.text.count("go on when their store is back") == 1


def test_curves_whose_store_is_away_are_refused_after_a_few_requests(cluster: Cluster):
    place = curves_of(cluster.spec, cluster.keys)
    cluster.proxy.inject(AWAY)
    before = len(cluster.proxy.requests)
    with pytest.raises(StoreUnreachable):
        Follower(place, home=cluster.home.root).update()
    assert len(cluster.proxy.requests) - before <= QUICK.max_retries + 1


def test_a_report_whose_store_is_away_is_refused_after_a_few_requests(
    jobs: Jobs, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unreachable_stores, "AWAY_SECONDS", 60.0)
    cluster.proxy.inject(AWAY)
    before = len(cluster.proxy.requests)
    with pytest.raises(StoreUnreachable):
        gather(cluster.spec.name, jobs)
    assert len(cluster.proxy.requests) - before <= 2 * (QUICK.max_retries + 1)
