"""Which journal counts of a job on other machines, and whose folder a home leaves alone."""

import json

import pytest

from tests.conftest import environment_for
from tests.contract.toy_placement import ToyPlacement
from tests.fault_proxy import Fault, FaultProxy
from tests.jobs.conftest import make_spec
from trackside.coordination.documents import STOP, Document, lead_name
from trackside.errors import JobNotFinished, StoreUnreachable
from trackside.files.permissions import make_folder
from trackside.jobs.elsewhere import is_further
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import fetch, spec_bytes
from trackside.placement import choose
from trackside.records.group import GroupRecord
from trackside.records.hosts import Phase
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.placed import Placed
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.storage import unreachable_stores
from trackside.storage.connect import QUICK
from trackside.storage.locate import locate_object

SPEC = make_spec(num_hosts=2, Trackside={"Placement": "toy"})
KEYS = JobKeys.of(SPEC)


@pytest.fixture
def folder(home: Home, tmp_path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """Of a job that was placed and runs."""
    monkeypatch.setitem(choose.PLACEMENTS, "toy", f"{ToyPlacement.__module__}:ToyPlacement")
    monkeypatch.setattr(ToyPlacement, "cluster", tmp_path / "cluster", raising=False)
    return placed(home, SPEC)


def placed(home: Home, spec: JobSpec) -> JobFolder:
    folder = home.job(spec.name)
    make_folder(folder.root)
    folder.spec.write_bytes(spec_bytes(spec))
    Journal(folder.journal).open()
    return folder


def put(home: Home, uri: str, content: bytes) -> None:
    place = locate_object(uri, home=home.root)
    place.store.put(place.key, content)


@pytest.mark.parametrize(
    ("stored", "here", "expected"),
    [
        (b"1\n2\n", b"1\n", True),
        (b"1\n", b"1\n2\n", False),
        (b"1\n", b"1\n", False),
        (b"1\nlead's\n", b"1\nours\nours\n", True),
    ],
)
def test_the_lead_s_journal_counts_unless_this_home_continues_it(
    stored: bytes, here: bytes, expected: bool
):
    assert is_further(stored, here) is expected


def test_status_and_hosts_are_those_in_storage(jobs: Jobs, home: Home, folder: JobFolder):
    ToyPlacement.cluster.mkdir()
    other = Journal(home.root / "lead's journal")
    other.path.write_bytes(folder.journal.read_bytes())
    other.move(Secondary.DOWNLOADING)
    put(home, KEYS.spec, folder.spec.read_bytes())
    put(home, KEYS.journal, other.path.read_bytes())
    record = {"phase": Phase.RUNNING, "later": 1}
    said = Document(host="algo-1", epoch=2, generation=1, instance="i", beat=1, record=record)
    put(home, f"{KEYS.coordination}/{lead_name(1)}", b"damaged")
    put(home, f"{KEYS.coordination}/{lead_name(2)}", said.bytes)
    GroupRecord(addresses={}, interface="", host="algo-2", shares_files=False).write(folder)
    described = jobs.describe(SPEC.name)
    assert described["SecondaryStatus"] == "Downloading"
    assert described["Trackside"]["folder"] is None
    assert {*described["Trackside"]["hosts"]} == {"algo-1"}
    assert described["Trackside"]["hosts"]["algo-1"]["phase"] == Phase.RUNNING
    with pytest.raises(JobNotFinished, match="runs on other machines"):
        jobs.change_tags(SPEC.name, put={"a": "b"})
    with pytest.raises(JobNotFinished, match="stop it first"):
        jobs.delete(SPEC.name)


def test_a_host_s_folder_places_no_group_and_passes_a_stop_on(
    jobs: Jobs, home: Home, folder: JobFolder
):
    GroupRecord(addresses={}, interface="", host="algo-2", shares_files=False).write(folder)
    jobs.reconcile(SPEC.name)
    assert Placed.read(folder) is None
    assert not ToyPlacement.cluster.exists()
    jobs.stop(SPEC.name)
    place = locate_object(f"{KEYS.coordination}/requests/stop.json", home=home.root)
    assert json.loads(place.store.get(place.key))["what"] == STOP


@pytest.fixture
def store(faulty: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An output location behind the proxy."""
    monkeypatch.delenv("TRACKSIDE_S3")
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    return f"s3://{bucket}/out"


def test_an_unreachable_store_is_asked_once_and_what_is_known_here_is_the_answer(
    jobs: Jobs, home: Home, folder: JobFolder, store: str, faulty: FaultProxy
):
    names = ["a", "b", "c"]
    for name in names:
        output = {"S3OutputPath": store}
        placed(home, make_spec(name, Trackside={"Placement": "toy"}, OutputDataConfig=output))
    faulty.inject(Fault(times=10_000, status=503))
    assert {row.name for row in jobs.list()} >= {*names}
    described = jobs.describe("b")
    assert described["SecondaryStatus"] == "Starting"
    assert "cannot be reached: it answers 503" in described["Trackside"]["unreachable"]
    asked = [each for each in faulty.requests if f"{store.partition('://')[2]}/" in each.line]
    assert 0 < len(asked) <= QUICK.max_retries + 1


def test_a_store_that_is_back_is_asked_again(
    home: Home, store: str, faulty: FaultProxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unreachable_stores, "AWAY_SECONDS", 0.0)
    uri = f"{store}/x"
    put(home, uri, b"there")
    faulty.inject(Fault(times=10_000, status=503))
    with pytest.raises(StoreUnreachable):
        fetch(uri, home)
    faulty.clear()
    assert fetch(uri, home) == b"there"
