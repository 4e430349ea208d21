"""A host's record: what is written is what is read."""

from pathlib import Path

import pytest

from trackside.records import hosts
from trackside.records.hosts import HostRecord, Phase, Progress, SyncState

FULL = HostRecord(
    phase=Phase.RUNNING,
    exit_code=-15,
    ended_at=12.5,
    lost="gone",
    failure="AlgorithmError: é \udce9 \x1b[2J",
    unsent="refused",
    tail="last\nlines",
    isolation="root",
    progress=Progress(what="Downloading", done_files=1, num_files=2, done_bytes=3, size_bytes=4),
    syncs={"/opt/ml/checkpoints": SyncState(to="s3://b/c", last=1.0, lag_seconds=2.0, error="e")},
)


def test_a_record_survives_the_way_to_disk(tmp_path: Path):
    hosts.write(tmp_path / "host.json", FULL)
    assert hosts.read(tmp_path / "host.json") == FULL


def test_a_host_that_wrote_nothing_has_no_record(tmp_path: Path):
    assert hosts.read(tmp_path / "host.json") is None


def test_only_a_failure_or_a_loss_went_wrong():
    assert HostRecord(failure="AlgorithmError: no").went_wrong
    assert HostRecord(lost="the machine was restarted").went_wrong
    assert not HostRecord(exit_code=-15, unsent="refused").went_wrong


@pytest.mark.parametrize(
    "content",
    [
        b"[1]",
        b'{"phase": "ru',
        b'{"phase": "happy"}',
        b'{"phase": "running", "progress": []}',
        b'{"phase": "running", "syncs": {"/opt/ml": {"pending_files": "many"}}}',
        b'{"phase": "running", "ended_at": 1e300}',
        b"[" * 100_000,
    ],
    ids=["list", "torn", "phase", "progress", "sync", "time", "deep"],
)
def test_a_damaged_record_is_none_and_logged_once(tmp_path: Path, caplog, content: bytes):
    path = tmp_path / "host.json"
    path.write_bytes(content)
    assert hosts.read(path) is None
    assert hosts.read(path) is None
    (said,) = caplog.messages
    assert said.startswith(f"{path} is damaged: ")


def test_what_a_later_version_adds_is_left_out(tmp_path: Path):
    path = tmp_path / "host.json"
    path.write_text('{"phase": "ready", "of_tomorrow": 1}')
    assert hosts.read(path) == HostRecord(phase=Phase.READY)
