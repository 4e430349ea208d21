"""Tests for `trackside.supervisor.syncer`: real threads, folders, and stores with faults."""

import itertools
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import environment_for
from tests.fault_proxy import Fault
from tests.supervisor.making import job
from tests.supervisor.synced_files import names, place, send, write
from tests.wait import until
from trackside.curves.records import frame
from trackside.records.hosts import HostRecord, SyncState
from trackside.records.spec import DebugHook
from trackside.settings import Settings
from trackside.storage.locate import Location, locate
from trackside.supervisor import syncer as syncer_module
from trackside.supervisor.event_sync import EventSync
from trackside.supervisor.folder_sync import FolderSync
from trackside.supervisor.host_report import lag_message
from trackside.supervisor.host_syncs import make_syncer
from trackside.supervisor.sync_part import SyncPart
from trackside.supervisor.syncer import Syncer


class Failing(SyncPart):
    """A part whose ticks end as the test says."""

    def __init__(self, *ends: BaseException | None) -> None:
        super().__init__("part", locate("s3://bucket/part", home=Path("/")))
        self.num_ticks = 0
        self._ends: Iterator[BaseException | None] = iter(ends)

    def tick(self, *, last: bool = False) -> None:
        self.num_ticks += 1
        error = next(self._ends, None)
        if error is not None:
            raise error


class Panic(BaseException):
    """As native code raises it."""


@pytest.mark.parametrize(
    ("cpu_seconds", "pause"), [(0.0, 1.0), (0.01, 1.0), (0.1, 5.0), (3.0, 10.0)]
)
def test_passes_that_cost_much_come_the_less_often(cpu_seconds: float, pause: float):
    assert syncer_module.pause_after(cpu_seconds) == pytest.approx(pause)


def test_passes_that_find_nothing_come_the_less_often():
    pauses = [syncer_module.pause_after(0.0, num_idle) for num_idle in (0, 2, 3, 9, 10, 1000)]
    assert pauses == [1.0, 1.0, 3.0, 3.0, 30.0, 30.0]


def test_a_pause_because_nothing_was_new_can_be_ended(monkeypatch):
    monkeypatch.setattr(syncer_module, "SCAN_SECONDS", 0.01)
    monkeypatch.setattr(syncer_module, "IDLE_PAUSE_SECONDS", 600.0)
    monkeypatch.setattr(syncer_module, "LONGEST_PAUSE_SECONDS", 600.0)
    part = Failing()
    syncer = Syncer([part])
    syncer.start()
    until(lambda: part.num_ticks == syncer_module.IDLE_PASSES)
    syncer.wake()
    until(lambda: part.num_ticks > syncer_module.IDLE_PASSES)
    assert syncer.finish(time.monotonic() + 600, lambda error: None) == ""


def test_the_machine_s_figures_do_not_count_as_activity(source, stored):
    def draw(last: bool) -> None:
        write(source / "events.out.tfevents.1.host.1.0", frame(b"a record"))

    own = EventSync("curves", source, place(stored), "algo-1", fill=draw)
    theirs = EventSync("events", source, place(stored), "algo-1")
    own.tick()
    assert own.state.uploaded_bytes > 0
    assert len(syncer_module._amounts([own, theirs])) == 1


class OfHook(Failing):
    """Has a new file at each tick, of our hook."""

    is_of_hook = True

    def tick(self, *, last: bool = False) -> None:
        super().tick(last=last)
        self.state.uploaded_bytes += 1


def test_what_the_hook_writes_alone_is_uploaded_at_the_idle_pause(monkeypatch):
    monkeypatch.setattr(syncer_module, "SCAN_SECONDS", 0.001)
    monkeypatch.setattr(syncer_module, "IDLE_PAUSE_SECONDS", 0.002)
    syncer = Syncer([OfHook(), Failing()])
    passes = range(syncer_module.STILL_PASSES + 3)
    pauses = [syncer._pass_while_running(syncer._groups[0]).seconds or 0.0 for _ in passes]
    assert max(pauses) < syncer_module.STILL_PAUSE_SECONDS
    assert min(pauses[syncer_module.IDLE_PASSES :]) >= syncer_module.IDLE_PAUSE_SECONDS


def test_the_hook_s_own_tensors_are_of_the_hook(tmp_path: Path):
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path)})
    folder = settings.layout.job("job").host("algo-1", 1)
    folder.ml.mkdir(parents=True)
    for num_hosts in (1, 2):
        spec = replace(job(hosts=num_hosts), debug_hook=DebugHook(uri="s3://bucket/tensors"))
        made = make_syncer(spec, folder, "algo-1", 1, settings)
        found = {part.name for part in made.parts if part.is_of_hook}
        assert found == {"metrics"} | ({"/opt/ml/output/tensors"} if num_hosts == 1 else set())


def test_the_thread_survives_whatever_a_store_raises(monkeypatch):
    monkeypatch.setattr(syncer_module, "SCAN_SECONDS", 0.01)
    part = Failing(ValueError("odd"), Panic("at the disco"), MemoryError(), GeneratorExit())
    syncer = Syncer([part])
    syncer.start()
    until(lambda: part.num_ticks > 4)
    assert part.state.error == ""
    assert syncer.finish(time.monotonic() + 600, lambda error: None) == ""


def test_an_error_is_in_the_state_until_it_has_passed():
    part = Failing(ValueError("the store is odd"))
    syncer = Syncer([part])
    assert syncer.send_all() == "the store is odd"
    assert syncer.states()["part"].error == "the store is odd"
    assert syncer.send_all() == ""


def test_a_part_that_fails_delays_no_other(source, stored):
    write(source / "a.pt")
    syncer = Syncer([Failing(ValueError("odd")), FolderSync("c", source, place(stored))])
    assert syncer.send_all() == "odd"
    assert names(stored) == ["a.pt"]


def test_the_end_waits_for_a_store_that_comes_back():
    reported: list[str] = []
    part = Failing()
    part._ends = (None if reported else OSError("away") for _ in itertools.count())
    syncer = Syncer([part])
    syncer.start()
    assert syncer.finish(time.monotonic() + 600, reported.append) == ""
    assert reported == ["away"]


def test_the_end_gives_up_at_its_deadline_and_gives_the_reason():
    syncer = Syncer([Failing(*[OSError("away")] * 100)])
    syncer.start()
    assert syncer.finish(time.monotonic() + 0.1, lambda error: None) == "away"


def test_the_end_does_not_wait_for_what_no_retry_can_fix(source, stored):
    write(source / "a\x01b")
    write(source / "good")
    syncer = Syncer([FolderSync("c", source, place(stored), mirror=True)])
    syncer.start()
    assert "control character" in syncer.finish(time.monotonic() + 600, lambda error: None)
    assert names(stored) == ["good"]


def test_a_file_that_became_a_folder_is_no_hopeless_case(folder, source, stored):
    path = write(source / "a")
    send(folder)
    path.unlink()
    write(source / "a" / "b")
    syncer = Syncer([folder])
    syncer.start()
    assert syncer.finish(time.monotonic() + 600, lambda error: None) == ""
    assert names(stored) == ["a/b"]


@pytest.fixture
def deaf_store(monkeypatch, tmp_path) -> Iterator[Location]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        for variable, value in environment_for(url).items():
            monkeypatch.setenv(variable, value)
        yield locate("s3://bucket/checkpoints", home=tmp_path)


def test_a_store_call_that_never_returns_is_seen_as_a_lag(source, deaf_store, monkeypatch):
    monkeypatch.setattr(syncer_module, "SCAN_SECONDS", 0.01)
    monkeypatch.setattr(syncer_module, "WEDGED_SECONDS", 0.3)
    write(source / "a.pt")
    syncer = Syncer([FolderSync("/opt/ml/checkpoints", source, deaf_store)])
    syncer.start()
    until(lambda: syncer.states()["/opt/ml/checkpoints"].lag_seconds > 0.3)
    record = HostRecord(syncs=syncer.states())
    assert record.syncs["/opt/ml/checkpoints"].error == ""
    lag, why = lag_message({"algo-1": record}, after_seconds=0.2)
    assert "/opt/ml/checkpoints was last synced at 20" in lag
    assert "s3://bucket/checkpoints" in why
    assert "has not responded" in syncer.finish(time.monotonic(), lambda error: None)


def test_no_lag_is_reported_for_a_store_that_keeps_up(folder, source):
    write(source / "a.pt")
    send(folder)
    record = HostRecord(syncs=Syncer([folder]).states())
    assert lag_message({"algo-1": record}, after_seconds=600.0) == ("", "")


def test_the_lag_of_every_host_is_reported_with_its_name():
    late = SyncState(to="s3://b/c", last=time.time(), lag_seconds=70, error="refused")
    later = SyncState(to="s3://b/c", last=0.0, lag_seconds=90, error="gone")
    records = {"algo-1": HostRecord(syncs={"log": late}), "algo-2": HostRecord(syncs={"x": later})}
    lag, why = lag_message(records, after_seconds=60)
    assert lag == "Training goes on; x of algo-2 was last synced at 1970-01-01T00:00:00.000Z: "
    assert why == "gone"


def test_a_clock_that_is_set_back_hides_no_lag(monkeypatch):
    part = Failing(OSError("away"))
    part.synced_at -= 100
    monkeypatch.setattr(time, "time", lambda: 0.0)
    syncer = Syncer([part])
    assert syncer.states()["part"].lag_seconds >= 100


def test_an_outage_costs_no_file_and_no_second_upload(
    source, faulty, bucket, s3_server, monkeypatch, tmp_path
):
    for variable, value in environment_for(faulty.url).items():
        monkeypatch.setenv(variable, value)
    folder = FolderSync("c", source, locate(f"s3://{bucket}/c", home=tmp_path))
    for number in range(3):
        write(source / f"{number}.pt", b"12345", age=10 - number)
    faulty.inject(Fault(pattern=r"^PUT .*/1\.pt", status=403))
    syncer = Syncer([folder])
    assert "refused" in syncer.send_all()
    assert folder.state.pending_files == 2
    assert syncer.send_all() == ""
    assert [faulty.count(rf"^PUT .*/{number}\.pt") for number in range(3)] == [1, 2, 1]
